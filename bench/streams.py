"""Many streams at once, and how soon the first fragment of one is heard.

Models here say what time it is: each fragment is the moment at which the provider gave it away, so
that its subscriber knows how long it was under way.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import lmdb

from actors.model.runes import AssistantDelta
from bench.measure import child, threads, used
from bench.table import Row, missed
from runefold.providers import Done, Text
from runefold.runtime import Runtime
from runefold.spec import AgentSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from bench.measure import Sizes
    from bench.results import Results
    from runefold.providers import Event, Request
    from runefold.sessions import Session
    from runefold.turns import Turn

RATE: Final = 10
"""Fragments a second of each of many streams."""
MOST_THREADS: Final = 40
MOST_LAG: Final = 300
"""Milliseconds from the provider to the subscriber, of all fragments but one in a hundred."""
FOLLOWED: Final = 40
"""Fragments of each stream that has a follower of its own."""
APART: Final = 0.025
"""Seconds between two of them."""
THINKS: Final = 0.005
"""Seconds until a model says its first word."""
MAKERS: Final = 32
SPEC: Final = AgentSpec(role="helper", model="paced")
QUESTION: Final = "What time is it?"
_DELTA: Final = "turn.assistant_delta"
_BLANK: Final = bytes(100)


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure all three."""
    return [
        *_many(directory / "many", sizes),
        _followers(directory / "followers", sizes),
        *_first(directory / "first", sizes),
    ]


def _ran(name: str, *arguments: object) -> dict[str, Any]:
    done = child(f"streams:{name}", *map(str, arguments))
    if done.returncode != 0:
        return {"reason": f"it ended with {done.returncode}: see above"}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# -- many streams at once -----------------------------------------------------------------------


def _many(directory: Path, sizes: Sizes) -> list[Row]:
    ours = _ran("streamed", directory, sizes.streams, sizes.streaming)
    bare = _ran("bare", sizes.streams, sizes.streaming)
    what = f"{sizes.streams:,} sessions stream from an async provider"
    program = "a bare asyncio program"
    if reason := ours.get("reason"):
        return [
            missed(f"{what}: threads", "what it may be", "<= 1", reason),
            missed(f"{what}: provider to subscriber, p99", "what it may be", "<= 1", reason),
            missed(f"{what}: CPU", program, "<= 3", reason),
        ]
    lag = ours["p99"]
    return [
        Row(
            name=f"{what}: threads", ours=ours["threads"], peer=MOST_THREADS,
            peer_name="what it may be", ratio=ours["threads"] / MOST_THREADS, bar="<= 1",
            unit="threads",
        ),
        Row(
            name=f"{what}: provider to subscriber, p99", ours=lag, peer=MOST_LAG,
            peer_name="what it may be", ratio=lag / MOST_LAG, bar="<= 1", unit="ms",
        ),
        Row(
            name=f"{what}: provider to subscriber, p50", ours=ours["p50"], peer=MOST_LAG,
            peer_name="what the p99 may be", ratio=ours["p50"] / MOST_LAG, bar="", unit="ms",
        ),
        Row(
            name=f"{what}: CPU", ours=ours["cpu"], peer=bare["cpu"], peer_name=program,
            ratio=ours["cpu"] / bare["cpu"], bar="<= 3", unit="cores",
        ),
    ]  # fmt: skip


class _Paced:
    """A model that says what time it is, ten times a second, once it may begin."""

    def __init__(self, seconds: float) -> None:
        self.count = round(seconds * RATE)
        self.begins = 0.0
        """When the first fragment is due; not yet, if it is 0."""

    async def stream(self, _request: Request | None, phase: float = 0.0) -> AsyncIterator[Event]:
        while not self.begins:  # noqa: ASYNC110 -- the loop is the runtime's, whichever that is
            await asyncio.sleep(0.05)
        for number in range(self.count):
            due = self.begins + (number + (phase or id(self) % 97 / 97)) / RATE
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            yield Text(f"{time.perf_counter_ns()} ")
        yield Done()


