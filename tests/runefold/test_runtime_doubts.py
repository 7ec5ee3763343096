"""Rules about calls that a crash has left in doubt, in whole conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened
from actors.tool.public_commands import Acknowledge
from actors.tool.runes import Acknowledged
from runefold.control.offline import OfflineCommands
from runefold.observe.session_list import sessions
from runelog.errors import Refused
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runefold.testing.stage import Stage
    from tests.runefold.talks import Talk

DAY = 24 * 3600.0


class World:
    """Counts what was done, and pulls the plug in the middle of the first call."""

    def __init__(self) -> None:
        """Begin with nothing done."""
        self.done: list[str] = []
        self.stage: Stage | None = None

    def act(self, call_id: str) -> str:
        """Do it."""
        self.done.append(call_id)
        if self.stage is not None:
            self.stage.crash()
            self.stage = None
        return "acted"

    def probe(self, call_id: str, _arguments: Mapping[str, Any]) -> Happened | None:
        """Tell whether it was done."""
        return Happened("it did") if call_id in self.done else None


def cut_short(world: World, *, gone: bool = False, **declared: Any) -> Talk:  # noqa: ANN401 -- those of `tool`
    """Return a conversation that was cut off while its tool ran, opened again, maybe without it."""

    @tool(**declared)
    def act(call_id: CallId) -> str:
        """Act."""
        return world.act(call_id)

    there = talk([["go ", call("act")], ["done"]], act)
    world.stage = there.stage
    there.session.send("go", message_id="m1")
    there.stage.run()
    there.reopen(**({"tools": []} if gone else {}))
    there.stage.run()
    return there


def finished(there: Talk) -> str:
    """Wait for the turn and return what it said in the end."""
    return there.session.send("go", message_id="m1").result(10).output


def test_what_is_idempotent_runs_again_under_the_same_id() -> None:
    """A service that honours keys sees one request."""
    world = World()
    there = cut_short(world, idempotent=True)

    assert finished(there) == "done"
    assert len(world.done) == 2
    assert len(set(world.done)) == 1
    assert there.model.results == [("success", "acted")]


def test_a_probe_finds_out_what_happened() -> None:
    """It happened, so it is not done again, and the model has the result."""
    world = World()
    there = cut_short(world, on_doubt="probe", probe=world.probe)

    assert finished(there) == "done"
    assert len(world.done) == 1
    assert there.model.results == [("success", "it did")]


@pytest.mark.parametrize(
    ("verdict", "result", "runs"),
    [
        ("happened", ("success", "I saw it"), 1),
        ("rerun", ("success", "acted"), 2),
        ("give_up", ("unknown", "given up"), 1),
    ],
)
def test_a_human_is_asked_where_the_tool_says_so(
    verdict: Any,  # noqa: ANN401 -- one of three words
    result: tuple[str, str],
    runs: int,
) -> None:
    """It happened, it is to run again, or nobody knows: it is done as they say."""
    world = World()
    there = cut_short(world, on_doubt="ask")
    waiting = there.session.approvals()[0]
    with pytest.raises(Refused, match="may have happened; answer that it is to rerun"):
        there.session.approve(waiting.call_id, approver="ada")
    there.session.answer(
        waiting.call_id,
        verdict,
        approver="ada",
        output="I saw it" if verdict == "happened" else None,
    )
    output = finished(there)
    ((status, text),) = there.model.results

    assert output == "done"
    assert (status, len(world.done)) == (result[0], runs)
    assert result[1] in text


@pytest.mark.parametrize(("verdict", "left"), [("happened", 0), ("rerun", 0), ("give_up", 1)])
def test_an_app_is_told_of_a_doubt_until_a_human_has_settled_it(
    verdict: Any,  # noqa: ANN401 -- one of three words
    left: int,
) -> None:
    """It is in doubt while a human is asked, and then only if that one does not know either."""
    world = World()
    there = cut_short(world, on_doubt="ask")
    asked = there.session.in_doubt()
    there.session.answer(world.done[0], verdict, approver="ada")
    finished(there)

    assert [(each.call_id, each.tool, each.arguments, each.is_asked) for each in asked] == [
        (world.done[0], "act", {}, True)
    ]
    assert [each.call_id for each in there.session.in_doubt()] == world.done[:left]
    assert not any(each.is_asked for each in there.session.in_doubt())


def test_a_doubt_that_nobody_settles_in_time_is_told_to_everybody() -> None:
    """The model hears that it may have happened, and the app still finds it in doubt."""
    world = World()
    there = cut_short(world, on_doubt="ask")
    there.stage.advance(DAY + 1)
    output = finished(there)
    ((status, text),) = there.model.results

    assert output == "done"
    assert (status, len(world.done)) == ("unknown", 1)
    assert "no human said in time what became of it" in text
    assert [each.call_id for each in there.session.in_doubt()] == world.done
    assert there.session.approvals() == []


def test_what_nobody_knows_is_said_to_the_model_and_to_the_app() -> None:
    """A side effect is not repeated, and not passed over either."""
    world = World()
    there = cut_short(world)
    output = finished(there)
    ((status, text),) = there.model.results

    assert output == "done"
    assert len(world.done) == 1
    assert status == "unknown"
    assert "not known whether this call took effect" in text
    assert [each.call_id for each in there.session.in_doubt()] == [world.done[0]]


def test_who_has_seen_to_a_doubt_is_on_record_and_it_leaves_the_list() -> None:
    """Its outcome stays unknown, for the model too; said again it counts once."""
    there = cut_short(World())
    finished(there)
    [call_id] = (each.call_id for each in there.runes("tool.call"))  # type: ignore[attr-defined]  # all have one
    for _ in range(2):
        there.session.acknowledge(call_id, by="ada", note="the bank has it")

    assert there.session.in_doubt() == []
    assert there.runes("tool.acknowledged") == [Acknowledged(call_id, "ada", "the bank has it")]
    assert there.session.history(call_id).phase == "unknown_result"
    with pytest.raises(Refused, match="was acknowledged by ada already"):
        there.session.acknowledge(call_id, by="bob")
    there.reopen()
    assert there.session.in_doubt() == []


def test_who_answers_a_doubt_that_stayed_unknown_is_told_to_acknowledge_it() -> None:
    """It waits for no answer any more: the refusal names what can be said of it."""
    world = World()
    there = cut_short(world)
    assert finished(there) == "done"

    with pytest.raises(Refused, match=r"acknowledge it \(session.acknowledge, runefold ackn"):
        there.session.answer(world.done[0], "give_up", approver="ada")


def test_a_doubt_can_be_seen_to_after_the_session_has_ended() -> None:
    """Its agents are gone, and the call is looked into a day later."""
    world = World()
    there = cut_short(world)
    finished(there)
    there.session.close()
    there.stage.advance(DAY)
    there.session.acknowledge(world.done[0], by="ada")

    assert there.session.in_doubt() == []
    assert there.session.state.phase == "closed"


def test_a_doubt_is_acknowledged_in_a_log_that_nobody_runs() -> None:
    """It is on record at once, and neither lists nor the next runtime have the call any more."""
    world = World()
    there = cut_short(world)
    finished(there)
    log = there.stage.log
    there.stage.crash()
    log.mend()
    listed = [doubt.call_id for each in sessions(log) for doubt in each.in_doubt]
    offline = OfflineCommands(log, clock=there.stage.clock)
    offline.do(there.session.id, Acknowledge("ann", "it is there"), world.done[0])

    assert listed == [world.done[0]]
    assert [each.in_doubt for each in sessions(log)] == [()]
    assert there.stage.reopen().session(there.session.id).in_doubt() == []
    with pytest.raises(Refused, match="was acknowledged by ann already"):
        offline.do(there.session.id, Acknowledge("bob"), world.done[0])


def test_only_what_stayed_unknown_is_acknowledged() -> None:
    """A call that waits for an answer is answered, and one that is known needs nothing."""
    world = World()
    there = cut_short(world, on_doubt="ask")
    call_id = world.done[0]
    with pytest.raises(Refused, match="nothing to acknowledge, say what became of it"):
        there.session.acknowledge(call_id, by="ada")
    there.session.answer(call_id, "happened", approver="ada", output="I saw it")
    finished(there)
    with pytest.raises(Refused, match="nothing to acknowledge, its outcome is known"):
        there.session.acknowledge(call_id, by="ada")
    with pytest.raises(Refused, match="there is no call call_no"):
        there.session.acknowledge("call_no", by="ada")
    with pytest.raises(Refused, match="say who has seen to it"):
        there.session.acknowledge(call_id, by="")

    assert there.runes("tool.acknowledged") == []


def test_a_call_that_began_and_whose_tool_is_gone_is_unknown() -> None:
    """Opening succeeds, and the turn goes on without the tool, however it was declared."""
    there = cut_short(World(), gone=True, idempotent=True)
    output = finished(there)

    assert output == "done"
    assert [status for status, _ in there.model.results] == ["unknown"]
