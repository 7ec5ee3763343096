"""Running things that may end the process or never end: in a forked child, under a watchdog."""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from typing import TYPE_CHECKING

from tests.crash.ptrace import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable


def survived(function: Callable[[], None], patience: float = PATIENCE) -> str:
    """Call a function in a child; return what went wrong there, nothing if all went well."""
    return Child(function).outcome(patience)


class Child:
    """A child that calls a function."""

    def __init__(self, function: Callable[[], None]) -> None:
        """Start it; it begins at once."""
        self._pid, self._reading = _started(function)

    def outcome(self, patience: float = PATIENCE) -> str:
        """Wait for its end; return what went wrong there, nothing if all went well."""
        try:
            return _wait(self._pid, self._reading, time.monotonic() + patience)
        finally:
            os.close(self._reading)


def _started(function: Callable[[], None]) -> tuple[int, int]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        told = ""
        try:
            function()
        except BaseException:  # noqa: BLE001 -- told to the parent, whatever it is
            told = traceback.format_exc()
        os.write(writing, told.encode()[-60_000:] or b"\0")
        os._exit(0)
    os.close(writing)
    return pid, reading


def _wait(pid: int, reading: int, deadline: float) -> str:
    told = b""
    while True:
        ready, _, _ = select.select([reading], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "it hung, and was killed by the watchdog"
        chunk = os.read(reading, 65_536)
        told += chunk
        if not chunk:
            break
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:
        # A tracer waits for all children, and was quicker: what this one told must do.
        return told.strip(b"\0").decode() if told else "the process died"
    if code:
        return f"the process died: {signal.strsignal(-code) if code < 0 else code}"
    return told.strip(b"\0").decode()
