"""The segments of a log as files: opened at first use, closed again when there are too many.

A sealed segment's digest is checked at its first use in a process. One that does not match is set
aside: it is never handed to LMDB, which could end the process over it, but read as far as it is
sound.
"""

from __future__ import annotations

import contextlib
import functools
import struct
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import msgspec

from runelog import manifest
from runelog.errors import Closed, Corrupt, Fault, LogFailed, Refused
from runelog.files import Pinned
from runelog.index import frame
from runelog.index.follow import follow
from runelog.index.index_check import contradiction
from runelog.index.laid_over import LaidOver
from runelog.index.records import NUMBER, decode_head
from runelog.index.unwritten import UnwrittenIndex
from runelog.lmdb import space
from runelog.lmdb.batch import Batch
from runelog.lmdb.environment import Environment
from runelog.lmdb.salvage import SalvageView
from runelog.manifest import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runelog.lmdb.tables import Tables
    from runelog.manifest import Manifest, SegmentInfo

MAX_OPEN: Final = 128
"""How many segments stay mapped; of more, the one that was not used for longest is closed."""
MAX_NAMES: Final = 1_024
"""Of how many conversations of a segment the names are cached."""


class Segment:
    """One segment as this process reads it."""

    def __init__(
        self, info: SegmentInfo, env: Environment | None, salvage: SalvageView | None
    ) -> None:
        """Hold either the environment or, for a damaged file, a view that trusts nothing."""
        self.info = info
        self.env = env
        self.salvage = salvage
        self.users = 0
        self._ids: dict[int, tuple[str, int]] = {}
        self._lock = threading.Lock()
        self._commit = -1
        """The commit that `_unwritten` is of."""
        self._unwritten = UnwrittenIndex()

    @property
    def damaged(self) -> bool:
        """Return True if this file can only be read with care."""
        return self.env is None

    def view(self) -> AbstractContextManager[Tables]:
        """Give a consistent state of the segment to read from."""
        if self.env is not None:
            return self.env.view()
        assert self.salvage is not None
        if doubt := self._doubt:
            msg = f"{self.info.name} is damaged: {doubt}"
            raise Corrupt(msg)
        return contextlib.nullcontext(self.salvage)

    def complete(self, view: Tables) -> Tables:
        """Return what `view` gave with all of the index, of which some may follow in the file."""
        if isinstance(view, Batch):
            unwritten = self.unwritten(view)
        elif self.info.status is Status.ACTIVE:
            unwritten = self._salvaged
        else:
            return view  # it was written before the segment was sealed
        return view if unwritten.is_empty else LaidOver(view, unwritten)

    def unwritten(self, view: Batch) -> UnwrittenIndex:
        """Return what frames tell of the index and its tables do not hold, in a view."""
        with self._lock:
            if view.commit < self._commit:
                return follow(view)  # another thread has seen a later commit meanwhile
            if view.commit > self._commit:
                self._unwritten = follow(view, self._unwritten)
                self._commit = view.commit
            return self._unwritten

    @functools.cached_property
    def _salvaged(self) -> UnwrittenIndex:
        assert self.salvage is not None
        return follow(self.salvage, damaged=True)

    @functools.cached_property
    def _doubt(self) -> str:
        """Return why entries that a damaged file lacks may have been there."""
        assert self.salvage is not None
        if self.salvage.stale:
            return "its last commit may be out of reach"
        # Only the active segment is asked what there is: of a sealed one, the catalog knows.
        if self.info.status is not Status.ACTIVE:
            return ""
        try:
            return contradiction(self.complete(self.salvage))
        except Corrupt as error:
            return f"it is not certain whose its last runes are: {error}"

    def number_of(self, view: Tables, conversation: str) -> int | None:
        """Return a conversation's number in this segment, None if it holds nothing of it."""
        found = view.get("names", conversation.encode())
        return NUMBER.unpack(found)[0] if found is not None else None

    def id_of(self, view: Tables, number: int) -> tuple[str, int]:
        """Return the id behind a number, and what its checksums start from."""
        known = self._ids.get(number)
        if known is None:
            key = NUMBER.pack(number)
            found = view.get("heads", key)
            if found is None:
                msg = f"{self.info.name} names no conversation {number}"
                raise Corrupt(msg)
            name = decode_head(key, found).id
            known = (name, frame.seed_of(name))
            if len(self._ids) >= MAX_NAMES:
                self._ids.clear()
            self._ids[number] = known
        return known

    def close(self) -> None:
        """Unmap the file."""
        if self.env is not None:
            self.env.close()
        if self.salvage is not None:
            self.salvage.close()


