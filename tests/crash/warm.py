"""Walkers that are warm: forked instead of started, for sweeps that need very many of them.

They run the code that a started one runs, and what becomes of them is judged by the same rules.
That the others start, and find what there is to find, is for the tests that do not sweep.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from runelog.directory import log_directory
from runelog.errors import Corrupt
from runelog.index import check_in_child
from runelog.index.child_check import examine
from runelog.lmdb.environment import TABLES
from runelog.lmdb.salvage import check_size
from runelog.repair import repair
from runelog.transfer import backup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def keep_warm() -> None:
    """Fork the walkers of this process from now on. It must have one thread."""
    setattr(check_in_child, "subprocess", _Subprocess())  # noqa: B010 -- as much of the module as is used


@contextlib.contextmanager
def walking_inside() -> Iterator[None]:
    """Have files walked in this very process: where none may be damaged, it need not be spared."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_directory, "check_files", _examined)
        patch.setattr(backup, "check_files", _examined)
        patch.setattr(repair, "check_file", _examine)
        yield


def _examined(*files: tuple[Path, Sequence[str]]) -> list[Corrupt | None]:
    found: list[Corrupt | None] = []
    for path, tables in files:
        try:
            _examine(path, tables=tables)
            found.append(None)
        except Corrupt as error:
            found.append(error)
    return found


def _examine(path: Path, timeout: float | None = None, tables: Sequence[str] = TABLES) -> None:  # noqa: ARG001 -- as the real one
    check_size(path)
    examine(path, tables)


class _Subprocess:
    """Of the module `subprocess`, what `runelog.index.check_in_child` uses."""

    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired

    def run(
        self,
        command: Sequence[str],
        timeout: float,
        **options: Any,  # noqa: ANN401, ARG002 -- what the real one takes
    ) -> subprocess.CompletedProcess[bytes]:
        """Do what `python -c code arguments` does, in a child that has everything imported."""
        code = command.index("-c") + 1
        pipes = os.pipe(), os.pipe()
        pid = os.fork()
        if pid == 0:
            for number, (_, writing) in enumerate(pipes, 1):
                os.dup2(writing, number)
            _run(command[code], ["-c", *command[code + 1 :]])
        for _, writing in pipes:
            os.close(writing)
        told = _told(pid, [reading for reading, _ in pipes], time.monotonic() + timeout)
        if told is None:
            raise subprocess.TimeoutExpired([*command], timeout)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return subprocess.CompletedProcess([*command], status, *told)


def _run(code: str, arguments: list[str]) -> NoReturn:
    status = 0
    sys.argv = arguments
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 -- a descriptor, not a path
    try:
        exec(code, {})
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    except BaseException:  # noqa: BLE001 -- told as Python tells it
        os.write(2, traceback.format_exc().encode())
        status = 1
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
                os.waitpid(pid, 0)
                return None
            for pipe in ready:
                chunk = os.read(pipe, 65_536)
                said[pipe] += chunk
                left -= set() if chunk else {pipe}
    finally:
        for pipe in pipes:
            os.close(pipe)
    return [*said.values()]
