"""Rules about async providers and tools: one event loop for all, and nothing goes on unseen."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.provider import Done, Pause, Text
from actors.model.providers.scripted import Scripted, call
from actors.scheduling.event_loop import SLOW, TimedSteps
from actors.tool.adapters.function import tool
from actors.tool.runes import Result
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from actors.model.provider import Event, Request
    from runefold.sessions import Session

BOT = AgentSpec(role="bot", model="demo")
PATIENCE = 60.0


class Sharing:
    """A model whose calls share what belongs to one event loop."""

    def __init__(self, most: int = 1) -> None:
        """Let so many calls go on at once."""
        self.gate = asyncio.Semaphore(most)
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.threads: set[str] = set()
        self.most = 0
        self._now = 0

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        """Wait for the gate, and answer."""
        self.loops.add(asyncio.get_running_loop())
        self.threads.add(threading.current_thread().name)
        async with self.gate:
            self._now += 1
            self.most = max(self.most, self._now)
            yield Text(request.messages[-1].text)
            await asyncio.sleep(0)
            yield Text("!")
            self._now -= 1
        yield Done()


class Waiting:
    """A model that says a word and then waits for what never comes."""

    def __init__(self) -> None:
        """Begin before it is asked."""
        self.begun = threading.Event()
        self.closed = threading.Event()
        self.errors: list[str] = []
        self.asked = 0

    async def stream(self, _request: Request) -> AsyncIterator[Event]:
        """Hold a connection for ever; the second time, answer."""
        self.asked += 1
        yield Text("so ")
        if self.asked > 1:
            yield Done()
            return
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except BaseException as error:
            self.errors.append(type(error).__name__)
            raise
        finally:
            self.closed.set()


def test_calls_share_what_belongs_to_an_event_loop(tmp_path: Path) -> None:
    """One semaphore holds across calls of several sessions, on one loop and its one thread."""
    model = Sharing()
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        turns = [runtime.create_session(BOT).send(f"go {n}") for n in range(8)]
        outputs = [turn.result(PATIENCE).output for turn in turns]

    assert outputs == [f"go {n}!" for n in range(8)]
    assert (len(model.loops), model.most) == (1, 1)
    assert model.threads == {"runefold-async"}


def test_streams_are_not_limited_by_threads(tmp_path: Path) -> None:
    """More of them than threads may be there go on at once, on the threads that few need too."""
    gate, at_once = threading.Event(), 1_100

    class Crowd:
        """Answers once all are there."""

        def __init__(self) -> None:
            self.there = 0
            self.all = asyncio.Event()

        async def stream(self, _request: Request) -> AsyncIterator[Event]:
            self.there += 1
            if self.there == at_once:
                gate.set()
                self.all.set()
            await self.all.wait()
            yield Text("here")
            yield Done()

    with Runtime.open(tmp_path, durability="relaxed", providers={"demo": Crowd()}) as runtime:
        turns = [runtime.create_session(BOT).send("go") for _ in range(at_once)]
        assert gate.wait(PATIENCE)
        threads = threading.active_count()
        outputs = {turn.result(PATIENCE).output for turn in turns}

    assert outputs == {"here"}
    assert threads < 40


def test_cancelling_really_cancels(tmp_path: Path) -> None:
    """What the stream awaits raises `CancelledError`, and the connection is closed at once."""
    model = Waiting()
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        session = runtime.create_session(BOT)
        turn = session.send("go")
        assert model.begun.wait(PATIENCE)
        session.interrupt("enough", timeout=PATIENCE)
        result = turn.result(PATIENCE)
        assert model.closed.wait(PATIENCE)

    assert (result.status, result.output) == ("interrupted", "so ")
    assert model.errors == ["CancelledError"]


def test_it_runs_on_the_loop_of_the_app_and_nothing_there_may_block(tmp_path: Path) -> None:
    """A call that would hold the loop up is refused at once, and names what to write."""
    model = Sharing()

    async def main() -> str:
        loop = asyncio.get_running_loop()
        with Runtime.open(tmp_path, providers={"demo": model}, loop=loop) as runtime:
            session = await asyncio.to_thread(runtime.create_session, BOT)
            turn = await asyncio.to_thread(session.send, "go")
            with pytest.raises(Refused, match="write `await turn`"):
                turn.result()
            with pytest.raises(Refused, match="stand still"):
                runtime.wait_for(session.id, "turn.completed", 1)
            result = await turn
        assert model.loops == {loop}
        return result.output

    assert asyncio.run(main()) == "go!"


def test_a_tool_or_model_that_waits_on_the_loop_is_refused(tmp_path: Path) -> None:
    """On the runtime's own loop as well: the call would wait for what only this loop can do."""
    said: list[str] = []

    class Asking:
        """Waits for another turn, as async code must not."""

        session: Session

        async def stream(self, request: Request) -> AsyncIterator[Event]:
            if request.messages[-1].text == "go":
                try:
                    self.session.send("later", message_id="m2").result(PATIENCE)
                except Refused as error:
                    said.append(str(error))
            yield Done()

    model = Asking()
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        model.session = runtime.create_session(BOT)
        first = model.session.send("go", message_id="m1")
        first.result(PATIENCE)

    assert len(said) == 1
    assert "write `await turn`" in said[0]


