"""How much Python a turn takes: its bytecodes, counted one by one, and what it does meanwhile.

`python -m bench --only bytecodes` takes a few seconds.

The count is nearly the same in every run and on every machine (of one version of Python), so it
tells a change of one per cent, where a clock on a busy machine does not tell one of ten. It is
taken with a loop that is driven by hand, so that no thread waits for another, on a real log on
disk, over turns 6 to 25 of one conversation, on all threads; a subscriber gets the fragments. The
loop is not driven by the main thread, as no loop is: that one may be interrupted, so the log
commits on another for it.

What is written in C is not in it: work that moves there is not free.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import lmdb

from actors.process.process import Process
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from bench.measure import child, written
from bench.scene import ANSWER, QUESTION, SPEC, open_runtime
from bench.table import Row
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType

    from bench.measure import Sizes
    from bench.results import Results
    from runefold.sessions import Session

FIRST: Final = 6
LAST: Final = 25
MOST: Final = 50_000
"""The bar: so many bytecodes a turn."""
TURNS: Final = LAST - FIRST + 1
SHOWN: Final = 30
"""How many modules and functions are shown."""

LAWS: Final = "laws: decide, fold, what is due, where runes belong"
SHELL: Final = "shell: making it happen"
LOG: Final = "log: check, encode, number, index, frames, commit"
FRAGMENTS: Final = "fragments: providers, gathering, redaction"
PROCESSES: Final = "processes, lanes, loop, supervisors"
BY_HAND: Final = "the scheduler and the clock that are driven by hand"
REST: Final = "the caller, and the rest"

_HERE: Final = Path(__file__).parent.parent
_PLACES: Final = (
    # The first that fits, by the beginning of a module's path.
    ("runelog/lifecycle.py", LAWS),
    ("runelog/rune.py", LAWS),
    ("runelog/replay.py", LAWS),
    ("runelog/", LOG),
    ("supervisors/", PROCESSES),
    ("runefold/", REST),
    ("bench/", REST),
    ("actors/scheduling/clock.py", BY_HAND),
    ("actors/scheduling/manual_scheduler.py", BY_HAND),
    ("actors/scheduling/", PROCESSES),
    ("actors/process/", PROCESSES),
    ("actors/redaction/", FRAGMENTS),
    ("actors/model/providers/", FRAGMENTS),
    ("actors/model/provider.py", FRAGMENTS),
    ("actors/model/stream", FRAGMENTS),
    ("actors/model/tokens.py", FRAGMENTS),
    ("actors/shell/", SHELL),
    ("actors/machine.py", SHELL),
    ("actors/operator_log.py", SHELL),
    ("actors/tool/adapters/", SHELL),
    ("actors/tool/sandbox/", SHELL),
    ("actors/", LAWS),
)


def part_of(module: str) -> str:
    """Return the part of the turn's work that a module has, by its path in the repository.

    >>> part_of("actors/turn/lifecycle.py")
    'laws: decide, fold, what is due, where runes belong'
    >>> part_of("actors/turn/actor.py")
    'shell: making it happen'
    """
    if module.startswith("actors/") and module.endswith("/actor.py"):
        return SHELL
    return next((part for place, part in _PLACES if module.startswith(place)), REST)


def rows(directory: Path, _sizes: Sizes, results: Results) -> list[Row]:
    """Count a turn in a process of its own; show where the bytecodes are on the way."""
    found = {}
    for how in ("counted", "called"):
        done = child(f"bytecodes:{how}", str(directory / how))
        assert done.returncode == 0, "the turns did not come to their end"
        found[how] = json.loads(done.stdout)
    counted, called = found["counted"], found["called"]
    _show(counted, called)
    results.turn, results.parts = called, counted["parts"]
    everything = counted["bytecodes"]
    # It is there for tests and for this count only: live, what calls the runtime is a thread.
    own = everything - counted["parts"].get(BY_HAND, 0.0)
    name = "bytecodes of a turn, heard"
    return [
        Row(
            name=f"{name}{more}", ours=each, peer=MOST, peer_name="what it may be",
            ratio=each / MOST, bar=bar, unit="bytecodes",
        )
        for more, each, bar in ((", without " + BY_HAND, own, "<= 1"), (", all", everything, ""))
    ]  # fmt: skip


# -- bytecodes ----------------------------------------------------------------------------------


class Tracer:
    """Counts the bytecodes of every function, on all threads, between `begin` and `end`."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.codes: Counter[CodeType] = Counter()
        self.inside: Counter[tuple[CodeType, str]] = Counter()
        """Of code that is not ours, for the module of ours that called it."""
        self._ours: dict[CodeType, str] = {}
        self._counts = False

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Be there when a thread begins; before that, nothing can be counted."""
        threading.settrace(self._enter)
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count what is done meanwhile."""
        self._counts = True
        try:
            yield
        finally:
            self._counts = False

    def _enter(self, frame: FrameType, _event: str, _arg: object) -> Callable[..., Any] | None:
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        code = frame.f_code
        module = self.module(code)
        if module:
            return self._step
        caller = self._caller(frame)

        def step(_frame: FrameType, event: str, _arg: object) -> object:
            if event == "opcode" and self._counts:
                self.inside[code, caller] += 1
            return step

        return step

    def _step(self, frame: FrameType, event: str, _arg: object) -> object:
        if event == "opcode" and self._counts:
            self.codes[frame.f_code] += 1
        return self._step

    def _caller(self, frame: FrameType) -> str:
        """Return the module of ours that a frame of others works for; empty if there is none."""
        above = frame.f_back
        while above is not None and not self.module(above.f_code):
            above = above.f_back
        return "" if above is None else self.module(above.f_code)

    def module(self, code: CodeType) -> str:
        """Return the path of a module of ours in the repository, or nothing if it is not ours."""
        found = self._ours.get(code)
        if found is None:
            path = Path(code.co_filename)
            inside = path.is_relative_to(_HERE) and ".venv" not in path.parts
            found = self._ours[code] = path.relative_to(_HERE).as_posix() if inside else ""
        return found


