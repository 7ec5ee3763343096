"""Rules about children of any entity: born once, told of, and never left without a parent."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import pytest
from msgspec.structs import replace
from order import ORDER

from actors.catalogue import KINDS as OURS
from actors.errors import Dead, Unanswered
from actors.invariants import violations
from actors.shell.birth import to_be_born
from runefold.machines import BearChild, EndChild, Kind, Machine, children
from runefold.testing.spec import Given
from runefold.testing.stage import PowerCut
from runelog.errors import Refused
from runelog.lifecycle import fold
from runelog.memory import MemoryLog
from runelog.rune import Change
from tests.laws import trips
from tests.laws.logs import envelopes, streams_of
from tests.laws.postcards import POSTCARD, CardPhase, Deliver, Write
from tests.laws.trips import (
    GUIDE,
    KINDS,
    LEG,
    NAME,
    TRIP,
    UNLUCKY,
    BreakDown,
    CallOff,
    Departed,
    GoHome,
    Home,
    SetOut,
    ask_and_drive,
    left,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runefold.testing.stage import Stage
    from runelog.log import Log
    from runelog.rune import Envelope, Rune

LAST: Final = 40


def of_kind(log: Log, kind: Kind) -> dict[str, Any]:
    """Return the states of the entities of a kind."""
    found = [each for each in streams_of(log) if each.kind is kind]
    return {each.entity: fold(kind.lifecycle, each.runes) for each in found}


def outcomes(on: Stage) -> dict[str, list[str]]:
    """Return what all trips, legs and postcards came to."""
    return {
        kind.name: sorted(str(kind.outcome(each)) for each in of_kind(on.log, kind).values())
        for kind in KINDS
    }


def wrong(found: Iterable[Envelope]) -> list[str]:
    """Return what an audit says of runes that are at rest."""
    problems = violations(found, at_rest=True, kinds=OURS.plus(KINDS))
    return [each.message for each in problems if each.invariant == "INV-NO-ORPHANS"]


def phases(on: Stage, kind: Kind) -> list[str]:
    """Return the phases that the entities of a kind are in."""
    return sorted(state.phase.value for state in of_kind(on.log, kind).values())


def table(on: Stage) -> dict[str, str]:
    """Return the kinds of the children in the root's table, with the entity that bore each."""
    return {each.kind: each.parent for each in on.runtime.session(GUIDE).state.children}


# -- the law ---------------------------------------------------------------------------------------


def test_a_law_bears_a_child_and_folds_its_end() -> None:
    """Due until its end is observed; meanwhile it is in the state's table, under its key."""
    out = Given(TRIP.lifecycle, SetOut((1,)))
    begun = out.having(children.Started("leg_1", "leg", parent=NAME, key="leg-1"))
    over = begun.having(children.Ended("leg_1", "there", NAME, "leg-1", answer={"how": "success"}))

    assert out.due == [BearChild("leg-1", "leg", trips.Drive(1))]
    assert [each.key for each in begun.state.children] == ["leg-1"]
    assert begun.due == out.due
    assert (over.state.children, over.state.ends) == ((), (("leg-1", "success"),))
    assert over.when(trips.Settle()) == [Home()]


# -- stories ---------------------------------------------------------------------------------------


def test_children_are_born_and_their_parent_hears_of_their_end() -> None:
    """Each has its own stream and actor; one that its law refuses is told of as well."""
    on = trips.story(None, after=True, act=trips.nothing)
    (trip,) = of_kind(on.log, TRIP).values()

    assert dict(trip.ends) == {
        "leg-1": "success",
        f"leg-{UNLUCKY}": f"there is no leg {UNLUCKY}",
        "leg-2": "success",
    }
    assert (trip.phase, trip.children) == (trips.Phase.HOME, ())
    assert on.runtime.session(GUIDE).state.children == ()
    assert wrong(envelopes(on.log)) == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("cut_at", range(1, LAST))
