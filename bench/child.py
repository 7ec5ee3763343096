"""What must happen in a process of its own: measuring memory, and dying in the middle.

python -m bench.child memory DIRECTORY CONVERSATION
python -m bench.child crash DIRECTORY
python -m bench.child idle DIRECTORY SESSIONS
python -m bench.child unfinished DIRECTORY SESSIONS closed|killed
python -m bench.child turns DIRECTORY SESSIONS MARK...
python -m bench.child passing DIRECTORY closed|asleep MARK...
python -m bench.child MODULE:FUNCTION ARGUMENT...
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import os
import random
import signal
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from actors.model.providers.scripted import Scripted, pause
from actors.scheduling.loop import Loop
from bench.measure import anonymous_memory, threads
from bench.scene import NEVER, QUESTION, SPEC, add, one_turn, open_runtime
from bench.workload import CODEC, LIFECYCLE, State, Talk
from runefold.core import core_of
from runefold.runtime import Runtime
from runelog.replay import replay
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runefold.sessions import Session
    from runelog.rune import Rune

BEHIND = 150
"""Appends of ten runes before a kill: the index of a segment may lack some two thousand."""
SAMPLE_EVERY = 5_000
IDLE_AFTER = 0.5
"""Seconds after which a session goes to sleep here: nobody wants to wait for a minute."""
MAKERS = 32
WAKINGS = 20
GROUP = 16
"""So many sessions have turns at a time, while others fall asleep."""
IN_A_ROW = 5
"""Turns of a session before others have theirs."""


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
    """Append what the index may still lack, durably, and die without closing the log."""
    log = Runelog.open(directory, CODEC)
    talk = Talk(0)
    for _ in range(BEHIND):
        part = talk.part(10)
        log.append(part.conversation, [part.change()], durable=False)
    part = talk.part(1)
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
        memory, alive = anonymous_memory(), threads()
        waking, awake = [], []
        for session in sessions[:: max(len(sessions) // WAKINGS, 1)][:WAKINGS]:
            waking.append(_timed(session))
            awake.append(_timed(session))
    found = {"empty": empty, "memory": memory, "threads": alive}
    print(json.dumps({**found, "waking": median(waking), "awake": median(awake)}))


def _make(runtime: Runtime, count: int) -> list[Session]:
    """Begin sessions, many at a time so that they share syncs, each with an app's hand on it."""
    with ThreadPoolExecutor(MAKERS) as pool:
        return list(pool.map(lambda _: runtime.create_session(SPEC), range(count)))


def _sleep(runtime: Runtime) -> None:
    """Wait until every session is asleep."""
    _wait_for_sleep(runtime)
    gc.collect()


def _wait_for_sleep(runtime: Runtime) -> None:
    while core_of(runtime).tree.awake():
        time.sleep(IDLE_AFTER / 10)


LASTING: Final = 1
"""The thread of all actors, which stays."""
REST: Final = 120
"""Seconds within which all other threads of a runtime that has nothing to do must have ended."""


def _threads_of(runtime: Runtime) -> int:
    """Return how many threads the runtime has: the one of all actors, and those of tools."""
    assert isinstance(runtime.scheduler, Loop)
    return runtime.scheduler.threads


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


def turns(directory: str, sessions: str, *marks: str) -> None:
    """Have turns in the same few sessions, and print the memory after so many of them."""
    chosen = random.Random(0)
    with open_runtime(Path(directory), IDLE_AFTER) as runtime:
        names = [session.id for session in _make(runtime, int(sessions))]

        def talk(name: str) -> None:
            session = runtime.session(name)
            for _ in range(IN_A_ROW):
                one_turn(session)

        done = 0
        found = []
        for mark in map(int, marks):
            with ThreadPoolExecutor(GROUP) as pool:
                while done < mark:
                    group = chosen.sample(names, min(GROUP, len(names)))
                    deque(pool.map(talk, group), maxlen=0)
                    done += len(group) * IN_A_ROW
            found.append(_settled(runtime, done))
    print(json.dumps(found))


def passing(directory: str, how: str, *marks: str) -> None:
    """Begin sessions that have one turn each and are then left, and print the memory they leave."""
    with open_runtime(Path(directory), IDLE_AFTER) as runtime:

        def visit(numbers: Iterator[int]) -> None:
            for _ in numbers:
                session = runtime.create_session(SPEC)
                one_turn(session)
                if how == "closed":
                    session.close()

        done = 0
        found = []
        for mark in map(int, marks):
            # All take from one, as a future for each session would take more memory than it leaves.
            with ThreadPoolExecutor(GROUP) as pool:
                deque(pool.map(visit, [iter(range(done, mark))] * GROUP), maxlen=0)
            done = mark
            found.append(_settled(runtime, done))
    print(json.dumps(found))


def _settled(runtime: Runtime, done: int) -> dict[str, int]:
    """Return the memory as it is, once all sleep, and once the runtime's threads have ended.

    Those of the app have ended already: what the C library keeps for them is not the runtime's.
    Nothing is collected for the occasion.
    """
    found = {"awake": anonymous_memory()}
    _wait_for_sleep(runtime)
    found["asleep"] = anonymous_memory()
    until = time.monotonic() + REST
    while (left := _threads_of(runtime)) > LASTING:
        assert time.monotonic() < until, f"{left} threads are left, {REST} s after the last turn"
        time.sleep(IDLE_AFTER)
    found["at rest"] = anonymous_memory()
    print(f"{done:,}: {found}", file=sys.stderr, flush=True)
    return found


WHAT: Final[dict[str, Callable[..., None]]] = {
    "memory": memory,
    "crash": crash,
    "idle": idle,
    "unfinished": unfinished,
    "turns": turns,
    "passing": passing,
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    if ":" in name:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(f"bench.{module}"), function)(*arguments)
    else:
        WHAT[name](*arguments)
