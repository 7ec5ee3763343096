"""Turns of some sessions while other work is heavy: waking, sealing and archiving."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from bench.measure import child
from bench.scene import SPEC, add, heard_turn, one_turn, reply
from bench.table import Row, missed
from runefold.providers import Scripted, call
from runefold.runtime import Runtime
from runefold.spec import AgentSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.measure import Sizes
    from bench.results import Results
    from runefold.providers import Request, ToolCall
    from runefold.sessions import Session

TALKERS: Final = 8
ARCHIVED: Final = 100
CALLS: Final = 100
"""Tools that a model asks for at once where a long conversation is made."""
IDLE_AFTER: Final = 1.0
AFTER: Final = 0.2
"""Seconds for which a piece of heavy work is felt once it is done: turns that it held up end."""
SHARED: Final = Path("/dev/shm")
LONG: Final = AgentSpec(role="helper", model="eager", tools=["add"])


def rows(directory: Path, sizes: Sizes, _results: Results) -> list[Row]:
    """Measure how long turns take meanwhile, beside the same turns in quiet."""
    name = (
        f"turns of {TALKERS} sessions while one of {sizes.woken:,} runes wakes, a segment is "
        f"sealed and {ARCHIVED} are archived, p99"
    )
    done = child("busy:disturbed", str(directory), str(sizes.woken), str(sizes.quiet))
    if done.returncode != 0:
        return [missed(name, "in quiet", "<= 3", f"it ended with {done.returncode}: see above")]
    found = json.loads(done.stdout)
    return [
        Row(
            name=name, ours=found["busy"], peer=found["quiet"], peer_name="in quiet",
            ratio=found["busy"] / found["quiet"], bar="<= 3", unit="ms",
        ),
        *(
            Row(
                name=f"the same, while {what}", ours=found[what], peer=found["quiet"],
                peer_name="in quiet", ratio=found[what] / found["quiet"], bar="", unit="ms",
            )
            for what in ("it wakes", "it is sealed", "they are archived")
        ),
    ]  # fmt: skip


def _eager(request: Request) -> Sequence[str | ToolCall]:
    """Ask for many tools at once, and say a word when they are done."""
    if request.messages[-1].role != "user":
        return ["Done."]
    return [call("add", a=number, b=1) for number in range(CALLS)]


def disturbed(directory: str, runes: str, quiet: str) -> None:
    """Print the p99 of turns in quiet and meanwhile, in milliseconds."""
    # Made where a sync costs nothing, as it takes thousands of them.
    with tempfile.TemporaryDirectory(dir=_memory()) as made:
        with _open(made) as runtime:
            long = _long(runtime, int(runes)).id
            done = _ended(runtime, ARCHIVED)
        shutil.copytree(made, directory, dirs_exist_ok=True)
    os.sync()
    with _open(directory) as runtime:
        talkers = [runtime.create_session(SPEC) for _ in range(TALKERS)]
        with _talking(talkers) as times:
            time.sleep(IDLE_AFTER * 2)
            found = {"quiet": _during(times, lambda: time.sleep(float(quiet)))}
            begun = time.perf_counter()
            found["it wakes"] = _during(times, lambda: one_turn(runtime.session(long)))
            found["it is sealed"] = _during(times, runtime.log.roll)
            found["they are archived"] = _during(times, lambda: [*map(runtime.archive, done)])
            found["busy"] = _p99([spent for at, spent in times if at + spent / 1e3 >= begun])
    print(json.dumps(found))


def _memory() -> str | None:
    """Return a directory in memory, if there is one."""
    return str(SHARED) if SHARED.is_dir() and os.access(SHARED, os.W_OK) else None


def _open(directory: str) -> Runtime:
    models = {"demo": Scripted(reply), "eager": Scripted(_eager)}
    return Runtime.open(directory, tools=[add], providers=models, idle_after=IDLE_AFTER)


def _long(runtime: Runtime, runes: int) -> Session:
    """Make a session that has so many runes."""
    session = runtime.create_session(LONG)
    while runtime.log.conversation(session.id).head < runes:
        result = session.send("Count.").result(timeout=60)
        assert result, result
    return session


def _ended(runtime: Runtime, count: int) -> list[str]:
    """Make sessions that have had a turn and are closed, ready for the archive."""

    def make(_: int) -> str:
        session = runtime.create_session(SPEC)
        one_turn(session)
        session.close()
        return session.id

    with ThreadPoolExecutor(TALKERS) as pool:
        return list(pool.map(make, range(count)))


@contextmanager
def _talking(sessions: Sequence[Session]) -> Iterator[list[tuple[float, float]]]:
    """Have sessions make turns, one after the other; give when each began, and its milliseconds."""
    times: list[tuple[float, float]] = []
    over = threading.Event()

    def talk(session: Session) -> None:
        while not over.is_set():
            began = time.perf_counter()
            heard_turn(session)
            times.append((began, (time.perf_counter() - began) * 1e3))

    with ThreadPoolExecutor(len(sessions)) as pool:
        talks = [pool.submit(talk, session) for session in sessions]
        try:
            yield times
        finally:
            over.set()
    for each in talks:
        each.result()


def _during(times: Sequence[tuple[float, float]], work: Callable[[], object]) -> float:
    """Do something; return the p99 of the turns that went on meanwhile."""
    began = time.perf_counter()
    work()
    time.sleep(AFTER)
    return _p99([spent for at, spent in times if at + spent / 1e3 >= began])


def _p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[98]