def test_the_end_of_the_apps_loop_leaves_calls_in_doubt(tmp_path: Path) -> None:
    """Nothing is recorded of them: the next runtime settles them, here by asking again."""
    model = Waiting()

    async def main() -> Runtime:
        loop = asyncio.get_running_loop()
        runtime = Runtime.open(tmp_path, providers={"demo": model}, loop=loop)
        session = await asyncio.to_thread(runtime.create_session, BOT, conversation_id="conv_a")
        await asyncio.to_thread(session.send, "go", message_id="m1")
        await asyncio.to_thread(model.begun.wait, PATIENCE)
        return runtime

    runtime = asyncio.run(main())
    assert model.errors == ["CancelledError"]
    with runtime:
        ends = [each.kind for each in runtime.log.read("conv_a") if each.kind.startswith("model.")]
    with Runtime.open(tmp_path, providers={"demo": model}) as again:
        result = again.session("conv_a").send("go", message_id="m1").result(PATIENCE)
        failed = [each.payload for each in again.log.read("conv_a") if each.kind == "model.failed"]

    assert ends == ["model.called"]
    assert result.status == "completed"
    assert [getattr(each, "error_type", "") for each in failed] == ["crash"]


def test_a_closed_loop_is_named_as_the_fault(tmp_path: Path) -> None:
    """A call that begins after the app's loop was closed fails, and says why."""
    loop = asyncio.new_event_loop()
    loop.close()
    with Runtime.open(tmp_path, providers={"demo": Sharing()}, loop=loop) as runtime:
        result = runtime.create_session(BOT).send("go").result(PATIENCE)

    assert (result.status, result.reason) == ("error", "event_loop_closed")
    assert "the event loop is closed" in result.message


def test_by_hand_async_code_goes_on_with_the_scheduler() -> None:
    """In tests and simulations its time is the scheduler's: nothing really waits."""

    class Slow:
        """Takes its time."""

        async def stream(self, _request: Request) -> AsyncIterator[Event]:
            yield Text("so ")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(50):
                    await asyncio.Event().wait()
            yield Pause(10)
            yield Text("slow")
            yield Done()

    model: Any = Slow()
    there = talk(model)
    before = there.stage.clock.now()
    result = there.session.send("go").result(100)

    assert result.output == "so slow"
    assert there.stage.clock.now() - before >= 60_000_000_000


def test_by_hand_a_cancelled_stream_is_closed() -> None:
    """As on a real event loop."""
    model: Any = Waiting()
    there = talk(model)
    turn = there.session.send("go")
    there.until("turn.assistant_delta")
    there.session.interrupt("enough", timeout=10)

    assert turn.result(10).reason == "enough"
    there.stage.run()
    assert model.errors == ["CancelledError"]


