"""Rules about ending in order: what runs may end, what waits is kept, and it is no mishap."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.catalogue import CODEC
from actors.errors import Dead
from actors.model.providers.scripted import Scripted, call, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from actors.units import SECOND
from runefold import draining
from runefold.agents import AgentTool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.errors import Closed
from runelog.rune import Envelope
from runelog.store import Runelog
from supervisors import recovery
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.sessions import Session


LONG = 30.0
"""Seconds after which a test is lost; nothing that works waits for them."""


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay, if a human agrees."""
    return f"paid {cents}"


def obedient(request: Request) -> Reply:
    """Think as long as one is told to, pay or ask if one is told to, and say what came of it."""
    last = request.messages[-1]
    if last.role == "tool":
        return ["It is ", last.text]
    match last.text.split():
        case ["pay"]:
            return [call("pay", cents=5)]
        case ["ask", *words]:
            return [pause(1), call("ask_expert", question=" ".join(words))]
        case ["twice"]:
            return [call("ask_expert", question="pay"), call("ask_expert", question="pay")]
        case [seconds]:
            return ["so ", pause(float(seconds)), "so"]
        case _:
            return ["?"]


EXPERT = AgentSpec(role="expert", model="demo", tools=["pay"])


def conversation(**agent: Any) -> Talk:  # noqa: ANN401 -- those of AgentSpec
    """Begin a conversation with such an agent, who has an expert to ask."""
    return talk(Scripted(obedient), pay, AgentTool("ask_expert", EXPERT, "Ask."), **agent)


def closed(there: Talk, **how: Any) -> float:  # noqa: ANN401 -- those of close
    """Close the runtime; return how many seconds that took."""
    before = there.stage.clock.now()
    there.stage.runtime.close(**how)
    return (there.stage.clock.now() - before) / SECOND


def opened(there: Talk) -> Session:
    """Open it again in another process, ten minutes later."""
    # What is on disk is there, whoever has closed it.
    there.stage.log._closed = False
    there.stage.clock.move_to(there.stage.clock.now() + 600 * SECOND)
    there.session = there.stage.reopen().session(NAME)
    return there.session


def ends(there: Talk) -> list[str]:
    """Return how turns ended so far, as the log has it."""
    there.stage.log._closed = False
    return [kind for kind in there.kinds() if kind in {"turn.completed", "turn.interrupted"}]


def test_what_runs_ends_and_what_waits_is_kept() -> None:
    """The running turn comes to its end; the next message stays one, and is taken up later."""
    there = conversation()
    there.session.send("5", message_id="m1")
    there.session.send("7", message_id="m2")
    there.stage.advance(1)
    took = closed(there, drain=True, timeout=30)
    ended = ends(there)
    started = there.kinds().count("turn.started")
    session = opened(there)

    assert took == 4
    assert (started, ended) == (1, ["turn.completed"])
    assert session.send("5", message_id="m1").result(60).output == "so so"
    assert session.send("7", message_id="m2").result(60).output == "so so"


def test_what_takes_too_long_is_interrupted_with_its_words() -> None:
    """At the time-out and not before; what waited behind it still waits."""
    there = conversation()
    there.session.send("500", message_id="m1")
    there.session.send("1", message_id="m2")
    there.stage.advance(1)
    took = closed(there, drain=True, timeout=10)
    started = ends(there), there.kinds().count("turn.started")
    session = opened(there)
    first = session.send("500", message_id="m1").result(10)

    assert took == 10
    assert started == (["turn.interrupted"], 1)
    assert (first.reason, first.output) == ("shutdown", "so ")
    assert session.send("1", message_id="m2").result(60).status == "completed"


def test_a_turn_that_waits_for_a_human_goes_on_waiting() -> None:
    """It is neither waited for nor interrupted, and answered in the next process."""
    there = conversation()
    there.session.send("pay", message_id="m1")
    there.stage.run()
    [before] = there.session.approvals()
    took = closed(there, drain=True, timeout=10)
    ended = ends(there)
    session = opened(there)
    there.stage.run()
    [after] = session.approvals()
    session.approve(after.call_id, approver="ada")

    assert (took, ended) == (0, [])
    assert before == after
    assert session.send("pay", message_id="m1").result(10).output == "It is paid 5"
    assert session.state.unclean == 0


