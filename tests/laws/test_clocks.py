"""Rules about time-outs while a session is paused: some stand, and go on with what was left."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import pytest
from order import ORDER

from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted
from actors.session.public_commands import Close, Pause, Resume
from actors.session.runes import Closing, Paused, Resumed
from actors.units import SECOND
from runefold import AgentSpec
from runefold.control.offline import OfflineCommands
from runefold.machines import BearChild, Timeout
from runefold.testing.spec import Given
from runefold.testing.stage import PowerCut, Stage
from runelog.lifecycle import BrokenLaw
from tests.laws import trips
from tests.laws.eggs import BOILS, COOLS, EGG, EGGS, Boil, Boiling, Cooling, Phase, Reheat
from tests.laws.postcards import POSTCARD
from tests.laws.trips import LEG, TRIP, Travel

if TYPE_CHECKING:
    from actors.public_command import Command

KITCHEN: Final = "conv_kitchen"
ONE: Final = "egg_1"
LONG: Final = 3600


def kitchen(*kinds: Any, **options: Any) -> Stage:  # noqa: ANN401 -- kinds, and those of Runtime
    """Open a runtime that boils eggs."""
    options = {"providers": {"demo": Scripted([["Hello."]])}, **options}
    on = Stage(kinds=[*(kinds or (EGG,)), *([] if kinds else trips.KINDS)], **options)
    on.runtime.create_session(AgentSpec(role="cook", model="demo"), conversation_id=KITCHEN)
    on.run()
    return on


def phase(on: Stage, egg: str = ONE) -> str:
    """Return the phase that an egg is in."""
    return str(on.runtime.session(KITCHEN).history(egg).phase)


def deadline(on: Stage, egg: str = ONE) -> int | None:
    """Return the deadline that the index has for an egg, in seconds from now."""
    on.log.flush()
    found = [each.deadline for each in on.log.open_work(KITCHEN) if each.entity == egg]
    when = next(iter(found), None)
    return None if when is None else round((when - on.clock.now()) / SECOND)


# -- the law ---------------------------------------------------------------------------------------


def test_a_clock_stands_and_goes_on_with_what_was_left() -> None:
    """The deadline moves by the time of the pause, which the runes carry."""
    boiling = Given(EGG.lifecycle, Boiling(deadline=300))
    paused = boiling.having(Paused(at=100))
    on = paused.having(Resumed(at=1_000))

    assert (EGG.deadline(paused.state), EGG.deadline(on.state)) == (None, 1_200)
    assert paused.having(Closing(at=1_000)).state == on.state
    assert on.having(Resumed(at=5_000)).state == on.state
    assert paused.having(Paused(at=200)).having(Resumed(at=1_000)).state == on.state


def test_a_clock_that_was_set_back_takes_no_time_away() -> None:
    """A pause of less than nothing is none."""
    back = Given(EGG.lifecycle, Boiling(deadline=300), Paused(at=100), Resumed(at=50))

    assert EGG.deadline(back.state) == 300


def test_other_clocks_run_on() -> None:
    """So does that of a phase which is entered during the pause."""
    cooling = Given(EGG.lifecycle, Boiling(deadline=300), Cooling(deadline=900), Paused(at=400))
    entered = Given(EGG.lifecycle, Boiling(deadline=300), Paused(at=100), Cooling(deadline=900))

    assert EGG.deadline(cooling.having(Resumed(at=500)).state) == 900
    assert EGG.deadline(entered.state) == EGG.deadline(entered.having(Resumed(at=500)).state) == 900


@pytest.mark.parametrize("what", ["state", "rune"])
def test_a_law_whose_clock_stands_keeps_since_when(what: str) -> None:
    """Without the field the deadline could not be moved."""
    (limit,) = ORDER.lifecycle.timeouts
    stands = (Timeout(limit.phase, 60, limit.to, stands=True),)
    if what == "state":
        with pytest.raises(BrokenLaw, match="its state has no field stands_since"):
            dataclasses.replace(ORDER.lifecycle, timeouts=stands)
        return
    table: Any = {**EGG.lifecycle.table, Phase.COOLING: {trips.Home: Phase.BOILING}}
    with pytest.raises(BrokenLaw, match=r"trip.home leads to boiling, whose clock stands"):
        dataclasses.replace(EGG.lifecycle, table=table)


# -- stories ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("asleep", [False, True])
@pytest.mark.parametrize("crash", [False, True])
def test_a_pause_stands_a_clock(*, asleep: bool, crash: bool) -> None:
    """Awake, asleep, or cut off meanwhile: the index knows when it is up."""
    on = kitchen(idle_after=10 if asleep else LONG * 10)
    session = on.runtime.session(KITCHEN)
    session.do(Boil(), ONE)
    on.advance(100)
    session.pause()

    assert deadline(on) is None

    on.advance(LONG)
    if crash:
        on.crash()
        on.reopen()
    assert phase(on) == "boiling"

    on.runtime.session(KITCHEN).resume()

    assert deadline(on) == BOILS - 100

    on.advance(BOILS - 101)
    assert phase(on) == "boiling"
    on.advance(2)
    assert phase(on) == "cooling"


def test_a_clock_that_runs_on_is_up_during_the_pause() -> None:
    """It was not declared to stand."""
    on = kitchen()
    session = on.runtime.session(KITCHEN)
    session.do(Boil(), ONE)
    on.advance(BOILS + 1)
    session.pause()
    on.advance(COOLS)

    assert phase(on) == "eaten"


def test_a_phase_that_is_entered_during_the_pause_stands_at_once() -> None:
    """So does that of an entity which is born meanwhile: all its time is left afterwards."""
    on = kitchen()
    session = on.runtime.session(KITCHEN)
    session.do(Boil(), ONE)
    on.advance(BOILS + 1)
    session.pause()
    session.do(Reheat(), ONE)
    session.do(Boil(), "egg_2")
    on.advance(LONG)
    session.resume()

    assert [deadline(on), deadline(on, "egg_2")] == [BOILS, BOILS]

    on.advance(BOILS + 1)

    assert [phase(on), phase(on, "egg_2")] == ["cooling", "cooling"]


def test_a_session_that_closes_is_paused_no_longer() -> None:
    """What is waited for would not come to its end otherwise."""
    on = kitchen(dataclasses.replace(EGG, on_close="leave", parents=("session",)))
    session = on.runtime.session(KITCHEN)
    session.do(Boil(), ONE)
    on.advance(100)
    session.pause()
    on.advance(LONG)
    with contextlib.suppress(Unanswered):
        session.close(timeout=1)
    on.advance(BOILS + COOLS)

    assert session.state.phase == "closed"


def test_a_kind_that_is_left_alone_keeps_its_time() -> None:
    """A pause does not concern it, whatever its time-outs say."""
    on = kitchen(dataclasses.replace(EGG, on_pause="leave", parents=("session",)))
    session = on.runtime.session(KITCHEN)
    session.pause()
    session.do(Boil(), ONE)
    on.advance(BOILS + 1)

    assert phase(on) == "cooling"


def test_the_clock_of_a_childs_child_stands_too() -> None:
    """Its parent is paused with the session."""
    law = dataclasses.replace(TRIP.lifecycle, due=lambda _state: [BearChild("egg", EGGS, Boil())])
    on = kitchen(dataclasses.replace(TRIP, lifecycle=law), LEG, POSTCARD, EGG)
    session = on.runtime.session(KITCHEN)
    session.do(Travel([1]), trips.NAME)
    on.advance(100)
    (egg,) = (each.child for each in session.state.children if each.kind == EGGS)
    session.pause()
    on.advance(LONG)
    session.resume()

    assert deadline(on, egg) == BOILS - 100


def test_a_pause_is_recorded_offline_as_well() -> None:
    """No runtime runs, and the deadline stands and goes on all the same."""
    on = kitchen()
    on.runtime.session(KITCHEN).do(Boil(), ONE)
    on.advance(100)
    on.crash()
    on.log.mend()
    offline = OfflineCommands(on.log, clock=on.clock, kinds=on.runtime.kinds)
    offline.do(KITCHEN, Pause())
    on.clock.move_to(on.clock.now() + LONG * SECOND)

    assert deadline(on) is None

    offline.do(KITCHEN, Resume())

    assert deadline(on) == BOILS - 100

    on.reopen()
    on.advance(BOILS - 99)

    assert phase(on) == "cooling"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("ends_with", [Resume(), Close()])
def test_a_clock_is_right_wherever_it_is_cut_off(ends_with: Command, *, after: bool) -> None:
    """The pause, and what it does to clocks and to the index, is one append."""
    kind = dataclasses.replace(EGG, on_close="leave", parents=("session",))
    for cut_at in range(1, 12):
        on = kitchen(kind)
        on.runtime.session(KITCHEN).do(Boil(), ONE)
        on.advance(100)
        on.log.cut_at, on.log.cut_after = on.log.appends + cut_at, after
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            play(on, ends_with)
        is_cut = on.log.is_cut
        if is_cut:
            on.reopen()
            with contextlib.suppress(Unanswered):
                play(on, ends_with)
        left = deadline(on)

        assert left is not None
        assert abs(left - (BOILS - 100)) <= 1
        if not is_cut:
            break
    assert cut_at > 2


def play(on: Stage, ends_with: Command) -> None:
    """Pause for an hour, unless that has happened, and end the pause."""
    if on.runtime.session(KITCHEN).state.phase == "active" and deadline(on) == BOILS - 100:
        on.runtime.do(KITCHEN, Pause())
        on.advance(LONG)
    on.runtime.do(KITCHEN, ends_with, timeout=1)
