"""A machine of an app with two time-outs: one stands while its session is paused, one runs on."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from actors.model.providers.scripted import Scripted
from runefold import AgentSpec
from runefold.machines import (
    Abandon,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Rune,
    Timed,
    Timeout,
    TimeUp,
    refusal,
)
from runefold.testing.stage import Stage
from tests.laws import trips

if TYPE_CHECKING:
    from runefold.testing.stage import FragileLog

EGGS: Final = "egg"
BOILS: Final = 300
"""How many seconds it boils, of those in which its session is not paused."""
COOLS: Final = 600
"""How many seconds it cools, whatever its session does."""


class Boiling(Timed, frozen=True, tag="egg.boiling"):
    """The birth."""


class Cooling(Timed, frozen=True, tag="egg.cooling"):
    """It is done, and hot."""


class Reheated(Timed, frozen=True, tag="egg.reheated"):
    """It boils again."""


class Eaten(Moved, frozen=True, tag="egg.eaten"):
    """The end."""

    how: str


class Phase(StrEnum):
    """What an egg can be."""

    RAW = "raw"
    BOILING = "boiling"
    COOLING = "cooling"
    EATEN = "eaten"


class State(msgspec.Struct, frozen=True):
    """What an egg's runes add up to."""

    phase: Phase = Phase.RAW
    deadline: int | None = None
    stands_since: int | None = None
    how: str = ""


class Boil(Command, frozen=True):
    """Boil an egg."""

    begins = True


class Reheat(Command, frozen=True):
    """Boil it again."""


def decide(state: State, command: object) -> list[Rune]:
    """Begin it, go on, or refuse what is asked."""
    match state.phase, command:
        case Phase.RAW, Boil():
            return [Boiling()]
        case ((Phase.BOILING | Phase.COOLING), TimeUp(now)) if now < (state.deadline or now + 1):
            return []
        case Phase.BOILING, TimeUp():
            return [Cooling(actor="timeout")]
        case Phase.COOLING, Reheat():
            return [Reheated()]
        case Phase.COOLING, TimeUp():
            return [Eaten("cold", actor="timeout")]
        case Phase.EATEN, Cancel() | Abandon() | TimeUp():
            return []
        case _, Cancel() | Abandon():
            return [Eaten("hot")]
        case _:
            raise refusal(EGGS, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    return replace(state, how=rune.how) if isinstance(rune, Eaten) else state


def due(_state: State) -> list[Any]:
    """Wait for the time."""
    return []


EGG: Final = Kind(
    lifecycle=Lifecycle(
        name=EGGS,
        table={
            Phase.RAW: {Boiling: Phase.BOILING, Eaten: Phase.EATEN},
            Phase.BOILING: {Cooling: Phase.COOLING, Eaten: Phase.EATEN},
            Phase.COOLING: {Reheated: Phase.BOILING, Eaten: Phase.EATEN},
            Phase.EATEN: {},
        },
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=due,
        timeouts=(
            Timeout(Phase.BOILING, BOILS, Phase.COOLING, stands=True),
            Timeout(Phase.COOLING, COOLS, Phase.EATEN),
        ),
        enforced=True,
    ),
    prefix=EGGS,
    parents=("session", "trip"),
    runes=(Boiling, Cooling, Reheated, Eaten),
    actor=Machine,
    commands=(Boil, Reheat),
    outcome=lambda state: (state.phase.value, state.how),
)


def eggs() -> FragileLog:
    """Boil eggs in a session that is paused and resumed, and closed while it is paused."""
    on = Stage(kinds=[EGG, *trips.KINDS], providers={"demo": Scripted([["Hello."]])})
    session = on.runtime.create_session(
        AgentSpec(role="cook", model="demo"), conversation_id="conv_eggs"
    )
    on.run()
    for name in ("egg_1", "egg_2"):
        session.do(Boil(), name)
        on.advance(100)
        session.pause()
        session.do(Boil(), f"{name}0")
        on.advance(COOLS)
        session.resume()
    on.advance(BOILS)
    session.do(Reheat(), "egg_2")
    session.pause()
    on.advance(COOLS)
    session.close()
    on.log.flush()
    return on.log
