"""A contender in a process of its own: what it uses is its own, and no other's threads disturb it.

`python -m bench.contender NAME DIRECTORY` opens one and does what lines on its input say, each a
command in JSON, with a line for each that says what came of it. `Contender` is the other end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from bench.measure import commits, rate, used
from bench.scene import OursHeard, at_once, by_turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.scene import Teller


class Entry(NamedTuple):
    """Where a contender is."""

    module: str
    kind: str
    place: str
    """What its directory or its database is called."""
    threads: bool = True
    """Whether conversations that go on at once are a thread each."""


ENTRIES: Final[dict[str, Entry]] = {
    "ours": Entry("bench.scene", "OursHeard", "heard"),
    "unheard": Entry("bench.scene", "Ours", "unheard"),
    # A loop without threads is the fastest that bare lmdb can do: there is one writer.
    "bare": Entry("bench.peers_lmdb", "Bare", "turns.lmdb", threads=False),
    "plain": Entry("bench.peers_lmdb", "Plain", "plain.lmdb", threads=False),
    "burr": Entry("bench.peers_burr", "Burr", "burr.sqlite"),
    "burr-lean": Entry("bench.peers_burr", "BurrJoined", "burr-lean.sqlite"),
    "dbos": Entry("bench.peers_dbos", "Dbos", "dbos.sqlite"),
    "langgraph": Entry("bench.peers_langgraph", "LangGraph", "langgraph.sqlite"),
    "langgraph-dicts": Entry("bench.peers_langgraph_lean", "LangGraphDicts", "dicts.sqlite"),
    "langgraph-lean": Entry("bench.peers_langgraph_lean", "LangGraphJoined", "lean.sqlite"),
    "activegraph": Entry("bench.peers_activegraph", "ActiveGraph", "activegraph.sqlite"),
    "agents": Entry("bench.peers_agents", "Agents", "agents.sqlite"),
}


class Spent(msgspec.Struct, frozen=True):
    """What turns took, each of them but for the rate."""

    rate: float
    """Turns a second."""
    cpu: float
    """Milliseconds."""
    switches: float
    """How often a thread had to wait."""
    written: float
    """KB written to the device."""
    syncs: float
    """Commits of LMDB, each of which syncs its file; 0 where there is no LMDB."""


def best(found: list[Spent]) -> Spent:
    """Return the best of each: whatever else the machine does can only make it more."""
    return Spent(
        max(each.rate for each in found),
        *(min(getattr(each, name) for each in found) for name in Spent.__struct_fields__[1:]),
    )


class Missing(Exception):
    """A peer that is not installed."""


class Contender:
    """A contender, from outside."""

    def __init__(self, key: str, directory: Path) -> None:
        """Start its process; `Missing` if it cannot be imported there."""
        self.key = key
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.contender", key, str(directory)],
            cwd=Path(__file__).parent.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        first = self._answer()
        if "missing" in first:
            self.close()
            raise Missing(first["missing"])
        self.name = str(first["name"])

    def turns(self, sessions: int, turns: int) -> Spent:
        """Have new conversations, so many, go on at once for so many turns."""
        return msgspec.convert(self._ask("turns", sessions=sessions, turns=turns), Spent)

    def grow(self, turns: int) -> list[float]:
        """Have one new conversation go on for so many turns; return the milliseconds of each."""
        found: list[float] = self._ask("grow", turns=turns)["times"]
        return found

    def say(self, fragments: int, turns: int) -> Spent:
        """Have a new conversation make turns of so many fragments each; only ours can."""
        return msgspec.convert(self._ask("say", fragments=fragments, turns=turns), Spent)

    def settings(self) -> str:
        """Return what it is set to."""
        return str(self._ask("settings")["settings"])

    def close(self) -> None:
        """Have it close what it opened, and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, do: str, **values: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **values}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            msg = f"{self.key} ended with {self._process.wait()}: see above"
            raise RuntimeError(msg)
        found: dict[str, Any] = json.loads(line)
        return found


# -- inside -------------------------------------------------------------------------------------


def serve(key: str, directory: Path, commands: IO[str], answers: IO[str]) -> None:
    """Open a contender and do what is asked, until nothing more is asked."""

    def answer(**found: object) -> None:
        answers.write(json.dumps(found) + "\n")
        answers.flush()

    entry = ENTRIES[key]
    try:
        module = importlib.import_module(entry.module)
    except ImportError as error:
        answer(missing=str(error))
        return
    place = directory / entry.place
    teller: Teller = getattr(module, entry.kind)(place)
    by_turns(teller, 1, 2)  # nobody is measured while it still imports or makes its tables
    answer(name=teller.name)
    for line in commands:
        match json.loads(line):
            case {"do": "turns", "sessions": sessions, "turns": turns}:
                answer(**msgspec.structs.asdict(_turns(teller, entry, place, sessions, turns)))
            case {"do": "grow", "turns": turns}:
                answer(times=_grow(teller, turns))
            case {"do": "say", "fragments": fragments, "turns": turns}:
                answer(**msgspec.structs.asdict(_said(teller, place, fragments, turns)))
            case {"do": "settings"}:
                answer(settings=teller.settings())
            case unknown:
                raise AssertionError(unknown)
    teller.close()


def _turns(teller: Teller, entry: Entry, place: Path, sessions: int, turns: int) -> Spent:
    measure = at_once if entry.threads and sessions > 1 else by_turns
    return _spent(place, sessions * turns, lambda: measure(teller, sessions, turns))


def _said(teller: Teller, place: Path, fragments: int, turns: int) -> Spent:
    assert isinstance(teller, OursHeard)
    talk = teller.saying(f"said-{time.monotonic_ns()}", fragments)
    talk()

    def run() -> None:
        for _ in range(turns):
            talk()

    return _spent(place, turns, lambda: rate(turns, run))


def _spent(place: Path, count: int, measure: Callable[[], float]) -> Spent:
    gc.collect()
    before, synced = used(), commits(place)
    each_second = measure()
    after = used()
    return Spent(
        rate=each_second,
        cpu=(after.cpu - before.cpu) * 1e3 / count,
        switches=(after.switches - before.switches) / count,
        written=(after.written - before.written) / 1e3 / count,
        syncs=(commits(place) - synced) / count,
    )


def _grow(teller: Teller, turns: int) -> list[float]:
    talk = teller.begin(f"grown-{time.monotonic_ns()}")
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        talk()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main(key: str, directory: str) -> None:
    """Serve what comes on the input; what a library prints goes to the errors."""
    with contextlib.suppress(KeyboardInterrupt), os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        serve(key, Path(directory), sys.stdin, answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
