"""Rules about waiting in an event loop: nobody who waits holds a thread, and all are told."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.scheduling.clock import SystemClock
from actors.scheduling.loop import Loop
from runefold.observe.async_notify import LINGER
from runelog.errors import Refused
from tests.runefold.loops import (
    LONG,
    MANY,
    QUICK,
    Held,
    all_of,
    approve,
    in_time,
    opened,
    result_of,
    waiting_for_a_human,
    watching,
)

if TYPE_CHECKING:
    from pathlib import Path

    from actors.ports import Clock


@pytest.fixture(autouse=True)
def _nobody_watches() -> None:
    """Begin when those of the test before have gone home."""
    for thread in watching():
        thread.join(LONG)


def test_however_many_wait_the_next_is_answered(tmp_path: Path) -> None:
    """Fifty wait for a human. Another one is told at once, and then all of them are."""
    with opened(tmp_path) as runtime:
        held = [waiting_for_a_human(runtime) for _ in range(MANY)]

        async def main() -> list[str]:
            waiting = [asyncio.ensure_future(turn) for _, turn in held]
            await asyncio.sleep(0)
            last = await in_time(runtime.create_session(QUICK).send("Hello?"))
            assert last.output == "Hi."
            assert not any(each.done() for each in waiting)
            assert watching() == set()
            for session, _ in held:
                await asyncio.to_thread(approve, session)
            return [each.output for each in await in_time(asyncio.gather(*waiting))]

        assert asyncio.run(main()) == ["Done."] * MANY
        assert runtime._core.watch.waiting == 0


def test_a_waiter_that_gives_up_leaves_nothing_behind(tmp_path: Path) -> None:
    """Its loop ends at once, no bell hangs, no thread stays; the turn goes on and can be asked."""
    with opened(tmp_path) as runtime:
        session, turn = waiting_for_a_human(runtime)

        async def main() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(turn, 0.01)
            follower = session.follow(after=runtime.log.position, wait=None)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(follower), 0.01)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(all_of(turn.runes()), 0.1)

        asyncio.run(main())
        assert runtime._core.watch.waiting == 0
        for thread in watching():
            thread.join(LONG)
        assert watching() == set()
        approve(session)
        assert asyncio.run(in_time(turn)).output == "Done."


def test_who_watches_goes_home_while_others_are_busy(tmp_path: Path) -> None:
    """A log in which something happens all the time keeps nobody watching that none waits for."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        asyncio.run(in_time(anext(session.follow())))
        (thread,) = watching()
        done = threading.Event()

        def chatter() -> None:
            while not done.wait(LINGER / 10):
                session.send("Hi").result(LONG)

        talking = threading.Thread(target=chatter)
        talking.start()
        thread.join(LONG)
        done.set()
        talking.join(LONG)

        assert not thread.is_alive()


def test_a_session_that_is_started_again_changes_nothing_for_who_waits(tmp_path: Path) -> None:
    """Killed, or put to sleep over and over: whoever waits is told in the end."""
    with opened(tmp_path) as runtime:
        session, turn = waiting_for_a_human(runtime)

        async def main() -> Any:  # noqa: ANN401 -- how it ended
            waiting = asyncio.ensure_future(turn)
            running = await asyncio.to_thread(runtime._core.tree.wake, session.id)
            running.session.kill()
            for _ in range(20):
                await asyncio.to_thread(runtime._core.tree.wake, session.id)
                await asyncio.to_thread(runtime._core.tree.put_to_sleep, session.id)
            assert not waiting.done()
            await asyncio.to_thread(approve, session)
            return await in_time(waiting)

        assert asyncio.run(main()).output == "Done."


def test_nobody_is_woken_by_those_who_wait(tmp_path: Path) -> None:
    """A session that waits for a human sleeps, however many wait for it."""
    with opened(tmp_path) as runtime:
        session, turn = waiting_for_a_human(runtime)
        runtime._core.tree.put_to_sleep(session.id)

        async def main() -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.gather(*[result_of(turn) for _ in range(5)]), 0.05)

        asyncio.run(main())
        assert runtime._core.tree.awake() == []


def test_all_who_follow_a_turn_end_with_it(tmp_path: Path) -> None:
    """Each is given all of its runes, those that came before and those that come after."""
    model = Held()
    with opened(tmp_path, providers={"quick": model}) as runtime:
        session = runtime.create_session(QUICK)
        turn = session.send("Count.")
        begun = asyncio.Event()

        async def read() -> list[str]:
            seen = []
            async for rune in turn.runes():
                seen.append(rune.kind)
                begun.set()
            return seen

        async def main() -> list[list[str]]:
            readers = [asyncio.ensure_future(read()) for _ in range(MANY)]
            await in_time(begun.wait())
            model.go_on.set()
            found: list[list[str]] = await in_time(asyncio.gather(*readers))
            return found

        found = asyncio.run(main())

    assert found == [found[0]] * MANY
    assert found[0][0] == "turn.started"
    assert found[0][-1] == "turn.completed"


def test_a_message_that_waits_for_the_turn_before_it_can_be_awaited(tmp_path: Path) -> None:
    """Its own turn has no name yet, and that of another is not taken for it."""
    model = Held()
    with opened(tmp_path, providers={"quick": model}) as runtime:
        session = runtime.create_session(QUICK)
        turns = [session.send("Count."), session.send("And again.")]
        assert turns[1].id is None

        async def main() -> list[Any]:
            waiting = [asyncio.ensure_future(result_of(turn)) for turn in turns]
            await asyncio.sleep(0)
            model.go_on.set()
            found: list[Any] = await in_time(asyncio.gather(*waiting))
            return found

        assert [each.turn_id for each in asyncio.run(main())] == ["turn_1", "turn_2"]


def test_a_message_that_is_refused_is_told_of_in_a_loop_too(tmp_path: Path) -> None:
    """Its turn never comes: who awaits it is refused, and who follows it comes to the end."""
    model = Held()
    with opened(tmp_path, providers={"quick": model}) as runtime:
        session = runtime.create_session(QUICK)
        session.send("Count.")
        second = session.send("And again.")

        async def main() -> list[Any]:
            waiting = asyncio.ensure_future(result_of(second))
            await asyncio.sleep(0)
            await asyncio.to_thread(session.close)
            with pytest.raises(Refused, match="never became a turn"):
                await in_time(waiting)
            return [rune async for rune in second.runes()]

        assert asyncio.run(main()) == []


class Mine:
    """A scheduler of somebody's own, which has a thread for everything."""

    def __init__(self, clock: Clock) -> None:
        """Do as ours does, without being one."""
        self._ours = Loop(clock)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever a scheduler has
        """Have it done."""
        return getattr(self._ours, name)


def test_whose_scheduler_it_is_makes_no_difference(tmp_path: Path) -> None:
    """As long as it goes on by itself, nobody holds an event loop up."""
    held, clock = Held(), SystemClock()
    with opened(tmp_path, providers={"quick": held}, clock=clock, scheduler=Mine(clock)) as runtime:
        turn = runtime.create_session(QUICK).send("Hi")

        async def main() -> str:
            waits = asyncio.ensure_future(turn)
            follows = asyncio.ensure_future(all_of(turn.runes()))
            await asyncio.sleep(0)
            held.go_on.set()
            await in_time(follows)
            return str((await in_time(waits)).output)

        assert asyncio.run(main()) == "One, two."
