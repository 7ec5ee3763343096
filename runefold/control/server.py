"""The control socket: how another process gives commands to the one that has a log open.

It lies in the log's directory and only its owner can open it. A thread accepts clients. Each has a
thread that reads one request, within a time and a size, carries it out and writes the answer. If
too many clients are slow at once, or too much memory is kept for them, those that came first are
disconnected: they keep no other client from being served.
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

from actors.catalogue import COMMANDS
from actors.operator_log import log as operator
from runefold.control import peers, socket_path, wire
from runefold.control.requests import carried_out
from runelog.errors import Closed, RunefoldError, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from actors.public_command import Commands
    from runefold.runtime import Runtime

    Carry = Callable[[wire.Request, str], Any]

MODE: Final = 0o600
CLIENTS: Final = 16
"""At most this many requests are carried out at once."""
MAX_SLOW: Final = 256
"""At most this many clients may be sending or receiving; the first are then disconnected."""
MAX_HELD: Final = 128 << 20
"""At most this many bytes are kept for slow clients together, besides those of the last one."""
MAX_THREADS: Final = 2 * MAX_SLOW
"""At most this many clients have a thread; others wait in the backlog."""
BACKLOG: Final = 128
"""At most this many clients wait to be accepted."""
READING: Final = 5.0
"""Seconds that a client has to send its request."""
WRITING: Final = 10.0
"""Seconds that a client has to take the answer."""
RETRY: Final = 0.5
"""Seconds to wait if no client can be accepted, for want of descriptors."""


def open_beside(directory: Path, carry: Carry, commands: Commands) -> Control | None:
    """Open the socket in a log's directory; without one the runtime works, and says so."""
    try:
        return Control(directory, carry, commands)
    except (OSError, RuntimeError) as error:
        operator.warning("no_control_socket", directory=str(directory), reason=str(error))
        return None


