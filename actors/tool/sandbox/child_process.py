"""Our end of a running program: started through a watchdog, listened to, stopped in time."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from actors.tool.sandbox import watchdog
from actors.tool.sandbox.isolation import World, counts_processes, interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from actors.tool.context import Cancellation
    from actors.tool.sandbox.streams import Streams

_READ: Final = 64 << 10
_LAST_READS: Final = 32
"""How often a stream is read after the end: one who escaped may hold it open and never be quiet."""
_LAST_WORDS: Final = 1 << 10
_PATIENCE: Final = 5.0
"""Seconds that a watchdog gets beyond the program's own."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What to run, and within what bounds."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    limits: Mapping[str, int]
    """By the names of the `resource` module."""
    processes: int | None
    """How many processes it may be at a time."""
    written: int | None
    """How many bytes it may write in all."""
    bubblewrap: str | None
    """What isolates it; None if only the watchdog does."""
    world: World
    """What it sees inside that."""
    block: bool
    """Whether the watchdog takes the network away."""
    timeout: float
    grace: float
    """Seconds between asking a program to end and killing it."""


@dataclass
class Ended:
    """How a program ended."""

    code: int | None = None
    """Its exit code; negative for the signal that killed it; None if it never ran."""
    stopped: Literal["", "timeout", "cancelled"] = ""
    """Why it was made to end, if it was."""
    failed: str = ""
    """Why it could not be run, if so."""
    excess: str = ""
    """What it took too much of, so that it was killed."""


def run(order: Order, cancellation: Cancellation, streams: Streams) -> Ended:
    """Run a program until all of it has ended, and return how that came."""
    ours, theirs = socket.socketpair()
    with ours:
        try:
            with theirs:
                process = _started(order, theirs.fileno())
        except (OSError, ValueError) as error:
            return Ended(failed=f"{order.argv[0]!r} cannot be started: {error}")
        child_process = _ChildProcess(order, cancellation, streams, process, ours)
        try:
            child_process.hold()
        finally:
            child_process.let_go()
    return child_process.ended


def _started(order: Order, control: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 -- no shell, and the program is the declaration's
        [
            *_walls(order),
            *interpreter(),
            watchdog.__file__,
            *_settings(order, control),
            *order.argv,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd="/",
        env=dict(order.env),
        pass_fds=(control,),
        start_new_session=True,
    )


def _walls(order: Order) -> list[str]:
    if order.bubblewrap is None:
        return []
    return [order.bubblewrap, *order.world.arguments(), "--"]


def _settings(order: Order, control: int) -> Iterator[str]:
    """Yield what the watchdog is told: each as one entry of its command line, up to `--`."""
    inside = order.bubblewrap is not None
    limits = dict(order.limits)
    apart = inside or (order.block and os.geteuid() != 0)
    if apart and order.processes is not None and counts_processes():
        # Only in a user namespace of its own: else it would count all processes of the user.
        limits["RLIMIT_NPROC"] = order.processes + 1  # the watchdog is one of them
    way_out = "install it, or mend PATH"
    if inside:
        way_out += "; what it needs outside the system's directories has to be in reads"
    told = {
        "control": control,
        "cwd": order.cwd,
        "grace": order.grace,
        "isolate": "yes" if order.block else "",
        "missing": way_out,
        "processes": order.processes or "",
        "written": order.written or "",
        "scratch": "\n".join(order.world.empty_places()) if inside else "",
        "places": "\n".join(str(path) for path in order.world.writable),
        **limits,
    }
    if "PWD" in order.env:
        told["PWD"] = order.env["PWD"]
    yield from (f"{name}={value}" for name, value in told.items())
    yield "--"


@dataclass
class _ChildProcess:
    order: Order
    cancellation: Cancellation
    streams: Streams
    process: subprocess.Popen[bytes]
    control: socket.socket
    ended: Ended = field(default_factory=Ended)
    _told: bytes = b""
    _over: bool = False

    def hold(self) -> None:
        """Listen until the watchdog is gone, and stop the program when it is time to."""
        stop_at = time.monotonic() + self.order.timeout
        with selectors.DefaultSelector() as selector, self._woken() as wake:
            for name, pipe in self._pipes():
                os.set_blocking(pipe.fileno(), False)
                selector.register(pipe, selectors.EVENT_READ, name)
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while not self._over:
                waits = [max(0.0, stop_at - time.monotonic()), self.streams.wait()]
                for key, _ in selector.select(min(wait for wait in waits if wait is not None)):
                    self._hear(selector, key, wake)
                self.streams.show()
                if self.cancellation.cancelled and not self.ended.stopped:
                    stop_at = self._stop("cancelled")
                elif time.monotonic() >= stop_at:
                    stop_at = self._stop("timeout")
        for name, pipe in self._pipes():
            for _ in range(_LAST_READS):
                if not self._read(name, pipe):
                    break
        self.streams.finish()

    def _hear(
        self, selector: selectors.BaseSelector, key: selectors.SelectorKey, wake: socket.socket
    ) -> None:
        if key.fileobj is wake:
            wake.recv(64)
        elif key.fileobj is self.control:
            self._listen()
        elif not self._read(key.data, key.fileobj):
            selector.unregister(key.fileobj)

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionError):
            if data := self.control.recv(4096):
                self._told += data
                return
        self._over = True

    def _read(self, name: str, pipe: Any) -> bool:  # noqa: ANN401 -- a selector's word for a file
        """Read once; return True if there may be more."""
        try:
            data = os.read(pipe.fileno(), _READ)
        except BlockingIOError:
            return False
        self.streams.feed(name, data)
        return bool(data)

    def _stop(self, why: Literal["timeout", "cancelled"]) -> float:
        """Have the watchdog end the program; return when to give up on the watchdog too."""
        if self.ended.stopped:
            # It had its time, and then some: without it, the kernel ends the program.
            self.process.kill()
        else:
            self.ended.stopped = why
            with contextlib.suppress(OSError):
                self.control.send(b"stop")
        return time.monotonic() + self.order.grace + _PATIENCE

    @contextlib.contextmanager
    def _woken(self) -> Iterator[socket.socket]:
        """Give a socket that becomes readable once the call is cancelled."""
        reading, writing = socket.socketpair()
        with reading, writing, self.cancellation.calling(lambda: writing.send(b"x")):
            yield reading

    def _pipes(self) -> list[tuple[str, IO[bytes]]]:
        out, err = self.process.stdout, self.process.stderr
        assert out is not None
        assert err is not None
        return [("stdout", out), ("stderr", err)]

    def let_go(self) -> None:
        """Leave nothing behind: no process, no file."""
        # To the watchdog, a closed socket is the word to end the program.
        self.control.close()
        for _, pipe in self._pipes():
            pipe.close()
        try:
            self.process.wait(self.order.grace + _PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        lines = self._told.decode(errors="replace").splitlines()
        told = dict(line.split("=", 1) for line in lines if "=" in line)
        self.ended.code = int(told["code"]) if "code" in told else None
        self.ended.excess = told.get("excess", "")
        self.ended.failed = told.get("failed", "")
        if self.ended.code is None and not self.ended.failed:
            self.ended.failed = self._unguarded()
            if pid := told.get("pid"):
                # The program died with its watchdog; those it had started did not.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(int(pid), signal.SIGKILL)

    def _unguarded(self) -> str:
        """Say why there is no word of how it ended."""
        if self.order.bubblewrap is None or self.ended.stopped or self.process.returncode < 0:
            return "its watchdog was killed"
        said = self.streams.kept.tail(_LAST_WORDS).strip()
        return f"bubblewrap ended with code {self.process.returncode}: {said}"
