"""The control socket: how another process gives commands to the one that holds a log.

It lies in the log's directory and only its owner can open it. Each client has one request: it is
read whole and checked before anything is done, within a time and a size, and a client that does
otherwise is dropped. Nothing that comes in here can harm the runtime or hold it up: there are at
most so many clients at once, each on a thread of its own, and the others wait at the door.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import threading
import weakref
from typing import TYPE_CHECKING, Final

from actors.report import log as operator
from runefold import place, wire
from runefold.requests import carried_out
from runelog.errors import Closed, RunefoldError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from runefold.runtime import Runtime

    Carry = Callable[[wire.AnyRequest], Any]

MODE: Final = 0o600
CLIENTS: Final = 16
"""How many are served at once."""
BACKLOG: Final = 64
"""How many wait at the door."""
READING: Final = 5.0
"""How many seconds a client has to say what it wants."""
WRITING: Final = 10.0
"""How many seconds a client has to take the answer."""
_BREATH: Final = 0.5
"""How long to wait when clients cannot be let in, for want of descriptors or threads."""


def open_beside(directory: Path, carry: Carry) -> Control | None:
    """Open the socket in a log's directory; without one the runtime works, and says so."""
    try:
        return Control(directory, carry)
    except (OSError, RuntimeError) as error:
        operator.warning("no_control_socket", directory=str(directory), reason=str(error))
        return None


class Control:
    """Listens beside one log, from its making until it is closed."""

    def __init__(self, directory: Path, carry: Carry) -> None:
        """Listen; whoever makes it holds the log, so a socket that is there was left behind."""
        self._carry = carry
        self._path = place.socket_in(directory)
        self._free = threading.Semaphore(CLIENTS)
        self._closed = False
        self._listener = _listening(directory)
        self._id = _identity(self._path)
        self._bell, self._rope = socket.socketpair()
        _open.add(self)
        self._thread = threading.Thread(target=self._live, name="runefold-control", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.drop()
            raise

    # -- the door -------------------------------------------------------------------------------

    def _live(self) -> None:
        while True:
            self._free.acquire()
            peer = self._next()
            if peer is None:
                return
            client = threading.Thread(
                target=self._serve, args=(peer,), name="runefold-client", daemon=True
            )
            try:
                client.start()
            except RuntimeError as error:
                self._dismiss(peer)
                self._rest(str(error))

    def _next(self) -> socket.socket | None:
        """Wait for a client; None once this is closed."""
        while True:
            try:
                _ready([self._listener, self._bell])
                if self._closed:
                    return None
                return self._listener.accept()[0]
            except BlockingIOError:
                continue
            except (OSError, ValueError) as error:
                if self._closed:
                    return None
                self._rest(str(error))

    def _rest(self, reason: str) -> None:
        operator.warning("control_client_not_served", reason=reason)
        with contextlib.suppress(OSError, ValueError):
            _ready([self._bell], _BREATH)

    def _dismiss(self, peer: socket.socket) -> None:
        with contextlib.suppress(OSError):
            peer.close()
        self._free.release()

    # -- a client -------------------------------------------------------------------------------

    def _serve(self, peer: socket.socket) -> None:
        try:
            if wire.trusts(peer):
                reply = self._reply(peer)
                wire.transmit(peer, wire.encode(reply), wire.MAX_ANSWER, WRITING)
            else:
                operator.warning("control_client_refused", reason="it is another user's")
        except (OSError, wire.Broken) as error:
            # It went away, or was too slow: nobody is left to be told.
            operator.debug("control_client_gone", reason=str(error))
        except Exception:  # noqa: BLE001 -- a client's trouble stays the client's
            operator.exception("control_client_failed")
        finally:
            self._dismiss(peer)

    def _reply(self, peer: socket.socket) -> wire.Reply:
        try:
            request = wire.request_from(wire.receive(peer, wire.MAX_REQUEST, READING))
            reply = wire.Reply(self._carry(request))
            size = len(wire.encode(reply))
        except (OSError, wire.Broken):
            raise
        except RunefoldError as error:
            return wire.failed(error)
        except Exception as error:  # noqa: BLE001 -- whoever asked has to be told something
            operator.exception("control_request_failed")
            return wire.failed(error)
        if size > wire.MAX_ANSWER:
            msg = f"the answer has {size:,} bytes, and at most {wire.MAX_ANSWER:,} can be sent"
            return wire.Reply(error="TooLarge", message=msg)
        return reply

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Let nobody in any more. Those who are in are answered."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            self._rope.send(b"x")
        self._free.release()
        if self._thread is not threading.current_thread():
            self._thread.join()
        with contextlib.suppress(OSError):
            # Whoever took the log over has put a socket of its own there.
            if _identity(self._path) == self._id:
                self._path.unlink()
        self.drop()

    def drop(self) -> None:
        """Close what is open, without a word to anybody."""
        self._closed = True
        for each in (self._listener, self._bell, self._rope):
            with contextlib.suppress(OSError):
                each.close()


def _listening(directory: Path) -> socket.socket:
    path = place.socket_in(directory)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            msg = f"{path} is in the way: it is no socket"
            raise FileExistsError(msg)
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with place.short(directory) as name:
            listener.bind(name)
        # Before it listens nobody can connect, whatever its permissions are until here.
        path.chmod(MODE)
        listener.listen(BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 -- as the library has it
    except BaseException:
        listener.close()
        raise
    return listener


def _ready(sockets: list[socket.socket], seconds: float | None = None) -> None:
    """Wait until there is something to read from one of them."""
    # Not `select`, which knows no descriptors beyond 1,023.
    poll = select.poll()
    for each in sockets:
        poll.register(each, select.POLLIN)
    poll.poll(None if seconds is None else seconds * 1_000)


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


_open: weakref.WeakSet[Control] = weakref.WeakSet()


def _after_fork() -> None:
    # A child that kept the listener would let clients in whom nobody serves.
    for control in _open:
        control.drop()


os.register_at_fork(after_in_child=_after_fork)


def carrier(runtime: Runtime) -> Carry:
    """Return what does for a runtime as it is asked, and does not keep it alive."""
    found = weakref.ref(runtime)

    def carry(request: wire.AnyRequest) -> object:
        alive = found()
        if alive is None:
            msg = "this runtime has been closed: open it again"
            raise Closed(msg)
        return carried_out(alive, request)

    return carry
