"""Rules about following what happens in an event loop, and about waiting as a runtime closes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.catalogue import CODEC
from actors.model.provider import Done, Text
from runefold.observe.following import PORTION
from runefold.runtime import Runtime
from runelog.errors import Closed
from runelog.memory import MemoryLog
from runelog.rune import Gap
from tests.runefold.loops import (
    LONG,
    QUICK,
    Held,
    all_of,
    in_time,
    opened,
    result_of,
    waiting_for_a_human,
    watching,
)
from tests.runefold.talks import NAME, Raw, Strict, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _nobody_watches() -> None:
    """Begin when those of the test before have gone home."""
    for thread in watching():
        thread.join(LONG)


@pytest.mark.parametrize("everything", [False, True])
def test_what_happens_can_be_followed_in_a_loop(tmp_path: Path, *, everything: bool) -> None:
    """What was and what is to come, of a session or of all: the same as without a loop."""
    kinds = {"turn.started", "turn.completed"}
    with opened(tmp_path) as runtime:
        # So that a place in the log is not the place in a conversation.
        runtime.create_session(QUICK).send("Hi").result(LONG)
        session = runtime.create_session(QUICK)
        for _ in range(3):
            session.send("Hi").result(LONG)
        follow = runtime.follow if everything else session.follow
        past = len([*follow(kinds=kinds, wait=0)])

        async def main() -> list[Any]:
            seen: list[Any] = []
            async for item in follow(kinds=kinds, wait=LONG):
                seen.append(item)
                if len(seen) in {past, past + 2}:
                    await asyncio.to_thread(session.send, "Once more")
                elif len(seen) == past + 4:
                    break
            return seen

        seen = asyncio.run(in_time(main()))
        assert [each.position for each in seen] == [
            each.position for each in follow(kinds=kinds, wait=0) if not isinstance(each, Gap)
        ]


def test_a_long_past_is_read_in_portions(tmp_path: Path) -> None:
    """Nothing is lost or given twice between them; it ends when nothing came in time."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        while runtime.log.conversation(session.id).head <= 2 * PORTION:
            session.send("Hi").result(LONG)

        async def main() -> list[int]:
            return [
                each.event_id async for each in session.follow(wait=0) if not isinstance(each, Gap)
            ]

        assert asyncio.run(main()) == [each.event_id for each in session.runes()]


def test_a_reader_in_a_loop_that_falls_behind_is_told_so(tmp_path: Path) -> None:
    """It is given a gap in the place of what it missed, and goes on behind it."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        session.send("Hi").result(LONG)

        async def main() -> list[Any]:
            follower = session.follow(max_behind=3, wait=0)
            return [each async for each in follower]

        gap, *rest = asyncio.run(main())
        head = [each.event_id for each in session.runes()][-1]

    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason) == (1, head - 3, "slow")
    assert [each.event_id for each in rest] == [head - 2, head - 1, head]


def test_kinds_that_nobody_asked_for_are_no_falling_behind(tmp_path: Path) -> None:
    """Whoever waits for one kind has read the others too."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        session.send("Hi").result(LONG)
        after = runtime.log.conversation(session.id).head

        async def main() -> Any:  # noqa: ANN401 -- what came
            waiting = asyncio.ensure_future(
                anext(session.follow(after, kinds={"session.closed"}, max_behind=10_000))
            )
            await asyncio.to_thread(session.close)
            return await in_time(waiting)

        assert asyncio.run(main()).kind == "session.closed"


def test_closing_the_runtime_ends_what_is_followed_and_awaited(tmp_path: Path) -> None:
    """A reader comes to the end; one that waits for a turn is told that it will not hear of it."""
    runtime = opened(tmp_path)
    session, turn = waiting_for_a_human(runtime)

    async def main() -> None:
        follower = session.follow(after=runtime.log.conversation(session.id).head)
        reading = asyncio.ensure_future(all_of(follower))
        waiting = asyncio.ensure_future(result_of(turn))
        while runtime._core.watch.waiting < 2:  # noqa: ASYNC110 -- nobody rings for that
            await asyncio.sleep(0)
        await asyncio.to_thread(runtime.close)
        await in_time(reading)
        with pytest.raises(Closed, match="has been closed"):
            await in_time(waiting)

    asyncio.run(main())
    assert runtime._core.watch.waiting == 0


def test_a_turn_that_ends_as_the_runtime_closes_is_told_of(tmp_path: Path) -> None:
    """Even if it is the loop itself that closes, and so hears of it only then."""
    model = Held()
    runtime = opened(tmp_path, providers={"quick": model})
    turn = runtime.create_session(QUICK).send("Count.")

    async def main() -> Any:  # noqa: ANN401 -- how it ended
        waiting = asyncio.ensure_future(result_of(turn))
        await asyncio.sleep(0)
        model.go_on.set()
        runtime.close(drain=True, timeout=LONG)
        return await in_time(waiting)

    assert asyncio.run(main()).output == "One, two."


