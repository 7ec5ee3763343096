"""The moments at which an app can be hit, and how they are written down.

A boundary is a commit: one append of runes. Around it there are three moments: before it is on
disk; when it is and what follows from it has not begun; and when an effect that follows from it has
been done and its outcome is not on disk. Before it is on disk means before it is appended, and,
where the log was not asked to wait, also before the sync that somebody waits for later.
`17:after-effect` is the last moment of commit 17; `17:after-effect.2` is the same of the second
effect that the commit began. Faults are written the
same way, `17:provider-429`, and `17:after-commit+3:before-commit` is hit again at the third commit
of the recovery. Where one actor dies, the number counts the messages that actors handle. Of an app
whose commits come in another order each time, what is meant is written behind the number:
`17:after-effect@conv_a pay#1 tool.started 1`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

BEFORE: Final = "before-commit"
SYNC: Final = "before-sync"
AFTER: Final = "after-commit"
EFFECT: Final = "after-effect"
MOMENTS: Final = (BEFORE, SYNC, AFTER, EFFECT)
"""When a process is killed."""

ACTOR_BEFORE: Final = "actor-before-message"
"""One actor dies, rather than the process: before it handles a message,"""
ACTOR_AFTER: Final = "actor-after-message"
"""after it has handled one,"""
ACTOR_EFFECT: Final = "actor-before-effect"
"""or when it is about to begin an effect that is in the log already."""
BY_MESSAGE: Final = frozenset({ACTOR_BEFORE, ACTOR_AFTER})
"""What is counted by the messages that actors handle, rather than by commits."""

MODEL_FAULTS: Final = (
    "provider-429",
    "provider-500",
    "provider-timeout",
    "provider-cut",
    "provider-slow",
    "provider-hangs",
    "provider-raises",
    "provider-refuses",
    "provider-garbage",
)
TOOL_FAULTS: Final = ("tool-raises", "tool-breaks", "tool-hangs", "tool-floods")
CLOCK_BACK: Final = "clock-back"
LOG_FAULTS: Final = ("disk-full", "sync-eio", "sync-lost", "clock-forward", CLOCK_BACK)
FAULTS: Final = (*MODEL_FAULTS, *TOOL_FAULTS, *LOG_FAULTS)

OF_EFFECTS: Final = frozenset({EFFECT, ACTOR_EFFECT, *MODEL_FAULTS, *TOOL_FAULTS})
"""What befalls an effect, whichever commit began it."""

KINDS: Final = (*MOMENTS, ACTOR_BEFORE, ACTOR_AFTER, ACTOR_EFFECT, *FAULTS)
"""Everything that can happen at a boundary."""

REST: Final = 0
"""In place of an occurrence: whatever was still to come of it would have come by now."""

_POINT = re.compile(r"(\d{1,9}):([a-z0-9-]+)(?:\.(\d{1,6}))?")

What: TypeAlias = Literal["tool", "model"]
Verdict: TypeAlias = Literal[
    "finished",
    "state",
    "outcome",
    "invariant",
    "acknowledged",
    "effect",
    "hang",
    "check",
    "died",
    "actor",
]
"""What a run can be found wrong in."""


class Effect(msgspec.Struct, frozen=True):
    """Something outside that a commit begins."""

    what: What
    name: str
    """The tool, or the model."""
    entity: str
    """The call's id."""
    over: bool = True
    """Whether it came to its end, rather than being called off."""
    mark: str = ""
    """What it is told by: what began it, without ids. A call has one of each."""


class Boundary(msgspec.Struct, frozen=True):
    """One commit of the undisturbed run."""

    number: int
    conversation: str
    kinds: tuple[str, ...]
    mark: str
    """What it is told by, without ids: its first rune. In another run others may be beside it."""
    occurrence: int
    """The how manieth rune with that mark it is."""
    first: int
    """The event id of its first rune."""
    at: float = 0
    """Seconds from the beginning of the run."""
    effects: tuple[Effect, ...] = ()
    synced: bool = False
    """Whether a caller waited for its sync later, rather than at once."""


class Message(msgspec.Struct, frozen=True):
    """One message that an actor handled in the undisturbed run."""

    number: int
    mark: str
    """The conversation, the actor, and what kind of message it is: without ids."""
    occurrence: int
    at: float = 0


class Point(msgspec.Struct, frozen=True):
    """A moment at which something happens.

    >>> str(Point(17, "after-effect", 2, Point(3, "before-commit")))
    '17:after-effect.2+3:before-commit'
    """

    number: int
    kind: str
    which: int = 1
    """Of several effects, the how manieth."""
    then: Point | None = None
    """When it is hit again; the number counts from the opening after the first hit."""

    def __str__(self) -> str:
        """Write it as it is given on a command line."""
        first = f"{self.number}:{self.kind}" + (f".{self.which}" if self.which > 1 else "")
        return first if self.then is None else f"{first}+{self.then}"


