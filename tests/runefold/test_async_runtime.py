"""Rules about the runtime for event loops: nothing holds the loop up, and all ends in order."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.model.provider import Done, Text
from actors.scheduling.loop import Loop
from runefold import AgentSpec, AsyncRuntime, AsyncSession, AsyncTurn, Runtime, tool
from runefold.errors import Closed, Held, Refused, Unanswered, UnknownConversation
from runefold.providers import Scripted, call
from runefold.testing.driving_event_loop import loop_for
from runefold.testing.stage import Stage
from runelog.errors import RunefoldError
from runelog.store import Runelog
from tests.runefold.loops import LONG, MANY, QUICK, SPEC, asking, in_time, pay
from tests.runefold.loops import Held as HeldModel
from tests.runefold.talks import Raw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    from actors.model.provider import Event, Request

MODELS: Final[dict[str, Any]] = {
    "demo": Raw(asking),
    "quick": Raw(lambda _: iter((Text("Hi."), Done()))),
}
READS: Final = (
    "append",
    "archive",
    "conversation",
    "conversations",
    "flush",
    "open_work",
    "read",
    "read_all",
    "stream",
    "version",
)
"""What may wait for a disk."""


def opening(directory: Path, **options: Any) -> Any:  # noqa: ANN401 -- what AsyncRuntime.open gives
    """Return what opens a runtime with a model that asks to pay, and one that answers at once."""
    return AsyncRuntime.open(directory, **{"tools": [pay], "providers": MODELS} | options)


async def waiting(runtime: AsyncRuntime) -> tuple[AsyncSession, AsyncTurn]:
    """Begin a session whose turn waits for somebody to approve a call."""
    session = await runtime.create_session(SPEC)
    turn = await session.send("Pay.")
    await anext(aiter(session.follow(kinds={"approval.awaiting"}, wait=LONG)))
    return session, turn


async def everything(directory: Path) -> list[str]:
    """Do all that can be done with a runtime and a session; return what was done."""
    async with opening(directory) as runtime:
        await runtime.check(SPEC)
        session, turn = await waiting(runtime)
        [pending] = await session.approvals()
        agents = [each.phase for each in await session.agents]
        await session.approve(pending.call_id, approver="ada")
        result = await turn.result(LONG)
        runes = [rune.kind async for rune in turn.runes()]
        past = [rune.kind async for rune in session.runes(kinds={"turn.completed"})]
        history = await session.history(result.turn_id)
        agent = await session.spawn(QUICK)
        await session.hand_over(agent)
        again = await session.send("Again.", message_id="again")
        assert (await again).output == "Hi."
        await session.pause("lunch")
        await session.resume()
        await session.suspend("odd")
        await session.unsuspend()
        await session.replenish(tokens=1)
        stopped = await session.interrupt()
        await session.terminate(agent)
        other, held = await waiting(runtime)
        await other.deny((await other.approvals())[0].call_id, approver="ada")
        await held
        await runtime.entity("session", other.id).pause(reason="tea")
        with pytest.raises(UnknownConversation):
            await runtime.session("conv_none")
        same = await runtime.session(session.id)
        state = await same.state
        await session.close()
        await session.archive()
        monitor = runtime.monitor()
        phases = {each.phase for each in await monitor.phases()}
        return [
            *agents,
            result.output,
            runes[-1],
            *past,
            history.moves[-1].to,
            str(stopped),
            str(state.stats.turns),
            str({each.id async for each in runtime.sessions()} == {session.id, other.id}),
            str(await session.in_doubt()),
            str(await monitor.alerts()),
            (await runtime.tree()).id,
            str("paused" in phases),
        ]


DONE: Final = [
    "running_turn", "Done.", "turn.completed", "turn.completed", "completed", "0", "2", "True",
    "[]", "[]", "runtime", "True",
]  # fmt: skip


def test_nothing_is_read_and_nothing_waits_on_the_thread_of_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever may wait for a disk or an actor is on other threads, all through a conversation."""
    blocked: list[str] = []
    loop_thread = threading.get_ident()

    def watched(cls: type, name: str) -> None:
        does = getattr(cls, name)

        def told(*args: Any, **options: Any) -> Any:  # noqa: ANN401 -- as it is
            if threading.get_ident() == loop_thread:
                blocked.append(f"{cls.__name__}.{name}")
            return does(*args, **options)

        monkeypatch.setattr(cls, name, told)

    for name in READS:
        watched(Runelog, name)
    watched(Loop, "wait")

    assert asyncio.run(in_time(everything(tmp_path))) == DONE
    assert blocked == []