def test_what_still_runs_beside_a_human_is_waited_for() -> None:
    """A turn of another agent ends; the one that waits for a human is left as it is."""
    there = conversation()
    kid = there.session.spawn(AgentSpec(role="kid", model="demo"))
    there.session.send("pay", message_id="m1")
    there.session.send("500", message_id="m2", to=kid)
    there.stage.advance(1)
    took = closed(there, drain=True, timeout=10)
    ended = ends(there)
    session = opened(there)
    there.stage.run()

    assert (took, ended) == (10, ["turn.interrupted"])
    assert session.send("500", message_id="m2").result(10).reason == "shutdown"
    assert len(session.approvals()) == 1


def test_agents_that_are_asked_meanwhile_still_answer() -> None:
    """To ask another agent is a part of the turn that runs, so that it may begin."""
    there = conversation()
    there.session.send("ask 3", message_id="m1")
    there.stage.run()
    took = closed(there, drain=True, timeout=30)
    ended = ends(there)
    session = opened(there)

    assert (took, ended) == (4, ["turn.completed"] * 2)
    assert session.send("ask 3", message_id="m1").result(10).output == "It is so so"


@pytest.mark.parametrize(("word", "waiting"), [("ask pay", 1), ("twice", 2)])
def test_who_asked_somebody_that_waits_for_a_human_waits_too(
    tmp_path: Path, word: str, waiting: int
) -> None:
    """Nobody works: one waits for the other, be it in its queue, and that for a human."""
    options: dict[str, Any] = {
        "tools": [pay, AgentTool("ask_expert", EXPERT, "Ask.")],
        "providers": {"demo": Scripted(obedient)},
    }
    spec = AgentSpec(role="boss", model="demo", tools=["ask_expert"])
    with Runtime.open(tmp_path, **options) as runtime:
        session = runtime.create_session(spec, conversation_id=NAME)
        session.send(word, message_id="m1")
        accepted = session.follow(kinds={"session.input_accepted"})
        for _ in range(1 + waiting):
            next(accepted)
        next(session.follow(kinds={"tool.approval_requested"}))
        runtime.close(drain=True, timeout=LONG)
    with Runtime.open(tmp_path, **options) as runtime:
        session = runtime.session(NAME)
        ended = [each.kind for each in session.runes() if each.kind.startswith("turn.inter")]
        asked = session.follow(kinds={"tool.approval_requested"})
        for _ in range(waiting):
            found = next(asked)
            assert isinstance(found, Envelope)
            session.approve(found.payload.call_id, approver="ada")  # type: ignore[attr-defined]  # by its kind
        result = session.send(word, message_id="m1").result(LONG)

    assert ended == []
    assert result.status == "completed"
    assert "paid 5" in result.output


@pytest.mark.parametrize("last", ["first", "pay"])
def test_a_later_one_of_calls_that_go_one_by_one_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """It was on hold when it was asked for and runs now: its turn works, whoever is next."""
    runs, looked = threading.Event(), threading.Event()

    @tool
    def first(cents: int = 0) -> str:
        """Be done at once."""
        return f"one {cents}"

    @tool
    def second() -> str:
        """Be done once it was seen that this runs."""
        runs.set()
        return "two" if looked.wait(LONG) else "?"

    def at_work(*about: Any) -> list[str]:  # noqa: ANN401 -- as the real one
        found = recovery.at_work(*about)
        looked.set()
        return found

    monkeypatch.setattr(draining, "at_work", at_work)
    model = Scripted([[call("first"), call("second"), call(last, cents=5)], ["Done."]])
    spec = AgentSpec(role="boss", model="demo", tools=["first", "second", "pay"])
    runtime = Runtime.open(tmp_path, tools=[first, second, pay], providers={"demo": model})
    runtime.create_session(spec, conversation_id=NAME).send("Go.")
    runs.wait(LONG)
    runtime.close(drain=True, timeout=LONG)
    with Runelog.open(tmp_path, CODEC, readonly=True) as log:
        kinds = [each.kind for each in log.read(NAME)]

    # One that has come to wait for a human is left as it is.
    asks = last == "pay"
    assert kinds.count("tool.result") == 3 - asks
    assert kinds.count("tool.approval_requested") == asks
    assert kinds.count("turn.completed") == 1 - asks
    assert "turn.interrupted" not in kinds