def parse(text: str) -> Point:
    """Read a point as it is written on a command line.

    >>> parse("17:after-effect")
    Point(number=17, kind='after-effect', which=1, then=None)
    """
    found: Point | None = None
    for part in reversed(text.strip().split("+")):
        match = _POINT.fullmatch(part)
        if match is None or match[2] not in KINDS or int(match[1]) < 1:
            msg = (
                f"{text!r} is no crash point: write it as 17:after-effect; "
                f"what can happen is {', '.join(KINDS)}"
            )
            raise Refused(msg)
        found = Point(int(match[1]), match[2], int(match[3] or 1), found)
    assert found is not None
    return found


class Aim(msgspec.Struct, frozen=True):
    """What a run is told to wait for: a commit by its mark or by its number, and a moment."""

    kind: str
    which: int = 1
    mark: str = ""
    occurrence: int = 1
    number: int = 0
    """Instead of a mark: the how manieth commit since the log was opened."""

    def is_at(self, marks: Sequence[tuple[str, int]], number: int) -> bool:
        """Return True if a commit has the rune that is aimed at."""
        if self.mark:
            return (self.mark, self.occurrence) in marks or (self.mark, REST) in marks
        return number == self.number


def aims(
    point: Point, boundaries: Sequence[Boundary], messages: Sequence[Message] = ()
) -> list[Aim]:
    """Return what each life is to wait for, or refuse a point that the undisturbed run has not."""
    by_message = point.kind in BY_MESSAGE
    places: Sequence[Boundary | Message] = messages if by_message else boundaries
    if not 1 <= point.number <= len(places):
        what = "messages" if by_message else "commits"
        msg = f"{point} is beyond the end: the undisturbed run has {len(places)} {what}"
        raise Refused(msg)
    at = places[point.number - 1]
    found = [Aim(point.kind, point.which, at.mark, at.occurrence)]
    effects = at.effects[point.which - 1 : point.which] if isinstance(at, Boundary) else ()
    if point.kind in OF_EFFECTS and effects:
        found = [Aim(point.kind, mark=effects[0].mark)]
    then = point.then
    while then is not None:
        found.append(Aim(then.kind, then.which, number=then.number))
        then = then.then
    return found


def _check_effect(point: Point, boundaries: Sequence[Boundary]) -> None:
    """Refuse to hit an effect that the commit does not begin: no run would ever come by it."""
    if point.kind not in OF_EFFECTS or not 1 <= point.number <= len(boundaries):
        return
    at = boundaries[point.number - 1]
    effect = at.effects[point.which - 1] if point.which <= len(at.effects) else None
    wanted = "tool" if point.kind in TOOL_FAULTS else "model" if point.kind in MODEL_FAULTS else ""
    if effect is not None and wanted in ("", effect.what):
        return
    begun = ", ".join(f"{each.what} {each.name}" for each in at.effects) or "no effect"
    befalls = f"a {wanted}'s effect" if wanted else "an effect"
    which = f" number {point.which}" if point.which > 1 else ""
    msg = (
        f"{point} is hit at {befalls}{which}, but commit {point.number} "
        f"({' + '.join(at.kinds)} in {at.conversation}) begins {begun}"
    )
    raise Refused(msg)


class Meant(msgspec.Struct, frozen=True):
    """A point that is asked for, and what is meant by its number if that may change."""

    point: Point
    aim: Aim | None = None

    def found(self, boundaries: Sequence[Boundary], messages: Sequence[Message]) -> Point:
        """Return the point with the number that it has in this run, as far as that can be told."""
        aim, point = self.aim, self.point
        if aim is None:
            _check_effect(point, boundaries)
            return point
        places: Sequence[Boundary | Message] = messages if aim.kind in BY_MESSAGE else boundaries
        for at in places:
            if (at.mark, at.occurrence) == (aim.mark, aim.occurrence):
                return msgspec.structs.replace(point, number=at.number)
            effects = at.effects if isinstance(at, Boundary) else ()
            for which, effect in enumerate(effects, 1):
                if effect.mark == aim.mark and aim.kind in OF_EFFECTS:
                    return msgspec.structs.replace(point, number=at.number, which=which)
        return msgspec.structs.replace(point, number=min(point.number, len(places)))


def spelled(point: Point, boundaries: Sequence[Boundary], messages: Sequence[Message]) -> str:
    """Write a point with what is meant by it, so that it is found whatever number it has then."""
    aim = aims(point, boundaries, messages)[0]
    return f"{point}@{aim.mark} {aim.occurrence}"


def meant(text: str) -> Meant:
    """Read a point, with or without what is meant by it.

    >>> meant("17:after-commit@conv_a turn_1 turn.started 2").aim
    Aim(kind='after-commit', which=1, mark='conv_a turn_1 turn.started', occurrence=2, number=0)
    """
    number, at, told = text.strip().partition("@")
    point = parse(number)
    if not at:
        return Meant(point)
    mark, _, occurrence = told.rpartition(" ")
    if not mark or not occurrence.isdecimal():
        msg = f"{text!r} is no crash point: copy all of it, with what is behind the @"
        raise Refused(msg)
    return Meant(point, Aim(point.kind, mark=mark, occurrence=int(occurrence)))
