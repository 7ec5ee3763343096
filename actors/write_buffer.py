"""What a conversation has decided and not handed to the log yet.

Decisions follow from each other, and nobody outside may learn of one before it is on disk. So they
are gathered in a buffer, numbered as the log will number them, and handed in together: when something
outside is about to begin, when somebody is to be answered, or when there is nothing left to decide.
All of a buffer is in the log, or none of it. Streams write from threads of their own, hence the lock.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from runelog.errors import Fault, LogFailed, LogFull, RunefoldError, UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.log import Log
    from runelog.rune import Change

LONGEST: Final = 256
"""How many changes a buffer takes before it is handed in anyhow."""


class Overtaken(LogFailed):
    """Somebody else wrote to the conversation: what is in the log has other numbers than we told.

    Nothing is wrong with the log. Whoever begins anew from it is right again.
    """


class WriteBuffer:
    """The buffer of one conversation: nobody else may write to that while it is used."""

    def __init__(self, log: Log, conversation: str, on_failure: Callable[[], None]) -> None:
        """Begin empty; `on_failure` is called, on any thread, when a buffer could not be kept."""
        self._log = log
        self._conversation = conversation
        self.on_failure = on_failure
        self._lock = threading.Lock()
        self._changes: list[Change] = []
        self._last: int | None = None
        """The last event, those in the buffer included; unknown before the first append."""
        self.touched: set[str] = set()
        """The entities whose streams are longer with this buffer than they are in the log."""
        self.failed: Exception | None = None
        """Why a buffer was lost: what is believed since then is not what the log has."""
        self.kept = 0
        """The last event that is on disk as it was numbered here, if there was no room for more."""
        # Whoever was here before us may have left something that is not on disk yet.
        self._unsynced = True

    def write(self, changes: Sequence[Change], *, at_once: bool = False) -> int:
        """Write behind what is there; return the first event. `at_once`, it goes to the log now.

        What goes there now may be refused, and then nothing has happened. If there is no room for
        it, all is lost: it may be that the log lost what it took before, and says so but once.
        """
        with self._lock:
            if self.failed is not None:
                self.check()
            last = self._last
            if last is None or at_once or len(self._changes) >= LONGEST:
                if self._changes:
                    self._flush_changes(durable=False)
                head: int | None = None
                try:
                    appended = self._log.append(self._conversation, changes, durable=False)
                    head = appended.first - 1
                    self._check_kept(head)
                except (LogFull, Fault) as error:
                    self.fail(error, head)
                    raise
                self._last = appended.last
                self._unsynced = True
                return appended.first
            count = 0
            touched = self.touched
            for change in changes:
                count += len(change.runes)
                touched.add(change.entity)
                if change.observers:
                    touched.update(change.observers)
            self._changes += changes
            self._last = last + count
            return last + 1

    @property
    def last(self) -> int:
        """The last event, as far as anybody wrote here; 0 if nobody did."""
        return self._last or 0

    def check(self) -> None:
        """Raise if a buffer was lost."""
        if self.failed is not None:
            msg = f"what was decided in {self._conversation} could not be kept: {self.failed}"
            raise LogFailed(msg) from self.failed

    def flush(self) -> None:
        """Give the log what is in the buffer; it is on disk soon."""
        with self._lock:
            if self.failed is not None:
                self.check()
            if self._changes:
                self._flush_changes(durable=False)

    def sync(self) -> None:
        """Wait until everything that was written here is on disk."""
        with self._lock:
            if self.failed is not None:
                self.check()
            if self._changes:
                self._flush_changes(durable=True)
            elif self._unsynced:
                self._keep(self._flush)
                self._unsynced = False

    def _flush_changes(self, *, durable: bool) -> None:
        changes, self._changes = self._changes, []
        self.touched = set()
        self._keep(lambda: self._append(changes, durable=durable))
        self._unsynced = not durable

    def _append(self, changes: Sequence[Change], *, durable: bool) -> None:
        appended = self._log.append(self._conversation, changes, durable=durable)
        if appended.last != self._last:
            msg = (
                f"{self._conversation} is at event {appended.last} and not at {self._last}: "
                "somebody else wrote to it"
            )
            raise Overtaken(msg)

    def _flush(self) -> None:
        self._log.flush(self._conversation)
        if self._last is not None:
            self._check_kept(head_of(self._log, self._conversation))

    def _check_kept(self, head: int) -> None:
        """Raise if the log has less than it took: of that it tells but once, and perhaps others."""
        if self._last is not None and head < self._last:
            msg = (
                f"there was no room for what was decided in {self._conversation} after event {head}"
            )
            raise LogFull(msg)

    def _keep(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception, head: int | None = None) -> None:
        """Take notice that what is believed is not what the log has, or not behind event `head`."""
        if self.failed is None:
            self.failed = error
            if isinstance(error, LogFull):
                # Now: whoever begins anew from the log goes on with the same numbers.
                there = self.on_disk()
                self.kept = there if head is None else min(there, head)
            self.on_failure()

    def on_disk(self) -> int:
        """Return the last event that is on disk; 0 if that cannot be told."""
        try:
            self._log.flush(self._conversation)
            return head_of(self._log, self._conversation)
        except RunefoldError:
            return 0


def head_of(log: Log, conversation: str) -> int:
    """Return the last event that a log has of a conversation; 0 if it knows of none."""
    try:
        return log.conversation(conversation).head
    except UnknownConversation:
        return 0
