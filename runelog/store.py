"""The runelog on disk: `Runelog`, the `Log` that survives `kill -9` and power cuts.

This module opens and closes logs and wires their parts together: `commit` writes, `reader` reads,
`lookup` finds, `maintenance` archives and erases. docs/FORMAT.md describes the files.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from runelog import forks
from runelog.checks import check_options, check_parts
from runelog.codec import Codec, installed
from runelog.directory.create import acquire, create_log
from runelog.directory.log_directory import LogDirectory
from runelog.directory.maintenance import Maintenance
from runelog.directory.resources import Resources, dropped
from runelog.directory.takeover import wait_for_writer
from runelog.errors import Closed, Fault, Forked, LogFull, ReadOnly, Refused, RunefoldError
from runelog.files import path_of, sound_disk
from runelog.transfer.backup import back_up
from runelog.writer.commit import Writer
from runelog.writer.segment_writer import Behind

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Self

    from runelog.index.records import Head
    from runelog.manifest import Lock
    from runelog.rune import Appended, Change, Conversation, Envelope, Gap, Work
    from runelog.stream.stream_blocks import Entry
    from runelog.transfer.staging import BackedUp

SEGMENT_SIZE: Final = 256 << 20
Durability = Literal["commit", "relaxed"]
_T = TypeVar("_T")


class Runelog:
    """A log in a directory.

    >>> import tempfile
    >>> from runelog import Change, Codec, Rune
    >>> class Noted(Rune, frozen=True, tag="note.taken"):
    ...     text: str
    >>> directory = tempfile.TemporaryDirectory()
    >>> with Runelog.open(directory.name, Codec([Noted])) as log:
    ...     done = log.append("conv_a", [Change("note_1", 0, [Noted(text="hi")])])
    ...     [envelope.payload for envelope in log.read("conv_a")]
    [Noted(text='hi')]
    >>> directory.cleanup()
    """

    def __init__(
        self,
        directory: Path,
        codec: Codec,
        lock: Lock | None,
        *,
        clock: Callable[[], int],
        segment_size: int,
        durability: Durability,
    ) -> None:
        """Use `Runelog.open`."""
        self.readonly = lock is None
        self.directory = directory
        self._lock = lock
        self._clock = clock
        self._forks = forks.passed
        self._guard = threading.RLock()
        self._closed = False
        self._writer: Writer | None = None
        self.log_directory = LogDirectory(
            directory,
            codec,
            lock,
            segment_size=segment_size,
            relaxed=durability == "relaxed",
        )
        self.codec = self.log_directory.codec
        self.snapshots = self.log_directory.snapshots
        """Where `replay` may keep snapshots of this log's states."""
        self._reader = self.log_directory.reader
        self._resources = Resources(self.log_directory, lock)
        self._finalizer = weakref.finalize(self, dropped, self._resources)
        self._finalizer.atexit = False

    # -- opening ------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        codec: Codec | None = None,
        *,
        readonly: bool = False,
        create: bool = True,
        clock: Callable[[], int] = time.time_ns,
        segment_size: int = SEGMENT_SIZE,
        durability: Durability = "commit",
        take_over: bool = False,
        errand: str = "",
    ) -> Runelog:
        """Open the log in a directory, making it if there is none.

        One process at a time writes; a second is refused with `Held`. Any number read with
        `readonly`, without a `codec` with those that installed packages declare, as runefold does.
        With `durability="relaxed"` a power cut may take the last commit back, but never
        damages anything.

        With `take_over` a writer that hangs is fenced off: whatever it does next raises `Fenced`,
        and nothing that it acknowledged is lost. If it hangs in the middle of a write, that may yet
        be acknowledged: then it is waited for, and `Busy` names its process if it is still there
        after some seconds. Killing it ends the wait.

        A program that has the log open for a moment only names its `errand`, such as "nightly
        archive": one that opens the log meanwhile waits for its end, some seconds, and is then
        refused with its name.
        """
        # It is this one that is meant, wherever the process goes from here.
        directory = path_of(path, "a log").absolute()
        check_parts(codec, clock)
        check_options(segment_size, durability, readonly=readonly, take_over=take_over)
        lock = log = None
        try:
            with sound_disk(f"opening the log in {directory}"):
                if not readonly:
                    if take_over:
                        wait_for_writer(directory)
                    lock = acquire(directory, create=create, take_over=take_over, errand=errand)
                    if not (directory / "MANIFEST").exists():
                        create_log(directory, segment_size)
                log = cls(
                    directory,
                    codec or (installed() if readonly else Codec()),
                    lock,
                    clock=clock,
                    segment_size=segment_size,
                    durability=durability,
                )
                log._begin(take_over=take_over)
        except BaseException:
            if log is not None:
                log._let_go()
            elif lock is not None:
                lock.release()
            raise
        return log

    def _begin(self, *, take_over: bool) -> None:
        """Look how the last writer left the log, and finish what it did not."""
        self.log_directory.settle_in()
        if not self.readonly:
            unfinished = bool(self.log_directory.segments.manifest.pending)
            if take_over or unfinished:
                self._arm()
            if unfinished:
                self._maintenance().finish()
            self.log_directory.collect()
            if erased := self.log_directory.come_back():
                self._maintenance().erase(erased)

    @property
    def notices(self) -> list[str]:
        """What opening the log set aside, in a sentence for each file that an operator should know.

        It says which file it was, why it could not be removed, and where it is now.
        """
        return [*self.log_directory.notices]

    # -- writing ------------------------------------------------------------------------------

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append the runes of all changes as one: all there, with consecutive event ids, or none.

        Raises `WrongVersion` if a stream is not at the version its change expects. With `durable`
        it returns once the runes would survive a power cut; without, they are ordered before every
        later append and committed within 20 ms. If too much is waiting to be written the caller
        waits, at most `timeout` seconds, and is then refused with `Busy`.
        """
        writer = self._writer
        if writer is None or self._closed or self._forks != forks.passed:
            writer = self._arm()
        return writer.append(conversation, changes, durable=durable, timeout=timeout)

    def flush(self, conversation: str | None = None) -> int:
        """Wait until everything appended so far is durable; raise what kept any of it from that.

        Of a `conversation` that is named, only its own appends are asked after, and its last event
        is returned; 0 if there is none.
        """
        self._check()
        head = self._writer.flush(conversation) if self._writer is not None else None
        if head is None and conversation is not None:
            found = self.log_directory.lookup.head(conversation)
            head = None if found is None else found.head
        return head or 0

    def rest(self, conversation: str) -> None:
        """Drop what is cached of a conversation that nothing is appended to for a while."""
        with contextlib.suppress(Closed):
            self._check()
            if self._writer is not None:
                self._writer.rest(conversation)
                self._reader.subscriptions.rest(conversation)

    def roll(self) -> None:
        """Seal the active segment and begin the next one."""
        self._arm().roll()

    def rolling(self) -> Iterator[None] | None:
        """Return the steps of beginning the next segment, if it is time; else None.

        They are to be taken beside appends, with a pause after each.
        """
        self._check()
        return None if self._writer is None else self._writer.rolling()

    def _arm(self) -> Writer:
        """Become ready to write: the first thing that changes a file since the log was opened."""
        self._check()
        if self.readonly:
            msg = (
                f"the log in {self.directory} was opened for reading: "
                "open it without readonly to append"
            )
            raise ReadOnly(msg)
        with self._guard:
            if self._writer is None:
                with sound_disk("becoming ready to write"):
                    armed = self.log_directory.arm()
                self._writer = Writer(_Home(self.log_directory), self.codec, self._clock, armed)
                self._resources.writer = self._writer
            return self._writer

    # -- reading ------------------------------------------------------------------------------

    def read(
        self,
        conversation: str,
        after: int = 0,
        until: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Envelope]:
        """Yield the conversation's committed runes with `after` < event id <= `until`, in order."""
        self._check()
        chunks = self._reader.chunks(conversation, after, until, kinds)
        return chain.from_iterable(self._while_open(chunks))

    def stream(
        self, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees, owned and observed.

        Versions from `after` + 1 on, event ids to `until`.
        """
        self._check()
        return self._while_open(self._reader.stream(conversation, entity, after, until))

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes the entity's stream holds, 0 if there is no such entity.

        What was appended with `durable=False`, by this handle too, may not be in it yet.
        """
        self._check()
        return self._reader.version(conversation, entity)

    def read_all(self, after: int = 0) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations behind position `after`.

        In the log's own order; a `Gap` stands where runes were archived or erased since.
        """
        self._check()
        return self._while_open(self._reader.read_all(after))

    def follow(
        self,
        conversation: str | None = None,
        after: int = 0,
        *,
        kinds: Collection[str] | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on, those there are, then those to come, as they are committed.

        The cursor is an event id of `conversation`, or a position of the whole log if none is
        named. A reader that falls more than `max_behind` runes back is given a `Gap` and goes on
        behind it. Ends when the log is closed, or when nothing came for `wait` seconds.
        """
        self._check()
        return self._while_open(
            self._reader.follow(conversation, after, kinds=kinds, max_behind=max_behind, wait=wait)
        )

    def _while_open(self, found: Iterator[_T]) -> Iterator[_T]:
        """Yield what is found; an iterator keeps the log from being garbage-collected.

        A child that goes on with what was begun before the fork is told so, and waits for no lock.
        """
        home = self._reader.subscriptions.home
        home.check()
        for item in found:
            yield item
            home.check()

    def conversation(self, conversation: str) -> Conversation:
        """Return what the index knows of one conversation, or raise `UnknownConversation`."""
        self._check()
        return self._reader.conversation(conversation)

    def conversations(self) -> Iterator[Conversation]:
        """Yield every conversation in order of id, archived and erased ones too.

        The log is not scanned for that.
        """
        self._check()
        return self._while_open(self._reader.conversations())

    def open_work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield the entities with something left to do, of one conversation or of all."""
        self._check()
        return self._while_open(self._reader.open_work(conversation))

    def may_hold(self, start: str) -> bool:
        """Return False if the index tells that no entity has an id that begins with `start`."""
        self._check()
        return self._reader.may_hold(start)

    @property
    def position(self) -> int:
        """The position of the last committed rune; 0 in an empty log."""
        self._check()
        return self._reader.position

    # -- keeping ------------------------------------------------------------------------------

    def _maintenance(self) -> Maintenance:
        return Maintenance(self.log_directory, self._arm(), self._clock)

    def archive(self, *conversations: str) -> None:
        """Move conversations to cold storage: still listed and readable, no longer appended to.

        The room that they took in segments is given back with that of others, once there is enough.
        """
        self._maintenance().archive(conversations)

    def restore(self, *conversations: str) -> None:
        """Bring archived conversations back, so that they can be appended to again."""
        self._maintenance().restore(conversations)

    def erase(self, *conversations: str) -> None:
        """Remove every rune, blob and snapshot of conversations for good.

        A tombstone is left of each.
        """
        self._maintenance().erase(conversations)

    def take_in(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add whole conversations of about `size` bytes that are not here yet, all of them or none.

        Their blobs must be here already. For a stream use `runelog.transfer.export_import.take_in`.
        """
        self._maintenance().take_in(conversations, size, progress)

    def backup(
        self,
        dest: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        verify: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> BackedUp:
        """Copy the log to another directory, which is a log with all that was committed by now.

        Any handle can do that, also one that only reads, while the log is written to. A directory
        that holds an earlier backup of this log gets what is new, and loses what was erased; one
        that holds anything else is refused. What is copied is checked, with `verify` also what was
        there, and copied again if it is damaged. `progress` is told of bytes.
        """
        self.flush()
        directory = path_of(dest, "a backup").absolute()
        return back_up(self.log_directory, directory, verify=verify, progress=progress)

    # -- closing ------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable and let go of the log. Closing twice does nothing.

        The log is released in any case. If appends that were not waited for could not be written,
        and no `flush` has reported that, their error is raised.
        """
        if self._forks != forks.passed:
            # Before anything else: another thread may have held the guard when we were forked.
            self._closed = True
            return
        with self._guard:
            if self._closed:
                return
            lost = None
            try:
                failure = self._writer.close() if self._writer is not None else None
                lost = self._writer.take_lost() if self._writer is not None else None
                if failure is None and not self.readonly:
                    # Not vouching costs the next open some time, and nothing else.
                    with contextlib.suppress(LogFull, Fault, Refused, OSError):
                        self.log_directory.leave_clean()
            finally:
                self._let_go()
            if lost is not None:
                raise lost

    def _let_go(self) -> None:
        self._closed = True
        self._finalizer.detach()
        self._resources.let_go()

    def _check(self) -> None:
        if self._forks != forks.passed:
            msg = (
                "this log was opened before a fork: open it again in the child, with readonly=True"
            )
            raise Forked(msg)
        if self._closed:
            msg = "this log has been closed: open it again"
            raise Closed(msg)

    def __enter__(self) -> Self:
        """Return the log itself; leaving the block closes it."""
        self._check()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the log; what goes wrong there does not hide why the block was left."""
        why = next((found for found in exc if isinstance(found, BaseException)), None)
        try:
            self.close()
        except RunefoldError as error:
            if why is None:
                raise
            why.add_note(f"closing the log failed as well: {error!r}")


class _Home:
    """What the writer needs of its log."""

    def __init__(self, log_directory: LogDirectory) -> None:
        self.behind = Behind()
        self._lookup = log_directory.lookup
        self.version = log_directory.lookup.version
        self.was_open = log_directory.lookup.was_open
        self.unwritten = log_directory.segments.unwritten
        self.prepare = log_directory.next.steps
        self.vouch = log_directory.unchanged.vouch
        self.next_segment = log_directory.next_segment
        self.announce = log_directory.reader.subscriptions.announce
        self.fail = log_directory.reader.subscriptions.fail

    # Frames are followed only for what the tables lack.

    def head(self, conversation: str) -> Head | None:
        """Return what is known of a conversation."""
        return self._lookup.head(conversation, frames=conversation in self.behind.conversations)

    def active_head(self, conversation: str) -> tuple[int, Head] | None:
        """Return number and head of a conversation in the active segment."""
        frames = conversation in self.behind.conversations
        return self._lookup.active_head(conversation, frames=frames)