def test_messages_that_come_meanwhile_are_kept() -> None:
    """Until the log is let go of they are accepted, and answered by whoever opens it next."""
    there = conversation()
    kid = there.session.spawn(AgentSpec(role="kid", model="demo"))
    there.session.send("5", message_id="m1")
    there.stage.advance(1)
    late: list[object] = []
    session = there.session
    there.stage.clock.at(
        there.stage.clock.now() + SECOND,
        lambda: late.append(session.send("1", message_id="m2", to=kid)),
    )
    closed(there, drain=True, timeout=30)
    started = ends(there), there.kinds().count("turn.started")

    assert len(late) == 1
    assert started == (["turn.completed"], 1)
    assert opened(there).send("1", message_id="m2").result(10).status == "completed"


def test_after_the_end_nothing_is_accepted() -> None:
    """A runtime that was closed says so."""
    there = conversation()
    closed(there, drain=True)

    with pytest.raises(Closed):
        there.session.send("1")


def test_several_conversations_share_the_time() -> None:
    """The time-out is for all of them, not for each."""
    there = conversation()
    spec = AgentSpec(role="other", model="demo")
    for each in (there.session, there.stage.runtime.create_session(spec)):
        each.send("500")
    there.stage.advance(1)

    assert closed(there, drain=True, timeout=10) == 10


# -- an end in order is no mishap ------------------------------------------------------------------


def test_to_end_in_order_in_the_middle_of_a_stream_is_no_mishap() -> None:
    """However often: the model is asked again, and the session is never suspended for it."""
    there = conversation(retries=9, turn_timeout=9_999)
    there.session.send("50", message_id="m1")
    for _ in range(6):
        there.stage.advance(5)
        closed(there)
        opened(there)
    there.stage.advance(5)
    state = there.session.state

    assert (state.phase, state.unclean) == (Phase.ACTIVE, 0)
    assert there.kinds().count("session.rested") == 6
    assert there.kinds().count("session.reopened") == 6
    assert there.session.send("50", message_id="m1").result(600).output == "so so"


def test_a_crash_after_an_end_in_order_counts() -> None:
    """What was ended in order once is not forgiven for ever: three crashes suspend it."""
    there = conversation(retries=9)
    there.session.send("50", message_id="m1")
    there.stage.advance(5)
    closed(there)
    opened(there)
    counted = []
    for _ in range(3):
        there.stage.advance(5)
        there.reopen()
        counted.append(there.session.state.unclean)

    assert counted == [1, 2, 3]
    assert there.session.state.phase is Phase.SUSPENDED


def test_who_has_nothing_to_do_is_left_alone_at_the_end() -> None:
    """Nothing is written for a session that rests anyway."""
    there = conversation()
    there.session.send("0").result(10)
    closed(there)
    there.stage.log._closed = False

    assert "session.rested" not in there.kinds()


class _Silent:
    """A tree whose conversations do not answer any more."""

    def __init__(self, there: Talk) -> None:
        """Look like this one."""
        tree = there.stage.runtime._core.tree
        self.services, self.log, self.kinds = tree.services, tree.log, tree.kinds

    def awake(self) -> list[str]:
        """Name one all the same."""
        return [NAME]

    def ask(self, *_asked: object) -> None:
        """Give no answer."""
        msg = "it is gone"
        raise Dead(msg)


def test_one_that_does_not_answer_keeps_nobody_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is passed over and the operator told; what it was doing is found at the next open."""
    there = conversation()
    there.session.send("500", message_id="m1")
    there.stage.advance(1)
    tree: Any = _Silent(there)
    draining.drain(tree, 10)
    draining.rest(tree)

    assert [vars(record)["event"] for record in caplog.records] == ["not_drained", "not_rested"]


def test_time_is_counted_until_the_end() -> None:
    """Who ends in order knows what time it is: nothing is estimated, and the pause is free."""
    there = conversation(budget=Budget(wall_seconds=1_000))
    there.session.send("20", message_id="m1")
    there.stage.advance(12.5)
    closed(there)
    session = opened(there)
    result = session.send("20", message_id="m1").result(100)
    settled = there.settled()
    walls = [rune.charged.wall for rune in settled if rune.charged.wall]

    assert result.status == "completed"
    assert not any(rune.estimated for rune in settled if rune.charged.wall)
    # Some of it is the pause before the model is asked again.
    assert 32.5 * SECOND < sum(walls) < 34 * SECOND
