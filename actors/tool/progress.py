"""What a call says on the way, as it may be kept."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.redaction.strands import Strands
from actors.tool.lifecycle import Report
from actors.tool.output import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.redaction.redactor import Redactor


class ProgressReporter:
    """Passes on what one run of a tool says, without secrets; from whichever of its threads."""

    def __init__(self, redactor: Redactor, tell: Callable[[Report], None]) -> None:
        """Begin before it has said anything."""
        self._redactor = redactor
        self._tell = tell
        self._lock = threading.Lock()
        self._strands = Strands(redactor)

    def say(self, stream: str, chunk: str, /) -> None:
        """Pass on what came on one stream, except for what may be a part of a secret."""
        name = self._redactor.text(plain(stream))
        with self._lock:
            self._pass_on(self._strands.feed(name, plain(chunk)))

    def end(self) -> None:
        """Pass on what was held back: nothing more will come."""
        with self._lock:
            self._pass_on(self._strands.end())

    def _pass_on(self, pieces: Iterable[tuple[str, str]]) -> None:
        for name, text in pieces:
            self._tell(Report(name, text))
