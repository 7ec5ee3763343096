"""What an interrupt stops: what runs when it is asked for, however often it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call, pause
from actors.session.messages import Interrupt
from actors.tool.outcome import Outcome
from actors.tool.runes import Result
from actors.tool.spec import ToolSpec
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.ports import Edge
    from actors.process.process import Answer
    from actors.tool.context import Call


def test_asked_again_it_does_not_stop_what_began_since() -> None:
    """Whoever is not answered, as the session died of it, is asked again by the runtime."""
    there = talk([["so ", pause(30), "so"], ["well ", pause(30), "well"]])
    first, second = there.session.send("one"), there.session.send("two")
    runtime = there.stage.runtime
    tree_ask = runtime._core.tree.asked
    asked: list[object] = []

    async def ask(edge: Edge, conversation: str, message: object, *others: Any) -> Any:  # noqa: ANN401 -- as it is
        found = await tree_ask(edge, conversation, message, *others)
        if isinstance(message, Interrupt) and not asked:
            asked.append(message)
            there.stage.run_until(lambda: there.kinds().count("turn.started") == 2)
            assert await tree_ask(edge, conversation, message, *others) == []
        return found

    runtime._core.tree.asked = ask  # type: ignore[method-assign, assignment]  # to say it twice
    stopped: list[int] = []
    there.stage.clock.at(
        there.stage.clock.now() + 3 * 10**9, lambda: stopped.append(there.session.interrupt())
    )

    assert first.result(100).status == "interrupted"
    assert second.result(100).output == "well well"
    assert stopped == [1]
    assert len(asked) == 1


class Stoppable:
    """A tool that can be stopped, and ends as a test says once it is told to."""

    def __init__(self, ends: Outcome) -> None:
        """Begin before it runs."""
        self.spec = ToolSpec(name="work", timeout=60, grace=5)
        self._ends = ends
        self.stop: Callable[[], object] = lambda: None
        """Called while it runs: whoever tells it to stop does that here."""
        self.was_told = False

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take any arguments."""
        return dict(arguments)

    def run(self, call: Call) -> Outcome:
        """Run until it is told to stop, and then to its end."""
        self.stop()
        self.was_told = call.cancellation.cancelled
        return self._ends


@pytest.mark.parametrize(
    ("ends", "status", "error"),
    [
        (Outcome("success", "all done"), "success", ""),
        (Outcome("error", error="it broke"), "error", "it broke"),
        (Outcome("cancelled", error="stopped"), "cancelled", "cancelled: enough; stopped"),
    ],
)
def test_a_tool_that_can_be_stopped_says_itself_how_it_ended(
    ends: Outcome, status: str, error: str
) -> None:
    """The turn is interrupted; its call came out as its tool did, which may be past stopping."""
    work = Stoppable(ends)
    there = talk([[call("work")], ["never said"]], work)
    turn = there.session.send("Go.")
    asked: list[Answer] = []

    def stop() -> None:
        running = there.stage.runtime._core.tree.running(there.session.id)
        assert running is not None
        asked.append(running.session.ask_later(Interrupt("enough")))
        assert there.stage.run_until(asked[0].is_there)
        there.stage.run()
        assert there.runes("tool.result") == []

    work.stop = stop
    result = turn.result(10)
    (found,) = there.runes("tool.result")

    assert work.was_told
    assert isinstance(found, Result)
    assert (found.status, found.output, found.error) == (status, ends.output, error)
    assert (result.status, result.reason) == ("interrupted", "enough")


def test_with_nothing_to_stop_it_stops_nothing() -> None:
    """It says so, and nothing is written for it."""
    there = talk(["hi"])
    before = there.kinds()

    assert there.session.interrupt() == 0
    assert there.kinds() == before