def test_a_step_that_blocks_the_event_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Operators are told whose step it was, and how long the loop stood still."""
    times = iter([0.0, SLOW / 2, 10.0, 11.0, 20.0, 20.0])

    async def steps() -> None:
        for _ in range(2):
            await asyncio.sleep(0)

    asyncio.run(_within(TimedSteps("conv_a/turn_1-r0-a0", steps(), lambda: next(times))))
    told = [each for each in caplog.records if vars(each)["event"] == "event_loop_blocked"]

    assert [(vars(each)["by"], vars(each)["seconds"]) for each in told] == [
        ("conv_a/turn_1-r0-a0", 1.0)
    ]


async def _within(steps: Any) -> None:  # noqa: ANN401 -- a coroutine
    await asyncio.get_running_loop().create_task(steps)


# -- tools -----------------------------------------------------------------------------------------


class Desk:
    """Async tools that share what belongs to one event loop."""

    def __init__(self) -> None:
        """Begin before the first call."""
        self.gate = asyncio.Semaphore(1)
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.begun = threading.Event()
        self.errors: list[str] = []

    def tools(self) -> list[Any]:
        """Return the tools."""

        @tool(side_effects=False)
        async def count(to: int) -> int:
            """Count."""
            self.loops.add(asyncio.get_running_loop())
            async with self.gate:
                await asyncio.sleep(0)
                return to

        @tool(side_effects=False)
        async def wait() -> str:
            """Wait for what never comes."""
            self.begun.set()
            try:
                await asyncio.Event().wait()
            except BaseException as error:
                self.errors.append(type(error).__name__)
                raise
            return "never"

        return [count, wait]


COUNTING = Scripted([[call("count", to=1), call("count", to=2), call("count", to=3)], "done"])
WAITING = Scripted([[call("wait")], "done"])
CLERK = AgentSpec(role="bot", model="demo", tools=["count", "wait"])


def test_async_tools_share_the_loop_with_models(tmp_path: Path) -> None:
    """A semaphore holds across calls of several sessions."""
    desk = Desk()
    with Runtime.open(tmp_path, tools=desk.tools(), providers={"demo": COUNTING}) as runtime:
        turns = [runtime.create_session(CLERK).send("go") for _ in range(4)]
        outputs = {turn.result(PATIENCE).output for turn in turns}
        kinds = [each.payload for each in runtime.log.read(turns[0].conversation)]

    results = [each.output for each in kinds if isinstance(each, Result)]
    assert outputs == {"done"}
    assert len(desk.loops) == 1
    assert sorted(results) == [1, 2, 3]


def test_a_cancelled_tool_is_told_so_where_it_waits(tmp_path: Path) -> None:
    """What it awaits raises `CancelledError`."""
    desk = Desk()
    with Runtime.open(tmp_path, tools=desk.tools(), providers={"demo": WAITING}) as runtime:
        session = runtime.create_session(CLERK)
        turn = session.send("go")
        assert desk.begun.wait(PATIENCE)
        session.interrupt("enough", timeout=PATIENCE)
        result = turn.result(PATIENCE)

    assert result.status == "interrupted"
    assert desk.errors == ["CancelledError"]


def test_by_hand_async_tools_are_awaited_on_the_schedulers_clock() -> None:
    """One that never ends is stopped at its time limit, and nothing really waits."""
    desk = Desk()
    there = talk(WAITING, *desk.tools())
    result = there.session.send("go").result(1_000)
    (ended,) = [each for each in there.runes("tool.result") if isinstance(each, Result)]

    assert result.output == "done"
    assert ended.status == "timeout"
    there.stage.run()
    assert desk.errors == ["CancelledError"]


def test_the_end_of_the_apps_loop_leaves_tools_in_doubt(tmp_path: Path) -> None:
    """That a call began is on disk, and no result: the next runtime does what the tool declares."""
    desk = Desk()

    async def main() -> Runtime:
        loop = asyncio.get_running_loop()
        runtime = Runtime.open(tmp_path, tools=desk.tools(), providers={"demo": WAITING}, loop=loop)
        session = await asyncio.to_thread(runtime.create_session, CLERK, conversation_id="conv_a")
        await asyncio.to_thread(session.send, "go")
        await asyncio.to_thread(desk.begun.wait, PATIENCE)
        return runtime

    with asyncio.run(main()) as runtime:
        kinds = [each.kind for each in runtime.log.read("conv_a") if each.kind.startswith("tool.")]

    assert desk.errors == ["CancelledError"]
    assert kinds == ["tool.call", "tool.started"]
