"""What a conversation has decided and not appended to the log yet.

Decisions follow from each other, and nothing outside may learn of one before it is on disk. So they
are buffered, numbered as the log will number them, and appended together: with the group commit at
the end of a round, or before the log is read. A buffer is appended as a whole or not at all. All of
it is used on the thread that runs the lanes, so nothing here is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runelog.errors import Fault, LogFailed, LogFull, RunefoldError, UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runelog.log import Log
    from runelog.rune import Change

LONGEST: Final = 256
"""How many changes a buffer takes before it is flushed in any case."""


class Overtaken(LogFailed):
    """Another writer appended to the conversation, so the event ids given out here are wrong.

    Nothing is wrong with the log: actors that restart from it have the right ids again.
    """


class WriteBuffer:
    """The write buffer of one conversation, and its only writer while it is used."""

    def __init__(self, log: Log, conversation: str, on_failure: Callable[[], None]) -> None:
        """Begin empty; `on_failure` is called when a buffer could not be kept."""
        self._log = log
        self._conversation = conversation
        self.on_failure = on_failure
        self._changes: list[Change] = []
        self._last: int | None = None
        """The last event, those in the buffer included; unknown before the first append."""
        self.touched: set[str] = set()
        """The entities whose streams are longer with this buffer than they are in the log."""
        self.failed: Exception | None = None
        """The error that lost a buffer: since then, states in memory differ from the log."""
        self.kept = 0
        """The last event that is on disk as it was numbered here, if there was no room for more."""
        self._synced = -1
        """Everything up to this event is on disk. -1 before the first sync: an earlier writer of
        this process may have left appends that are not."""

    def write(
        self, changes: Sequence[Change], touched: Iterable[str], *, at_once: bool = False
    ) -> int:
        """Add changes to the buffer; return the first event. `at_once`, append them now.

        The streams of the entities that are `touched` are longer with them, and perhaps no others.

        What is appended now may be refused, and then nothing has happened. If the disk is full, the
        buffer has failed: the log may have lost earlier appends too, and reports that only once.
        """
        last = self._last
        if last is None or at_once or len(self._changes) >= LONGEST:
            self.flush()
            head: int | None = None
            try:
                appended = self._log.append(self._conversation, changes, durable=False)
                head = appended.first - 1
                self._check_kept(head, last)
            except (LogFull, Fault) as error:
                self.fail(error, head)
                raise
            self._last = appended.last
            return appended.first
        if self.failed is not None:
            self.check()
        self.touched.update(touched)
        self._changes += changes
        first = last + 1
        for change in changes:
            last += len(change.runes)
        self._last = last
        return first

    @property
    def last(self) -> int:
        """The last event that was written here; 0 if there was none."""
        return self._last or 0

    @property
    def next_event(self) -> int:
        """The event that the first rune of the next append will be."""
        last = self._last
        return (head_of(self._log, self._conversation) if last is None else last) + 1

    def check(self) -> None:
        """Raise if a buffer was lost."""
        if self.failed is not None:
            msg = f"what was decided in {self._conversation} could not be kept: {self.failed}"
            raise LogFailed(msg) from self.failed

    def flush(self) -> None:
        """Append what is buffered, without waiting until it is on disk."""
        if self.failed is not None:
            self.check()
        if self._changes:
            changes, self._changes = self._changes, []
            self.touched = set()
            self._keep(lambda: self._append(changes))

    def sync(self) -> None:
        """Wait until everything that was written here is on disk."""
        self.flush()
        last = self.last
        if last > self._synced:
            self._keep(lambda: self._flush(last))
            self._synced = last

    def is_on_disk(self, event_id: int) -> bool:
        """Return True if everything up to an event is on disk, as far as was written here."""
        return event_id <= self._synced or self._last is None

    def _append(self, changes: Sequence[Change]) -> None:
        appended = self._log.append(self._conversation, changes, durable=False)
        if appended.last != self._last:
            msg = (
                f"{self._conversation} is at event {appended.last} and not at {self._last}: "
                "another writer appended to it"
            )
            raise Overtaken(msg)

    def _flush(self, last: int) -> None:
        self._check_kept(self._log.flush(self._conversation), last)

    def _check_kept(self, head: int, last: int | None) -> None:
        """Raise if the log has less than it took; it reports that only once, perhaps to others."""
        if last is not None and head < last:
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
        """Record that states in memory differ from the log, from the event after `head` on."""
        if self.failed is None:
            self.failed = error
            if isinstance(error, LogFull):
                # Read now: actors that restart from the log reuse the event ids after it.
                there = self.on_disk()
                self.kept = there if head is None else min(there, head)
            self.on_failure()

    def on_disk(self) -> int:
        """Return the last event that is on disk; 0 if that cannot be found out."""
        try:
            return self._log.flush(self._conversation)
        except RunefoldError:
            return 0


def head_of(log: Log, conversation: str) -> int:
    """Return the last event that a log has of a conversation; 0 if it knows of none."""
    try:
        return log.conversation(conversation).head
    except UnknownConversation:
        return 0
