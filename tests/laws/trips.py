"""Machines of an app that bear others: a trip with legs and postcards."""

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
    BearChild,
    CallTool,
    Cancel,
    Child,
    Command,
    EndChild,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Rune,
    StopCall,
    Table,
    about,
    children,
    keeps_children,
    refusal,
    tools,
)
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused
from tests.laws.postcards import CARDS, POSTCARD, Deliver, Write

if TYPE_CHECKING:
    from collections.abc import Callable

TRIPS, LEGS = "trip", "leg"
UNLUCKY: Final = 13
"""No leg has this number."""


# -- a leg: one call of a tool ---------------------------------------------------------------------


class Departed(Rune, frozen=True, tag="leg.departed"):
    """The birth."""

    number: int


class Stopped(Moved, frozen=True, tag="leg.stopped"):
    """It is to end; the call is stopped first."""

    reason: str


class Arrived(Moved, frozen=True, tag="leg.arrived"):
    """The end."""

    how: str


class LegPhase(StrEnum):
    """What a leg can be."""

    OUT = "out"
    THERE = "there"


class LegState(msgspec.Struct, frozen=True):
    """What a leg's runes add up to."""

    phase: LegPhase = LegPhase.OUT
    number: int = 0
    stopped: str = ""
    how: str = ""


class Drive(msgspec.Struct, frozen=True):
    """Begin a leg: no public command, only a trip gives it."""

    number: int


class Arrive(msgspec.Struct, frozen=True):
    """End it, as soon as the call has."""


def _decide_leg(state: LegState, command: object) -> list[Rune]:
    over = state.phase is LegPhase.THERE
    match command:
        case Drive(number) if number == UNLUCKY:
            msg = f"there is no leg {number}"
            raise Refused(msg)
        case Drive(number) if not state.number:
            return [Departed(number)]
        case Arrive():
            return [Arrived(state.how)]
        case Cancel(reason):
            return [] if over or state.stopped else [Stopped(reason)]
        case Abandon(reason):
            return [] if over else [Arrived(reason)]
        case _:
            raise refusal(LEGS, state.phase, command)


def _evolve_leg(state: LegState, rune: Rune) -> LegState:
    match rune:
        case Departed(number):
            return replace(state, number=number)
        case Stopped(reason):
            return replace(state, stopped=reason)
        case tools.Result(status=status):
            return replace(state, how=status)
        case _:
            return state


def _due_leg(state: LegState) -> list[Any]:
    if not state.number or state.phase is LegPhase.THERE:
        return []
    if state.how:
        return [Arrive()]
    call = CallTool("drive", "drive", {"number": state.number})
    return [call, StopCall("drive", state.stopped)] if state.stopped else [call]


LEG: Final = Kind(
    lifecycle=Lifecycle(
        name=LEGS,
        table={
            LegPhase.OUT: {Stopped: LegPhase.OUT, Arrived: LegPhase.THERE},
            LegPhase.THERE: {},
        },
        initial=LegState(),
        decide=_decide_leg,
        evolve=_evolve_leg,
        due=_due_leg,
    ),
    prefix="leg",
    parents=("trip",),
    runes=(Departed, Stopped, Arrived),
    internal=frozenset({Arrive}),
    actor=Machine,
    outcome=lambda state: (state.number, state.phase.value, state.how),
    answer=lambda state: {"how": state.how},
)


# -- a trip: it bears both -------------------------------------------------------------------------


class SetOut(Rune, frozen=True, tag="trip.set_out"):
    """The birth."""

    legs: tuple[int, ...]
    card: str = ""


class CalledOff(Moved, frozen=True, tag="trip.called_off"):
    """One leg of it is not wanted any more."""

    leg: int


class Home(Moved, frozen=True, tag="trip.home"):
    """The end, as planned or not."""

    why: str = ""


class BrokenDown(Moved, frozen=True, tag="trip.broken_down"):
    """The end, with a failure."""

    why: str


class Resting(Moved, frozen=True, tag="trip.resting"):
    """It pauses."""


class GoneOn(Moved, frozen=True, tag="trip.gone_on"):
    """It goes on."""


class Phase(StrEnum):
    """What a trip can be."""

    OUT = "out"
    RESTING = "resting"
    HOME = "home"
    FAILED = "failed"


TABLE: Final[Table[Phase]] = {
    Phase.OUT: {
        CalledOff: Phase.OUT,
        Resting: Phase.RESTING,
        Home: Phase.HOME,
        BrokenDown: Phase.FAILED,
    },
    Phase.RESTING: {GoneOn: Phase.OUT, Home: Phase.HOME, BrokenDown: Phase.FAILED},
    Phase.HOME: {},
    Phase.FAILED: {},
}


class State(msgspec.Struct, frozen=True):
    """What a trip's runes add up to."""

    phase: Phase = Phase.OUT
    children: tuple[Child, ...] = ()
    legs: tuple[int, ...] = ()
    card: str = ""
    off: int = 0
    ends: tuple[tuple[str, str], ...] = ()
    """How each child ended, by its key."""


class Travel(Command, frozen=True):
    """Go on a trip."""

    begins = True

    legs: Annotated[list[int], about("The numbers of its legs.")]
    card: Annotated[str, about("What is written home.")] = ""


class CallOff(Command, frozen=True):
    """Call a leg off."""

    leg: Annotated[int, about("Its number.")]


class Rest(Command, frozen=True):
    """Pause it, with its legs."""