class _Window:
    """A stretch of time in the middle of the streams, and what is used in it."""

    def __init__(self, seconds: float) -> None:
        """Leave a tenth out at either end."""
        time.sleep(seconds / 10)
        before, began = used(), time.perf_counter()
        time.sleep(seconds * 0.4)
        self.threads = threads()
        time.sleep(seconds * 0.4)
        self.cpu = (used().cpu - before.cpu) / (time.perf_counter() - began)


def _lags(text: str) -> Iterator[float]:
    """Yield how many milliseconds ago each fragment of a text was given away."""
    now = time.perf_counter_ns()
    for word in text.split():
        yield (now - int(word)) / 1e6


def _told(lags: Sequence[float], window: _Window) -> None:
    marks = quantiles(lags, n=100)
    found = {"p50": marks[49], "p99": marks[98], "threads": window.threads, "cpu": window.cpu}
    print(json.dumps({**found, "heard": len(lags)}))


def streamed(directory: str, count: str, seconds: str) -> None:
    """Have sessions stream at once, heard by one subscriber to all of them."""
    model: Any = _Paced(float(seconds))
    lags: list[float] = []
    with Runtime.open(directory, providers={"paced": model}) as runtime:
        # On one that cannot be read this way, one turn tells why.
        model.begins, model.count = time.perf_counter(), 1
        result = runtime.create_session(SPEC).send(QUESTION).result(timeout=30)
        if not result:
            print(json.dumps({"reason": f"{result.reason}: {result.message}"}))
            return
        model.begins, model.count = 0.0, round(float(seconds) * RATE)
        sessions = _sessions(runtime, int(count))
        total = int(count) * model.count
        last = runtime.log.position

        def hear() -> None:
            for envelope in runtime.follow(after=last, kinds={_DELTA}):
                rune = getattr(envelope, "payload", None)
                if isinstance(rune, AssistantDelta):
                    lags.extend(_lags(rune.text))
                if len(lags) == total:
                    return

        subscriber = threading.Thread(target=hear)
        subscriber.start()
        turns = _sent(sessions)
        model.begins = time.perf_counter() + 0.5
        window = _Window(float(seconds) + 0.5)
        for turn in turns:
            result = turn.result(timeout=60)
            assert result, result
        subscriber.join(timeout=30)
        assert len(lags) == total, f"{len(lags)} of {total} fragments came"
    _told(lags, window)


def bare(count: str, seconds: str) -> None:
    """Read the same streams, and nothing else."""
    model = _Paced(float(seconds))
    lags: list[float] = []

    async def read(phase: float) -> None:
        async for event in model.stream(None, phase):
            if isinstance(event, Text):
                lags.extend(_lags(event.text))

    async def everything() -> None:
        await asyncio.gather(*(read((n % 97 + 1) / 98) for n in range(int(count))))

    loop = threading.Thread(target=asyncio.run, args=(everything(),))
    loop.start()
    time.sleep(1)
    model.begins = time.perf_counter() + 0.5
    window = _Window(float(seconds) + 0.5)
    loop.join()
    _told(lags, window)


def _sessions(runtime: Runtime, count: int) -> list[Session]:
    with ThreadPoolExecutor(MAKERS) as pool:
        return list(pool.map(lambda _: runtime.create_session(SPEC), range(count)))


def _sent(sessions: Sequence[Session]) -> list[Turn]:
    """Ask them all; their models wait until they may begin."""
    with ThreadPoolExecutor(MAKERS) as pool:
        return list(pool.map(lambda session: session.send(QUESTION), sessions))


# -- followers ----------------------------------------------------------------------------------


def _followers(directory: Path, sizes: Sizes) -> Row:
    ideal = (FOLLOWED - 1) * APART
    name = (
        f"{sizes.followers} followers by `async for` of as many streams, {1 / APART:.0f} a second"
    )
    found = _ran("followed", directory, sizes.followers)
    if reason := found.get("reason"):
        return missed(name, "the ideal", "<= 1.15", reason)
    return Row(
        name=name, ours=found["seconds"], peer=ideal, peer_name="the ideal: the models' own pace",
        ratio=found["seconds"] / ideal, bar="<= 1.15", unit="s",
    )  # fmt: skip


