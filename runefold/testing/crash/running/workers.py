"""The servers of a sweep, one for each core, and who gives them work. Starts no thread."""

from __future__ import annotations

import contextlib
import os
import selectors
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runefold.testing.crash.running import fork_server, launcher
from runefold.testing.crash.running.fork_server import Broken
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from runefold.testing.crash.app import CrashApp
    from runefold.testing.crash.running.fork_server import Answer, Setup, Task

_TASKS: Final = Path("/proc/self/task")
_MOST: Final = 1 << 20
"""So much is read of what a server that is gone had to say."""


class Server:
    """One server, seen from outside."""

    def __init__(self, setup: Setup, app: CrashApp | None, errors: Path) -> None:
        """Start it: from a launcher, or, if the app cannot be imported, as a copy of ourselves."""
        self._errors = errors
        self._launcher = launcher.current() if app is None else None
        self.is_gone = False
        """Whether it has ended by itself."""
        reading, self._telling = os.pipe()
        self.hearing, writing = os.pipe()
        try:
            if self._launcher is not None:
                self._pid = self._launcher.start(reading, writing, errors)
                self._tell(fork_server.encode(setup))
            else:
                assert app is not None
                ours = (self._telling, self.hearing)
                self._pid = _forked(setup, app, reading, writing, errors, ours)
        finally:
            os.close(reading)
            os.close(writing)
        self._waiting = b""
        self.task: Task | None = None
        os.set_blocking(self.hearing, False)

    def _tell(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            view = view[os.write(self._telling, view) :]

    def give(self, task: Task) -> None:
        """Have it do something."""
        self.task = task
        with contextlib.suppress(BrokenPipeError):  # its end is noticed where it is heard
            self._tell(fork_server.encode(task))

    def hear(self) -> Answer | None:
        """Return its answer, None if that is not all there yet; if it is gone, say what of."""
        try:
            chunk = os.read(self.hearing, 1 << 20)
        except BlockingIOError:
            return None
        if not chunk:
            self.is_gone = True
            return fork_server.lost(self.task, self._last_words())
        self._waiting += chunk
        line, newline, rest = self._waiting.partition(b"\n")
        if not newline:
            return None
        self._waiting = rest
        return fork_server.answer_from(line)

    def _last_words(self) -> str:
        try:
            with self._errors.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def end(self) -> None:
        """End it, and whatever it started: it leads a group of its own."""
        for pipe in (self._telling, self.hearing):
            with contextlib.suppress(OSError):
                os.close(pipe)
        if self._launcher is not None:
            self._launcher.end(self._pid)
        else:
            launcher.end(self._pid)


def _forked(
    setup: Setup, app: CrashApp, reading: int, writing: int, errors: Path, theirs: tuple[int, ...]
) -> int:
    with warnings.catch_warnings():
        # That there is one thread only was looked at; Python cannot know.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for pipe in theirs:
            os.close(pipe)
        file = os.open(errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(file, stream)
        fork_server.serve(setup, app, reading, writing)
    finally:
        os._exit(0)


def threads() -> int:
    """Return how many threads this process has, Python's or not."""
    try:
        return len(list(_TASKS.iterdir()))
    except OSError:
        return 2


class Workers:
    """Some servers, and the work that is given to them."""

    def __init__(self, setup: Setup, app: CrashApp | None, jobs: int) -> None:
        """Start so many servers. An app that has to be copied needs a process with one thread."""
        if app is not None and (count := threads()) > 1:
            msg = (
                "build, scenario or check is made while the program runs (a closure or a lambda), "
                f"so other processes cannot import it, and this one has {count} threads, so it "
                "cannot be copied: make them functions of a module, or run pytest without -n"
            )
            raise Refused(msg)
        self._setup, self._app = setup, app
        self._count = 0
        self._servers: list[Server] = []
        try:
            for _ in range(jobs):
                self._servers.append(self._started())
        except BaseException:
            self.end()
            raise

    def _started(self) -> Server:
        self._count += 1
        return Server(self._setup, self._app, Path(self._setup.work) / f"server-{self._count}")

    def one(self, task: Task) -> Answer:
        """Have one thing done."""
        return next(self.all([task]))[1]

    def all(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, Answer]]:
        """Have many things done, as many at once as there are servers; yield each when done."""
        waiting = deque(tasks)
        with selectors.DefaultSelector() as selector:
            for each in self._servers:
                selector.register(each.hearing, selectors.EVENT_READ, each)
            busy = 0
            for each in self._servers[: len(waiting)]:
                each.give(waiting.popleft())
                busy += 1
            while busy:
                for key, _ in selector.select():
                    each = key.data
                    answer, task = each.hear(), each.task
                    if answer is None:
                        continue
                    if isinstance(answer, Broken):
                        raise Refused(answer.message)
                    if each.is_gone:
                        each = self._replaced(each, selector)
                    if waiting:
                        each.give(waiting.popleft())
                    else:
                        busy -= 1
                    yield task, answer

    def _replaced(self, old: Server, selector: selectors.BaseSelector) -> Server:
        """Have another one in the place of one that is gone."""
        selector.unregister(old.hearing)
        old.end()
        new = self._servers[self._servers.index(old)] = self._started()
        selector.register(new.hearing, selectors.EVENT_READ, new)
        return new

    def end(self) -> None:
        """End them all."""
        for each in self._servers:
            each.end()

    def __enter__(self) -> Self:
        """Return the workers itself; leaving the block ends it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End them."""
        self.end()
