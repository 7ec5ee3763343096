"""The runelog on disk: `Runelog`, the `Log` that survives `kill -9` and power cuts.

This module opens and closes logs and wires their parts together: `commit` writes, `reader` reads, `lookup` finds,
`keeper` archives and erases. docs/FORMAT.md describes what is in the directory.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from runelog import manifest, rewrite, segment
from runelog.blobs import FileBlobs
from runelog.catalog import TABLES as CATALOG_TABLES
from runelog.catalog import Catalog
from runelog.codec import Codec
from runelog.cold import Archives, LayeredBlobs
from runelog.commit import Writer
from runelog.errors import Closed, Corrupt, Forked, NotALog, ReadOnly, Refused
from runelog.files import TEMPORARY, make_directory
from runelog.index import NUMBER
from runelog.keeper import Keeper
from runelog.lookup import Lookup, last_position, last_time
from runelog.manifest import Clean, Lock, Manifest, SegmentInfo
from runelog.reader import Reader
from runelog.rune import State
from runelog.snapshot import Snapshots
from runelog.volumes import Volumes
from runelog.walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import Self

    from runelog.rune import Appended, Change, Conversation, Envelope, Gap, Work
    from runelog.segment import Environment
    from runelog.transfer import Entry

SEGMENT_SIZE: Final = 256 << 20
MIN_SEGMENT_SIZE: Final = 1 << 20
SEAL_AT_CLOSE: Final = 32 << 20
"""A larger active segment is sealed when the log is closed, so that the next writer need not check it first."""
Durability = Literal["commit", "relaxed"]


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
        self.directory = directory
        self.readonly = lock is None
        self._lock = lock
        self._clock = clock
        self._segment_size = segment_size
        self._pid = os.getpid()
        self._guard = threading.RLock()
        self._closed = False
        self._writer: Writer | None = None
        self._clean: Clean | None = None
        self.epoch = 0
        self.archives = Archives(directory / "archive")
        self.blobs = FileBlobs(directory / "blobs")
        self.snapshots = Snapshots(directory / "snapshots")
        self.codec = codec.with_blobs(LayeredBlobs(self.blobs, self.archives))
        self.archives.codec = self.codec
        self.volumes = Volumes(directory, readonly=self.readonly)
        self.volumes.metasync = durability == "commit"
        self.lookup = Lookup(self.volumes, self._open_catalog)
        self.reader = Reader(self.lookup, self.archives, self.codec)

    # -- opening ------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        codec: Codec | None = None,
        *,
        readonly: bool = False,
        create: bool = True,
        clock: Callable[[], int] = time.time_ns,
        segment_size: int = SEGMENT_SIZE,
        durability: Durability = "commit",
        take_over: bool = False,
    ) -> Runelog:
        """Open the log in a directory, making it if there is none.

        One process at a time writes; a second is refused with `Held`. Any number read with `readonly`. With
        `durability="relaxed"` a power cut may take the last commit back, but never damages anything. With
        `take_over` a writer that hangs is fenced off rather than waited for.
        """
        directory = Path(path)
        _check_options(segment_size, durability, readonly=readonly, take_over=take_over)
        lock = None if readonly else _acquire(directory, create=create, take_over=take_over)
        log = None
        try:
            if lock is not None and not (directory / "MANIFEST").exists():
                _create(directory, segment_size)
            log = cls(
                directory,
                codec or Codec(),
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
        held = self.readonly and manifest.writer_alive(self.directory)
        if self.readonly and not os.access(self.directory / "segments", os.W_OK):
            if held:
                msg = (
                    f"{self.directory} is being written to and cannot be written by this user, "
                    "so readers cannot announce themselves: read it as the user that writes it"
                )
                raise ReadOnly(msg)
            self.volumes.lock_files = False
        self._clean = None if held else manifest.read_clean(self.directory)
        if self._clean is not None:
            self.volumes.vouch = self._vouch
        elif not held:
            self._walk()
        if self.readonly:
            return
        self.sweep()
        if take_over or self.volumes.manifest.pending:
            self._arm()
        if self.volumes.manifest.pending:
            self._keeper().finish()

    def _vouch(self) -> tuple[str, int] | None:
        """Return what CLEAN says of the active segment now; a writer may have come since we were opened."""
        clean = manifest.read_clean(self.directory)
        return clean.active if clean is not None else None

    def _walk(self) -> None:
        """Let a child process go through the active segment: if that dies of it, we do not."""
        active = self.volumes.manifest.active
        try:
            walk(self.volumes.path(active))
        except Corrupt:
            self.volumes.damaged.add(active.number)

    def sweep(self) -> None:
        """Remove what a crash left behind: files that the manifest does not name."""
        listed = {info.name for info in self.volumes.manifest.segments}
        for path in (self.directory / "segments").iterdir():
            if path.name.removesuffix("-lock") not in listed:
                path.unlink(missing_ok=True)
        current = f"catalog.{self.volumes.manifest.catalog}.mdb"
        for path in self.directory.iterdir():
            stale = path.name.startswith("catalog.") and path.name.removesuffix("-lock") != current
            if stale or path.name.endswith(TEMPORARY):
                path.unlink(missing_ok=True)

    def _open_catalog(self) -> Catalog:
        generation = self.volumes.manifest.catalog
        path = self.directory / f"catalog.{generation}.mdb"
        clean = self._clean
        lock = self.volumes.lock_files
        try:
            if clean is not None:
                if segment.digest(path) != clean.catalog and manifest.read_clean(self.directory) == clean:
                    raise Corrupt(f"{path.name} does not match its digest")  # noqa: EM102, TRY301 -- below
            elif not (self.readonly and manifest.writer_alive(self.directory)):
                walk(path, tables=CATALOG_TABLES)
            catalog = Catalog(path, readonly=self.readonly, lock=lock)
        except (Corrupt, FileNotFoundError) as error:
            if self.readonly:
                msg = f"{path.name} is damaged: open the log for writing once, which rebuilds it"
                raise Corrupt(msg) from error
            return self._rebuild_catalog()
        if not self.readonly:
            self._catch_up(catalog)
        return catalog

    def _catch_up(self, catalog: Catalog) -> None:
        """Take in segments that were sealed or installed just before a crash."""
        merged = catalog.merged
        for info in self.volumes.manifest.segments[:-1]:
            if info.number > merged:
                self._touch()
                with self.volumes.take(info.number) as (_, view):
                    catalog.merge(info.number, view)

    def _rebuild_catalog(self) -> Catalog:
        """Make the catalog anew from the segments and the archives."""
        self._touch()
        generation = self.volumes.manifest.catalog + 1
        path = self.directory / f"catalog.{generation}.mdb"
        rewrite.discard(path)
        catalog = Catalog(path, create=True)
        try:
            for info in self.volumes.manifest.segments[:-1]:
                with (
                    contextlib.suppress(Corrupt),  # what a damaged segment does not tell stays untold
                    self.volumes.take(info.number) as (_, view),
                ):
                    catalog.merge(info.number, view)
            for head in self.archives.heads():
                if catalog.head(head.id) is None:
                    catalog.settle(head)
            self.volumes.publish(
                msgspec.structs.replace(self.volumes.manifest, catalog=generation)
            )
        except BaseException:
            catalog.close()
            raise
        self.sweep()
        return catalog

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

        Raises `WrongVersion` if a stream is not at the version its change expects. With `durable` it returns
        once the runes would survive a power cut; without, they are ordered before every later append and
        committed within 20 ms. If too much is waiting to be written the caller waits, at most `timeout`
        seconds, and is then refused with `Busy`.
        """
        writer = self._writer
        if writer is None or self._closed or self._pid != os.getpid():
            writer = self._arm()
        return writer.append(conversation, changes, durable=durable, timeout=timeout)

    def flush(self) -> None:
        """Wait until everything appended so far is durable."""
        self._check()
        if self._writer is not None:
            self._writer.flush()

    def roll(self) -> None:
        """Seal the active segment and begin the next one."""
        self._arm().roll()

    def _arm(self) -> Writer:
        """Become ready to write: the first thing that changes a file since the log was opened."""
        self._check()
        if self.readonly:
            msg = f"the log in {self.directory} was opened for reading: open it without readonly to append"
            raise ReadOnly(msg)
        with self._guard:
            if self._writer is None:
                active = self.volumes.manifest.active
                volume = self.volumes.volume(active.number)
                if volume.env is None:
                    msg = (
                        f"{active.name} is damaged, and nothing can be appended behind it: "
                        "what is sound can be read; `runefold log repair` sets the rest aside"
                    )
                    raise Corrupt(msg)
                self._touch()
                with volume.env.batch() as batch:
                    epoch = rewrite.epoch_of(batch) + 1
                    batch.put("meta", b"epoch", NUMBER.pack(epoch))
                    position, latest = last_position(batch, active), last_time(batch)
                self._writer = Writer(
                    _Home(self),
                    self.codec,
                    self._clock,
                    volume.env,
                    epoch=epoch,
                    position=position,
                    last_time=latest,
                )
                self.epoch = epoch
                self.reader.announce(position)
            return self._writer

    def _touch(self) -> None:
        """Take back what CLEAN vouches for, once, before the first write."""
        if (self.directory / "CLEAN").exists():
            # What it says of the active segment is checked first: afterwards nobody could.
            self.volumes.volume(self.volumes.manifest.active.number)
            manifest.drop_clean(self.directory)
        self.volumes.vouch = None

    def next_segment(self, need: int = 0) -> Environment:
        """Seal the active segment and begin one with room for `need` bytes."""
        old = self.volumes.manifest.active
        env = self.volumes.volume(old.number).env
        assert env is not None
        with env.view() as view:
            last = last_position(view, old)
        new = SegmentInfo(
            number=old.number + 1, first=last + 1, map_size=max(self._segment_size, 2 * need)
        )
        rewrite.create(self.volumes.path(new), new, self.epoch).close()
        try:
            with env.view() as view:
                self.lookup.catalog.merge(old.number, view)
            done = rewrite.sealed(env, old, last)
            self.volumes.verified.add((old.number, old.generation))
            now = self.volumes.manifest
            self.volumes.publish(
                msgspec.structs.replace(now, segments=(*now.segments[:-1], done, new))
            )
        except BaseException:
            rewrite.discard(self.volumes.path(new))
            raise
        fresh = self.volumes.volume(new.number).env
        assert fresh is not None
        return fresh

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
        return self.reader.read(conversation, after, until, kinds)

    def stream(
        self, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees, owned and observed: versions `after` + 1 on, event ids to `until`."""
        self._check()
        return self.reader.stream(conversation, entity, after, until)

    def version(self, conversation: str, entity: str) -> int:
        """Return how many runes the entity's stream holds, 0 if there is no such entity."""
        self._check()
        return self.reader.version(conversation, entity)

    def read_all(self, after: int = 0) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations behind position `after`, in the log's own order.

        A `Gap` stands where runes were archived or erased since.
        """
        self._check()
        return self.reader.read_all(after)

    def follow(
        self,
        conversation: str | None = None,
        after: int = 0,
        *,
        kinds: Collection[str] | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on, those there are and then those to come, as they are committed.

        The cursor is an event id of `conversation`, or a position of the whole log if none is named. A reader
        that falls more than `max_behind` runes back is given a `Gap` and goes on behind it. Ends when the log
        is closed, or when nothing came for `wait` seconds.
        """
        self._check()
        return self.reader.follow(
            conversation, after, kinds=kinds, max_behind=max_behind, wait=wait
        )

    def conversation(self, conversation: str) -> Conversation:
        """Return what the index knows of one conversation, or raise `UnknownConversation`."""
        self._check()
        return self.reader.conversation(conversation)

    def conversations(self) -> Iterator[Conversation]:
        """Yield every conversation in order of id, archived and erased ones too, without scanning the log."""
        self._check()
        return self.reader.conversations()

    def open_work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield the entities with something left to do, of one conversation or of all."""
        self._check()
        return self.reader.open_work(conversation)

    @property
    def position(self) -> int:
        """The position of the last committed rune; 0 in an empty log."""
        self._check()
        return self.reader.position

    # -- keeping ------------------------------------------------------------------------------

    def _keeper(self) -> Keeper:
        return Keeper(self, self._arm(), self._clock)

    def archive(self, *conversations: str) -> None:
        """Move conversations to cold storage: still listed, still readable, no longer appended to."""
        self._keeper().archive(conversations)

    def restore(self, *conversations: str) -> None:
        """Bring archived conversations back, so that they can be appended to again."""
        self._keeper().restore(conversations)

    def erase(self, *conversations: str) -> None:
        """Remove every rune, blob and snapshot of conversations for good, leaving a tombstone each."""
        self._keeper().erase(conversations)

    def check_absent(self, conversations: Iterable[str]) -> None:
        """Refuse conversations that are in this log, or were erased from it."""
        self._check()
        for name in conversations:
            head = self.lookup.head(name)
            if head is not None:
                what = "was erased from" if head.state is State.ERASED else "is already in"
                msg = f"{name} {what} this log: take it into another one"
                raise Refused(msg)

    def take_in(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add whole conversations of about `size` bytes that are not here yet, all of them or none.

        Their blobs must be here already. Use `runelog.exchange.take_in` for a stream from outside.
        """
        self._keeper().take_in(conversations, size, progress)

    # -- closing ------------------------------------------------------------------------------

    def close(self) -> None:
        """Make everything durable and let go of the log. Closing twice does nothing."""
        with self._guard:
            if self._closed:
                return
            if self._pid != os.getpid():
                self._closed = True
                return
            try:
                failure = self._writer.close() if self._writer is not None else None
                if failure is None and not self.readonly:
                    self._leave_clean()
            finally:
                self._let_go()

    def _leave_clean(self) -> None:
        """Vouch for the files that the next writer goes on with."""
        active = self.volumes.manifest.active
        if active.number in self.volumes.damaged or (self.directory / "CLEAN").exists():
            return
        env = self.volumes.volume(active.number).env
        if env is None:
            return
        if self._writer is not None and env.used > min(SEAL_AT_CLOSE, env.map_size // 2):
            env = self.next_segment()
            active = self.volumes.manifest.active
        with env.view() as view:
            position = last_position(view, active)
        self.reader.close()
        catalog = self.lookup.catalog.env
        env.trim()
        catalog.trim()
        manifest.write_clean(
            self.directory, Clean(env.digest(), catalog.digest(), position)
        )

    def _let_go(self) -> None:
        self._closed = True
        self.reader.close()
        self.lookup.close()
        self.volumes.close()
        self.archives.close()
        if self._lock is not None:
            self._lock.release()

    def _check(self) -> None:
        if self._pid != os.getpid():
            msg = "this log was opened before a fork: open it again in the child, with readonly=True"
            raise Forked(msg)
        if self._closed:
            msg = "this log has been closed: open it again"
            raise Closed(msg)

    def __enter__(self) -> Self:
        """Return the log itself; leaving the block closes it."""
        self._check()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the log."""
        self.close()


class _Home:
    """What the writer needs of its log."""

    def __init__(self, log: Runelog) -> None:
        self.head = log.lookup.head
        self.version = log.lookup.version
        self.was_open = log.lookup.was_open
        self.next_segment = log.next_segment
        self.announce = log.reader.announce


def _check_options(
    segment_size: int, durability: str, *, readonly: bool, take_over: bool
) -> None:
    if segment_size < MIN_SEGMENT_SIZE:
        msg = f"a segment of {segment_size:,} bytes is too small: use at least {MIN_SEGMENT_SIZE:,}"
        raise Refused(msg)
    if durability not in ("commit", "relaxed"):
        msg = f"there is no durability {durability!r}: use 'commit' or 'relaxed'"
        raise Refused(msg)
    if readonly and take_over:
        msg = "a reader cannot take a log over: leave out readonly"
        raise Refused(msg)


def _acquire(directory: Path, *, create: bool, take_over: bool) -> Lock:
    if directory.exists() and not directory.is_dir():
        msg = f"{directory} is a file: name the directory of a log"
        raise NotALog(msg)
    if not (directory / "MANIFEST").exists():
        if not create:
            msg = f"{directory} holds no log (it has no MANIFEST)"
            raise NotALog(msg)
        if directory.exists() and (others := manifest.foreign(directory)):
            msg = (
                f"{directory} holds other files ({', '.join(sorted(others)[:3])}) and no log: "
                "name an empty directory, or one that does not exist yet"
            )
            raise NotALog(msg)
        try:
            make_directory(directory)
        except OSError as error:
            msg = f"{directory} cannot be made: {error.strerror}"
            raise ReadOnly(msg) from error
    lock = Lock(directory)
    lock.acquire(take_over=take_over)
    return lock


def _create(directory: Path, segment_size: int) -> None:
    """Make an empty log. Its manifest comes last: before that there is no log, only leftovers."""
    make_directory(directory / "segments")
    info = SegmentInfo(number=1, first=1, map_size=segment_size)
    path = directory / "segments" / info.name
    env = rewrite.create(path, info, 0)
    catalog_path = directory / "catalog.0.mdb"
    rewrite.discard(catalog_path)
    catalog = Catalog(catalog_path, create=True)
    try:
        env.trim()
        catalog.env.trim()
        vouched = Clean(env.digest(), catalog.env.digest(), 0)
    finally:
        catalog.close()
        env.close()
    manifest.write_clean(directory, vouched)
    manifest.write_manifest(
        directory, Manifest(log=f"log_{secrets.token_hex(8)}", segments=(info,))
    )
