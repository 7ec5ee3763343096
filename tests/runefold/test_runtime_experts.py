"""Rules about an agent as a tool: asked by another, in the same conversation, across crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.session.messages import Send
from actors.tool.context import Call
from runefold.agents import AgentTool, HandOver, waiting
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.experts import LOOKED, begun, problems, spawned, team
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.sessions import Session


def test_the_answer_of_the_one_is_the_result_of_the_other() -> None:
    """What the expert says at its end, with tools of its own, is what the other model is told."""
    there, _ = team()
    result = there.session.send("sun").result(100)

    assert result.output == "success: I found: sun is a word"
    assert LOOKED == ["sun"]
    assert problems(there) == []


def test_the_expert_comes_once_and_remembers() -> None:
    """It joins as a child of whoever asks first; a second question is its second turn."""
    there, wise = team()
    there.session.send("sun, moon").result(100)
    there.session.send("star").result(100)
    root, child = spawned(there)
    questions = [each for each in begun(there) if each.agent_id == child.agent_id]

    assert child.parent_id == root.agent_id
    assert [each.input for each in questions] == ["sun", "moon", "star"]
    assert wise.shown[-1] == ["sun", "moon", "star"]
    assert there.model.requests[-1].messages[0].text == "sun, moon"
    assert [member.role for member in spawned(there)] == ["helper", "expert"]


def test_each_question_is_a_message_under_the_id_of_its_call() -> None:
    """So that asking again after a crash finds the same turn."""
    there, _ = team()
    there.session.send("sun, moon").result(100)
    calls = [rune.call_id for rune in there.runes("tool.call") if rune.tool_name == "ask_expert"]  # type: ignore[attr-defined]  # by its kind

    assert [each.message_id for each in begun(there)][1:] == calls


def test_an_expert_that_fails_is_an_error_that_the_model_can_read() -> None:
    """Its turn ends in an error; the one that asked goes on with that."""
    there, _ = team()
    result = there.session.send("why?, sun").result(100)
    first, second = result.output.split(" | ")

    assert result.status == "completed"
    assert "expert failed: nobody knows" in first
    assert second == "success: I found: sun is a word"
    assert problems(there) == []


def test_an_expert_that_takes_too_long_is_not_waited_for() -> None:
    """The call has a time limit of its own; the expert's turn goes on and ends by itself."""
    there, _ = team(timeout=5)
    result = there.session.send("when?").result(100)
    there.stage.advance(60)

    assert result.output.startswith("timeout: ")
    assert [each.agent_id for each in begun(there)][-1] == spawned(there)[1].agent_id
    assert there.kinds().count("turn.completed") == 2
    assert problems(there) == []


def test_an_expert_that_is_killed_meanwhile_is_an_error_and_another_takes_its_place() -> None:
    """Its turn is interrupted, which is told; the next question is for a new one."""
    there, _ = team()
    turn = there.session.send("when?, sun")

    def kill() -> None:
        there.session.terminate(spawned(there)[1].agent_id, force=True)

    there.stage.clock.at(there.stage.clock.now() + 3 * 10**9, kill)
    result = turn.result(100)

    assert "expert was interrupted: agent_terminated" in result.output
    assert result.output.endswith("success: I found: sun is a word")
    assert len({each.agent_id for each in spawned(there)}) == 3
    assert problems(there) == []


def test_an_interrupt_stops_both() -> None:
    """Who asks and who is asked are turns of one session."""
    there, _ = team()
    turn = there.session.send("when?")
    stopped: list[int] = []
    there.stage.clock.at(
        there.stage.clock.now() + 3 * 10**9, lambda: stopped.append(there.session.interrupt())
    )
    result = turn.result(100)

    assert stopped == [2]
    assert (result.status, result.reason) == ("interrupted", "interrupt")
    assert there.kinds().count("turn.interrupted") == 2
    assert problems(there) == []


def test_an_agent_that_could_not_be_asked_is_refused_with_whoever_would_ask_it() -> None:
    """Its model or its tools are missing, or those of one that it would ask in turn."""
    deep = AgentTool("ask_deep", AgentSpec(role="deep", model="demo", tools=["dig"]), "Ask.")
    wise = AgentTool("ask_wise", AgentSpec(role="wise", model="big", tools=["ask_deep"]), "Ask.")
    loop = AgentTool("ask_me", AgentSpec(role="me", model="demo", tools=["ask_me"]), "Ask.")
    runtime = talk(["hi"], deep, wise, loop, tools=["ask_me"]).stage.runtime
    spec: Any = "wise"

    with pytest.raises(Refused, match=r"^ask_wise asks wise, and there is no model 'big': pass"):
        runtime.check(AgentSpec(role="r", model="demo", tools=["ask_wise"]))
    with pytest.raises(Refused, match=r"^ask_deep asks deep, and there is no tool 'dig': pass"):
        runtime.check(AgentSpec(role="r", model="demo", tools=["ask_me", "ask_deep"]))
    with pytest.raises(Refused, match="tool ask: an agent is described by an AgentSpec, not by a"):
        AgentTool("ask", spec, "Ask.")


