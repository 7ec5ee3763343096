"""Rules about agents that ask others in a session that begins no turns: they end all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.invariants import violations
from actors.model.providers.scripted import Scripted, call, pause
from runefold.agents import AgentTool
from runefold.spec import AgentSpec, Budget
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

ASK: Final = AgentTool("ask", AgentSpec(role="expert", model="expert"), "Ask an expert.")


def asking(request: Request) -> Reply:
    """Think, then ask as often as one is told to; tell what came of it."""
    results = [f"{each.status}: {each.text}" for each in request.messages if each.role == "tool"]
    if results:
        return " | ".join(results)
    times = int(request.messages[-1].text)
    return ["Hm. ", pause(10), *[call("ask", question=f"{n}?") for n in range(times)]]


def team(**budget: int) -> Talk:
    """Return a conversation in which an agent can ask another."""
    expert = Scripted(lambda _: "Because.")
    return talk(asking, ASK, others={"expert": expert}, budget=Budget(**budget))


def problems(there: Talk) -> list[str]:
    """Return what is wrong with the log."""
    there.stage.log.flush()
    return [each.message for each in violations(there.session.runes(), at_rest=True)]


def test_a_turn_that_asks_somebody_during_a_pause_completes() -> None:
    """A pause lets it finish and begins no other: so it is told that nobody answers now."""
    there = team()
    turn = there.session.send("1")
    there.until("turn.assistant_delta")
    there.session.pause("lunch")
    result = turn.result(100)
    there.session.resume()

    assert result.status == "completed"
    assert "expert could not be asked: the session is paused" in result.output
    assert there.kinds().count("turn.started") == 1
    assert problems(there) == []


def test_a_turn_whose_last_call_suspends_its_session_ends() -> None:
    """Its other calls do not wait for answers that nobody gives before somebody has seen to it."""
    there = team(sub_calls=1)
    result = there.session.send("2").result(100)
    spent = there.session.state.phase.value
    there.session.replenish(agent=there.session.state.root, sub_calls=5)

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert spent == "suspended"
    assert there.session.state.waiting == ()
    assert problems(there) == []
