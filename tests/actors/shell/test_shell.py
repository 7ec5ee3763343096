"""Rules about the loop that every actor runs."""

from __future__ import annotations

from actors.model.providers.scripted import fail, pause
from actors.shell.shell import Shell
from tests.runefold.talks import NAME, talk


def test_a_pause_that_is_over_changes_nothing_on_the_thread_of_the_clock() -> None:
    """The timer only sends a message: what is under way is the lane's alone."""
    replies = iter(([fail("overloaded", retryable=True)], "hi"))
    there = talk(lambda _request: next(replies))
    turn = there.session.send("one")
    there.stage.run()
    running = there.stage.runtime._core.tree.running(NAME)
    assert running is not None
    shell = running.ctx._members["turn_1"]
    assert isinstance(shell, Shell)
    before = {*shell._under_way}
    when = there.stage.clock.next_alarm
    assert when is not None
    there.stage.clock.move_to(when)
    after = {*shell._under_way}
    there.stage.run()

    assert before == after != set()
    assert turn.result(10).output == "hi"


def test_an_actor_that_another_thread_kills_is_missed_on_its_lane() -> None:
    """The tables of the conversation do not change under the actor that reads them."""
    there = talk([[pause(50), "late"], "hi"])
    there.session.send("one")
    there.stage.run()
    running = there.stage.runtime._core.tree.running(NAME)
    assert running is not None
    (agent,) = there.session.state.members
    shell = running.ctx._members[agent.agent_id]
    assert isinstance(shell, Shell)
    shell.kill()
    before = agent.agent_id in running.ctx
    there.stage.advance(1)
    after = running.ctx._members[agent.agent_id]

    assert before
    assert after is not shell
