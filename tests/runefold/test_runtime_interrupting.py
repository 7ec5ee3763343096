"""What an interrupt stops: what runs when it is asked for, however often it is said."""

from __future__ import annotations

from typing import Any

from actors.model.providers.scripted import pause
from actors.session.actor import Interrupt
from tests.runefold.talks import talk


def test_asked_again_it_does_not_stop_what_began_since() -> None:
    """Whoever is not answered, as the session died of it, is asked again by the runtime."""
    there = talk([["so ", pause(30), "so"], ["well ", pause(30), "well"]])
    first, second = there.session.send("one"), there.session.send("two")
    runtime = there.stage.runtime
    tree_ask = runtime.tree_of_actors.ask
    asked: list[object] = []

    def ask(conversation: str, message: object, *others: Any) -> Any:  # noqa: ANN401 -- as it is
        found = tree_ask(conversation, message, *others)
        if isinstance(message, Interrupt) and not asked:
            asked.append(message)
            there.stage.run_until(lambda: there.kinds().count("turn.started") == 2)
            assert tree_ask(conversation, message, *others) == []
        return found

    runtime.tree_of_actors.ask = ask  # type: ignore[method-assign, assignment]  # to say it twice
    stopped: list[int] = []
    there.stage.clock.at(
        there.stage.clock.now() + 3 * 10**9, lambda: stopped.append(there.session.interrupt())
    )

    assert first.result(100).status == "interrupted"
    assert second.result(100).output == "well well"
    assert stopped == [1]
    assert len(asked) == 1


def test_with_nothing_to_stop_it_stops_nothing() -> None:
    """It says so, and nothing is written for it."""
    there = talk(["hi"])
    before = there.kinds()

    assert there.session.interrupt() == 0
    assert there.kinds() == before
