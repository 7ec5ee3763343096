"""Rules about what became of entities: their moves, their time in each phase, how often and where.

All of it is told from the log alone, on a clock that is moved by hand.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call, fail, pause
from actors.tool.adapters.function import tool
from actors.turn import runes as turns
from actors.units import SECOND
from runefold.observe.monitoring import Monitor, Rules
from runefold.observe.session_list import sessions
from runefold.spec import AgentSpec
from runelog.errors import Refused
from runelog.rune import Change
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply


@tool(requires_approval=True, approval_timeout=500)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def obedient(request: Request) -> Reply:
    """Do as one is told."""
    match request.messages[-1].text.split():
        case ["pay"]:
            return [pause(7), call("pay")]
        case ["fail"]:
            return [fail("bad_key", "no such key")]
        case [seconds] if seconds.isdigit():
            return ["so ", pause(int(seconds)), "so"]
        case _:
            return ["done"]


def busy() -> Talk:
    """Return a conversation in which this and that has happened, and a call waits for a human."""
    there = talk(obedient, pay, retries=0)
    there.session.send("20").result(100)
    there.session.send("pay")
    there.stage.advance(30)
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    there.stage.advance(1)
    there.session.send("fail").result(100)
    there.session.send("pay")
    there.stage.advance(40)
    return there


def entities(there: Talk) -> list[str]:
    """Name all that have a lifecycle."""
    there.stage.log.flush()
    owners = dict.fromkeys(each.owner for each in there.session.runes())
    return [name for name in owners if not name.startswith("msg_")]


def test_a_history_has_every_move_as_operators_are_told_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """From where to where, by which rune, why and by whom: no more and no less, for each entity."""
    caplog.set_level(logging.INFO, logger="runefold")
    there = busy()
    said: dict[str, list[Any]] = {}
    for record in caplog.records:
        if vars(record)["event"] == "transition":
            told = vars(record)
            fields = [told[name] for name in ("from", "to", "rune", "trigger", "actor")]
            said.setdefault(told["entity"], []).append(fields)
    found = {
        name: [
            [move.origin, move.to, move.rune, move.trigger, move.actor]
            for move in there.session.history(name).moves
        ]
        for name in entities(there)
    }
    with_actors = {name: moves for name, moves in found.items() if name in said}

    assert with_actors == said
    assert {"session", "turn_1", "turn_3"} <= said.keys()


def test_a_history_tells_how_long_each_phase_took() -> None:
    """Until its end; of one that goes on, until now."""
    there = busy()
    calls = [name for name in entities(there) if name.startswith("call_")]
    first, last = (there.session.history(name) for name in calls)

    assert there.session.history("turn_1").seconds == {"idle": 0, "streaming": 20}
    assert first.seconds == {"pending_call": 0, "awaiting_approval": 23, "executing": 0}
    assert (first.phase, first.is_over) == ("completed_result", True)
    assert last.seconds == {"pending_call": 0, "awaiting_approval": 33}
    assert (last.phase, last.is_over) == ("awaiting_approval", False)


def test_a_history_says_who_moved_it() -> None:
    """A human, the system or a deadline."""
    there = busy()
    there.stage.advance(500)
    calls = [name for name in entities(there) if name.startswith("call_")]
    answered, late = (there.session.history(name).moves for name in calls)

    assert [move.actor for move in answered if move.rune == "tool.approved"] == ["user"]
    assert (late[-1].to, late[-1].actor) == ("timeout_result", "timeout")


def test_a_history_of_nobody_is_refused() -> None:
    """Also that of what has no phases."""
    there = busy()
    for name in ("turn_99", "msg_a2a8c2514ffc1da3"):
        with pytest.raises(Refused, match="has no entity"):
            there.session.history(name)


def test_an_invalid_state_is_told_with_the_runes_that_led_there() -> None:
    """The history ends in the last valid phase; what came after it is not guessed at."""
    there = talk([["so ", pause(500), "so"]])
    there.session.send("go")
    there.stage.advance(5)
    there.stage.log.flush()
    version = there.stage.log.version(NAME, "turn_1")
    bad = there.stage.log.append(NAME, [Change("turn_1", version, [turns.ToolsFinished(())])])
    there.stage.log.append(NAME, [Change("turn_1", version + 1, [turns.Completed("x")])])
    found = there.session.history("turn_1")
    alerts = Monitor(there.stage.log).alerts()

    assert (found.phase, [move.rune for move in found.moves]) == ("streaming", ["turn.started"])
    assert found.invalid is not None
    assert found.invalid.event_id == bad.first
    assert "streaming does not allow turn.tools_finished" in found.invalid.reason
    assert [kind for _, kind in found.invalid.led][:2] == ["turn.started", "model.called"]
    assert found.invalid.led[-1] == (bad.first, "turn.tools_finished")
    assert ("invalid", "turn_1", bad.first) in [(at.rule, at.entity, at.event_id) for at in alerts]


def test_what_others_decide_meanwhile_is_no_mistake() -> None:
    """A turn may end while its session is paused, and a denial has its result behind it."""
    there = talk(obedient, pay)
    there.session.send("pay")
    there.stage.advance(10)
    there.session.pause("lunch")
    call_id = there.session.approvals()[0].call_id
    there.session.deny(call_id, reason="no", approver="user")
    there.stage.advance(10)
    histories = {name: there.session.history(name) for name in entities(there)}

    assert [each.invalid for each in histories.values() if each.invalid] == []
    assert (histories[call_id].phase, histories["session"].phase) == ("denied", "paused")
    assert histories["turn_1"].phase == "completed"


# -- all at once ---------------------------------------------------------------------------------


def test_phases_are_the_sums_of_all_histories() -> None:
    """So often come into, so much time spent, so many there: as each tells for itself."""
    there = busy()
    monitor = there.stage.runtime.monitor()
    histories = [there.session.history(name) for name in entities(there)]
    entered: dict[tuple[str, str], int] = {}
    spent: dict[tuple[str, str], float] = {}
    here: dict[tuple[str, str], int] = {}
    for each in histories:
        first = each.moves[0].origin if each.moves else each.phase
        ways = [first, *(move.to for move in each.moves if move.to != move.origin)]
        for phase in ways:
            entered[each.lifecycle, phase] = entered.get((each.lifecycle, phase), 0) + 1
        for phase, seconds in each.seconds.items():
            spent[each.lifecycle, phase] = spent.get((each.lifecycle, phase), 0) + seconds
        here[each.lifecycle, each.phase] = here.get((each.lifecycle, each.phase), 0) + 1
    found = {(each.lifecycle, each.phase): each for each in monitor.phases()}

    assert {key: each.entered for key, each in found.items()} == entered
    assert {key: each.here for key, each in found.items() if each.here} == here
    assert {key: each.seconds for key, each in found.items() if each.seconds} == pytest.approx(
        {key: seconds for key, seconds in spent.items() if seconds}
    )


def test_rates_are_of_the_time_that_was_looked_at() -> None:
    """Three turns in two hours are one and a half an hour."""
    there = talk(obedient)
    for _ in range(3):
        there.session.send("hi").result(10)
    there.stage.advance(7_200)
    rates = {(at.lifecycle, at.phase): at.per_hour for at in there.stage.runtime.monitor().phases()}

    assert rates["turn", "completed"] == pytest.approx(1.5, rel=0.01)


def test_a_monitor_that_is_asked_again_and_again_tells_the_same_as_a_new_one() -> None:
    """It reads only what is new, and loses nothing on the way."""
    there = talk(obedient, pay, retries=0)
    monitor = there.stage.runtime.monitor()
    for word in ("pay", "fail", "3", "fail"):
        there.session.send(word)
        there.stage.advance(600)
        there.stage.log.flush()
        again = there.stage.runtime.monitor()

        assert monitor.phases() == again.phases()
        assert monitor.alerts() == again.alerts()


def test_one_session_can_be_looked_at_alone() -> None:
    """What others do is not counted."""
    there = busy()
    there.stage.runtime.create_session(AgentSpec(role="other", model="demo"))
    there.stage.advance(1)
    alone = Monitor(there.stage.log, conversation=NAME, now=there.stage.clock.now)
    sessions = [
        sum(each.here for each in monitor.phases() if each.lifecycle == "session")
        for monitor in (alone, there.stage.runtime.monitor())
    ]

    assert sessions == [1, 2]


def test_times_that_an_app_is_given_are_seconds() -> None:
    """In a history and its moves, in a listed session, in an approval and in an alert."""
    there = busy()
    there.stage.log.flush()
    found, now = there.session.history(), there.stage.clock.now() / SECOND
    [listed] = sessions(there.stage.log)
    alert = there.stage.runtime.monitor(Rules(stuck={"tool.awaiting_approval": 1})).alerts()[0]
    times = [found.began, found.seen, found.moves[0].time, listed.last_time, alert.since]

    assert times == pytest.approx([now] * len(times), abs=200)
    assert there.session.approvals() == [*listed.approvals]
    assert listed.approvals[0].deadline == pytest.approx(now + 500, abs=200)
