"""A web app on an event loop: how late the loop is while fifty requests are answered at once.

Each request makes a session and a turn with a tool, through `AsyncRuntime`. Beside it the same app
without a runtime, each request of which waits until a thread has burnt as much CPU in plain Python:
that thread fights for the interpreter too, and so it is what a loop has to bear in any case.
"""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from bench.measure import child
from bench.scene import SPEC, add, reply
from bench.table import Row, missed
from runefold.async_runtime import AsyncRuntime
from runefold.providers import Scripted
from runefold.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from bench.measure import Sizes
    from bench.results import Results

    Answer = Callable[[], Awaitable[str]]
    """What answers a request."""

AT_ONCE: Final = 50
EVERY: Final = 0.001
"""Seconds after which the loop is asked to come back."""
BAR: Final = "<= 2"
_REQUEST: Final = b"POST / HTTP/1.1\r\nhost: bench\r\ncontent-length: 0\r\n\r\n"


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure how late the loop is with a runtime, with a busy thread, and where it is blocked."""
    name = f"{AT_ONCE} requests at once in FastAPI: how late the event loop is, p99"
    peer = "a thread that burns as much CPU"
    kinds: dict[str, list[dict[str, float]]] = {"ours": [], "burning": [], "blocking": []}
    for number in range(sizes.web):
        for kind, found in kinds.items():
            if kind == "blocking" and number > 0:
                continue  # seconds late: once is enough to see
            # What a request of ours takes is what the thread beside it is to burn.
            cpu = median([each["cpu"] for each in kinds["ours"]] or [0.0])
            place = directory / f"{kind}-{number}"
            done = child("web:measured", kind, str(place), str(sizes.asked), str(cpu))
            if done.returncode != 0:
                return [missed(name, peer, BAR, f"it ended with {done.returncode}: see above")]
            found.append(json.loads(done.stdout))
    late, rate = (
        {kind: median([each[what] for each in found]) for kind, found in kinds.items()}
        for what in ("p99", "rate")
    )
    return [
        Row(
            name=name, ours=late["ours"], peer=late["burning"], peer_name=peer,
            ratio=late["ours"] / late["burning"], bar=BAR, unit="ms",
        ),
        Row(
            name="the same, where the loop waits for a Runtime", ours=late["blocking"],
            peer=late["burning"], peer_name=peer, ratio=late["blocking"] / late["burning"],
            bar="", unit="ms",
        ),
        Row(
            name=f"{AT_ONCE} requests at once in FastAPI: a session and a turn with a tool each",
            ours=rate["ours"], peer=rate["burning"], peer_name=peer,
            ratio=rate["ours"] / rate["burning"], bar="", unit="requests/s",
        ),
    ]  # fmt: skip


def measured(kind: str, directory: str, rounds: str, cpu: str) -> None:
    """Serve an app to a client in another process; print how that went."""
    answers = {
        "ours": partial(_ours, directory),
        "blocking": partial(_blocking, directory),
        "burning": partial(_burning, float(cpu)),
    }
    print(json.dumps(asyncio.run(_served(answers[kind](), int(rounds)))))


# -- what answers -------------------------------------------------------------------------------


@asynccontextmanager
async def _ours(directory: str) -> AsyncIterator[Answer]:
    models = {"demo": Scripted(reply)}
    async with AsyncRuntime.open(directory, tools=[add], providers=models) as runtime:

        async def answer() -> str:
            session = await runtime.create_session(SPEC)
            turn = await session.send("go")
            return (await turn.result()).output

        yield answer


@asynccontextmanager
async def _blocking(directory: str) -> AsyncIterator[Answer]:
    with Runtime.open(directory, tools=[add], providers={"demo": Scripted(reply)}) as runtime:

        async def answer() -> str:
            return runtime.create_session(SPEC).send("go").result().output

        yield answer


@asynccontextmanager
async def _burning(cpu: float) -> AsyncIterator[Answer]:
    loop = asyncio.get_running_loop()
    asked: queue.SimpleQueue[asyncio.Future[str] | None] = queue.SimpleQueue()

    def burn() -> None:
        while (future := asked.get()) is not None:
            until, count = time.thread_time() + cpu, 0
            while time.thread_time() < until:
                for _ in range(200):
                    count += 1
            loop.call_soon_threadsafe(future.set_result, str(count))

    async def answer() -> str:
        future = loop.create_future()
        asked.put(future)
        return str(await future)

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        yield answer
    finally:
        asked.put(None)
        thread.join()


# -- the app, and who asks it -------------------------------------------------------------------


async def _served(answering: AbstractAsyncContextManager[Answer], rounds: int) -> dict[str, float]:
    """Serve until the client has had enough; return how late the loop was meanwhile."""
    import uvicorn  # noqa: PLC0415 -- the bench runs without it
    from fastapi import FastAPI  # noqa: PLC0415 -- as above

    app = FastAPI()
    async with answering as answer:
        app.post("/")(answer)
        # A loop that is blocked for seconds must not find its connections idle.
        config = uvicorn.Config(
            app, port=0, log_level="error", lifespan="off", timeout_keep_alive=600
        )
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110 -- it does not say when
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        await _asked(port, 2)
        lags: list[float] = []
        probe = asyncio.ensure_future(_look(lags))
        beside, began = time.process_time() - time.thread_time(), time.perf_counter()
        await _asked(port, rounds)
        spent = time.perf_counter() - began
        beside = time.process_time() - time.thread_time() - beside
        probe.cancel()
        server.should_exit = True
        await serving
    requests = rounds * AT_ONCE
    p99 = quantiles(lags, n=100, method="inclusive")[98]
    return {"p99": p99 * 1e3, "cpu": beside / requests, "rate": requests / spent}


async def _look(lags: list[float]) -> None:
    """Note how late the loop comes back, over and over."""
    while True:
        began = time.perf_counter()
        await asyncio.sleep(EVERY)
        lags.append(time.perf_counter() - began - EVERY)


async def _asked(port: int, rounds: int) -> None:
    command = [sys.executable, "-m", "bench.child", "web:ask", str(port), str(rounds)]
    client = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parent.parent)
    if await client.wait() != 0:
        raise subprocess.CalledProcessError(client.returncode or 1, command)


def ask(port: str, rounds: str) -> None:
    """Ask so many times, each time all at once."""
    asyncio.run(_ask(int(port), int(rounds)))


async def _ask(port: int, rounds: int) -> None:
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(AT_ONCE)]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
        await reader.readexactly(int(length.partition(b":")[2]))

    for _ in range(rounds):
        await asyncio.gather(*(one(*each) for each in opened))
    for _, writer in opened:
        writer.close()
