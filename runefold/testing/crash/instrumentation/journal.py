"""What is noted beside the log while an app runs: what it appended, what it was told, what it did.

Each line is one write past all buffers, so that whatever happened before a SIGKILL is in the file
after it. Nothing here is read by the runtime.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from runefold.testing.crash.plan.points import Effect, Verdict, What

if TYPE_CHECKING:
    from pathlib import Path


class Opened(msgspec.Struct, frozen=True, tag="opened"):
    """The log was opened, and held so much of each conversation."""

    life: int
    heads: dict[str, int]
    place: str = ""
    """The log's directory."""


class Committed(msgspec.Struct, frozen=True, tag="committed"):
    """An append was made."""

    life: int
    number: int
    mark: str
    occurrence: int
    conversation: str
    kinds: tuple[str, ...]
    first: int
    sums: tuple[int, ...]
    """A checksum of each rune."""
    at: float
    effects: tuple[Effect, ...] = ()


class Synced(msgspec.Struct, frozen=True, tag="synced"):
    """Everything up to this event was acknowledged as durable."""

    life: int
    conversation: str
    upto: int
    number: int = 0
    """The last commit for which a caller waited only now."""


class Told(msgspec.Struct, frozen=True, tag="told"):
    """The app was told something that it counts on from then on."""

    life: int
    conversation: str
    what: str
    """`created`, `accepted`, `completed`, `interrupted`, `error`."""
    message_id: str = ""


class Wrong(msgspec.Struct, frozen=True, tag="wrong"):
    """Something is wrong with what a life found, or with what happened in it."""

    life: int
    verdict: Verdict
    message: str


class Handled(msgspec.Struct, frozen=True, tag="handled"):
    """An actor is about to handle a message."""

    life: int
    mark: str
    occurrence: int
    at: float


class Hit(msgspec.Struct, frozen=True, tag="hit"):
    """The moment that was aimed at has come."""

    life: int
    number: int
    """Of the commit."""
    at: float
    kind: str
    which: int = 1
    stop: int = 0
    """Of the moments at which it was told to halt, the how manieth, from nought."""
    conversation: str = ""
    entity: str = ""
    """What it befell, if that was an effect."""


class Execution(msgspec.Struct, frozen=True, tag="began"):
    """A tool or a model was really called."""

    life: int
    what: What
    name: str
    call_id: str
    conversation: str = ""
    arguments: dict[str, Any] = {}
    number: int = 0
    """The how manieth call of this process it is."""


class Over(msgspec.Struct, frozen=True, tag="ended"):
    """A call that began has ended."""

    life: int
    number: int
    status: str


Line: TypeAlias = Opened | Committed | Synced | Told | Wrong | Handled | Hit | Execution | Over

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Journal:
    """A file that survives the process that writes to it."""

    def __init__(self, path: Path) -> None:
        """Keep it here; it may hold something already."""
        self.path = path
        self._file = -1

    def note(self, line: Line) -> None:
        """Write a line, from whichever thread: it is there in one piece."""
        if self._file < 0:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(self._file, _encode(line) + b"\n")

    def lines(self) -> list[Line]:
        """Return everything that was noted."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return [_decode(line) for line in content.splitlines()]


class Memory(Journal):
    """The same in memory, for runs in one process, where nothing is killed."""

    def __init__(self) -> None:
        """Begin with nothing noted."""
        self._lines: list[Line] = []

    def note(self, line: Line) -> None:
        """Keep a line."""
        self._lines.append(line)

    def lines(self) -> list[Line]:
        """Return everything that was noted."""
        return list(self._lines)