def test_however_many_wait_none_of_them_has_a_thread(tmp_path: Path) -> None:
    """Fifty wait for a human, and another one is answered."""

    async def main() -> int:
        async with opening(tmp_path) as runtime:
            held = [await waiting(runtime) for _ in range(MANY)]
            tasks = [asyncio.ensure_future(turn.result()) for _, turn in held]
            assert (await (await (await runtime.create_session(QUICK)).send("Hi"))).output == "Hi."
            threads = threading.active_count()
            for session, _ in held:
                [pending] = await session.approvals()
                await session.approve(pending.call_id, approver="ada")
            assert [(await task).output for task in tasks] == ["Done."] * MANY
            return threads

    assert asyncio.run(in_time(main())) < MANY


def test_a_task_that_is_cancelled_leaves_the_turn_alone(tmp_path: Path) -> None:
    """It goes on, and whoever asks again has its result."""
    model = HeldModel()

    async def main() -> str:
        async with opening(tmp_path, providers={"quick": model}) as runtime:
            turn = await (await runtime.create_session(QUICK)).send("Count.")
            task = asyncio.ensure_future(turn.result())
            await anext(aiter(turn.runes()))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(Unanswered, match="goes on"):
                await turn.result(0.01)
            model.go_on.set()
            return str((await turn).output)

    assert asyncio.run(in_time(main())) == "One, two."


def test_a_task_that_is_cancelled_interrupts_the_turn_if_asked_to(tmp_path: Path) -> None:
    """That turn and no other: its output so far is kept."""

    async def main() -> tuple[str, str]:
        async with opening(tmp_path) as runtime:
            _, other = await waiting(runtime)
            _, turn = await waiting(runtime)
            begun = asyncio.Event()

            async def patient() -> None:
                async with turn.interrupted_on_cancel("the reader left"):
                    begun.set()
                    await turn.result()

            task = asyncio.ensure_future(patient())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(Unanswered):
                await other.result(0.01)
            result = await turn
            return result.status, result.reason

    assert asyncio.run(in_time(main())) == ("interrupted", "the reader left")


def test_closing_ends_what_waits_and_what_is_followed(tmp_path: Path) -> None:
    """A task that waits for a turn is told; one that follows comes to the end. It is open again."""

    async def main() -> None:
        runtime = await opening(tmp_path)
        session, turn = await waiting(runtime)
        result = asyncio.ensure_future(turn.result())
        follower = asyncio.ensure_future(all_of(session.follow()))
        await asyncio.sleep(0)
        await asyncio.gather(runtime.close(), runtime.close())
        await follower
        with pytest.raises(Closed):
            await result
        with pytest.raises(Closed):
            await session.send("Hi")
        async with opening(tmp_path) as again:
            assert len(await (await again.session(session.id)).approvals()) == 1

    asyncio.run(in_time(main()))


async def all_of(follower: AsyncIterator[Any]) -> list[Any]:
    """Read to the end."""
    return [each async for each in follower]


def test_a_drain_lets_turns_end_first_those_of_async_models_too(tmp_path: Path) -> None:
    """They run on the app's own loop, which goes on while the runtime closes."""
    loops: list[asyncio.AbstractEventLoop] = []

    class Slow:
        """A model on the loop, which says its last word when it is let go on."""

        def __init__(self) -> None:
            self.go_on = asyncio.Event()

        async def stream(self, request: Request) -> AsyncIterator[Event]:
            del request
            loops.append(asyncio.get_running_loop())
            yield Text("One, ")
            await self.go_on.wait()
            yield Text("two.")
            yield Done()

    async def main() -> str:
        model = Slow()
        async with opening(tmp_path, providers={"quick": model}) as runtime:
            turn = await (await runtime.create_session(QUICK)).send("Count.")
            await anext(aiter(turn.runes(kinds={"turn.assistant_delta"})))
            closing = asyncio.ensure_future(runtime.close(drain=True, timeout=LONG))
            result = asyncio.ensure_future(turn.result())
            await asyncio.sleep(0)
            model.go_on.set()
            await closing
            assert loops == [asyncio.get_running_loop()]
            return str((await result).output)

    assert asyncio.run(in_time(main())) == "One, two."


