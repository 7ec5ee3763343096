"""A machine in a session that has another one begun in the system's conversation, and waits."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted
from actors.tool.adapters.function import tool
from runefold import AgentSpec
from runefold.machines import (
    Abandon,
    CallTool,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Request,
    Rune,
    StopCall,
    StopRequest,
    Table,
    about,
    refusal,
    requests,
    tools,
)
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable

NAME: Final = "purchase"
CHORES: Final = "chore"


class Begun(Rune, frozen=True, tag="chore.begun"):
    """The birth of a chore."""

    what: str


class Stopped(Moved, frozen=True, tag="chore.stopped"):
    """It is not wanted any more: its call is stopped."""

    reason: str


class Done(Moved, frozen=True, tag="chore.done"):
    """The end of a chore."""

    how: str


class Doing(StrEnum):
    """What a chore can be."""

    OUT = "out"
    BACK = "back"


class Chore(msgspec.Struct, frozen=True):
    """What a chore's runes add up to."""

    phase: Doing = Doing.OUT
    what: str = ""
    stopped: str = ""
    how: str = ""


class Fetch(Command, frozen=True):
    """Fetch something."""

    begins = True

    what: Annotated[str, about("What is to be fetched.")]


class ComeBack(msgspec.Struct, frozen=True):
    """End it, as soon as its call has."""


def _decide(state: Chore, command: object) -> list[Rune]:
    match command:
        case Fetch(what) if not state.what:
            return [Begun(what)]
        case ComeBack():
            return [Done(state.how)]
        case Cancel(reason):
            return [] if state.stopped or state.phase is Doing.BACK else [Stopped(reason)]
        case Abandon(reason):
            return [] if state.phase is Doing.BACK else [Done(reason)]
        case _:
            raise refusal(CHORES, state.phase, command)


def _evolve(state: Chore, rune: Rune) -> Chore:
    match rune:
        case Begun(what):
            return replace(state, what=what)
        case Stopped(reason):
            return replace(state, stopped=reason)
        case tools.Result(status=status):
            return replace(state, how=status)
        case _:
            return state


def _due(state: Chore) -> list[Any]:
    if not state.what or state.phase is Doing.BACK:
        return []
    if state.how:
        return [ComeBack()]
    call = CallTool("fetch", "fetch", {"what": state.what})
    return [call, StopCall("fetch", state.stopped)] if state.stopped else [call]


@tool(idempotent=True)
def fetch(what: str) -> str:
    """Fetch something."""
    return what


CHORE: Final = Kind(
    lifecycle=Lifecycle(
        name=CHORES,
        table={Doing.OUT: {Stopped: Doing.OUT, Done: Doing.BACK}, Doing.BACK: {}},
        initial=Chore(),
        decide=_decide,
        evolve=_evolve,
        due=_due,
    ),
    prefix="chore",
    runes=(Begun, Stopped, Done),
    internal=frozenset({ComeBack}),
    actor=Machine,
    commands=(Fetch,),
    answer=lambda state: {"how": state.how},
)


class Wanted(Rune, frozen=True, tag="purchase.wanted"):
    """The birth."""

    what: str
    where: str = SYSTEM


class Unwanted(Moved, frozen=True, tag="purchase.unwanted"):
    """It is to stop; what it asked for is withdrawn."""

    reason: str


class Over(Moved, frozen=True, tag="purchase.over"):
    """The end."""

    how: str


class Phase(StrEnum):
    """What a purchase can be."""

    OPEN = "open"
    OVER = "over"


TABLE: Final[Table[Phase]] = {
    Phase.OPEN: {Unwanted: Phase.OPEN, Over: Phase.OVER},
    Phase.OVER: {},
}


class State(msgspec.Struct, frozen=True):
    """What a purchase's runes add up to."""

    phase: Phase = Phase.OPEN
    what: str = ""
    where: str = ""
    unwanted: str = ""
    answer: requests.Answered | None = None
    how: str = ""


