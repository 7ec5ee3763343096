"""Rules about several agents in one session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import Scripted, call, pause
from actors.session.lifecycle import Phase
from actors.tool.runes import Result
from runefold.agents import AgentTool, HandOver
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from actors.model.providers.scripted import Reply

SLOW = Strict([["one ", pause(5), "two"]])
QUICK = Strict(["quick"])


def team() -> tuple[Talk, str, str]:
    """Return a session with a slow root, a quick child and a slow grandchild."""
    there = talk(SLOW, stage={"seed": 7})
    there.reopen(providers={"demo": SLOW, "quick": QUICK})
    child = there.session.spawn(AgentSpec(role="child", model="quick"))
    grandchild = there.session.spawn(AgentSpec(role="grandchild", model="demo"), parent=child)
    return there, child, grandchild


def living(there: Talk) -> list[str]:
    """Return the agents that live, as the session knows them."""
    there.stage.run()
    return [member.agent_id for member in there.session.state.members]


def test_two_agents_of_a_session_run_at_once() -> None:
    """Each has one turn at a time, and whoever waits for one gets that one's answer."""
    there, child, grandchild = team()
    slow, other = there.session.send("a"), there.session.send("b", to=grandchild)
    there.stage.run()
    running = {turn.agent_id for turn in there.session.state.running}
    quick = there.session.send("c", to=child)

    assert running == {there.session.state.root, grandchild}
    assert quick.result(1).output == "quick"
    assert [turn.result(10).output for turn in (other, slow)] == ["one two", "one two"]


def test_each_agent_is_shown_its_own_turns_only() -> None:
    """What others were told is not in its history."""
    there, child, _ = team()
    there.session.send("for the root").result(10)
    there.session.send("for the child", to=child).result(10)

    assert QUICK.last == [("user", "for the child")]


def test_a_running_agent_is_killed_by_force_only() -> None:
    """Its turn is interrupted then, and nobody else is touched."""
    there, child, grandchild = team()
    turn = there.session.send("go", to=grandchild)
    there.stage.run()
    with pytest.raises(Refused, match="interrupt it first, or terminate by force"):
        there.session.terminate(grandchild)
    there.session.terminate(grandchild, force=True)
    result = turn.result(10)

    assert (result.status, result.output) == ("interrupted", "one ")
    assert grandchild not in living(there)
    assert there.session.send("on", to=child).result(10).output == "quick"
    with pytest.raises(Refused, match=f"there is no agent {grandchild};"):
        there.session.terminate(grandchild)


def test_children_go_with_their_parent() -> None:
    """A child that runs is interrupted; what waits for it is refused with a reason."""
    there, child, grandchild = team()
    turn, waiting = (there.session.send(text, to=grandchild) for text in ("go", "on"))
    there.stage.run()
    there.session.terminate(child)

    assert turn.result(10).reason == "parent_closed"
    assert living(there) == [there.session.state.root]
    with pytest.raises(Refused, match=f"never became a turn: agent {grandchild} is gone"):
        waiting.result(10)


def test_a_session_is_handed_over_and_comes_back() -> None:
    """Messages that name nobody go to the one who took over, and to the root when that is gone."""
    there, child, _ = team()
    there.session.hand_over(child)
    first = there.session.send("go").result(10)
    there.session.terminate(child)
    second = there.session.send("go").result(10)

    assert (first.output, second.output) == ("quick", "one two")


def test_a_session_whose_root_is_gone_waits_for_a_new_one() -> None:
    """It is suspended, says what to do, and goes on with another root."""
    there, _, _ = team()
    there.session.terminate(there.session.state.root)
    alone = living(there)
    phase = there.session.state.phase
    with pytest.raises(Refused, match=r"its root agent .* is gone; spawn one first"):
        there.session.unsuspend()
    there.session.spawn(AgentSpec(role="new", model="quick"))
    there.session.unsuspend()

    assert (alone, phase) == ([], Phase.SUSPENDED)
    assert there.session.send("go").result(10).output == "quick"


@pytest.mark.parametrize("nobody", ["agt_nobody", "a judge", "../up"])
def test_what_names_no_agent_is_refused(nobody: str) -> None:
    """Sending, spawning, handing over and replenishing all say which there are."""
    there, _, _ = team()
    session, spec = there.session, AgentSpec(role="kid", model="quick")

    for refused in (
        lambda: session.send("go", to=nobody),
        lambda: session.terminate(nobody),
        lambda: session.hand_over(nobody),
        lambda: session.spawn(spec, parent=nobody),
        lambda: session.replenish(agent=nobody, tokens=1),
    ):
        with pytest.raises(Refused, match=f"there is no agent {nobody}; there are: helper, "):
            refused()


def test_runtimes_that_share_a_tool_do_not_know_of_each_other() -> None:
    """An agent asks in its own conversation, and hands over there, whoever has those tools too."""
    ask = AgentTool("ask", AgentSpec(role="expert", model="expert"), "Ask an expert.")
    give = HandOver()
    boss: list[Reply] = [
        [call("ask", question="why?")],
        "asked",
        [call("hand_over", to="expert")],
        "given",
    ]
    one, other = (
        talk(boss, ask, give, others={"expert": Scripted(lambda _: "because")}) for _ in range(2)
    )
    ends = [one.session.send(text).result(100) for text in ("ask", "give")]
    results = [rune.output for rune in one.runes("tool.result") if isinstance(rune, Result)]

    assert [bool(end) for end in ends] == [True, True]
    assert results == ["because", "expert takes over"]
    assert len(one.session.state.members) == 2
    assert len(other.session.state.members) == 1
