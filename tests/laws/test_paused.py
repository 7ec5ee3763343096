"""Rules about a pause: machines begin nothing outside, go on with what is under way, and resume."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted
from actors.tool.policy import Policy
from actors.tool.public_commands import Approve
from runefold import AgentSpec
from runefold.control.offline import OfflineCommands
from runefold.machines import tools
from runefold.testing.stage import PowerCut, Stage
from runelog.errors import Refused
from runelog.rune import kind_of
from tests.laws import purchases, trips
from tests.laws.errands import ADVISER, ERRAND, Send, advise, fetch
from tests.laws.postcards import POSTCARD
from tests.laws.purchases import Buy
from tests.laws.trips import GUIDE, LEG, NAME, TRIP, GoOn, Rest, Travel, ask_and_drive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.children import OnPause
    from actors.public_command import Command

OUTSIDE: Final = {"tool.call", "tool.started", "model.called", "request.sent"}
"""The runes by which something begins outside."""
BEGINS: Final[dict[str, tuple[Command, str, str]]] = {
    "a tool": (Travel([1]), NAME, "trip.home"),
    "a model": (Send("bread"), "errand_1", "errand.done"),
    "a request": (Buy("bread"), "purchase_1", "purchase.over"),
}


def stage(**options: Any) -> Stage:  # noqa: ANN401 -- those of Runtime
    """Open a runtime with machines that call tools, ask models and ask other conversations."""
    kinds = [*trips.KINDS, *purchases.KINDS, ERRAND]
    models = {"demo": Scripted([["Hello."]]), ADVISER: Scripted(advise)}
    options = {"kinds": kinds, "tools": [trips.drive, fetch], "providers": models, **options}
    on = Stage(**options)
    on.runtime.create_session(AgentSpec(role="guide", model="demo"), conversation_id=GUIDE)
    on.run()
    return on


def found(on: Stage) -> list[str]:
    """Return the kinds of the runes in the conversation."""
    return [kind_of(type(each.payload)) for each in on.log.read(GUIDE)]


def offline(on: Stage) -> OfflineCommands:
    """Return what records commands when no runtime has the log open."""
    return OfflineCommands(on.log, clock=on.clock, kinds=on.runtime.kinds)


@pytest.mark.parametrize("what", BEGINS)
def test_nothing_begins_outside_while_a_session_is_paused(what: str) -> None:
    """A machine is born and has something due; it is done once the session is resumed."""
    on = stage()
    command, name, end = BEGINS[what]
    on.runtime.session(GUIDE).pause()
    on.runtime.do(GUIDE, command, name)
    on.advance(3600)

    assert not OUTSIDE & {*found(on)}

    on.runtime.session(GUIDE).resume()
    on.advance(60)

    assert end in found(on)


@pytest.mark.parametrize("what", BEGINS)
@pytest.mark.parametrize("after", [False, True])
def test_a_pause_outlives_a_crash(what: str, *, after: bool) -> None:
    """Cut off at whichever append: paused it stays, and resumed each thing begins once."""
    command, name, end = BEGINS[what]
    for cut_at in range(1, 30):
        on = stage()
        on.log.cut_at, on.log.cut_after = on.log.appends + cut_at, after
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            paused(on, command, name)
            on.runtime.session(GUIDE).resume()
            on.advance(60)
        is_cut = on.log.is_cut
        if is_cut:
            on.reopen()
            with contextlib.suppress(Refused):
                paused(on, command, name)
            on.runtime.session(GUIDE).resume()
            on.advance(60)

        assert found(on).count(end) == 1
        if not is_cut:
            break
    assert cut_at > 3


def paused(on: Stage, command: Command, name: str) -> None:
    """Pause a session, unless the command is under way, and give it a command."""
    if name not in {each.child for each in on.runtime.session(GUIDE).state.children}:
        on.runtime.session(GUIDE).pause()
    on.runtime.do(GUIDE, command, name)
    on.run()


def test_what_is_under_way_goes_on() -> None:
    """A call that has begun comes back during the pause; what it leads to outside waits."""
    on = stage()
    session = on.runtime.session(GUIDE)
    session.do(Travel([1, 2]), NAME)
    on.run_until(lambda: "tool.started" in found(on))
    session.pause()
    on.advance(60)

    assert found(on).count("tool.result") == found(on).count("tool.call") == 1
    assert "trip.home" not in found(on)


def test_a_policy_that_answers_during_the_pause_lets_nothing_begin() -> None:
    """It was asked before; its ruling is asked for again on resuming."""
    asked: list[str] = []

    def policy(name: str, _arguments: Mapping[str, Any], _about: object) -> Literal["allow"]:
        asked.append(name)
        if len(asked) == 1:
            session.pause()
        return "allow"

    on = stage(policy=Policy(function=policy))
    session = on.runtime.session(GUIDE)
    session.do(Travel([1]), NAME)
    on.advance(60)
    before = [*found(on)]
    session.resume()
    on.advance(60)

    assert "tool.started" not in before
    assert "trip.home" in found(on)


def test_a_call_that_waits_for_a_human_is_not_approved_during_the_pause() -> None:
    """The answer says what to do first, also where no runtime is open; a denial runs nothing."""
    on = stage(tools=[ask_and_drive, fetch])
    session = on.runtime.session(GUIDE)
    session.do(Travel([1]), NAME)
    on.run()
    session.pause()
    (asked,) = session.approvals()
    refusal = f"{asked.call_id} cannot run now: what calls it is paused; resume that first"

    with pytest.raises(Refused, match=refusal):
        session.approve(asked.call_id, approver="ada")
    with pytest.raises(Refused, match=refusal):
        offline(on).do(GUIDE, Approve("ada"), asked.call_id)

    session.resume()
    session.approve(asked.call_id, approver="ada")
    on.run()

    assert "trip.home" in found(on)


def test_machines_that_are_paused_are_not_at_work() -> None:
    """However often a process is killed meanwhile, the session is not suspended for it."""
    on = stage()
    on.runtime.session(GUIDE).pause()
    on.runtime.do(GUIDE, Travel([1]), NAME)
    for _ in range(5):
        on.crash()
        on.reopen()
        on.run()

    assert on.runtime.session(GUIDE).state.phase == "paused"
    assert "session.reopened" not in found(on)


# -- parents that pause ----------------------------------------------------------------------------


def rested(**declared: Any) -> Stage:  # noqa: ANN401 -- fields of a kind
    """Have a trip rest before its first leg has begun anything outside."""
    on = stage(kinds=[TRIP, dataclasses.replace(LEG, **declared), POSTCARD], tools=[trips.drive])
    session = on.runtime.session(GUIDE)
    session.pause()
    session.do(Travel([1]), NAME)
    session.do(Rest(), NAME)
    session.resume()
    on.advance(60)
    return on


def test_children_of_a_parent_that_pauses_begin_nothing() -> None:
    """Also after a crash; once the parent goes on, so do they."""
    on = rested()

    assert not OUTSIDE & {*found(on)}

    on.crash()
    on.reopen()
    on.advance(60)

    assert not OUTSIDE & {*found(on)}

    on.runtime.do(GUIDE, GoOn(), NAME)
    on.advance(60)

    assert "trip.home" in found(on)


def test_children_may_be_left_to_go_on() -> None:
    """A parent that pauses does not concern them."""
    on = rested(on_pause="leave")

    assert "tool.started" in found(on)


def test_children_may_be_told_to_stop() -> None:
    """A call that waits for a human is withdrawn, as if a user had stopped the leg."""
    leg = dataclasses.replace(LEG, on_pause="cancel")
    on = stage(kinds=[TRIP, leg, POSTCARD], tools=[ask_and_drive])
    on.runtime.do(GUIDE, Travel([1]), NAME)
    on.run()
    on.runtime.do(GUIDE, Rest(), NAME)
    on.run()

    assert "leg.arrived" in found(on)
    assert results(on) == ["cancelled"]
    assert "trip.home" not in found(on)


@pytest.mark.parametrize(
    ("on_pause", "rune", "came_back"),
    [
        ("leave", "tool.started", ["success"]),
        ("cancel", "leg.arrived", ["cancelled"]),
        ("pause", "leg.departed", []),
    ],
)
def test_a_session_that_pauses_is_a_parent_like_any_other(
    on_pause: OnPause, rune: str, came_back: list[str]
) -> None:
    """The trip is paused with it, and the leg does what its kind declares.

    What is to stop and has not begun outside is recorded as cancelled, and does not begin for that.
    """
    leg = dataclasses.replace(LEG, on_pause=on_pause)
    on = stage(kinds=[TRIP, leg, POSTCARD], tools=[trips.drive])
    on.runtime.session(GUIDE).pause()
    on.runtime.do(GUIDE, Travel([1]), NAME)
    on.advance(60)

    assert rune in found(on)
    assert ("tool.started" in found(on)) is (on_pause == "leave")
    assert results(on) == came_back
    assert on.runtime.session(GUIDE).state.phase == "paused"


def results(on: Stage) -> list[str]:
    """Return how the tool calls ended."""
    runes = [each.payload for each in on.log.read(GUIDE)]
    return [rune.status for rune in runes if isinstance(rune, tools.Result)]
