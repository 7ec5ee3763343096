"""The control socket: how another process gives commands to the one that holds a log.

It lies in the log's directory and only its owner can open it. Each client has one request, which is
read whole and checked before anything is done, within a time and a size. One thread reads from all
clients and writes to all of them, and waits for none: a client that is slow or silent costs a
descriptor until its time is up, and keeps nobody from being served. Only a request that is here is
given to a thread of its own, and there are at most so many of those.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import stat
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from actors.catalogue import COMMANDS
from actors.operator_log import log as operator
from runefold.control import peers, socket_path, wire
from runefold.control.connection import Client
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
"""How many requests are carried out at once."""
CROWD: Final = 256
"""How many clients may be slow at once: when more come, those that came first are sent away."""
HELD: Final = 128 << 20
"""How many bytes are kept for slow clients, all together, besides those of the last one."""
BACKLOG: Final = 128
"""How many wait at the door."""
READING: Final = 5.0
"""How many seconds a client has to say what it wants."""
WRITING: Final = 10.0
"""How many seconds a client has to take the answer."""
_BREATH: Final = 0.5
"""How long to wait when clients cannot be let in, for want of descriptors."""


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
        self._shut = threading.Event()
        """Set once nobody is let in any more."""
        self._slow: dict[Client, None] = {}
        """Those whose request or answer is on its way, in the order in which that began."""
        self._waiting: deque[tuple[Client, bytes]] = deque()
        """Requests that are here, and for which no thread is free."""
        self._replies: deque[tuple[Client, bytes]] = deque()
        """What the threads have to tell."""
        self._busy = 0
        """How many requests are being carried out."""
        self._rests_until = 0.0
        """Until when nobody is let in, for want of descriptors."""
        self._listener = _listening(directory)
        self._id = _identity(self._path)
        self._bell, self._rope = socket.socketpair()
        for end in (self._bell, self._rope):
            end.setblocking(False)  # noqa: FBT003 -- as the library has it
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        _open.add(self)
        self._thread = threading.Thread(target=self._live, name="runefold-control", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self.drop()
            raise

    # -- the one thread for all -----------------------------------------------------------------

    def _live(self) -> None:
        try:
            while not self._shut.is_set() or self._slow or self._waiting or self._busy:
                self._look()
        except Exception:  # noqa: BLE001 -- the runtime goes on without a socket
            if not self._dropped:
                operator.exception("control_failed")
        finally:
            self.drop()

    def _look(self) -> None:
        """Wait until something happens, and see to all of it."""
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is self._listener:
                self._let_in()
            elif key.fileobj is self._bell:
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(wire.CHUNK)
            else:
                self._attend(key.data)
        while self._replies:
            client, data = self._replies.popleft()
            self._busy -= 1
            self._tell(client, data)
        while self._waiting and self._busy < CLIENTS:
            self._begin(*self._waiting.popleft())
        now = time.monotonic()
        for client in [each for each in self._slow if each.until <= now]:
            self._dismiss(client, "it was too slow")
        if self._closed:
            self._shut_door()
        elif self._rests_until and self._rests_until <= now:
            self._rests_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _patience(self) -> float | None:
        """Return how many seconds there are until somebody's time is up; None if nobody's is."""
        ends = [client.until for client in self._slow]
        if self._rests_until:
            ends.append(self._rests_until)
        return max(min(ends) - time.monotonic(), 0.0) if ends else None

    def _let_in(self) -> None:
        while not self._closed:
            try:
                peer = self._listener.accept()[0]
            except BlockingIOError:
                return
            except OSError as error:
                operator.warning("control_client_not_served", reason=str(error))
                self._selector.unregister(self._listener)
                self._rests_until = time.monotonic() + _BREATH
                return
            if not peers.trusts(peer):
                operator.warning("control_client_refused", reason="it is another user's")
                peer.close()
                continue
            client = Client(peer, time.monotonic() + READING)
            self._selector.register(peer, selectors.EVENT_READ, client)
            self._wait_for(client)

    def _wait_for(self, client: Client) -> None:
        """Have a client be among those that are slow; if they are too many, the first leave."""
        self._slow[client] = None
        held = sum(each.size for each in self._slow) - client.size
        for first in [*self._slow]:
            if first is client or (len(self._slow) <= CROWD and held <= HELD):
                return
            held -= first.size
            self._dismiss(first, "others came")

    def _attend(self, client: Client) -> None:
        if client not in self._slow:
            return  # sent away since it stirred
        try:
            if client.is_told:
                if client.give():
                    self._dismiss(client)
            elif (data := client.hear()) is not None:
                self._go_on_without(client)
                self._waiting.append((client, data))
        except TooLarge as error:
            self._go_on_without(client)
            self._tell(client, wire.encode(wire.failed(error)))
        except (OSError, wire.Broken) as error:
            # It went away: nobody is left to be told.
            self._dismiss(client, str(error))

    def _tell(self, client: Client, data: bytes) -> None:
        client.tell(data, time.monotonic() + WRITING)
        self._selector.register(client.peer, selectors.EVENT_WRITE, client)
        self._wait_for(client)
        self._attend(client)

    def _go_on_without(self, client: Client) -> None:
        """Wait for a client no more."""
        del self._slow[client]
        self._selector.unregister(client.peer)

    def _dismiss(self, client: Client, reason: str = "") -> None:
        """Send a slow client away."""
        if reason:
            operator.debug("control_client_gone", reason=reason)
        self._go_on_without(client)
        client.close()

    # -- a request ------------------------------------------------------------------------------

    def _begin(self, client: Client, data: bytes) -> None:
        """Carry a request out on a thread of its own."""
        thread = threading.Thread(
            target=self._serve, args=(client, data), name="runefold-client", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            operator.warning("control_client_not_served", reason=str(error))
            client.close()
        else:
            self._busy += 1

    def _serve(self, client: Client, data: bytes) -> None:
        reply = self._reply(client, data)
        self._replies.append((client, reply))
        self._ring()

    def _reply(self, client: Client, data: bytes) -> bytes:
        try:
            request = wire.request_from(data, self._commands)
            reply = wire.encode(wire.Reply(self._carry(request, peers.process_of(client.peer))))
        except RunefoldError as error:
            return wire.encode(wire.failed(error))
        except BaseException as error:  # noqa: BLE001 -- whoever asked has to be told something
            operator.exception("control_request_failed")
            return wire.encode(wire.failed(error))
        if len(reply) > wire.MAX_ANSWER:
            msg = f"the answer has {len(reply):,} bytes: at most {wire.MAX_ANSWER:,} can be sent"
            return wire.encode(wire.Reply(error="TooLarge", message=msg))
        return reply

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Let nobody in any more. Those whose request is here are answered."""
        if self._closed:
            return
        self._closed = True
        self._ring()
        if self._thread is not threading.current_thread():
            self._shut.wait()
        with contextlib.suppress(OSError):
            # Whoever took the log over has put a socket of its own there.
            if _identity(self._path) == self._id:
                self._path.unlink()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):
            self._rope.send(b"x")

    def _shut_door(self) -> None:
        """Close the listener, and send away those who have not said what they want."""
        if self._shut.is_set():
            return
        if not self._rests_until:
            self._selector.unregister(self._listener)
        self._rests_until = 0.0
        self._listener.close()
        for client in [each for each in self._slow if not each.is_told]:
            self._dismiss(client, "the runtime is closed")
        self._shut.set()

    def drop(self) -> None:
        """Close what is open, without a word to any client, from any thread."""
        self._closed = self._dropped = True
        for client in [*self._slow, *(client for client, _ in self._waiting)]:
            client.close()
        for each in (self._selector, self._listener, self._bell, self._rope):
            with contextlib.suppress(OSError):
                each.close()
        self._shut.set()


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
        # Before it listens nobody can connect, whatever its permissions are until here.
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
    # A child that kept the listener would let clients in whom nobody serves.
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
