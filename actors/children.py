"""The children of an entity, of whichever kinds: born, ensured, stopped, ended.

A parent keeps a table of its children, by key. The root of the conversation (a session, or the
system's own) keeps one of all that live in it, its own children and those of others: it has their
actors started, and sees to those whose parent has ended. A birth is one append with its entry in
both tables; an end brings its own. So a parent that was dead reads the same from the log.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from runelog.rune import Rune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.public_command import Command

OnEnd: TypeAlias = Literal["cancel", "leave"]
"""What becomes of a child when its parent ends, or its session closes: it is told to stop, or goes
on to its own end. A session is closed only when all its children have ended."""
OnPause: TypeAlias = Literal["pause", "cancel", "leave"]
"""What becomes of a child while its parent is paused: it begins nothing outside, is told to stop,
or goes on."""


class Asker(msgspec.Struct, frozen=True):
    """The request of another conversation that a child was born for: it is told of the end."""

    conversation: str
    request_id: str


class Started(Rune, frozen=True, gc=False, tag="child.started"):
    """An entity was born under its parent; its own birth follows in the same append."""

    child: str
    machine: str
    """The name of its kind."""
    on_close: OnEnd = "cancel"
    asker: Asker | None = None
    parent: str = ""
    """The entity that bore it; empty for the root of the conversation."""
    key: str = ""
    """What the parent's law calls it."""
    on_pause: OnPause = "pause"
    on_fail: OnEnd = "cancel"
    content: str = ""
    """A hash of the command that it was begun with, by a user or another conversation."""


class Ended(Rune, frozen=True, tag="child.ended"):
    """A child has come to its end, in the append that brought it there; or it was never born."""

    child: str
    phase: str
    """The phase in which it ended; empty if it was refused."""
    parent: str = ""
    """As in `child.started`; empty if the parent had ended before."""
    key: str = ""
    failed: bool = False
    """Whether its kind calls that phase a failure, or its actors kept crashing."""
    answer: Any = None
    """What its kind says of the end, for the parent that bore it."""
    refused: str = ""
    """Why it was not born."""


class Reported(Rune, frozen=True, gc=False, tag="child.reported"):
    """The conversation that asked for a child has recorded its end."""

    child: str


class Child(msgspec.Struct, frozen=True):
    """A child that lives, or whose end was not reported to the conversation that asked for it."""

    child: str
    kind: str
    on_close: OnEnd = "cancel"
    asker: Asker | None = None
    ended: str = ""
    """The phase in which it ended; empty while it lives."""
    parent: str = ""
    """The entity that bore it and has not ended; empty for the root."""
    key: str = ""
    on_pause: OnPause = "pause"
    on_fail: OnEnd = "cancel"
    stop: str = ""
    """Why it has to stop, its parent having ended; empty if it does not."""


class CreateChild(msgspec.Struct, frozen=True):
    """Create a child, with what its own law decides on a command."""

    kind: str
    child: str
    command: msgspec.Struct
    asker: Asker | None = None


class AskedFor(NamedTuple):
    """Another conversation asks for a child; asked again, it is the same one."""

    kind: str
    child: str
    command: Command
    asker: Asker
    withdrawn: str = ""
    """Why it is not wanted any more; empty while it is."""


class ChildEnd(NamedTuple):
    """How a child ended, for the conversation that asked for it."""

    child: str
    phase: str
    answer: Any
    """What its kind says of the end."""
    event: int
    """The last event of the child."""


class Adopt(msgspec.Struct, frozen=True):
    """Take a child into the table; its birth is appended with it."""

    started: Started
    known: bool = False
    """The log has an entity of this id: it is asked for again."""
    conversation_id: str = ""


class NoteReport(msgspec.Struct, frozen=True):
    """The conversation that asked for a child has recorded its end."""

    child: str


class NoteRestart(msgspec.Struct, frozen=True):
    """A supervisor started a crashed actor again."""

    child: str
    reason: str
    restarts: int = 1
    at: int = 0
    """Tells it from any other restart, also from one in another process."""


class ChildGone(msgspec.Struct, frozen=True):
    """A supervisor gave a child up: its actors kept crashing, and cannot write its end."""

    child: str
    error: str


class Reopen(msgspec.Struct, frozen=True):
    """The log was opened and this conversation had work under way."""

    epoch: int
    """Tells this open from others: each counts once."""
    outcome: bool = False
    """There was a result since the last open that the root does not hear of."""


class Rest(msgspec.Struct, frozen=True):
    """The process that runs it ends in order, with work left here."""


class EnsureChild(msgspec.Struct, frozen=True):
    """The child's actor has to be there. Every shell performs it, whichever law asks for it."""

    child: str
    kind: str


