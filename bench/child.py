"""What must happen in a process of its own: measuring memory, and dying in the middle.

python -m bench.child memory DIRECTORY CONVERSATION
python -m bench.child crash DIRECTORY
python -m bench.child idle DIRECTORY SESSIONS
python -m bench.child unfinished DIRECTORY SESSIONS closed|killed
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from actors.model.providers.scripted import Scripted, pause
from bench.measure import anonymous_memory
from bench.scene import NEVER, QUESTION, SPEC, add, one_turn, open_runtime
from bench.workload import CODEC, LIFECYCLE, State, Talk
from runefold.runtime import Runtime
from runelog.replay import replay
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable

    from runefold.sessions import Session
    from runelog.rune import Rune

SAMPLE_EVERY = 5_000
IDLE_AFTER = 0.5
"""Seconds after which a session goes to sleep here: nobody wants to wait for a minute."""
MAKERS = 32
WAKINGS = 20


def memory(directory: str, conversation: str) -> None:
    """Replay a conversation and print how much memory that took at its highest."""
    peak = 0

    def evolve(state: State, rune: Rune) -> State:
        nonlocal peak
        if state.fragments % SAMPLE_EVERY == 0:
            peak = max(peak, anonymous_memory())
        return LIFECYCLE.evolve(state, rune)

    watched = dataclasses.replace(LIFECYCLE, evolve=evolve)
    with Runelog.open(directory, CODEC) as log:
        empty = anonymous_memory()
        done = replay(log, conversation, watched)
        peak = max(peak, anonymous_memory())
    print(json.dumps({"empty": empty, "peak": peak, "runes": done.version}))


def crash(directory: str) -> None:
    """Append something durably and die without closing the log."""
    log = Runelog.open(directory, CODEC)
    part = Talk(0).part(1)
    log.append(part.conversation, [part.change()])
    os.kill(os.getpid(), signal.SIGKILL)


def idle(directory: str, count: str) -> None:
    """Make sessions, wait until they sleep, and print what they take and what waking one costs."""
    with open_runtime(Path(directory), idle_after=IDLE_AFTER) as runtime:
        # What is done once only, such as importing, is not what a session takes.
        _make(runtime, MAKERS)
        _sleep(runtime)
        empty = anonymous_memory()
        sessions = _make(runtime, int(count))
        _sleep(runtime)
        memory, threads = anonymous_memory(), _threads()
        waking, awake = [], []
        for session in sessions[:: max(len(sessions) // WAKINGS, 1)][:WAKINGS]:
            waking.append(_timed(session))
            awake.append(_timed(session))
    found = {"empty": empty, "memory": memory, "threads": threads}
    print(json.dumps({**found, "waking": median(waking), "awake": median(awake)}))


def _make(runtime: Runtime, count: int) -> list[Session]:
    """Begin sessions, many at a time so that they share syncs, each with an app's hand on it."""
    with ThreadPoolExecutor(MAKERS) as pool:
        return list(pool.map(lambda _: runtime.create_session(SPEC), range(count)))


def _sleep(runtime: Runtime) -> None:
    """Wait until every session is asleep."""
    while runtime.tree_of_actors.awake():
        time.sleep(IDLE_AFTER / 10)
    gc.collect()


def _threads() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("Threads:")[2].split()[0])


def _timed(session: Session) -> float:
    start = time.perf_counter()
    one_turn(session)
    return time.perf_counter() - start


def unfinished(directory: str, count: str, how: str) -> None:
    """Begin turns whose model says nothing, and end in the middle of them."""
    silent = Scripted([[pause(NEVER)]])
    runtime = Runtime.open(directory, tools=[add], providers={"demo": silent})
    sessions = [runtime.create_session(SPEC) for _ in range(int(count))]
    for session in sessions:
        session.send(QUESTION)
    for session in sessions:
        runtime.wait_for(session.id, "model.called", NEVER)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    runtime.close()


WHAT: Final[dict[str, Callable[..., None]]] = {
    "memory": memory,
    "crash": crash,
    "idle": idle,
    "unfinished": unfinished,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    WHAT[name](*arguments)