def test_an_opening_that_is_cancelled_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory can be opened by another one at once."""
    opens, begun, go_on = Runelog.open, threading.Event(), threading.Event()

    def held(*args: Any, **options: Any) -> Runelog:  # noqa: ANN401 -- as it is
        begun.set()
        assert go_on.wait(LONG)
        return opens(*args, **options)

    monkeypatch.setattr(Runelog, "open", held)

    async def main() -> None:
        task = asyncio.ensure_future(opening(tmp_path)._opened())
        await asyncio.to_thread(begun.wait, LONG)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(Held), Runtime.open(tmp_path), Runtime.open(tmp_path):
            pass

    asyncio.run(in_time(main()))


def test_what_is_refused_is_refused_here_too(tmp_path: Path) -> None:
    """With the same words, and before anything is waited for."""

    async def main() -> None:
        async with opening(tmp_path) as runtime:
            with pytest.raises(Refused, match="there is no model 'none'"):
                await runtime.create_session(AgentSpec(role="helper", model="none"))
            session = await runtime.create_session(QUICK, conversation_id="conv_one")
            with pytest.raises(Refused, match="there already"):
                await runtime.create_session(QUICK, conversation_id="conv_one")
            with pytest.raises(Refused, match="empty"):
                await session.send(" ")
            await session.close()
            with pytest.raises(RunefoldError):
                await session.send("Hi")

    asyncio.run(in_time(main()))


@pytest.mark.parametrize("driven", [True, False])
def test_on_a_stage_it_is_driven_by_hand(*, driven: bool) -> None:
    """In a simulation and under the crash kit: by an event loop that drives it, or by any."""

    @tool(idempotent=True)
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = Scripted([["Let me see. ", call("add", a=2, b=3)], ["Five."]])
    stage = Stage(tools=[add], providers={"demo": model})

    async def main() -> str:
        runtime = AsyncRuntime(stage.runtime)
        session = await runtime.create_session(
            AgentSpec(role="helper", model="demo", tools=["add"])
        )
        turn = await session.send("2 + 3?")
        output = (await turn.result()).output
        await session.close()
        return output

    factory = loop_for(stage.runtime.scheduler) if driven else None
    with asyncio.Runner(loop_factory=factory) as runner:
        assert runner.run(main()) == "Five."


def test_it_works_in_any_loop_and_in_several_at_once(tmp_path: Path) -> None:
    """Each is told on its own thread."""

    async def talk(runtime: AsyncRuntime) -> list[str]:
        session = await runtime.create_session(QUICK)
        return [(await (await session.send("Hi"))).output for _ in range(5)]

    with Runtime.open(tmp_path, providers=MODELS) as blocking, ThreadPoolExecutor() as pool:
        runtime = AsyncRuntime(blocking)
        found = [pool.submit(lambda: asyncio.run(talk(runtime))) for _ in range(4)]

        assert [each.result(LONG) for each in found] == [["Hi."] * 5] * 4


def test_a_connection_is_used_alike(tmp_path: Path) -> None:
    """Another process, or this one, has the log open; commands go there, and all else is read."""

    async def main(connect: Callable[[], Any]) -> str:
        async with connect() as runtime:
            session = await runtime.create_session(QUICK, conversation_id="conv_far")
            turn = await session.send("Hi", message_id="first")
            result = await turn.result(LONG)
            assert (await session.state).stats.turns == 1
            await session.close()
            return str(result.output)

    with Runtime.open(tmp_path, providers=MODELS):
        found: Coroutine[Any, Any, str] = main(lambda: AsyncRuntime.connect(tmp_path))

        assert asyncio.run(in_time(found)) == "Hi."
