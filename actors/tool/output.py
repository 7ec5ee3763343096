"""Output within bounds: the beginning and the end are kept, a note says what is missing between."""

from __future__ import annotations

from collections import deque
from typing import Final

_STEP: Final = 64 << 10
"""How many characters are encoded at a time."""


def plain(text: str) -> str:
    r"""Return `text` with what UTF-8 cannot carry written as escapes.

    >>> plain("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def clip(text: str, limit: int) -> tuple[str, int]:
    r"""Return `text`, cut in the middle if it has more than `limit` bytes, and how many went.

    >>> clip("abcdefghij", 4)
    ('ab\n[... 6 bytes left out ...]\nij', 6)
    """
    middle = Clip(limit)
    middle.feed(text)
    return middle.text(), middle.dropped


class Clip:
    r"""Takes in text without end and holds no more of it than `limit` bytes.

    >>> output = Clip(8)
    >>> for line in ["one\n", "two\n", "three\n"]:
    ...     output.feed(line)
    >>> output.text()
    'one\n\n[... 6 bytes left out ...]\nree\n'
    """

    def __init__(self, limit: int) -> None:
        """Keep half of `limit` from the beginning, the other half from the end."""
        self._room = limit - limit // 2
        self._most = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._held = 0
        self.dropped = 0
        """How many bytes were left out so far."""

    def feed(self, text: str) -> None:
        """Take in what comes next: of a long text there is never a copy."""
        for at in range(0, len(text), _STEP):
            self._take(text[at : at + _STEP].encode("utf-8", "backslashreplace"))

    def _take(self, data: bytes) -> None:
        if fits := self._room - len(self._head):
            self._head += data[:fits]
            data = data[fits:]
        # One piece must not be a reason to hold a multiple of the limit until the next one comes.
        if len(data) > self._most:
            self.dropped += len(data) - self._most
            data = data[len(data) - self._most :]
        if data:
            self._tail.append(data)
            self._held += len(data)
        while self._held > self._most:
            first = self._tail.popleft()
            over = min(self._held - self._most, len(first))
            if over < len(first):
                self._tail.appendleft(first[over:])
            self._held -= over
            self.dropped += over

    def text(self) -> str:
        """Return what was kept, with a note in the middle if that is not all."""
        tail = b"".join(self._tail)
        if not self.dropped:
            return (bytes(self._head) + tail).decode()
        # The cuts may go through the middle of a character.
        head, end = bytes(self._head).decode(errors="ignore"), tail.decode(errors="ignore")
        return f"{head}\n[... {self.dropped:,} bytes left out ...]\n{end}"

    def tail(self, limit: int) -> str:
        """Return at most the last `limit` bytes."""
        kept = b"".join(self._tail) if self.dropped else bytes(self._head) + b"".join(self._tail)
        return kept[-limit:].decode(errors="ignore")