def test_an_agent_that_cannot_begin_any_more_is_an_error_that_says_why() -> None:
    """Its model was there when the conversation began, and is not registered now."""
    there, _ = team()
    there.reopen(providers={"demo": there.model})
    result = there.session.send("sun").result(100)

    assert result.status == "completed"
    assert "expert could not be asked: " in result.output
    assert "no model" in result.output
    assert problems(there) == []


def test_a_question_does_not_outlast_a_pause() -> None:
    """One that waits behind a busy expert is refused: whoever asked it comes to its end."""
    there, _ = team()
    there.session.send("sun").result(100)
    busy = there.session.send("when?", to=spawned(there)[1].agent_id)
    asks = there.session.send("moon")
    there.stage.clock.at(there.stage.clock.now() + 3 * 10**9, there.session.pause)
    ended = asks.result(10)

    assert ended.status == "completed"
    assert "error: expert could not be asked: the session is paused" in ended.output
    assert busy.result(100).output == "Let me think. Now."
    there.session.resume()
    assert there.session.send("moon").result(100).output == "success: I found: moon is a word"
    assert problems(there) == []


def _asked_in_a_pause(there: Talk, cut: int) -> None:
    """Pause while a question waits behind a busy expert; the power fails `cut` appends later."""
    there.session.send("sun").result(100)
    there.session.send("when?", to=spawned(there)[1].agent_id, message_id="busy")
    there.session.send("moon", message_id="asks")
    log, clock = there.stage.log, there.stage.clock

    def pause() -> None:
        log.cut_at = log.appends + cut
        there.session.pause()

    clock.at(clock.now() + 3 * 10**9, pause)
    there.stage.run_until(lambda: log.is_cut or "session.input_refused" in there.kinds())


def test_wherever_it_crashes_no_question_outlasts_a_pause() -> None:
    """Paused or not by then, whoever asks comes to its end, and nobody has to go on for that."""
    phases = set()
    for cut in range(1, 12):
        there, _ = team()
        _asked_in_a_pause(there, cut)
        session = there.reopen()
        phases.add(session.state.phase.value)
        asks, busy = session.turn("asks"), session.turn("busy")

        assert asks.result(100).status == "completed"
        assert busy.result(100).output == "Let me think. Now."
        assert problems(there) == []
    assert phases == {"active", "paused"}


def test_a_tool_that_is_registered_nowhere_says_so() -> None:
    """Run by hand it has nobody to ask."""
    asks = AgentTool("ask_expert", AgentSpec(role="expert", model="expert"), "Ask.")
    outcome = asks.run(Call(call_id="call_1", arguments={"question": "why?"}))

    assert outcome.status == "error"
    assert "pass it in tools=[...]" in outcome.error


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_wherever_it_crashes_each_question_is_asked_once(seed: int | None, *, after: bool) -> None:
    """Between any two appends: the same answer, one turn for each question, and one expert."""
    appends = _undisturbed(seed)
    for cut in range(1, appends + 1):
        there, _ = team(seed=seed)
        there.stage.log.cut_at = there.stage.log.appends + cut
        there.stage.log.cut_after = after
        _attempted(there)
        session = there.reopen()
        result = session.send("sun, moon", message_id="m1").result(100)
        questions = [each.input for each in begun(there)]

        assert result.output == "success: I found: sun is a word | success: I found: moon is a word"
        assert questions == ["sun, moon", "sun", "moon"], cut
        assert len(spawned(there)) == 2
        assert problems(there) == []


def _undisturbed(seed: int | None) -> int:
    there, _ = team(seed=seed)
    before = there.stage.log.appends
    there.session.send("sun, moon", message_id="m1").result(100)
    return there.stage.log.appends - before


def _attempted(there: Talk) -> None:
    """Send the message, and go on until the power fails."""
    session: Session = there.session
    running = there.stage.runtime._core.tree.wake(session.id)
    running.session.tell(Send("m1", "sun, moon", own_id=True))
    there.stage.run_until(lambda: there.stage.log.is_cut)
    assert there.stage.log.is_cut


def stubborn(request: Request) -> Reply:
    """Ask the only one there is to ask what is asked; then say what they said."""
    last = request.messages[-1]
    if last.role == "tool":
        return [f"{last.status}: {last.text}"]
    return [call(request.tools[0]["name"], question=last.text)]


