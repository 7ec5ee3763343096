"""Real kills: a child with a log on disk and threads, ended by SIGKILL; a fresh one goes on.

The child itself watches its log and its tools, and pulls the trigger; the product knows nothing of
it. All of it runs in the processes of the `pool` fixture, which are fit to be forked.
"""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from unittest.mock import patch

from actors.catalogue import CODEC
from runefold.runtime import Runtime
from runelog.store import Runelog
from tests.crash.core.cuts import undisturbed
from tests.crash.guard import survived
from tests.crash.runs import scratch
from tests.scenarios.judge import broken_promises, differences, upshot
from tests.scenarios.plays import ALL
from tests.scenarios.world import PROVIDERS, FileTill, tools

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runelog.rune import Appended

KILLED: Final = "the process died: Killed"

Moment = Literal["before", "after", "on disk"]
"""When to kill: before an append, after it was made, after it is on disk."""
MOMENTS: Final[tuple[Moment, ...]] = ("before", "after", "on disk")


class Kill(NamedTuple):
    """The child is killed at its n-th append, or at its n-th effect."""

    number: int
    moment: str
    where: Literal["append", "tool"] = "append"

    def __str__(self) -> str:
        """Say when."""
        return f"{self.moment} {self.where} {self.number}"


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class _Counter:
    """Counts what happens, on whichever thread, and kills at the n-th."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lock = threading.Lock()
        self.count = 0

    def add(self) -> None:
        """Count one more."""
        with self._lock:
            self.count += 1

    def hit(self) -> bool:
        """Count one more; tell whether it is the n-th."""
        with self._lock:
            self.count += 1
            return self.count == self._number


class _Mishap:
    """Kills in the middle of a tool."""

    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill if kill is not None and kill.where == "tool" else None
        self._counter = _Counter(self._kill.number if self._kill else 0)

    def __call__(self, when: str) -> None:
        if self._kill is not None and when == self._kill.moment and self._counter.hit():
            _die()


def _watch(before: Callable[[], None], after: Callable[[Runelog], None]) -> None:
    """Have something done at each append of this process. Only ever called in a child."""
    append = Runelog.append

    def watched(log: Runelog, *arguments: Any, **options: Any) -> Appended:  # noqa: ANN401 -- as the log takes them
        before()
        appended = append(log, *arguments, **options)
        after(log)
        return appended

    patch.object(Runelog, "append", watched).start()


def _arm(kill: Kill) -> None:
    """Have this process killed at an append."""
    counter = _Counter(kill.number)

    def before() -> None:
        if kill.moment == "before" and counter.hit():
            _die()

    def after(log: Runelog) -> None:
        if kill.moment != "before" and counter.hit():
            if kill.moment == "on disk":
                log.flush()
            _die()

    _watch(before, after)


def _play(root: Path, name: str, kill: Kill | None) -> None:
    if kill is not None and kill.where == "append":
        _arm(kill)
    till = FileTill(root)
    if till.promises():
        with Runelog.open(root / "log", CODEC, readonly=True) as log:
            broken = list(broken_promises(log, till))
            assert not broken, "\n".join(broken)
    runtime = Runtime.open(root / "log", tools=tools(till, _Mishap(kill)), providers=PROVIDERS)
    ALL[name].play(runtime, till)
    if kill is None:
        runtime.close()


def _finish(root: Path, name: str) -> None:
    """Go on in a fresh process, and judge what it came to."""
    _play(root, name, None)
    scenario = ALL[name]
    want, _ = undisturbed(name)
    with Runelog.open(root / "log", CODEC, readonly=True) as log:
        wrong = list(differences(scenario, want, upshot(log, FileTill(root))))
    assert not wrong, "\n".join(wrong)


def survive(name: str, *kills: Kill) -> str:
    """Play a scenario through some kills, one after the other; return what is wrong."""
    undisturbed(name)  # once for all children of this process
    with scratch() as root:
        for kill in kills:
            wrong = survived(partial(_play, root, name, kill))
            if wrong not in {"", KILLED}:
                return f"{name}, before it was killed {kill}: {wrong}"
        wrong = survived(partial(_finish, root, name))
        return f"{name}, killed {' and '.join(map(str, kills))}: {wrong}" if wrong else ""


def count(name: str) -> int:
    """Return how many appends a scenario takes on threads, about: they share fragments."""
    with scratch() as root:
        reading, writing = os.pipe()
        wrong = survived(partial(_count, root, name, writing))
        assert not wrong, wrong
        os.close(writing)
        told = os.read(reading, 100)
        os.close(reading)
        return int(told)


def _count(root: Path, name: str, writing: int) -> None:
    counter = _Counter(0)
    _watch(lambda: None, lambda _log: counter.add())
    _play(root, name, None)
    os.write(writing, str(counter.count).encode())
