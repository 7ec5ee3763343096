"""The law of the system's root: it has children, and lives as long as the log.

    running ──┐ opened
       ^──────┘

Workers, resources, health, providers and whichever machines of an app belong to no session live in
`conv_system`. Their root only keeps the table of them, and lists what waits for a human.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from actors import children
from actors.approval import pending
from actors.budget import lifecycle as budget
from actors.budget import runes as budgets
from actors.common_commands import Abandon
from actors.entity import Routing
from actors.system.runes import Opened
from runelog.lifecycle import Lifecycle, Table

if TYPE_CHECKING:
    from runelog.rune import Rune

NAME: Final = "system"


class Phase(StrEnum):
    """What the root can be."""

    RUNNING = "running"


TABLE: Final[Table[Phase]] = {Phase.RUNNING: {Opened: Phase.RUNNING}}


class State(msgspec.Struct, frozen=True):
    """What the root's runes add up to."""

    phase: Phase = Phase.RUNNING
    conversation_id: str = ""
    children: tuple[children.Child, ...] = ()
    approvals: tuple[pending.Pending, ...] = ()


Command: TypeAlias = (
    children.Adopt
    | children.NoteReport
    | children.NoteRestart
    | children.Reopen
    | children.Rest
    | Abandon
)


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match command:
        case children.Adopt(conversation_id=conversation):
            started = children.adopted(state.children, command)
            if not started or state.conversation_id:
                return started
            return [Opened(conversation), budgets.Opened(scope=NAME), *started]
        case children.NoteReport():
            return children.reported(state.children, command)
        case children.NoteRestart() | children.Reopen() | children.Rest() | Abandon():
            # Operators were told. Nothing here is suspended for it.
            return []
        case _:
            assert_never(command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Opened(conversation_id):
            return replace(state, conversation_id=conversation_id)
        case children.Started() | children.Ended() | children.Reported():
            return replace(state, children=children.evolve(state.children, rune))
        case _:
            left = pending.evolve(state.approvals, rune)
            return state if left == state.approvals else replace(state, approvals=left)


def due(state: State) -> list[children.Effect]:
    """Return what has to be done while the state is this one: every child is there."""
    return [*children.ensured(state.children), *children.owed(state.children)]


def route(_state: State, rune: Rune) -> Routing:
    """Return where a rune that the root decides belongs."""
    return budget.route(budget.State(), rune) if isinstance(rune, budgets.Opened) else Routing(NAME)


LIFECYCLE: Final = Lifecycle(
    name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due, version=2
)
