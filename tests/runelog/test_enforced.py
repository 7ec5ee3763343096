"""Rules about time-outs that the machinery keeps for a law: stamped into runes, then in states."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from runelog.lifecycle import Lifecycle, Table, Timeout, fold, stamped
from runelog.rune import Rune

SECOND = 1_000_000_000


class Phase(StrEnum):
    """What a visit can be."""

    WAITING = "waiting"
    INSIDE = "inside"
    RESTING = "resting"
    GONE = "gone"


class Came(Rune, frozen=True, tag="visit.came"):
    """The birth; the first phase has a time-out."""

    deadline: int | None = None


class Entered(Rune, frozen=True, tag="visit.entered"):
    """Enters a phase with a time-out."""

    deadline: int | None = None


class Sat(Rune, frozen=True, tag="visit.sat"):
    """Enters a phase without one."""

    deadline: int | None = None


class Noted(Rune, frozen=True, tag="visit.noted"):
    """The entity's own, and not in its table."""

    deadline: int | None = None


class Left(Rune, frozen=True, tag="visit.left"):
    """Ends it."""


class Asked(Rune, frozen=True, tag="question.asked"):
    """Another entity's, with a deadline of that entity."""

    deadline: int | None = None


class Called(Rune, frozen=True, tag="doctor.called"):
    """Another entity's, and in the table: moves the phase."""

    deadline: int | None = None


TABLE: Table[Phase] = {
    Phase.WAITING: {Entered: Phase.INSIDE, Left: Phase.GONE},
    Phase.INSIDE: {Sat: Phase.RESTING, Entered: Phase.INSIDE, Called: Phase.RESTING},
    Phase.RESTING: {Entered: Phase.INSIDE, Left: Phase.GONE},
    Phase.GONE: {},
}


class State(msgspec.Struct, frozen=True):
    """What is known of a visit."""

    phase: Phase = Phase.WAITING
    name: str = ""
    deadline: int | None = None


def evolve(state: State, rune: Rune) -> State:
    """Keep the name."""
    return msgspec.structs.replace(state, name="ada") if isinstance(rune, Came) else state


LAW: Lifecycle[Phase, State, Any, Any] = Lifecycle(
    name="visit",
    table=TABLE,
    initial=State(),
    decide=lambda _state, _command: [],
    evolve=evolve,
    due=lambda _state: [],
    observed=frozenset({Called}),
    timeouts=(Timeout(Phase.WAITING, 60, Phase.GONE), Timeout(Phase.INSIDE, 10, Phase.RESTING)),
    enforced=True,
)
INSIDE = [Came(deadline=60), Entered(deadline=10)]


def put_in(state: State, rune: Rune, limits: dict[str, float] | None = None) -> int | None:
    """Return the deadline that a rune is given at time 0."""
    found: int | None = getattr(stamped(LAW, state, rune, 0, limits or {}), "deadline", None)
    return found


def test_a_rune_that_enters_a_phase_is_given_its_deadline() -> None:
    """So is the birth; a phase without a time-out gives none."""
    assert put_in(State(), Came()) == 60 * SECOND
    assert put_in(fold(LAW, [Came()]), Entered()) == 10 * SECOND
    assert put_in(fold(LAW, INSIDE), Sat()) is None
    assert put_in(fold(LAW, [*INSIDE, Sat()]), Entered()) == 10 * SECOND


def test_a_limit_of_the_session_goes_before_the_default() -> None:
    """It is given by lifecycle and phase."""
    assert put_in(State(), Came(), {"visit.waiting": 5}) == 5 * SECOND
    assert put_in(State(), Came(), {"visit.inside": 5, "other.waiting": 5}) == 60 * SECOND


def test_only_what_enters_a_phase_is_given_a_deadline() -> None:
    """Not what stays in one, nor a rune that the table does not mention, nor one that has it."""
    inside = fold(LAW, INSIDE)

    assert put_in(inside, Entered()) is None
    assert put_in(inside, Noted()) is None
    assert put_in(fold(LAW, [Came()]), Entered(deadline=7)) == 7


def test_a_state_has_the_deadline_of_its_phase() -> None:
    """A phase without one has none; staying in a phase without a new one keeps it."""
    assert fold(LAW, INSIDE[:1]).deadline == 60
    assert fold(LAW, INSIDE).deadline == 10
    assert fold(LAW, [*INSIDE, Entered()]).deadline == 10
    assert fold(LAW, [*INSIDE, Entered(deadline=30)]).deadline == 30
    assert fold(LAW, [*INSIDE, Sat()]).deadline is None


@pytest.mark.parametrize("rune", [Asked(deadline=99), Noted(deadline=99)])
def test_a_deadline_of_another_entity_is_not_taken_over(rune: Rune) -> None:
    """A question asked to a human has its own time: that of the phase stays what it was."""
    assert fold(LAW, [*INSIDE, rune]).deadline == 10


def test_an_observed_rune_that_moves_the_phase_brings_no_deadline() -> None:
    """Its deadline is that of the entity that it belongs to."""
    state = fold(LAW, [*INSIDE, Called(deadline=99)])

    assert state.phase is Phase.RESTING
    assert state.deadline is None