def test_children_are_born_once_wherever_it_is_cut_off(cut_at: int, *, after: bool) -> None:
    """A birth and its entries in both tables are one append; what is missing is due again."""
    wanted = trips.story(None, after=True, act=trips.nothing)
    found = trips.story(cut_at, after=after, act=trips.nothing)

    assert outcomes(found) == outcomes(wanted)
    assert wrong(envelopes(found.log)) == []
    assert wanted.log.appends < LAST


def test_what_becomes_of_children_is_declared() -> None:
    """A parent that ends leaves to the root what may go on, and has the rest stopped."""
    on = trips.stage(tools=[ask_and_drive])
    trips.travel(on, 1, card="hello")
    on.run()
    assert table(on) == {"trip": "", "leg": NAME, "postcard": NAME}

    on.runtime.do(GUIDE, GoHome(), NAME)
    on.run()

    assert phases(on, LEG) == ["there"]
    assert phases(on, POSTCARD) == ["posted"]
    assert table(on) == {"postcard": ""}
    assert wrong(envelopes(on.log)) == []


def test_a_parent_that_fails_takes_others_with_it() -> None:
    """`on_fail` holds for the phases that its kind calls failures, `on_close` for the others."""
    on = left(BreakDown())

    assert phases(on, LEG) == ["there"]
    assert phases(on, POSTCARD) == ["delivered"]
    assert table(on) == {}
    assert wrong(envelopes(on.log)) == []


class Broken(Machine):
    """An actor that crashes whenever it is to stop a child."""

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- of whichever law
        """Crash over an `EndChild`."""
        match effect:
            case EndChild(key):
                raise RuntimeError(key)
            case _:
                super().perform(effect)


def test_a_parent_whose_actors_keep_crashing_has_failed() -> None:
    """Whichever phase its law chooses for that: `on_fail` of its children holds."""
    kinds = [dataclasses.replace(TRIP, actor=Broken), LEG, POSTCARD]
    on = trips.stage(kinds=kinds, tools=[ask_and_drive])
    trips.travel(on, 1, card="hello")
    on.run()
    on.runtime.do(GUIDE, CallOff(1), NAME)
    on.advance(60)

    assert phases(on, TRIP) == ["home"]
    assert phases(on, POSTCARD) == ["delivered"]
    assert table(on) == {}
    assert wrong(envelopes(on.log)) == []


@pytest.mark.parametrize("act", [GoHome(), BreakDown()])
@pytest.mark.parametrize("after", [False, True])
def test_children_that_are_left_are_seen_to_after_a_crash(act: Any, *, after: bool) -> None:  # noqa: ANN401 -- as above
    """Killed behind the parent's end and before its children were told, the root tells them."""
    wanted = left(act)
    for cut_at in range(1, LAST):
        on = trips.stage(tools=[ask_and_drive])
        trips.travel(on, 1, card="hello")
        on.run()
        on.log.cut_at, on.log.cut_after = on.log.appends + cut_at, after
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            on.runtime.do(GUIDE, act, NAME)
            on.run()
        if not on.log.is_cut:
            break
        on.reopen()
        on.runtime.do(GUIDE, act, NAME)
        on.run()
        on.log.flush()

        assert outcomes(on) == outcomes(wanted), cut_at
        assert wrong(envelopes(on.log)) == []
    assert cut_at > 2


def test_a_session_closes_once_all_have_ended() -> None:
    """What was left to the root is waited for; then there is nothing left in its table."""
    on = left(GoHome())
    with contextlib.suppress(Unanswered):
        on.runtime.session(GUIDE).close(timeout=1)

    assert on.runtime.session(GUIDE).state.phase == "closing"

    (card,) = of_kind(on.log, POSTCARD)
    on.runtime.do(GUIDE, Deliver(), card)
    on.run()

    assert on.runtime.session(GUIDE).state.phase == "closed"
    assert wrong(envelopes(on.log)) == []


def test_a_parent_stops_a_child_of_its_own() -> None:
    """`EndChild` tells it to cancel; its end comes back like any other."""
    on = trips.stage(tools=[ask_and_drive])
    trips.travel(on, 1)
    on.run()
    on.runtime.do(GUIDE, CallOff(1), NAME)
    on.run()
    (trip,) = of_kind(on.log, TRIP).values()

    assert trip.ends == (("leg-1", "cancelled"),)
    assert trip.phase is trips.Phase.HOME


