"""A machine of an app that asks a human, in a session or in none, and may lose its patience."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from actors.tool.adapters.function import tool
from runefold.machines import (
    Abandon,
    AskHuman,
    CallTool,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Rune,
    Table,
    Timed,
    Timeout,
    TimeUp,
    about,
    approvals,
    refusal,
    tools,
)

NAME: Final = "favour"
PATIENCE: Final = 60.0
"""How many seconds a human has by law."""


class Begun(Rune, frozen=True, tag="favour.begun"):
    """Its birth."""

    what: str


class Asked(Timed, frozen=True, tag="favour.asked"):
    """A human is asked from now on."""


class Tried(Timed, frozen=True, tag="favour.tried"):
    """A tool is called from now on."""


class Done(Moved, frozen=True, tag="favour.done"):
    """It came to its end."""

    result: str


class Phase(StrEnum):
    """What a favour can be."""

    NEW = "new"
    ASKED = "asked"
    TRIED = "tried"
    DONE = "done"


TABLE: Final[Table[Phase]] = {
    Phase.NEW: {Asked: Phase.ASKED, Tried: Phase.TRIED, Done: Phase.DONE},
    Phase.ASKED: {Done: Phase.DONE},
    Phase.TRIED: {Done: Phase.DONE},
    Phase.DONE: {},
}


class State(msgspec.Struct, frozen=True):
    """What a favour's runes add up to."""

    phase: Phase = Phase.NEW
    deadline: int | None = None
    what: str = ""
    result: str = ""


class Begin(Command, frozen=True):
    """Begin a favour. One for nothing is over at once."""

    begins = True

    what: Annotated[str, about("What is asked for.")]


class Ask(Command, frozen=True):
    """Ask a human for it."""


class Try(Command, frozen=True):
    """Have a tool do it."""


class Drop(Command, frozen=True):
    """Do without it."""


class Settle(msgspec.Struct, frozen=True):
    """End it: its answer is there."""


def decide(state: State, command: object) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match state.phase, command:
        case Phase.NEW, Begin(what) if not state.what:
            return [Begun(what)]
        case Phase.NEW, Ask():
            return [Asked()]
        case Phase.NEW, Try():
            return [Tried()]
        case Phase.DONE, Cancel() | Abandon() | Drop() | TimeUp():
            return []
        case _, Settle():
            return [Done(state.result or state.what)]
        case _, TimeUp():
            return [Done("too late", actor="timeout")]
        case _, Cancel(reason) | Abandon(reason):
            return [Done(reason)]
        case _, Drop():
            return [Done("dropped", actor="user")]
        case _:
            raise refusal(NAME, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Begun(what):
            return replace(state, what=what)
        case approvals.Approved():
            return replace(state, result="yes")
        case approvals.Rejected():
            return replace(state, result="no")
        case tools.Result(status=status):
            return replace(state, result=status)
        case _:
            return state


def due(state: State) -> list[Any]:
    """Ask the human or call the tool, then settle."""
    match state.phase:
        case Phase.NEW if state.what == "nothing":
            return [Settle()]
        case Phase.ASKED | Phase.TRIED if state.result:
            return [Settle()]
        case Phase.ASKED:
            return [AskHuman("may", state.what)]
        case Phase.TRIED:
            return [CallTool("do", "do", {"what": state.what})]
        case _:
            return []


FAVOUR: Final = Kind(
    lifecycle=Lifecycle(
        name=NAME,
        table=TABLE,
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=due,
        timeouts=(
            Timeout(Phase.ASKED, PATIENCE, Phase.DONE),
            Timeout(Phase.TRIED, None, Phase.DONE),
        ),
        enforced=True,
    ),
    prefix=NAME,
    runes=(Begun, Asked, Tried, Done),
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Begin, Ask, Try, Drop),
    waits_for_human=lambda state, _: state.phase in {Phase.NEW, Phase.ASKED},
)


@tool(requires_approval=True)
def do(what: str) -> str:
    """Do it."""
    return what
