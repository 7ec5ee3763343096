"""The children of a conversation's root, of whichever kinds: born, ensured, stopped, ended.

A root (a session, or the system's own) keeps one table of them. A birth is one append with the
entry in that table; an end brings its own. So a parent that was dead reads the same from the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from runelog.rune import Rune

if TYPE_CHECKING:
    from actors.public_command import Command

OnClose: TypeAlias = Literal["cancel", "wait"]
"""What becomes of a child when its session closes: it is told to stop, or waited for."""


class Asker(msgspec.Struct, frozen=True):
    """The request of another conversation that a child was born for: it is told of the end."""

    conversation: str
    request_id: str


class Started(Rune, frozen=True, gc=False, tag="child.started"):
    """An entity was born under the root; its own birth follows in the same append."""

    child: str
    machine: str
    """The name of its kind."""
    on_close: OnClose = "cancel"
    asker: Asker | None = None


class Ended(Rune, frozen=True, gc=False, tag="child.ended"):
    """A child has come to its end, in the append that brought it there."""

    child: str
    phase: str


class Reported(Rune, frozen=True, gc=False, tag="child.reported"):
    """The conversation that asked for a child has recorded its end."""

    child: str


class Child(msgspec.Struct, frozen=True):
    """A child that lives, or whose end was not reported to the conversation that asked for it."""

    child: str
    kind: str
    on_close: OnClose = "cancel"
    asker: Asker | None = None
    ended: str = ""
    """The phase in which it ended; empty while it lives."""


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

    child: str
    kind: str
    on_close: OnClose = "cancel"
    known: bool = False
    """The log has an entity of this id: it is asked for again."""
    conversation_id: str = ""
    asker: Asker | None = None


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
        case Started(child, kind, on_close, asker):
            return (*children, Child(child, kind, on_close, asker))
        case Ended(child, phase):
            left = [
                each if each.child != child else replace(each, ended=phase)
                for each in children
                if each.child != child or each.asker is not None
            ]
            return tuple(left)
        case Reported(child):
            return tuple(each for each in children if each.child != child)
        case _:
            assert_never(rune)


def adopted(children: tuple[Child, ...], command: Adopt) -> list[Rune]:
    """Return the entry of a child in the table; nothing if it is there, or was."""
    if command.known or any(each.child == command.child for each in children):
        return []
    return [Started(command.child, command.kind, command.on_close, command.asker)]


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
    """Return what is due while the root goes about its work: each child is there."""
    return [EnsureChild(each.child, each.kind) for each in children if not each.ended]


def stopped(children: tuple[Child, ...], reason: str) -> list[Effect]:
    """Return what is due while the root closes: children stop, or come to their end."""
    return [
        StopChild(each.child, each.kind, reason)
        if each.on_close == "cancel"
        else EnsureChild(each.child, each.kind)
        for each in children
        if not each.ended
    ]