class Control:
    """Listens beside one log, from its making until it is closed."""

    def __init__(self, directory: Path, carry: Carry, commands: Commands = COMMANDS) -> None:
        """Listen; this process holds the log, so a socket that is there was left behind."""
        self._carry = carry
        self._commands = commands
        self._path = socket_path.socket_in(directory)
        self._closed = self._dropped = False
        self._lock = threading.Lock()
        self._slow: dict[socket.socket, int] = {}
        """Clients that send or receive, the first first, and the bytes that are kept for each."""
        self._served: set[socket.socket] = set()
        """Clients whose request is here."""
        self._carriers = threading.Semaphore(CLIENTS)
        self._threads = threading.Semaphore(MAX_THREADS)
        self._listener = _listening(directory)
        self._id = _identity(self._path)
        self._woken, self._wake = socket.socketpair()
        """The end of the second one ends the thread that accepts."""
        _open.add(self)
        self._thread = threading.Thread(target=self._accept, name="runefold-control", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.drop()
            raise

    # -- accepting ------------------------------------------------------------------------------

    def _accept(self) -> None:
        """Accept clients until this is closed."""
        wait = None
        try:
            while not self._closed:
                listener = [self._listener] if wait is None else []
                select.select([self._woken, *listener], [], [], wait)
                wait = None if self._closed or self._accepted() else RETRY
        except Exception:  # noqa: BLE001 -- the runtime goes on without a socket
            if not self._dropped:
                operator.exception("control_failed")
        finally:
            self._listener.close()
            with self._lock:
                for peer in self._slow:
                    if peer not in self._served:
                        _disconnect(peer)

    def _accepted(self) -> bool:
        """Accept a client that is there; return False if that is impossible for now."""
        if not self._threads.acquire(timeout=RETRY):
            return True
        try:
            peer = self._listener.accept()[0]
        except OSError as error:
            self._threads.release()
            if not isinstance(error, BlockingIOError):
                operator.warning("control_client_not_served", reason=str(error))
            return isinstance(error, BlockingIOError)
        self._keep(peer, 0)
        if not peers.trusts(peer):
            operator.warning("control_client_refused", reason="it belongs to another user")
            self._end(peer)
            return True
        try:
            threading.Thread(
                target=self._serve, args=(peer,), name="runefold-client", daemon=True
            ).start()
        except RuntimeError as error:
            operator.warning("control_client_not_served", reason=str(error))
            self._end(peer)
        return True

    # -- a client -------------------------------------------------------------------------------

    def _keep(self, peer: socket.socket, size: int) -> None:
        """Note how many bytes are kept for a slow client; disconnect the first if need be."""
        with self._lock:
            self._slow[peer] = size
            held = sum(self._slow.values()) - size
            for first in [*self._slow]:
                if first is peer or (len(self._slow) <= MAX_SLOW and held <= MAX_HELD):
                    return
                held -= self._slow.pop(first)
                _disconnect(first)

    def _end(self, peer: socket.socket) -> None:
        with self._lock:
            self._slow.pop(peer, None)
            self._served.discard(peer)
        peer.close()
        self._threads.release()

    def _serve(self, peer: socket.socket) -> None:
        """Read a request, carry it out and write the answer."""
        try:
            try:
                data = wire.receive(
                    peer, wire.MAX_REQUEST, READING, lambda size: self._keep(peer, size)
                )
            except TooLarge as error:
                reply = wire.encode(wire.failed(error))
            else:
                with self._lock:
                    self._slow.pop(peer, None)
                    self._served.add(peer)
                with self._carriers:
                    reply = self._reply(peer, data)
            self._keep(peer, len(reply))
            wire.transmit(peer, reply, len(reply), WRITING)
        except (OSError, wire.Broken) as error:
            # It was too slow, or is gone.
            operator.debug("control_client_gone", reason=str(error))
        finally:
            self._end(peer)

    def _reply(self, peer: socket.socket, data: bytes) -> bytes:
        try:
            request = wire.request_from(data, self._commands)
            reply = wire.encode(wire.Reply(self._carry(request, peers.process_of(peer))))
        except RunefoldError as error:
            return wire.encode(wire.failed(error))
        except BaseException as error:  # noqa: BLE001 -- the client must get an answer
            operator.exception("control_request_failed")
            return wire.encode(wire.failed(error))
        if len(reply) > wire.MAX_ANSWER:
            msg = f"the answer has {len(reply):,} bytes: at most {wire.MAX_ANSWER:,} can be sent"
            return wire.encode(wire.failed(TooLarge(msg)))
        return reply

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Accept no more clients. Those whose request is here are answered."""
        if self._closed:
            return
        self._closed = True
        self._wake.close()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._woken.close()
        with contextlib.suppress(OSError):
            # The next owner of the log may have put a socket of its own there.
            if _identity(self._path) == self._id:
                self._path.unlink()

    def drop(self) -> None:
        """Close what is open, without a word to any client, from any thread."""
        self._closed = self._dropped = True
        for each in (*self._slow, *self._served, self._wake, self._listener, self._woken):
            with contextlib.suppress(OSError):
                each.close()


def _disconnect(peer: socket.socket) -> None:
    """End what a thread waits for on a connection; the thread closes it."""
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_RDWR)


def _listening(directory: Path) -> socket.socket:
    path = socket_path.socket_in(directory)
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            msg = f"{path} is in the way: it is no socket"
            raise FileExistsError(msg)
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_path.short(directory) as name:
            listener.bind(name)
        # Before it listens no client can connect, whatever its permissions are until here.
        path.chmod(MODE)
        listener.listen(BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 -- as the library has it
    except BaseException:
        listener.close()
        raise
    return listener


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


_open: weakref.WeakSet[Control] = weakref.WeakSet()


def _after_fork() -> None:
    # A child that kept the listener would let clients in and serve none of them.
    for control in _open:
        control.drop()


os.register_at_fork(after_in_child=_after_fork)


def carrier(runtime: Runtime) -> Carry:
    """Return what does for a runtime as it is asked, and does not keep it alive."""
    found = weakref.ref(runtime)

    def carry(request: wire.Request, process: str) -> object:
        alive = found()
        if alive is None:
            msg = "this runtime has been closed: open it again"
            raise Closed(msg)
        return carried_out(alive, request, process)

    return carry