def counted(directory: str) -> None:
    """Count the bytecodes of the turns, and print them by part, module and function."""
    _beside_the_main_thread(lambda: _count(directory))


def _beside_the_main_thread(run: Callable[[], None]) -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(run).result()


def _count(directory: str) -> None:
    tracer = Tracer()
    with tracer.everywhere(), _Scene(Path(directory)) as scene:
        scene.turns(FIRST - 1)
        by_turn: list[int] = []
        for _ in range(TURNS):
            with tracer.counting():
                scene.turns(1)
            total = tracer.codes.total() + tracer.inside.total()
            by_turn.append(total - sum(by_turn))
    modules: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for code, count in tracer.codes.items():
        modules[tracer.module(code)] += count
        functions[f"{tracer.module(code)} {code.co_qualname}"] += count
    for (code, caller), count in tracer.inside.items():
        modules[caller] += count
        functions[f"{Path(code.co_filename).name} {code.co_qualname}, for {caller}"] += count
    parts: Counter[str] = Counter()
    for module, count in modules.items():
        parts[part_of(module)] += count
    found = {
        "bytecodes": sum(by_turn) / TURNS,
        "least": min(by_turn),
        "most": max(by_turn),
        "parts": _each(parts),
        "modules": _each(modules, SHOWN),
        "functions": _each(functions, SHOWN),
    }
    print(json.dumps(found))


def _each(counts: Counter[str], limit: int | None = None) -> dict[str, float]:
    """Return what comes to each turn, the most first."""
    return {name: count / TURNS for name, count in counts.most_common(limit)}


# -- what it does -------------------------------------------------------------------------------