class Segments:
    """All segments of a log, by number, as the manifest lists them."""

    def __init__(self, directory: Path, *, readonly: bool) -> None:
        """Read the manifest; nothing is mapped yet."""
        self.directory = directory
        self.readonly = readonly
        self.lock_files = True
        """Whether readers announce themselves to the writer.

        Always, unless the directory forbids it.
        """
        self.metasync = True
        self.vouch: Callable[[], tuple[str, int] | None] | None = None
        """Tells digest and length of the active segment as closed, until that has been checked."""
        self.verified: set[tuple[int, int]] = set()
        """Segments, by number and generation, whose digest was checked or made by this process."""
        self.superseded: list[SegmentInfo] = []
        """Segments that this process has replaced by others, made from them: their files can go."""
        self.walked: set[int] = set()
        """Segments that were not closed cleanly, and found sound by themselves."""
        self._lock = threading.RLock()
        self._segments: OrderedDict[tuple[int, int], Segment] = OrderedDict()
        self._pinned = Pinned(directory / "MANIFEST")
        self.manifest = manifest.read_manifest(directory)
        self.stamped = not self.manifest.pending
        """Whether the active segment says which revision of the manifest was published last."""
        self.dead: frozenset[str] = frozenset(self.manifest.dead)
        """Conversations whose runes in segments do not count; see `Manifest`."""
        self.damaged: set[int] = set()
        self._note_damage()
        self._closed = False

    def path(self, info: SegmentInfo) -> Path:
        """Return where a segment's file is."""
        return self.directory / "segments" / info.name

    def info(self, number: int) -> SegmentInfo:
        """Return what the manifest says of a segment."""
        segments = self.manifest.segments
        index = number - segments[0].number
        if 0 <= index < len(segments) and segments[index].number == number:
            return segments[index]
        msg = f"the catalog names segment {number}, and the manifest does not"
        raise Corrupt(msg)

    def publish(self, new: Manifest) -> None:
        """Replace the manifest: the step that makes a change of segments real.

        After `LogFailed` it is replaced, but a power cut may undo that: whatever either manifest
        names must stay, and nothing more may be written. An interrupt may come after the step as
        well as before it, so what counts is what is on disk.
        """
        new = msgspec.structs.replace(new, revision=self.manifest.revision + 1)
        try:
            manifest.write_manifest(self.directory, new)
            self._take_on(new)
        except BaseException as error:
            if self.on_disk() != new:
                raise
            self._take_on(new)
            msg = f"MANIFEST was replaced, perhaps not durably: {error!r}"
            raise LogFailed(msg) from error

    def on_disk(self) -> Manifest | None:
        """Return the manifest as it is on disk now, None if it cannot be read."""
        try:
            return manifest.read_manifest(self.directory)
        except (Corrupt, Refused, OSError):
            return None

    def _take_on(self, new: Manifest) -> None:
        named = {info.name for info in new.segments}
        with self._lock:
            self.superseded += [i for i in self.manifest.segments if i.name not in named]
            self.stamped = False
            self._pin()
            self._adopt(new)

    def refresh(self) -> bool:
        """Look whether the writer, in another process, has changed the manifest; tell if so."""
        if self._pinned.is_still_there():
            return False
        with self._lock:
            # Before it is read: should it be replaced in between, the next look tells.
            self._pin()
            self._adopt(manifest.read_manifest(self.directory))
        return True

    def _pin(self) -> None:
        old, self._pinned = self._pinned, Pinned(self._pinned.path)
        old.close()

    def _adopt(self, new: Manifest) -> None:
        self.manifest, self.dead = new, frozenset(new.dead)
        self._note_damage()
        current = {(i.number, i.generation): i for i in new.segments}
        for key, segment in list(self._segments.items()):
            info = current.get(key)
            if info is None or info.status is not segment.info.status:
                del self._segments[key]
                if segment.users == 0:
                    segment.close()

    def _note_damage(self) -> None:
        self.damaged |= {
            info.number for info in self.manifest.segments if info.status is Status.DAMAGED
        }

    @contextlib.contextmanager
    def take(self, number: int, *, frames: bool = True) -> Iterator[tuple[Segment, Tables]]:
        """Give a segment and a view of it, opened and checked if this is its first use.

        Without `frames`, not with what of its index only they tell: where that is not asked for.
        """
        with self._lock:
            segment = self._current(number)
            segment.users += 1
        try:
            with segment.view() as view:
                yield segment, segment.complete(view) if frames else view
        except (struct.error, UnicodeDecodeError, IndexError) as error:
            # Keys and values have no checksums of their own: one of them is not what it should be.
            msg = f"{segment.info.name} is damaged: {error}"
            raise Corrupt(msg) from error
        finally:
            with self._lock:
                segment.users -= 1
                key = (segment.info.number, segment.info.generation)
                if segment.users == 0 and self._segments.get(key) is not segment:
                    segment.close()

    def _current(self, number: int) -> Segment:
        while True:
            try:
                return self._segment(self.info(number))
            except Corrupt:
                # A writer in another process may just have put a new generation in its place.
                if not (self.readonly and self.refresh()):
                    raise

    def unwritten(self) -> UnwrittenIndex:
        """Return what the tables of the active segment's index do not hold, for its writer."""
        segment = self.segment(self.manifest.active.number)
        assert segment.env is not None
        with segment.env.view() as view:
            return segment.unwritten(view)

    def is_damaged(self, number: int) -> bool:
        """Return True if a segment can only be read with care, opened and checked if need be."""
        with self._lock:
            return self._current(number).damaged

    def segment(self, number: int) -> Segment:
        """Open a segment without viewing it: the writer does so with the active one."""
        with self._lock:
            return self._segment(self.info(number))

    def _segment(self, info: SegmentInfo) -> Segment:
        if self._closed:
            msg = f"the log in {self.directory} is closed"
            raise Closed(msg)
        key = (info.number, info.generation)
        segment = self._segments.get(key)
        if segment is None:
            segment = self._segments[key] = self._open(info)
            self._make_room()
        else:
            self._segments.move_to_end(key)
        return segment

    def _open(self, info: SegmentInfo) -> Segment:
        path = self.path(info)
        try:
            env = self._mapped(info)
            salvage = SalvageView.open(path) if env is None else None
        except (OSError, Fault):
            if path.exists():
                raise
            # There never was such a file, or a writer has just put another in its place.
            msg = (
                f"{info.name} is missing from {path.parent}: "
                "put it back, or run `runefold log repair`"
            )
            raise Corrupt(msg) from None
        if env is None:
            self.damaged.add(info.number)
        elif info.status is not Status.ACTIVE:
            self.verified.add((info.number, info.generation))
        return Segment(info, env, salvage)

    def _mapped(self, info: SegmentInfo) -> Environment | None:
        """Hand a segment's file to LMDB if it is sound; None if it is not."""
        active = info.status is Status.ACTIVE
        verified = (info.number, info.generation) in self.verified
        if info.number in self.damaged or not (verified or self._matches(info)):
            return None
        looks = 2 if active and self.readonly and manifest.writer_alive(self.directory) else 1
        for _ in range(looks):  # what is being written to may look damaged for a moment
            with contextlib.suppress(Corrupt):
                return Environment(
                    self.path(info),
                    map_size=info.map_size,
                    readonly=self.readonly or not active,
                    lock=active and self.lock_files,
                    metasync=self.metasync,
                )
        return None

    def _matches(self, info: SegmentInfo) -> bool:
        """Return True if a segment's file is what it was when it was sealed or closed."""
        path = self.path(info)
        if info.status is not Status.ACTIVE:
            return space.digest(path) == (info.digest, info.size)
        expected = self.vouch() if self.vouch else None
        if expected is None or space.digest(path) == expected:
            return True
        # Changed since it was closed: by a writer that has come meanwhile and said so, or by
        # damage.
        return self.vouch is None or self.vouch() != expected

    def _make_room(self) -> None:
        if len(self._segments) <= MAX_OPEN:
            return
        for key, segment in list(self._segments.items()):
            if segment.users == 0 and segment.info.status is not Status.ACTIVE:
                del self._segments[key]
                segment.close()
                return

    def close(self) -> None:
        """Unmap every segment that no thread is reading.

        The others are unmapped when their readers are done.
        """
        with self._lock:
            self._closed = True
            self._pinned.close()
            segments = list(self._segments.values())
            self._segments.clear()
            for segment in segments:
                if segment.users == 0:
                    segment.close()
