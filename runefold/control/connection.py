"""A client of the control socket, served a piece at a time: nobody ever waits for it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runefold.control import wire
from runelog.errors import TooLarge

if TYPE_CHECKING:
    import socket


class Client:
    """One connection: what has come of its request, and what is left of its answer."""

    def __init__(self, peer: socket.socket, until: float) -> None:
        """Begin with nothing said; it has until then to say all of it."""
        peer.setblocking(False)  # noqa: FBT003 -- as the library has it
        self.peer = peer
        self.until = until
        self.is_told = False
        """Whether its answer is on the way."""
        self._said = bytearray()
        self._left = memoryview(b"")

    @property
    def size(self) -> int:
        """How many bytes are kept for it."""
        return len(self._said) + len(self._left)

    def hear(self) -> bytes | None:
        """Take what has come; return the request once all of it is here.

        Raises `TooLarge` if it announces too much, and `Broken` if it ends before that.
        """
        while missing := self._missing():
            try:
                chunk = self.peer.recv(min(wire.CHUNK, missing))
            except BlockingIOError:
                return None
            if not chunk:
                msg = f"the other side ended after {len(self._said)} bytes"
                raise wire.Broken(msg)
            self._said += chunk
        data, self._said = bytes(self._said[wire.LENGTH.size :]), bytearray()
        return data

    def _missing(self) -> int:
        head = wire.LENGTH.size
        if len(self._said) < head:
            return head - len(self._said)
        length: int = wire.LENGTH.unpack_from(self._said)[0]
        if length > wire.MAX_REQUEST:
            msg = (
                f"a frame of {length:,} bytes is too large: at most {wire.MAX_REQUEST:,} are taken"
            )
            raise TooLarge(msg)
        return head + length - len(self._said)

    def tell(self, data: bytes, until: float) -> None:
        """Have the answer go out; the client has until then to take all of it."""
        self.is_told, self.until = True, until
        self._said = bytearray()
        self._left = memoryview(wire.LENGTH.pack(len(data)) + data)

    def give(self) -> bool:
        """Send as much of the answer as the client takes now; return True if that was the rest."""
        while self._left:
            try:
                self._left = self._left[self.peer.send(self._left[: wire.CHUNK]) :]
            except BlockingIOError:
                return False
        return True

    def close(self) -> None:
        """Let it go."""
        with contextlib.suppress(OSError):
            self.peer.close()
