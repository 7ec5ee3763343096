"""The children of a conversation's root, of whichever kinds: born, ensured, stopped, ended.

A root (a session, or the system's own) keeps one table of them. A birth is one append with the
entry in that table; an end brings its own. So a parent that was dead reads the same from the log.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

import msgspec

from runelog.rune import Rune

OnClose: TypeAlias = Literal["cancel", "wait"]
"""What becomes of a child when its session closes: it is told to stop, or waited for."""


class Started(Rune, frozen=True, gc=False, tag="child.started"):
    """An entity was born under the root; its own birth follows in the same append."""

    child: str
    machine: str
    """The name of its kind."""
    on_close: OnClose = "cancel"


class Ended(Rune, frozen=True, gc=False, tag="child.ended"):
    """A child has come to its end, in the append that brought it there."""

    child: str
    phase: str


class Child(msgspec.Struct, frozen=True):
    """A child that lives."""

    child: str
    kind: str
    on_close: OnClose = "cancel"


class Bear(msgspec.Struct, frozen=True):
    """Bring a child into the world, with what its own law decides on a command."""

    kind: str
    child: str
    command: msgspec.Struct


class Adopt(msgspec.Struct, frozen=True):
    """Take a child into the table; its birth is appended with it."""

    child: str
    kind: str
    on_close: OnClose = "cancel"
    known: bool = False
    """The log has an entity of this id: it is asked for again."""
    conversation_id: str = ""


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
    """The child's actor has to be there."""

    child: str
    kind: str


class StopChild(msgspec.Struct, frozen=True):
    """The child has to stop. Its actor is started first if it is not there."""

    child: str
    kind: str
    reason: str


Effect: TypeAlias = EnsureChild | StopChild


def evolve(children: tuple[Child, ...], rune: Started | Ended) -> tuple[Child, ...]:
    """Return the table after a birth or an end."""
    match rune:
        case Started(child, kind, on_close):
            return (*children, Child(child, kind, on_close))
        case Ended(child):
            return tuple(each for each in children if each.child != child)
        case _:
            assert_never(rune)


def ensured(children: tuple[Child, ...]) -> list[Effect]:
    """Return what is due while the root goes about its work: each child is there."""
    return [EnsureChild(each.child, each.kind) for each in children]


def stopped(children: tuple[Child, ...], reason: str) -> list[Effect]:
    """Return what is due while the root closes: children stop, or come to their end."""
    return [
        StopChild(each.child, each.kind, reason)
        if each.on_close == "cancel"
        else EnsureChild(each.child, each.kind)
        for each in children
    ]
