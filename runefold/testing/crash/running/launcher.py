"""A process that has imported what servers need, and forks one whenever it is asked to.

Imports take longer than most of what a server does: they are made once for all servers that a
process starts, in this sweep and in later ones. It ends with the process that asks.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from runefold.testing.crash.running import fork_server
from runelog.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

_MAIN: Final = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from runefold.testing.crash.running import launcher; launcher.main(int(sys.argv[1]))"
)
_READ_AT_START: Final = ("PYTHON", "LANG", "LC_")
"""Variables that begin so say how Python itself runs: where they changed, it is started anew."""
_TAIL: Final = 2_000
"""So many bytes are told of what a launcher said that could not be started."""


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Fork a server that runs in a directory, with these variables, and has a file for errors."""

    directory: str
    environment: dict[str, str]
    errors: str


class End(msgspec.Struct, frozen=True, tag="end"):
    """End a server and whatever it started: it leads a group of its own."""

    pid: int


Request: TypeAlias = Start | End

_requests = msgspec.json.Decoder(Request)


class Launcher:
    """The process, as seen from the one that asks it for servers."""

    def __init__(self) -> None:
        """Start it."""
        self.made_for = _how_python_runs()
        """For which process it works, and how Python runs there."""
        self._lock = threading.Lock()
        self._errors = os.memfd_create("launcher")
        self._asking, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 -- starts this same Python with our own code
                [sys.executable, "-c", _MAIN, str(theirs.fileno()), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        # It ends by itself once nobody can ask it; the object would complain that it still runs.
        process.returncode = 0
        self.pid: Final = process.pid

    def start(self, reading: int, writing: int, errors: Path) -> int:
        """Have a server started that is told on one pipe and answers on the other."""
        request = Start(os.getcwd(), dict(os.environ), str(errors.absolute()))  # noqa: PTH109 -- as it is told
        return self._asked(request, (reading, writing))

    def end(self, pid: int) -> None:
        """Have a server ended; return once it is gone."""
        with contextlib.suppress(Refused):
            self._asked(End(pid))

    def _asked(self, request: Request, pipes: tuple[int, ...] = ()) -> int:
        with self._lock:
            try:
                # Descriptors go with the first byte.
                socket.send_fds(self._asking, [b" "], pipes)
                self._asking.sendall(msgspec.json.encode(request) + b"\n")
                answer = _line(self._asking)
            except OSError:
                answer = b""
        if not answer:
            os.lseek(self._errors, max(0, os.fstat(self._errors).st_size - _TAIL), os.SEEK_SET)
            told = os.read(self._errors, _TAIL).decode("utf-8", "replace").strip()
            if _current == [self]:
                close()
            msg = f"the process that starts servers for the crash kit has ended: {told}"
            raise Refused(msg)
        return int(answer)

    def close(self) -> None:
        """Ask it for nothing any more, so that it ends."""
        self._asking.close()
        os.close(self._errors)


_current: list[Launcher] = []


def current() -> Launcher:
    """Return the launcher of this process: another one if this is a fork, or Python runs anew."""
    if not _current or _current[0].made_for != _how_python_runs():
        close()
        _current.append(Launcher())
    return _current[0]


def close() -> None:
    """Let go of the launcher of this process; the next one who needs it starts another."""
    while _current:
        _current.pop().close()


atexit.register(close)


def _how_python_runs() -> tuple[int, list[str], dict[str, str]]:
    variables = {k: v for k, v in os.environ.items() if k.startswith(_READ_AT_START)}
    return os.getpid(), [*sys.path], variables


def _line(connection: socket.socket) -> bytes:
    """Return the next line; nothing if there is no more."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = connection.recv(1 << 16)
        if not chunk:
            return b""
        line += chunk
    return line


# -- in the process itself -------------------------------------------------------------------------


def main(asked: int) -> None:
    """Be the launcher: do what is asked, one thing after the other, until nobody can ask."""
    with socket.socket(fileno=asked) as connection:
        while True:
            first, pipes, _, _ = socket.recv_fds(connection, 1, 2)
            line = _line(connection) if first else b""
            if not line:
                return
            request: Request = _requests.decode(line)
            if isinstance(request, End):
                end(request.pid)
                connection.sendall(b"0\n")
                continue
            pid = os.fork()
            if pid == 0:
                connection.close()
                _serve(request, *pipes)
            for pipe in pipes:
                os.close(pipe)
            connection.sendall(b"%d\n" % pid)


def _serve(start: Start, reading: int, writing: int) -> NoReturn:
    """Be a server, in a process that was just forked."""
    try:
        os.setsid()
        file = os.open(start.errors, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        for stream in (1, 2):
            os.dup2(file, stream)
        os.chdir(start.directory)
        os.environ.clear()
        os.environ.update(start.environment)
        fork_server.main(reading, writing)
    finally:
        os._exit(0)


def end(pid: int) -> None:
    """End a child of this process and its group, and wait until it is gone."""
    # It itself as well: that may come before it leads its group.
    for kill in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