class GoOn(Command, frozen=True):
    """Go on after a rest."""


class GoHome(Command, frozen=True):
    """End the trip, whatever is under way."""


class BreakDown(Command, frozen=True):
    """End it with a failure."""


class Settle(msgspec.Struct, frozen=True):
    """Come home: all children have ended."""


def decide(state: State, command: object) -> list[Rune]:
    """Begin it, end it, or refuse what is asked."""
    over = state.phase in {Phase.HOME, Phase.FAILED}
    match command:
        case Rest() | GoOn() if not over:
            wanted = Phase.OUT if isinstance(command, GoOn) else Phase.RESTING
            rune = GoneOn() if isinstance(command, GoOn) else Resting()
            return [] if state.phase is wanted else [rune]
        case Travel(legs, card) if not state.legs:
            return [SetOut(tuple(legs), card)]
        case Settle():
            return [Home()]
        case CallOff(leg):
            return [] if state.phase is not Phase.OUT or state.off else [CalledOff(leg)]
        case GoHome():
            return [] if over else [Home("enough")]
        case Cancel(reason):
            return [] if over else [Home(reason)]
        case BreakDown():
            return [] if over else [BrokenDown("a tyre")]
        case Abandon(reason):
            return [] if over else [Home(reason)]
        case _:
            raise refusal(TRIPS, state.phase, command)


@keeps_children
def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state; the table of children is kept already."""
    match rune:
        case SetOut(legs, card):
            return replace(state, legs=legs, card=card)
        case CalledOff(leg):
            return replace(state, off=leg)
        case children.Ended(key=key, phase=phase, answer=answer, refused=refused):
            told = refused or (answer["how"] if isinstance(answer, dict) else phase)
            return replace(state, ends=(*state.ends, (key, told)))
        case _:
            return state


def due(state: State) -> list[Any]:
    """Have a leg at a time and a postcard, then come home."""
    if not state.legs or state.phase in {Phase.HOME, Phase.FAILED}:
        return []
    ended = {key for key, _ in state.ends}
    found: list[Any] = []
    if state.card and "card" not in ended:
        found.append(BearChild("card", "postcard", Write(state.card)))
    left = [number for number in state.legs if f"leg-{number}" not in ended]
    for number in left[:1]:
        found.append(BearChild(f"leg-{number}", "leg", Drive(number)))
        if number == state.off:
            found.append(EndChild(f"leg-{number}", "called off"))
    return found or ([Settle()] if state.phase is Phase.OUT else [])


TRIP: Final = Kind(
    lifecycle=Lifecycle(
        name=TRIPS, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
    ),
    prefix="trip",
    parents=("session",),
    runes=(SetOut, CalledOff, Resting, GoneOn, Home, BrokenDown),
    pauses=frozenset({Phase.RESTING}),
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Travel, CallOff, Rest, GoOn, GoHome, BreakDown),
    outcome=lambda state: (state.phase.value, sorted(state.ends), len(state.children)),
)

KINDS: Final = (TRIP, LEG, POSTCARD)
GUIDE: Final = "conv_guide"
NAME: Final = "trip_1"


# -- stories ---------------------------------------------------------------------------------------


@tool(idempotent=True)
def drive(number: int) -> str:
    """Drive."""
    return f"drove {number}"


@tool(name="drive", requires_approval=True)
def ask_and_drive(number: int) -> str:
    """Drive, once a human has agreed: until then a leg is under way."""
    return f"drove {number}"


def stage(**options: Any) -> Stage:  # noqa: ANN401 -- those of Runtime
    """Open a runtime that knows the machines."""
    models = {"demo": Scripted([["Hello."]])}
    return Stage(**{"kinds": KINDS, "tools": [drive], "providers": models, **options})


def travel(on: Stage, *legs: int, card: str = "") -> None:
    """Go on a trip; asked for again it is the same one."""
    with contextlib.suppress(Refused):
        on.runtime.create_session(AgentSpec(role="guide", model="demo"), conversation_id=GUIDE)
    on.runtime.do(GUIDE, Travel([*legs], card), NAME)


def story(
    cut_at: int | None, *, after: bool, act: Callable[[Stage], None], card: str = ""
) -> Stage:
    """Play a story, cut off at an append if one is named; go on after that."""
    on = stage()
    on.log.cut_at, on.log.cut_after = cut_at, after
    for again in (False, True):
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            travel(on, 1, UNLUCKY, 2, card=card)
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


def hurry(on: Stage) -> None:
    """Call a leg off, have the postcard read, and go home."""
    on.runtime.do(GUIDE, CallOff(1), NAME)
    for each in on.runtime.session(GUIDE).state.children:
        if each.kind == CARDS:
            on.runtime.do(GUIDE, Deliver(), each.child)
    on.runtime.do(GUIDE, GoHome(), NAME)


def rest(on: Stage) -> None:
    """Have a rest, and go on."""
    on.runtime.do(GUIDE, Rest(), NAME)
    on.run()
    on.runtime.do(GUIDE, GoOn(), NAME)


def fail(on: Stage) -> None:
    """End it with a failure."""
    on.runtime.do(GUIDE, BreakDown(), NAME)


def left(act: Command) -> Stage:
    """Have a trip take a command while a leg and a postcard are under way."""
    on = stage(tools=[ask_and_drive])
    travel(on, 1, card="hello")
    on.run()
    on.runtime.do(GUIDE, act, NAME)
    on.run()
    on.log.flush()
    return on
