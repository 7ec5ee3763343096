"""A small tracer: runs a function in a forked child and sees each of its system calls.

Linux lets a process trace its own children without privileges or tools. As it is there before and
after each call, the tracer can note what was written, make a call fail, or kill the child at it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import sys
import traceback
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

POSSIBLE: Final = sys.platform == "linux" and platform.machine() == "x86_64"
needs_tracer: Final = pytest.mark.skipif(
    not POSSIBLE, reason="the tracer knows the system calls of Linux on x86_64 only"
)
PATIENCE: Final = 60
"""Seconds until a child counts as hung; nothing that works waits for it."""
BROKE: Final = 70
"""How a child exits whose function raised."""

_TRACEME, _POKEUSER, _SYSCALL, _OPTIONS, _INFO = 0, 6, 24, 0x4200, 0x420E
_SYSGOOD, _CLONE, _EXITKILL = 0x1, 0x8, 0x100000
_WALL: Final = 0x40000000
_ENTRY: Final = 1
_RESULT_REGISTER: Final = 10 * 8
_NUMBER_REGISTER: Final = 15 * 8
_info = struct.Struct("<B3xIQQ7Q")
_exit = struct.Struct("<B3xIQQq")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


class Entered(NamedTuple):
    """A system call that is about to be made."""

    thread: int
    number: int
    arguments: tuple[int, ...]


class Fail(NamedTuple):
    """Have the call fail with this error, and not be carried out."""

    errno: int


class Kill(NamedTuple):
    """Kill the child instead of letting it make the call."""


class Watcher(Protocol):
    """Sees what a child does."""

    def enter(self, call: Entered) -> Fail | Kill | None:
        """See a call before it is made, and decide what becomes of it."""
        ...

    def leave(self, thread: int, result: int) -> None:
        """See what came of the thread's call; a negative result is an error."""
        ...


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    result: int = _libc.ptrace(request, pid, address, data)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace {request:#x}: {os.strerror(error)}")
    return result


def end(function: Callable[[], object]) -> NoReturn:
    """Call a function and leave the process without any farewell."""
    try:
        function()
    except BaseException:  # noqa: BLE001 -- told through the exit status
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(BROKE)
    os._exit(0)


def trace(function: Callable[[], object], watcher: Watcher) -> int:
    """Run a function in a traced child; return its exit status, negative if a signal ended it."""
    pid = os.fork()
    if pid == 0:

        def begin() -> None:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            function()

        end(begin)
    try:
        os.waitpid(pid, 0)
        _ptrace(_OPTIONS, pid, 0, _SYSGOOD | _CLONE | _EXITKILL)
        _ptrace(_SYSCALL, pid)
        return _Loop(pid, watcher).run()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, _WALL)
        raise


class _Loop:
    """Follows all threads of one child from stop to stop."""

    def __init__(self, pid: int, watcher: Watcher) -> None:
        self.pid = pid
        self.watcher = watcher
        self.threads = {pid}
        self.failing: dict[int, int] = {}
        self.buffer = ctypes.create_string_buffer(96)

    def run(self) -> int:
        while True:
            thread, status = os.waitpid(-1, _WALL)
            if os.WIFSTOPPED(status):
                try:
                    self.stopped(thread, status)
                except ProcessLookupError:
                    continue  # killed while it was stopped: its end is told next
            elif thread == self.pid:
                return os.waitstatus_to_exitcode(status)

    def stopped(self, thread: int, status: int) -> None:
        deliver = os.WSTOPSIG(status)
        if deliver == signal.SIGTRAP | 0x80:
            deliver = 0
            if not self.call(thread):
                return
        elif deliver == signal.SIGTRAP and status >> 16:
            deliver = 0
        elif deliver == signal.SIGSTOP and thread not in self.threads:
            self.threads.add(thread)
            deliver = 0
        _ptrace(_SYSCALL, thread, 0, deliver)

    def call(self, thread: int) -> bool:
        """Show a call to the watcher; tell whether the child goes on."""
        size = len(self.buffer)
        got = _ptrace(_INFO, thread, size, ctypes.addressof(self.buffer))
        raw = self.buffer.raw[: max(got, _info.size)]
        if raw[0] == _ENTRY:
            fields = _info.unpack_from(raw)
            verdict = self.watcher.enter(Entered(thread, fields[4], fields[5:]))
            if isinstance(verdict, Kill):
                os.kill(self.pid, signal.SIGKILL)
                return False
            if isinstance(verdict, Fail):
                _ptrace(_POKEUSER, thread, _NUMBER_REGISTER, -1)
                self.failing[thread] = verdict.errno
            return True
        result = _exit.unpack_from(raw)[4]
        error = self.failing.pop(thread, 0)
        if error:
            _ptrace(_POKEUSER, thread, _RESULT_REGISTER, -error)
            result = -error
        self.watcher.leave(thread, result)
        return True