class StopChild(msgspec.Struct, frozen=True):
    """The child has to stop: its law is told to `Cancel`.

    Its actor is started first if it is not there.
    """

    child: str
    kind: str
    reason: str


class ReportEnd(msgspec.Struct, frozen=True):
    """The conversation that asked for a child has to know of its end."""

    child: str
    kind: str
    asker: Asker
    phase: str


Effect: TypeAlias = EnsureChild | StopChild | ReportEnd
TableRune: TypeAlias = Started | Ended | Reported


def evolve(children: tuple[Child, ...], rune: TableRune) -> tuple[Child, ...]:
    """Return the table after a birth, an end, or its report."""
    match rune:
        case Started(child, kind, on_close, asker, parent, key, on_pause, on_fail):
            new = Child(
                child,
                kind,
                on_close,
                asker,
                parent=parent,
                key=key,
                on_pause=on_pause,
                on_fail=on_fail,
            )
            return (*children, new)
        case Ended(refused=why) if why:
            return children
        case Ended(child, phase, failed=failed):
            left = [
                each if each.child != child else replace(each, ended=phase)
                for each in children
                if each.child != child or each.asker is not None
            ]
            return tuple([_bereft(each, failed) if each.parent == child else each for each in left])
        case Reported(child):
            return tuple(each for each in children if each.child != child)
        case _:
            assert_never(rune)


def _bereft(child: Child, failed: bool) -> Child:  # noqa: FBT001 -- as in the rune
    """Return a child whose parent has ended: from now on it is the root's."""
    fate = child.on_fail if failed else child.on_close
    stop = f"its parent {child.parent} has ended" if fate == "cancel" else ""
    return replace(child, parent="", stop=stop)


S = TypeVar("S", bound=msgspec.Struct)


def keeps_children(evolve_own: Callable[[S, Rune], S]) -> Callable[[S, Rune], S]:
    """Keep the table of children in the state's field `children`; decorates a law's `evolve`.

    That sees the runes as well, once the table has them: `child.ended` says how one came out.
    """

    @functools.wraps(evolve_own)
    def folded(state: S, rune: Rune) -> S:
        if isinstance(rune, TableRune):
            table: Any = state
            state = replace(state, children=evolve(table.children, rune))
        return evolve_own(state, rune)

    return folded


def adopted(children: tuple[Child, ...], command: Adopt) -> list[Rune]:
    """Return the entry of a child in the table; nothing if it is there, or was."""
    if command.known or any(each.child == command.started.child for each in children):
        return []
    return [command.started]


def reported(children: tuple[Child, ...], command: NoteReport) -> list[Rune]:
    """Return the rune that takes a child out of the table whose end was reported."""
    owed = [each for each in children if each.child == command.child and each.ended]
    return [Reported(each.child) for each in owed]


def is_awaited(children: tuple[Child, ...]) -> bool:
    """Return True while another conversation waits for a child.

    From its birth on: a child that ends says nothing of its root's open work.
    """
    return any(each.asker is not None for each in children)


def owed(children: tuple[Child, ...]) -> list[Effect]:
    """Return the ends that other conversations have to know of, in whichever phase the root is."""
    return [
        ReportEnd(each.child, each.kind, each.asker, each.ended)
        for each in children
        if each.ended and each.asker is not None
    ]


def ensured(children: tuple[Child, ...]) -> list[Effect]:
    """Return what is due while the root goes about its work: each child is there, or stops."""
    return _seen_to(children, {})


def stopped(children: tuple[Child, ...], reason: str) -> list[Effect]:
    """Return what is due while the root closes: children stop, or come to their end.

    Those that another entity bore are seen to when that has ended.
    """
    own = [each for each in children if not each.parent and each.on_close == "cancel"]
    return _seen_to(children, {each.child: reason for each in own})


def paused(children: tuple[Child, ...], reason: str) -> list[Effect]:
    """Return what is due while the root is paused: those stop that no pause is meant for."""
    held = halted(children)
    own = [each for each in children if each.on_pause == "cancel"]
    stops = {each.child: reason for each in own if not each.parent or each.parent in held}
    return _seen_to(children, stops)


def halted(children: Iterable[Child]) -> set[str]:
    """Return the children that are paused while the root is, and theirs."""
    found: set[str] = set()
    # Parents come before their children.
    for each in children:
        if each.ended:
            continue
        if each.on_pause == "pause" and (not each.parent or each.parent in found):
            found.add(each.child)
    return found


def _seen_to(children: tuple[Child, ...], stops: dict[str, str]) -> list[Effect]:
    found: list[Effect] = []
    for each in children:
        if each.ended:
            continue
        reason = each.stop or stops.get(each.child, "")
        if reason:
            found.append(StopChild(each.child, each.kind, reason))
        else:
            found.append(EnsureChild(each.child, each.kind))
    return found
