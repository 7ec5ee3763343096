"""Rules about commands that begin an entity: offline as well, and the same content for one id."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import pytest
from order import ORDER, Place

from actors.model.providers.scripted import Scripted
from actors.session.runes import Reopened
from actors.tool.adapters.function import tool
from runefold import AgentSpec
from runefold.control.offline import OfflineCommands
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused, UnknownConversation
from runelog.rune import SYSTEM, kind_of
from tests.laws import purchases, trips
from tests.laws.postcards import Write
from tests.laws.purchases import Fetch
from tests.laws.trips import Travel

if TYPE_CHECKING:
    from pathlib import Path

DESK: Final = "conv_desk"
PEN: Final = "order_pen"
SAME: Final = "order_pen is there already, and was begun with other content .pen, 2.50: paid.: give"


@tool(idempotent=True)
def pay(item: str, cents: int) -> str:
    """Take the money."""
    return f"{item}: {cents}"


def stage(views: Path) -> Stage:
    """Open a runtime that knows orders and a few more, with a session."""
    on = Stage(
        kinds=[ORDER, *purchases.KINDS, *trips.KINDS],
        tools=[pay, purchases.fetch, trips.drive],
        providers={"demo": Scripted([["Hi."]])},
        views=views,
    )
    on.runtime.create_session(AgentSpec(role="clerk", model="demo"), conversation_id=DESK)
    on.run()
    return on


def offline(on: Stage) -> OfflineCommands:
    """End the runtime, and return what records commands without one."""
    on.log.flush()
    on.crash()
    on.log.mend()
    return OfflineCommands(on.log, clock=on.clock, kinds=on.runtime.kinds)


def runes(on: Stage, conversation: str = DESK) -> list[str]:
    """Return the kinds of all runes of a conversation."""
    return [kind_of(type(each.payload)) for each in on.log.read(conversation)]


def reopened(on: Stage) -> list[Reopened]:
    """Return how the opens were counted that found work under way."""
    found = [each.payload for each in on.log.read(DESK)]
    return [rune for rune in found if isinstance(rune, Reopened)]


def phase(on: Stage, entity: str = PEN, conversation: str = DESK) -> str:
    """Return the phase that an entity is in."""
    return str(on.runtime.session(conversation).history(entity).phase)


# -- offline ---------------------------------------------------------------------------------------


def test_an_entity_is_begun_while_no_runtime_runs(tmp_path: Path) -> None:
    """It is there with its entry and its work; the next runtime goes on, and counts no crash."""
    on = stage(tmp_path)
    answer = offline(on).do(DESK, Place("pen", 2_50), PEN)

    assert answer == {"entity": PEN}
    assert runes(on)[-4:] == ["child.started", "order.placed", "order.accepted", "session.rested"]
    assert [each.entity for each in on.log.open_work(DESK)] == [PEN]

    on.reopen()
    on.run()

    assert phase(on) == "paid"
    assert [each.unclean for each in reopened(on)] == [0]


def test_one_without_an_id_is_given_one(tmp_path: Path) -> None:
    """The answer says which, as a runtime's does."""
    on = stage(tmp_path)
    entity = offline(on).do(DESK, Place("pen", 2_50))["entity"]
    on.reopen()
    on.run()

    assert entity.startswith("order_")
    assert phase(on, entity) == "paid"


def test_a_phase_that_is_entered_offline_has_its_deadline(tmp_path: Path) -> None:
    """What the birth leads to at once is recorded with it."""
    on = stage(tmp_path)
    offline(on).do(DESK, Place("piano", 900_00), "order_piano")
    (work,) = on.log.open_work(DESK)

    assert work.deadline is not None

    on.reopen()
    on.advance(3601)

    assert phase(on, "order_piano") == "cancelled"


def test_the_system_takes_its_first_child_offline(tmp_path: Path) -> None:
    """Its conversation begins with that."""
    on = stage(tmp_path)
    writer = offline(on)
    with pytest.raises(UnknownConversation):
        writer.do("conv_nowhere", Place("pen", 2_50), PEN)
    writer.do(SYSTEM, Fetch("bread"), "chore_1")
    on.reopen()
    on.run()

    assert runes(on, SYSTEM)[-1] == "child.ended"


@pytest.mark.parametrize("after", [False, True])
def test_a_birth_offline_is_one_append(tmp_path: Path, *, after: bool) -> None:
    """Cut off before or behind it and asked again, there is one order."""
    on = stage(tmp_path)
    writer = offline(on)
    for cut_at in (1, 2, None):
        on.log.cut_at = None if cut_at is None else on.log.appends + cut_at
        on.log.cut_after = after
        with contextlib.suppress(PowerCut):
            writer.do(DESK, Place("pen", 2_50), PEN)
        on.log.mend()
    on.reopen()
    on.run()

    assert phase(on) == "paid"
    assert runes(on).count("order.placed") == runes(on).count("child.started") == 1


def test_what_cannot_be_born_is_refused_offline_as_well(tmp_path: Path) -> None:
    """By a session that is closed, and for a parent that the kind does not have."""
    on = stage(tmp_path)
    on.runtime.session(DESK).close()
    writer = offline(on)

    with pytest.raises(Refused, match="session is closed: no order begins in it"):
        writer.do(DESK, Place("pen", 2_50), PEN)
    with pytest.raises(Refused, match="order is born by session, not by system"):
        writer.do(SYSTEM, Place("pen", 2_50), PEN)


# -- the same id -----------------------------------------------------------------------------------


def placed(on: Stage, *commands: Place, without_runtime: bool) -> list[str]:
    """Place orders under one id, after the first was paid; return the runes before."""
    on.runtime.do(DESK, Place("pen", 2_50), PEN)
    on.run()
    before = runes(on)
    to: Any = offline(on) if without_runtime else on.runtime
    before = runes(on)
    for command in commands:
        to.do(DESK, command, PEN)
    return before


@pytest.mark.parametrize("without_runtime", [False, True])
def test_a_begin_that_is_asked_again_is_the_same_one(
    tmp_path: Path, *, without_runtime: bool
) -> None:
    """Nothing is appended, also when it has come to its end."""
    on = stage(tmp_path)
    before = placed(on, Place("pen", 2_50), Place("pen", 2_50), without_runtime=without_runtime)

    assert runes(on) == before


@pytest.mark.parametrize("without_runtime", [False, True])
@pytest.mark.parametrize("other", [Place("pen", 2_60), Place("pencil", 2_50)])
def test_an_id_is_not_used_for_something_else(
    tmp_path: Path, other: Place, *, without_runtime: bool
) -> None:
    """What was asked for would not be done: the refusal says what is there, and the way out."""
    on = stage(tmp_path)

    with pytest.raises(Refused, match=SAME):
        placed(on, other, without_runtime=without_runtime)
    assert "pencil" not in str([*on.log.read(DESK)])


def test_the_id_of_anothers_child_is_taken(tmp_path: Path) -> None:
    """What a trip bore is not what a user asks for."""
    on = stage(tmp_path)
    on.runtime.do(DESK, Travel([trips.UNLUCKY], "hello"), "trip_1")
    on.run()
    (card,) = (
        each.child for each in on.runtime.session(DESK).state.children if each.kind == "postcard"
    )

    with pytest.raises(Refused, match="is there already, and was begun with other content"):
        on.runtime.do(DESK, Write("hello"), card)