class _Blocking:
    """A model that says what time it is, and blocks meanwhile as most clients of models do."""

    def __init__(self, count: int, apart: float, thinks: float = 0.0) -> None:
        self._count = count
        self._apart = apart
        self._thinks = thinks
        self.begin = threading.Event()

    def stream(self, _request: Request) -> Iterator[Event]:
        self.begin.wait()
        began = time.perf_counter() + self._thinks
        for number in range(self._count):
            time.sleep(max(began + number * self._apart - time.perf_counter(), 0))
            yield Text(f"{time.perf_counter_ns()} ")
        yield Done()


def followed(directory: str, count: str) -> None:
    """Follow each of many streams with a task of its own, all in one event loop."""
    model = _Blocking(FOLLOWED, APART)

    async def follow(turn: Turn) -> float:
        heard = 0
        async for envelope in turn.runes(kinds={_DELTA}):
            assert isinstance(envelope.payload, AssistantDelta)
            heard += len(envelope.payload.text.split())
        assert heard == FOLLOWED, f"{heard} of {FOLLOWED} fragments came"
        return time.perf_counter()

    async def everything(turns: Sequence[Turn]) -> float:
        tasks = [asyncio.create_task(follow(turn)) for turn in turns]
        await asyncio.sleep(1)
        began = time.perf_counter()
        model.begin.set()
        return max(await asyncio.gather(*tasks)) - began

    with Runtime.open(directory, providers={"paced": model}) as runtime:
        turns = _sent(_sessions(runtime, int(count)))
        print(json.dumps({"seconds": asyncio.run(everything(turns))}))


# -- the first fragment -------------------------------------------------------------------------


class _Times(NamedTuple):
    """Milliseconds, of half and of nearly all."""

    p50: float
    p99: float


def _first(directory: Path, sizes: Sizes) -> list[Row]:
    found = _ran("first", directory, sizes.firsts)
    ours, bare = _Times(*found["ours"]), _Times(*found["bare"])
    what = "first fragment, provider to subscriber, 1 session"
    return [
        Row(
            name=f"{what}, p50", ours=ours.p50, peer=bare.p50, peer_name="one bare durable commit",
            ratio=ours.p50 / bare.p50, bar="<= 2", unit="ms",
        ),
        Row(
            name=f"{what}, p99", ours=ours.p99, peer=ours.p50, peer_name="its p50",
            ratio=ours.p99 / ours.p50, bar="<= 3", unit="ms",
        ),
        Row(
            name="one bare durable commit, p99", ours=bare.p99, peer=bare.p50, peer_name="its p50",
            ratio=bare.p99 / bare.p50, bar="", unit="ms",
        ),
    ]  # fmt: skip


def first(directory: str, count: str) -> None:
    """Time the way of first fragments, and commits of one value, by turns."""
    model = _Blocking(3, 0.02, thinks=THINKS)
    model.begin.set()
    ours, commits = [], []
    place = Path(directory)
    place.mkdir(parents=True)
    env = lmdb.open(str(place / "bare"), map_size=1 << 30, subdir=False, lib_version=0)
    with Runtime.open(place / "log", providers={"paced": model}) as runtime:
        session = runtime.create_session(SPEC)
        for number in range(int(count)):
            turn = session.send(QUESTION)
            envelope = next(iter(turn.runes(kinds={_DELTA})))
            assert isinstance(envelope.payload, AssistantDelta)
            ours.append(next(_lags(envelope.payload.text)))
            result = turn.result(timeout=60)
            assert result, result
            began = time.perf_counter()
            with env.begin(write=True) as txn:
                txn.put(number.to_bytes(8, "big"), _BLANK, append=True)
            commits.append((time.perf_counter() - began) * 1e3)
    env.close()
    found = {"ours": ours, "bare": commits}
    print(json.dumps({name: _marks(times) for name, times in found.items()}))


def _marks(times: Sequence[float]) -> _Times:
    marks = quantiles(times, n=100, method="inclusive")
    return _Times(marks[49], marks[98])
