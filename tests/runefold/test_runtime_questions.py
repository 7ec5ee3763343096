"""What becomes of questions that wait for a busy expert when nobody waits for their answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from actors.model.providers.scripted import Scripted, call
from runefold.agents import AgentTool
from runefold.spec import AgentSpec, Budget
from tests.runefold.experts import LOOKED, Expert, begun, look_up, problems, spawned
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

SECOND = 10**9


def crowd(request: Request) -> Reply:
    """Ask all questions of a message at once; then repeat the answers."""
    answers: list[str] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        answers.insert(0, f"{message.status}: {message.text}")
    if answers:
        return [" | ".join(answers)]
    questions = request.messages[-1].text.split(", ")
    return [call("ask_expert", question=question) for question in questions]


def team(timeout: float = 3_600.0) -> Talk:
    """Return a conversation with an agent that asks, and an expert who is busy for 30 seconds."""
    spec = AgentSpec(role="expert", model="expert", tools=["look_up"])
    asks = AgentTool("ask_expert", spec, "Ask an expert.", timeout=timeout)
    others = {"expert": Expert()}
    there = talk(Strict(crowd), asks, look_up, others=others, tools=["ask_expert"])
    there.session.send("earth").result(100)
    there.session.send("when?", to=spawned(there)[1].agent_id)
    LOOKED.clear()
    return there


def inputs(there: Talk) -> list[str]:
    """Return what turns began with since the expert is busy."""
    return [each.input for each in begun(there)][3:]


def after(there: Talk, seconds: int, do: Callable[[], Any]) -> None:
    """Have something done later."""
    there.stage.clock.at(there.stage.clock.now() + seconds * SECOND, do)


def test_all_of_them_are_answered_if_nothing_comes_between() -> None:
    """One after the other: an agent has one turn at a time."""
    there = team()
    result = there.session.send("sun, moon").result(100)

    assert result.output.count("success") == 2
    assert sorted(LOOKED) == ["moon", "sun"]
    assert problems(there) == []


def test_an_interrupt_takes_them_back() -> None:
    """Nothing of what was stopped begins any more, and no tool of it runs."""
    there = team()
    turn = there.session.send("sun, moon")
    after(there, 3, lambda: there.session.interrupt("stop!"))
    result = turn.result(100)
    there.stage.advance(100)

    assert (result.status, result.reason) == ("interrupted", "stop!")
    assert inputs(there) == ["sun, moon"]
    assert LOOKED == []
    assert "session.input_refused" in there.kinds()
    assert problems(there) == []


def test_one_that_steers_need_not_wait_for_them() -> None:
    """What the turn before it had asked, and nobody has taken up, is not asked any more."""
    there = team()
    there.session.send("sun, moon")
    after(there, 3, lambda: there.session.send("star", mode="steer", message_id="steers"))
    there.stage.advance(100)

    assert inputs(there) == ["sun, moon", "star", "star"]
    assert LOOKED == ["star"]
    assert problems(there) == []


def test_whoever_is_killed_asks_nothing_more() -> None:
    """Its turn is stopped, and so is what it has asked."""
    there = team()
    there.session.send("sun, moon")
    after(there, 3, lambda: there.session.terminate(spawned(there)[0].agent_id, force=True))
    there.stage.advance(100)

    assert inputs(there) == ["sun, moon"]
    assert LOOKED == []
    assert problems(there) == []


def test_one_that_was_not_answered_in_time_is_not_asked_any_more() -> None:
    """Whoever asked has been told that it took too long."""
    there = team(timeout=5)
    result = there.session.send("sun, moon").result(100)
    there.stage.advance(100)

    assert result.output.count("timeout") == 2
    assert inputs(there) == ["sun, moon"]
    assert LOOKED == []
    assert problems(there) == []


def test_one_that_has_spent_its_budget_is_not_begun_anew() -> None:
    """Another in its place would have all of it once more, and so would the next."""
    spec = AgentSpec(
        role="expert",
        model="expert",
        budget=Budget(tokens=30),
        max_output_tokens=20,
        on_exhausted="terminate",
    )
    asks = AgentTool("ask_expert", spec, "Ask an expert.")
    there = talk(
        Strict(crowd), asks, others={"expert": Scripted(["Well."] * 9)}, tools=["ask_expert"]
    )
    outputs = [there.session.send("why?").result(100).output for _ in range(9)]

    assert len(spawned(there)) == 2
    assert outputs[0] == "success: Well."
    assert "expert has spent its budget, and answers no more" in outputs[-1]
    assert problems(there) == []


def test_wherever_it_crashes_what_was_taken_back_is_not_asked() -> None:
    """Between any two appends after the interrupt: none of it runs any more, or all of it."""
    found = set()
    for cut in range(1, 7):
        there = team()
        there.session.send("sun, moon", message_id="asks")

        def interrupt(there: Talk = there, cut: int = cut) -> None:
            there.stage.log.cut_at = there.stage.log.appends + cut
            there.session.interrupt("stop!")

        after(there, 3, interrupt)
        there.stage.run_until(partial(getattr, there.stage.log, "is_cut"))
        session = there.reopen()
        taken_back = "session.input_refused" in there.kinds()
        result = session.turn("asks").result(200)
        there.stage.advance(100)
        found.add((taken_back, result.status, len(LOOKED)))

        assert problems(there) == []
    assert found == {(False, "completed", 2), (True, "interrupted", 0)}
