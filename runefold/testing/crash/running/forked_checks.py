"""Looks at a log's files in a process that is forked, rather than started: for very many openings.

After a crash the log is examined in a process of its own, which takes most of the time that an
opening takes: it has to import everything first. One that is forked has that behind it. It runs the
same code, and what becomes of it is judged by the same rules.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Final, NoReturn
from unittest import mock

from runelog.index import check_in_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHUNK: Final = 1 << 16


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Fork the walkers that are needed within the block, as long as this process has one thread."""
    with mock.patch.object(check_in_child, "subprocess", _Subprocess()):
        yield


class _Subprocess:
    """Of the module `subprocess`, as much as `runelog.index.check_in_child` uses."""

    DEVNULL: Final = subprocess.DEVNULL
    TimeoutExpired: Final = subprocess.TimeoutExpired

    def run(
        self,
        command: Sequence[str],
        timeout: float,
        **options: Any,  # noqa: ANN401 -- what the real one takes
    ) -> subprocess.CompletedProcess[bytes]:
        """Do what `python -c code arguments` does."""
        if threading.active_count() > 1:
            # Another thread may hold a lock that would never be released in the copy.
            return subprocess.run(command, timeout=timeout, **options)  # noqa: PLW1510, S603 -- as asked
        code = command.index("-c") + 1
        pipes = os.pipe(), os.pipe()
        with warnings.catch_warnings():
            # The watchdog that tells of hangs is a thread as well, but holds nothing of ours.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            for number, (_, writing) in enumerate(pipes, 1):
                os.dup2(writing, number)
            _run(command[code], ["-c", *command[code + 1 :]])
        for _, writing in pipes:
            os.close(writing)
        told = _told(pid, [reading for reading, _ in pipes], time.monotonic() + timeout)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if told is None:
            raise subprocess.TimeoutExpired([*command], timeout)
        return subprocess.CompletedProcess([*command], status, *told)


def _run(code: str, arguments: list[str]) -> NoReturn:
    """Be the walker."""
    status = 0
    sys.argv = arguments
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115 -- a descriptor
    try:
        exec(code, {})  # noqa: S102 -- our own code, as a started one runs it
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    except BaseException:  # noqa: BLE001 -- told as Python tells it
        os.write(2, traceback.format_exc().encode())
        status = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(status)


def _told(pid: int, pipes: list[int], deadline: float) -> list[bytes] | None:
    """Return all that a child says; None if it does not come to an end, and is killed."""
    said = dict.fromkeys(pipes, b"")
    left = set(pipes)
    try:
        while left:
            ready, _, _ = select.select([*left], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                return None
            for pipe in ready:
                chunk = os.read(pipe, _CHUNK)
                said[pipe] += chunk
                left -= set() if chunk else {pipe}
    finally:
        for pipe in pipes:
            os.close(pipe)
    return [*said.values()]