def test_a_child_of_two_parents_is_born_by_the_session_too() -> None:
    """A kind lists its parents; the root's child has no key and no other parent."""
    on = trips.stage()
    trips.travel(on, UNLUCKY)
    on.runtime.do(GUIDE, Write("hello"), "postcard_1")
    on.run()
    known = OURS.plus(KINDS)

    assert table(on) == {"postcard": ""}
    with pytest.raises(Refused, match=r"leg is born by trip, not by session; session bears: "):
        to_be_born(known, "leg", known["session"])


# -- kinds -----------------------------------------------------------------------------------------


def test_a_parent_whose_state_keeps_no_children_is_refused() -> None:
    """Its law would never know them."""
    stray = dataclasses.replace(LEG, parents=("order",))

    with pytest.raises(Refused, match="leg is born by order, whose state keeps no children"):
        OURS.plus([ORDER, stray])


def test_a_parent_whose_law_drops_its_children_is_refused() -> None:
    """It has the field, and does not fold into it."""
    law = dataclasses.replace(TRIP.lifecycle, evolve=lambda state, _rune: state)
    deaf = dataclasses.replace(TRIP, lifecycle=law)

    with pytest.raises(Refused, match="evolve of trip keeps no children: decorate it"):
        OURS.plus([deaf, LEG, POSTCARD])


# -- the audit -------------------------------------------------------------------------------------

BORN = children.Started("trip_1", "trip")
LEG_BORN = children.Started("leg_1", "leg", parent="trip_1", key="leg-1")
LEG_ENDED = children.Ended("leg_1", "there", "trip_1", "leg-1")
OVER = children.Ended("trip_1", "home")
ALONE: Any = [
    ("session", BORN),
    ("trip_1", SetOut((1,))),
    ("trip_1", LEG_BORN),
    ("leg_1", Departed(1)),
]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], ""),
        ([("trip_1", LEG_ENDED), ("session", OVER)], ""),
        ([("session", OVER), ("session", replace(LEG_ENDED, parent=""))], ""),
        ([("session", OVER)], "leg_1 goes on, and its parent trip_1 has ended"),
        ([("session", replace(LEG_ENDED, parent=""))], "leg_1 ends, and trip_1 is not told"),
        ([("trip_1", LEG_BORN), ("leg_1", Departed(1))], "leg_1 is born a second time"),
        (
            [("trip_1", replace(LEG_BORN, child="leg_2"))],
            "leg_2 is in a table of children and was never born",
        ),
        (
            [("session", replace(LEG_ENDED, child="leg_2", parent=""))],
            "leg_2 ends, and is in no table of children",
        ),
        (
            [
                ("trip_1", LEG_ENDED),
                ("session", OVER),
                ("trip_1", replace(LEG_BORN, child="leg_2")),
                ("leg_2", Departed(2)),
            ],
            "leg_2 is born by trip_1, which has ended",
        ),
    ],
)
def test_an_audit_finds_orphans(more: list[tuple[str, Rune]], message: str) -> None:
    """A child that goes on without a parent, or whose parent is not told, is found in the log."""
    log = MemoryLog(OURS.plus(KINDS).codec, lambda: 0)
    for owner, rune in [*ALONE, *more]:
        log.append(GUIDE, [Change(owner, None, [rune])])

    assert wrong(log.read(GUIDE)) == ([message] if message else [])


def test_a_card_says_how_it_ended() -> None:
    """A kind that says nothing of its end gives the phase, which is told to its parent."""
    on = trips.story(None, after=True, act=deliver, card="hello")
    (trip,) = of_kind(on.log, TRIP).values()

    assert dict(trip.ends)["card"] == CardPhase.DELIVERED


def deliver(on: Stage) -> None:
    """Deliver the postcard."""
    on.run()
    for card in of_kind(on.log, POSTCARD):
        on.runtime.do(GUIDE, Deliver(), card)