def circle() -> Talk:
    """Return a conversation in which the one in front asks a, a asks b, and b asks a."""
    ask_a = AgentTool("ask_a", AgentSpec(role="a", model="demo", tools=["ask_b"]), "Ask a.")
    ask_b = AgentTool("ask_b", AgentSpec(role="b", model="demo", tools=["ask_a"]), "Ask b.")
    return talk(Strict(stubborn), ask_a, ask_b, tools=["ask_a"])


NEVER: Final = "that agent is waiting for you; answer without asking it"


def test_agents_that_would_wait_for_each_other_are_told_so() -> None:
    """An agent that asks whoever waits for its own answer is refused at once."""
    there = circle()
    ended = there.session.send("Who are you?").result(10)

    assert ended.output.startswith("success: success: error:")
    assert NEVER in ended.output
    assert [each.role for each in spawned(there)] == ["helper", "a", "b"]
    assert problems(there) == []


def test_an_agent_that_asks_itself_is_told_so() -> None:
    """It could never answer."""
    asks = AgentTool("ask_me", AgentSpec(role="a", model="demo", tools=["ask_me"]), "Ask me.")
    there = talk(Strict(stubborn), asks, tools=["ask_me"])
    ended = there.session.send("Who are you?").result(10)

    assert ended.output.startswith("success: error:")
    assert NEVER in ended.output


def test_after_a_crash_it_is_still_known_who_waits_for_whom() -> None:
    """Between any two appends: whoever had asked before it waits as before."""
    there = circle()
    before = there.stage.log.appends
    there.session.send("sun, moon", message_id="m1").result(10)
    for cut in range(1, there.stage.log.appends - before + 1):
        there = circle()
        there.stage.log.cut_at = there.stage.log.appends + cut
        _attempted(there)
        ended = there.reopen().send("sun, moon", message_id="m1").result(10)

        assert NEVER in ended.output, cut
        assert [each.role for each in spawned(there)] == ["helper", "a", "b"]


def test_one_that_was_answered_can_be_asked_again() -> None:
    """Only whoever still waits is in the way."""
    there, _ = team()
    for _ in range(2):
        assert there.session.send("what?, when?").result(10).status == "completed"
    tree = there.stage.runtime._core.tree

    assert not waiting(tree)._for


# -- handing over ------------------------------------------------------------------------------


def handing(request: Request) -> Reply:
    """Hand over to whoever the user names, and say how that came out; others say who they are."""
    if not request.tools:
        return ["It is me now."]
    last = request.messages[-1]
    if last.role == "tool":
        return [f"{last.status}: {last.text}"]
    return [call("hand_over", to=last.text)]


def test_a_model_hands_over_by_name() -> None:
    """It knows nobody's id: the other one answers the message at hand, and those that follow."""
    there = talk(Strict(handing), HandOver(), tools=["hand_over"])
    there.session.spawn(AgentSpec(role="clerk", model="demo"))

    assert there.session.send("clerk").result(10).output == "It is me now."
    assert there.session.send("Who is it?").result(10).output == "It is me now."
    assert problems(there) == []


def test_a_name_that_nobody_has_is_told_with_those_there_are() -> None:
    """So that the model can say it better. No two have the same name, and an id is right too."""
    there = talk(Strict(handing), HandOver(), tools=["hand_over"])
    one, other = (there.session.spawn(AgentSpec(role="clerk", model="demo")) for _ in range(2))
    nobody = there.session.send("judge").result(10).output
    itself = there.session.send("helper").result(10).output
    exact = there.session.send(other).result(10).output

    assert "error: there is no agent judge; there are: helper, clerk, clerk-2" in nobody
    assert "error: helper is you: answer, or hand over to another agent" in itself
    assert exact == "It is me now."
    assert there.session.state.default_agent == other != one


def test_what_experts_say_can_be_followed_by_their_names() -> None:
    """With children, the turns of agents that are asked are there too, and what those ask."""
    deep = AgentTool("ask_sage", AgentSpec(role="sage", model="sage"), "Ask a sage.")
    wise = AgentSpec(role="expert", model="wise", tools=["ask_sage"])
    there = talk(
        Scripted([[call("ask_expert", question="Why?")], "So."]),
        AgentTool("ask_expert", wise, "Ask an expert."),
        deep,
        others={
            "wise": Scripted([[call("ask_sage", question="Really?")], "Thus."]),
            "sage": Scripted(["Indeed."]),
        },
        tools=["ask_expert"],
    )
    other = there.session.spawn(AgentSpec(role="other", model="sage"))
    turn = there.session.send("Hm?")
    turn.result(10)
    there.session.send("And you?", to=other).result(10)
    said = turn.runes(kinds={"turn.completed"}, children=True)
    alone = turn.runes(kinds={"turn.completed"})

    assert [said.name_of(rune) for rune in said] == ["sage", "expert", "helper"]
    assert [alone.name_of(rune) for rune in alone] == ["helper"]