class Meanwhile(MemoryLog):
    """A log whose readers can be held up at the worst of moments."""

    def __init__(self) -> None:
        """Begin as any other."""
        super().__init__(CODEC)
        self.may_watch = threading.Event()
        self.may_watch.set()
        self.then: Callable[[], object] | None = None
        """What happens when somebody has read all there is, and does not know yet that it is."""

    def follow(self, conversation: str | None = None, *args: Any, **options: Any) -> Any:  # noqa: ANN401 -- as it is
        """Read as ever, and then have something happen."""
        if conversation is None and options["wait"]:
            assert self.may_watch.wait(LONG)
        yield from super().follow(conversation, *args, **options)
        if conversation is not None and self.then is not None:
            then, self.then = self.then, None
            then()


def test_what_is_committed_while_somebody_reads_is_not_missed() -> None:
    """The bell rang before it was known that there is something to wait for."""
    log = Meanwhile()
    with Runtime(log, providers={"quick": Raw(lambda _: iter((Text("Hi."), Done())))}) as runtime:
        session = runtime.create_session(QUICK)

        def more() -> None:
            session.close()
            runtime._core.watch.finish()

        async def main() -> Any:  # noqa: ANN401 -- what came
            log.may_watch.clear()
            log.then = more
            return await in_time(anext(session.follow(kinds={"session.closed"})))

        try:
            assert asyncio.run(main()).kind == "session.closed"
        finally:
            log.may_watch.set()


def test_a_turn_that_ended_before_anybody_saw_it_is_told_of_at_the_close() -> None:
    """Who watches may be late. Before the log is closed, all there is has been rung for."""
    log, model = Meanwhile(), Held()
    log.may_watch.clear()
    runtime = Runtime(log, providers={"quick": model})
    turn = runtime.create_session(QUICK).send("Count.")

    async def main() -> Any:  # noqa: ANN401 -- how it ended
        waiting = asyncio.ensure_future(result_of(turn))
        await asyncio.sleep(0)
        model.go_on.set()
        assert (await asyncio.to_thread(turn.result, LONG)).output == "One, two."
        runtime.close()
        return await in_time(waiting)

    try:
        assert asyncio.run(main()).output == "One, two."
    finally:
        log.may_watch.set()


def test_on_a_stage_a_turn_can_be_awaited() -> None:
    """Nothing moves there but by hand, so whoever waits moves it."""
    there = talk(["hi"])

    async def main() -> str:
        return (await there.session.send("go")).output

    assert asyncio.run(main()) == "hi"
    assert watching() == set()


def test_a_log_in_memory_is_followed_alike() -> None:
    """What is there is given, and then it ends."""
    there = talk(Strict(["hi"]))
    there.session.send("go").result(LONG)
    there.stage.log.flush()

    found = asyncio.run(all_of(there.session.follow(wait=0)))

    assert [each.event_id for each in found] == [each.event_id for each in there.session.runes()]
    assert {each.conversation for each in found} == {NAME}


def test_a_loop_is_not_woken_for_what_nobody_asked_for(tmp_path: Path) -> None:
    """A bell that takes some runes only does not ring for others, however many there are."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)

        async def main() -> tuple[bool, bool]:
            watch = runtime._core.watch
            with (
                watch.waiter(session.id) as any_,
                watch.waiter(session.id, takes=lambda rune: rune.kind == "session.paused") as some,
            ):
                for _ in range(2):  # once the second has rung, all have rung for the first
                    any_.clear()
                    await asyncio.to_thread(session.send("Hi").result, LONG)
                    assert await any_.wait(LONG)
                before = await some.wait(0)
                await asyncio.to_thread(session.pause, "lunch")
                return before, await some.wait(LONG)

        assert asyncio.run(main()) == (False, True)


@pytest.mark.parametrize("kinds", [None, {"turn.assistant_delta"}, {"model.called"}, set[str]()])
def test_the_kinds_of_a_turn_are_chosen_from_all_of_it(
    tmp_path: Path, kinds: set[str] | None
) -> None:
    """What is followed live ends with the turn, and is what is read of it afterwards."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        for _ in range(3):
            turn = session.send("Hi")
            live = [rune.event_id for rune in turn.runes(kinds)]
            all_ = [rune for rune in runtime.log.read(session.id) if rune.turn == turn.id]

            assert live == [rune.event_id for rune in all_ if kinds is None or rune.kind in kinds]
