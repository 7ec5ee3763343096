"""A log in memory that fails as a disk does: without power, without room, or for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from runefold.testing.stage import PowerCut
from runelog.errors import LogFailed, LogFull
from runelog.memory import MemoryLog
from runelog.rune import Gap
from runelog.snapshot import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from runelog.codec import Codec
    from runelog.memory_store import Stored
    from runelog.rune import Appended, Change, Envelope


ROLLED: Final = 12
"""After so many runes it is time for the next segment."""
ROLLING: Final = 4
"""How many steps it takes to begin one."""


class Machine(Protocol):
    """What a disk needs of the machine it is in."""

    def now(self) -> int:
        """Return the time."""
        ...

    def soon(self, commit: Callable[[], None]) -> None:
        """Have what was appended committed in a moment, unless a caller waits for it before."""
        ...

    def committed(self, envelope: Envelope) -> None:
        """Take notice of a rune that is on disk now."""
        ...


class Disk(MemoryLog):
    """A log that can be cut off, full or broken.

    What is appended without waiting is committed by itself a moment later, or lost.
    """

    def __init__(self, machine: Machine, codec: Codec) -> None:
        """Begin whole and empty."""
        super().__init__(codec, machine.now, hold=True)
        self._machine = machine
        self.place: Path | None = None
        """Where snapshots are kept, if they are: real files, as beside any log."""
        self.is_cut = False
        self.cut_in: int | None = None
        """How many appends from now on the power fails."""
        self.cut_after = False
        """Whether the last of them still gets to disk."""
        self.no_room_for = 0
        """How many appends find no room."""
        self.turns_away = False
        """Whether the next commit finds that there is no room after all."""
        self.fails = False
        """Whether the next commit fails, and with it the log."""
        self.fails_late = False
        """Whether what it commits then is on disk all the same."""
        self._failure = ""
        self._lost: dict[str, str] = {}
        """Errors of appends for which no caller waited, by conversation, until one is told."""
        self._waiting: dict[str, None] = {}
        """The conversations of which something is not on disk."""
        self._rolled = 0
        """The position at which a segment was begun last."""
        self.is_rolling = False
        """Whether the next segment is being begun, and appends go on."""
        self._seen = 0
        self._envelopes: dict[Stored, Envelope] = {}
        """What was read before: most runes are read many times, and their envelopes are the same.

        Payloads are decoded anew each time, so that one reader cannot change them for another.
        """

    # -- what a log is asked for --------------------------------------------------------------

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, unless something is in the way."""
        self._check(conversation)
        if self.no_room_for:
            self.no_room_for -= 1
            msg = "the disk has no room"
            raise LogFull(msg)
        last = False
        if self.cut_in is not None:
            self.cut_in -= 1
            last = self.cut_in <= 0
            if last and not self.cut_after:
                self.cut()
        appended = super().append(conversation, changes, durable=False, timeout=timeout)
        if not self._waiting:
            self._machine.soon(self._by_itself)
        self._waiting[conversation] = None
        if durable or last:
            self.commit_pending()
        if last:
            self.cut()
        if durable:
            self._check(conversation)
        return appended

    def flush(self, conversation: str | None = None) -> int:
        """Commit everything; raise what kept any of it from that."""
        self._check(conversation)
        head = super().flush(conversation)
        self._check(conversation)
        return head

    def _check(self, conversation: str | None) -> None:
        if self.is_cut:
            raise PowerCut
        if self._failure:
            raise LogFailed(self._failure)
        if conversation is None and self._lost:
            conversation = next(iter(self._lost))
        lost = self._lost.pop(conversation, "") if conversation is not None else ""
        if lost:
            raise LogFull(lost)

    def rolling(self) -> Iterator[None] | None:
        """Return the steps of beginning the next segment, if enough has come since the last."""
        if self.is_rolling or self.position < self._rolled + ROLLED:
            return None
        self._rolled = self.position
        return self._roll()

    def _roll(self) -> Iterator[None]:
        """Begin the next segment. It may find no room; at its end all that was appended is in."""
        self.is_rolling = True
        try:
            for _ in range(ROLLING):
                self._check(None)
                if self.no_room_for:
                    msg = "the disk has no room for another segment"
                    raise LogFull(msg)
                yield
            self.flush()
        finally:
            self.is_rolling = False

    def commit_pending(self) -> None:
        """Have everything on disk that was appended, or lose it."""
        if not self._waiting:
            return
        if self.fails:
            self._failure = "a commit failed, its outcome is unknown"
            return
        if self.turns_away:
            self.turns_away = False
            self._lost |= dict.fromkeys(self._waiting, "the disk had no room after all")
            self._waiting.clear()
            super().lose_pending()
            return
        self._waiting.clear()
        super().commit_pending()
        for envelope in self._new():
            self._machine.committed(envelope)

    def _new(self) -> Iterator[Envelope]:
        after, self._seen = self._seen, self.position
        for item in self.read_all(after):
            if not isinstance(item, Gap):
                yield item

    def _envelope(self, rune: Stored) -> Envelope:
        found = self._envelopes.get(rune)
        if found is None:
            found = self._envelopes[rune] = super()._envelope(rune)
        return found

    def _by_itself(self) -> None:
        if not self.is_cut and not self._closed:
            self.commit_pending()

    @property
    def is_settled(self) -> bool:
        """Whether everything appended is on disk."""
        return not self._waiting

    def has_all_of(self, conversation: str) -> bool:
        """Return True if everything appended to a conversation is on disk, and nothing was lost."""
        return conversation not in self._waiting and conversation not in self._lost

    @property
    def has_failed(self) -> bool:
        """Whether nothing can be written any more before it is opened again."""
        return bool(self._failure)

    def close(self) -> None:
        """Let go of it: what can be committed is."""
        if not self.is_cut and not self._closed:
            self.commit_pending()
            self._closed = True

    # -- what befalls it ----------------------------------------------------------------------

    def cut(self) -> None:
        """Have the power fail, here and now."""
        self.is_cut = True
        raise PowerCut

    def mend(self) -> None:
        """Be as after a restart: what was not committed is gone, and so is what was wrong."""
        kept = bool(self._failure) and self.fails_late
        self._failure = ""
        self.is_cut = self._closed = self.is_rolling = False
        self.calm()
        if kept:
            self.commit_pending()
        self._lost.clear()
        self._waiting.clear()
        super().lose_pending()
        # Whoever opens a log knows nothing of what the one before it knew of them.
        self.snapshots = None if self.place is None else Snapshots(self.place)

    def snapshot_files(self) -> list[Path]:
        """Return the files that snapshots are kept in, in order."""
        return [] if self.place is None else sorted(self.place.iterdir())

    def calm(self) -> None:
        """Let nothing befall it any more."""
        self.no_room_for = 0
        self.turns_away = self.fails = False
        self.cut_in = None