class Buy(Command, frozen=True):
    """Have something fetched."""

    begins = True

    what: Annotated[str, about("What is wanted.")]
    where: Annotated[str, about("The conversation that fetches it.")] = SYSTEM


class GiveBack(Command, frozen=True):
    """Want it no longer."""

    reason: Annotated[str, about("Why.")] = "changed my mind"


class Settle(msgspec.Struct, frozen=True):
    """End it, as soon as the answer is back."""


def decide(state: State, command: object) -> list[Rune]:
    """Begin it, end it, or refuse what is asked."""
    match command:
        case Buy(what, where) if not state.what:
            return [Wanted(what, where)]
        case GiveBack(reason) | Cancel(reason):
            return [] if state.unwanted or state.phase is Phase.OVER else [Unwanted(reason)]
        case Settle() if state.answer is not None:
            answer = state.answer
            return [Over(f"{answer.status} {answer.answer or answer.message}")]
        case Abandon(reason):
            return [] if state.phase is Phase.OVER else [Over(reason)]
        case _:
            raise refusal(NAME, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Wanted(what, where):
            return replace(state, what=what, where=where)
        case Unwanted(reason):
            return replace(state, unwanted=reason)
        case requests.Answered():
            return replace(state, answer=rune)
        case Over(how):
            return replace(state, how=how)
        case _:
            return state


def due(state: State) -> list[Any]:
    """Ask for the errand, then settle."""
    if not state.what or state.phase is Phase.OVER:
        return []
    if state.answer is not None:
        return [Settle()]
    asked = Request("fetch", state.where, Fetch(state.what))
    return [asked, StopRequest("fetch", state.unwanted)] if state.unwanted else [asked]


PURCHASE: Final = Kind(
    lifecycle=Lifecycle(
        name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
    ),
    prefix=NAME,
    parents=("session",),
    runes=(Wanted, Unwanted, Over),
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Buy, GiveBack),
    outcome=lambda state: (state.what, state.phase.value, state.how),
)

KINDS: Final = (CHORE, PURCHASE)
BUYER: Final = "conv_buyer"


# -- stories ---------------------------------------------------------------------------------------


def stage(**options: Any) -> Stage:  # noqa: ANN401 -- those of Runtime
    """Open a runtime that knows both machines."""
    options = {"tools": [fetch], "providers": {"demo": Scripted([["Hello."]])}, **options}
    return Stage(kinds=KINDS, **options)


def begin(on: Stage, conversation: str = BUYER) -> None:
    """Begin a session, if it is not there."""
    with contextlib.suppress(Refused):
        on.runtime.create_session(
            AgentSpec(role="buyer", model="demo"), conversation_id=conversation
        )


def buy(on: Stage, where: str = SYSTEM) -> None:
    """Have something bought; asked for again it is the same purchase."""
    on.runtime.do(BUYER, Buy("bread", where), "purchase_1")


def story(cut_at: int | None, *, after: bool, act: Callable[[Stage], None]) -> Stage:
    """Play a story, cut off at an append if one is named; go on after that."""
    on = stage()
    on.log.cut_at, on.log.cut_after = cut_at, after
    for again in (False, True):
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            begin(on)
            buy(on)
            act(on)
            on.run()
            on.advance(120)
        if not on.log.is_cut:
            break
        assert not again, "it is cut off once"
        on.reopen()
    on.log.cut_at = None
    on.log.flush()
    return on


def nothing(_on: Stage) -> None:
    """Wait for the end."""


def give_back(on: Stage) -> None:
    """Want it no longer; too late is harmless."""
    with contextlib.suppress(Refused):
        on.runtime.do(BUYER, GiveBack(), "purchase_1")


def close(on: Stage) -> None:
    """Close the session that asks."""
    on.runtime.session(BUYER).close()


def elsewhere() -> Stage:
    """Ask a conversation that is not there; the answer is a refusal."""
    on = stage()
    begin(on)
    buy(on, "conv_nowhere")
    on.run()
    on.log.flush()
    return on
