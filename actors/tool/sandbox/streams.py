"""What a program says: shown while it runs, kept within bounds for its result."""

from __future__ import annotations

import codecs
import time
from typing import TYPE_CHECKING, Final

from actors.redaction.redactor import DEFAULT
from actors.redaction.strands import Strands
from actors.tool.output import Clip

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.redaction.redactor import Redactor
    from actors.tool.context import Progress
    from actors.tool.secrets import SecretMask

_PAUSE: Final = 0.05
"""Seconds between two pieces that are shown, so that a flood of lines is no flood of pieces."""
_PIECE: Final = 16 << 10
"""What is shown at once, whenever it comes."""
_ENOUGH: Final = "\n[more is not shown while it runs]\n"


class Streams:
    """Takes in the bytes of a program's streams.

    Bytes that are no UTF-8 become replacement characters. The values of secrets are hidden, and
    what looks like one, also where they come in two pieces, or in part on another stream.
    """

    def __init__(
        self, limit: int, progress: Progress, mask: SecretMask, redactor: Redactor = DEFAULT
    ) -> None:
        """Keep `limit` bytes at most, and show no more than that while it runs."""
        self.kept: Final = Clip(limit)
        self._room = limit
        self._progress = progress
        self._masked = Strands(mask)
        self._redacted = Strands(redactor)
        self._streams: dict[str, _Stream] = {}

    def feed(self, name: str, data: bytes) -> None:
        """Take in what came on one stream."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream()
        self._hide(self._masked.feed(name, stream.decoder.decode(data)))

    def _hide(self, pieces: Iterable[tuple[str, str]]) -> None:
        for name, piece in pieces:
            for each, text in self._redacted.feed(name, piece):
                self._take(each, text)

    def _take(self, name: str, text: str) -> None:
        stream = self._streams[name]
        self.kept.feed(text)
        if self._room > 0:
            stream.pending += text
            if time.monotonic() >= stream.due or len(stream.pending) >= _PIECE:
                self._show(name, stream)

    def wait(self) -> float | None:
        """Return the seconds until something has to be shown; None if there is nothing."""
        due = [stream.due for stream in self._streams.values() if stream.pending]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def show(self) -> None:
        """Show what is due by now."""
        for name, stream in self._streams.items():
            if stream.pending and time.monotonic() >= stream.due:
                self._show(name, stream)

    def _show(self, name: str, stream: _Stream) -> None:
        text, stream.pending = stream.pending, ""
        stream.due = time.monotonic() + _PAUSE
        if not text or self._room <= 0:
            return
        data = text.encode()
        self._room -= len(data)
        if self._room < 0:
            text = data[: self._room].decode(errors="ignore") + _ENOUGH
        self._progress(name, text)

    def finish(self) -> None:
        """Take in what was held back, and show the rest: nothing more will come."""
        for name, stream in self._streams.items():
            self._hide(self._masked.feed(name, stream.decoder.decode(b"", final=True)))
        self._hide(self._masked.end())
        for name, text in self._redacted.end():
            self._take(name, text)
        for name, stream in self._streams.items():
            self._show(name, stream)


class _Stream:
    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.pending = ""
        self.due = 0.0