class Profiler:
    """Counts calls, on all threads: of functions in C by name, and of some of ours."""

    WATCHED: Final = {
        Runelog.append.__code__: "appends",
        Process.launch.__code__: "actors started",
        Process.deliver.__code__: "messages delivered",
    }
    """What is there of the runtime to count; what is called otherwise by now counts nothing."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.counts: Counter[str] = Counter()
        self.calls = 0
        """Calls of functions in Python."""

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Be there when a thread begins."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: ANN401 -- any function
        if event == "call":
            self.calls += 1
            name = self.WATCHED.get(frame.f_code)
            if name is not None:
                self.counts[name] += 1
        elif event == "c_call":
            name = of_builtin(arg)
            if name is not None:
                self.counts[name] += 1


def of_builtin(function: Any) -> str | None:  # noqa: ANN401 -- any function in C
    """Return as what a call of a function in C is counted, if it is.

    >>> import os
    >>> of_builtin(os.fdatasync)
    'syncs of files'
    """
    name = function.__name__
    if name in {"fsync", "fdatasync"}:
        return "syncs of files"
    if not isinstance(function.__self__, (lmdb.Transaction, lmdb.Cursor, lmdb.Environment)):
        return None
    if name in {"put", "replace", "putmulti"}:
        return "calls of lmdb to put, of one entry or many"
    return {"commit": "commits", "sync": "lmdb syncs", "delete": "lmdb deletes"}.get(name)


def called(directory: str) -> None:
    """Count what the turns do, and print it."""
    _beside_the_main_thread(lambda: _profile(directory))


def _profile(directory: str) -> None:
    profiler = Profiler()
    with profiler.everywhere(), _Scene(Path(directory)) as scene:
        scene.turns(FIRST - 1)
        runes = scene.runes()
        before, calls, steps = profiler.counts.copy(), profiler.calls, scene.scheduler.steps
        disk = written()
        scene.turns(TURNS)
        found = {
            "runes": (scene.runes() - runes) / TURNS,
            **{
                name: (profiler.counts[name] - before[name]) / TURNS
                for name in sorted(profiler.counts)
            },
            "steps of lanes and jobs": (scene.scheduler.steps - steps) / TURNS,
            "calls of Python functions": (profiler.calls - calls) / TURNS,
            "KB written to the device": (written() - disk) / 1_000 / TURNS,
        }
    print(json.dumps(found))


# -- the turns ----------------------------------------------------------------------------------


class _Scene:
    """One conversation, driven by hand, and somebody who hears it on another thread."""

    def __init__(self, directory: Path) -> None:
        """Open the runtime and begin the conversation."""
        clock = ManualClock()
        self.scheduler = ManualScheduler(clock)
        self._runtime = open_runtime(directory, clock=clock, scheduler=self.scheduler)
        self._session: Session = self._runtime.create_session(SPEC)

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._runtime.close()

    def turns(self, count: int) -> None:
        """Make some turns."""
        for _ in range(count):
            self._turn()

    def _turn(self) -> None:
        turn = self._session.send(QUESTION)
        heard: list[str] = []

        def hear() -> None:
            runes = turn.runes(kinds={"turn.assistant_delta"})
            heard.extend(envelope.payload.text for envelope in runes)  # type: ignore[attr-defined]  # of this kind only

        # It waits for news on a thread of its own, as this one makes them.
        follower = threading.Thread(target=hear)
        follower.start()
        result = turn.result(timeout=60)
        follower.join()
        assert result, result
        assert result.output == ANSWER, result
        assert "".join(heard) == ANSWER * 2, f"{heard} came"

    def runes(self) -> int:
        """Return how many runes the conversation has."""
        return sum(1 for _ in self._session.runes())


def _show(counted: dict[str, Any], called: dict[str, float]) -> None:
    """Print where the bytecodes are."""
    each = counted["bytecodes"]
    print(
        f"a turn, heard: {each:,.0f} bytecodes ({counted['least']:,} to {counted['most']:,})"
        f" in {called['calls of Python functions']:,.0f} calls;"
        f" {each - counted['parts'].get(BY_HAND, 0):,.0f} without {BY_HAND}"
    )
    for what in ("parts", "modules", "functions"):
        print(f"\n{what}")
        for name, count in counted[what].items():
            print(f"  {count:8,.0f}  {count / each:5.1%}  {name}")
    print("\nit does")
    for name, count in called.items():
        print(f"  {count:8,.1f}  {name}")
    print()
