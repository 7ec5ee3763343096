"""Verifying a log: everything that can be checked without knowing what its runes mean.

Each finding names the invariant it breaks, how bad that is, and where.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from zlib import crc32

import msgspec

from runelog import manifest
from runelog.codec import Codec
from runelog.directory import garbage
from runelog.errors import (
    BadStream,
    Corrupt,
    NewerFormat,
    OldManifest,
    RunefoldError,
    UnknownConversation,
)
from runelog.index import frame
from runelog.index.catalog import entries
from runelog.index.records import (
    NUMBER,
    PLACE,
    Hole,
    decode_head,
    decode_hole,
    postings,
    stream_prefix,
)
from runelog.lmdb import space
from runelog.manifest import Status
from runelog.rune import State, Tombstone
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.index.records import Head
    from runelog.lmdb.tables import Tables
    from runelog.manifest import SegmentInfo
    from runelog.reader.segments import Segment
    from runelog.rune import Envelope

Severity = Literal["fatal", "error", "warn"]
_PLACE: Final = PLACE.pack


class Problem(NamedTuple):
    """One thing that is not as it should be."""

    invariant: str
    severity: Severity
    where: str
    message: str


class Report(msgspec.Struct):
    """What was looked at, and what was found."""

    problems: list[Problem] = []
    runes: int = 0
    """Without tombstones: they stand for runes that are not there."""
    conversations: int = 0
    segments: int = 0

    @property
    def ok(self) -> bool:
        """Return True if nothing is wrong; an unusable snapshot is only a warning."""
        return all(problem.severity == "warn" for problem in self.problems)


def verify(
    directory: Path,
    *,
    codec: Codec | None = None,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Check a whole log, beside a live writer if there is one. `progress` is told of runes.

    Payloads are decoded as far as `codec` knows their kinds. Raises only if there is no log to look
    at.
    """
    manifest.read_manifest(directory)
    try:
        log = Runelog.open(directory, codec or Codec(), readonly=True)
    except OldManifest as error:
        # What it does name may be sound, and would tell nothing of the rest.
        return Report([Problem("INV-SEGMENT-CONTIGUOUS", "fatal", "MANIFEST", str(error))])
    with log:
        return _Verifier(log, progress).run()


class _Trail:
    """What is remembered of a stream of positions: how many, and a checksum over all of them."""

    __slots__ = ("checksum", "count")

    def __init__(self) -> None:
        self.count = 0
        self.checksum = 0

    def add(self, position: int) -> None:
        self.count += 1
        self.checksum = crc32(_PLACE(position), self.checksum)


class _Verifier:
    def __init__(self, log: Runelog, progress: Callable[[int], None] | None) -> None:
        self._log = log
        self._home = log.log_directory
        self._progress = progress
        self._report = Report()
        self._heads: dict[str, int] = {}
        """The last event id met of each conversation."""

    def run(self) -> Report:
        segments = self._home.segments
        self._check_unnamed()
        self._check_order(segments.manifest.segments)
        for info in segments.manifest.segments:
            self._report.segments += 1
            try:
                self._check_segment(info)
            except RunefoldError as error:
                self._note("INV-CRC-VALID", "fatal", info.name, str(error))
        try:
            self._check_catalog()
        except RunefoldError as error:
            self._note("INV-SEGMENT-CONTIGUOUS", "error", "catalog", str(error))
        return self._report

    def _note(self, invariant: str, severity: Severity, where: str, message: str) -> None:
        self._report.problems.append(Problem(invariant, severity, where, message))

    def _check_unnamed(self) -> None:
        """Name segment files that MANIFEST does not; a live writer may be making some."""
        if manifest.writer_alive(self._log.directory):
            return
        for path in garbage.unnamed_segments(self._log.directory, self._home.segments.manifest):
            if not garbage.is_blank(path):
                message = (
                    f"{path.name} is not named by MANIFEST: opening the log to write removes it if "
                    "all its runes are elsewhere, or else sets it aside"
                )
                self._note("INV-SEGMENT-CONTIGUOUS", "warn", path.name, message)

    def _check_order(self, segments: tuple[SegmentInfo, ...]) -> None:
        for before, after in pairwise(segments):
            if after.number != before.number + 1 or after.first != before.last + 1:
                message = f"{after.name} does not follow {before.name}"
                self._note("INV-SEGMENT-CONTIGUOUS", "fatal", after.name, message)

    # -- one segment --------------------------------------------------------------------------

    def _check_segment(self, info: SegmentInfo) -> None:
        with self._home.segments.take(info.number) as (segment, view):
            if segment.damaged:
                what = "is set aside as damaged" if info.status is Status.DAMAGED else "is damaged"
                self._note("INV-RUNE-IMMUTABLE", "fatal", info.name, f"{info.name} {what}")
            elif info.status is Status.SEALED:
                found = space.digest(self._home.segments.path(info))
                if found != (info.digest, info.size):
                    message = f"{info.name} does not match its digest"
                    self._note("INV-RUNE-IMMUTABLE", "fatal", info.name, message)
            trails = self._check_frames(info, segment, view)
            self._check_index(info, view, trails)

    def _check_frames(
        self, info: SegmentInfo, segment: Segment, view: Tables
    ) -> dict[tuple[str, str], _Trail]:
        """Check every rune of a segment and that no position is missing.

        Return what its index should say.
        """
        trails: dict[tuple[str, str], _Trail] = defaultdict(_Trail)
        holes = _Holes(view)
        expected = info.first
        for key, data in entries(view, "runes"):
            position = PLACE.unpack(key)[0]
            expected = holes.skip(expected)
            if position != expected:
                message = f"positions {expected} to {position - 1} are missing"
                self._note("INV-SEGMENT-CONTIGUOUS", "fatal", info.name, message)
            expected = position + max(frame.count(data), 1)
            try:
                self._check_frame(segment, view, position, data, trails)
            except RunefoldError as error:
                where = _where(error, f"{info.name} at position {position}")
                self._note("INV-CRC-VALID", "fatal", where, str(error))
        expected = holes.skip(expected)
        if info.status is Status.SEALED and expected != info.last + 1:
            message = f"positions {expected} to {info.last} are missing"
            self._note("INV-SEGMENT-CONTIGUOUS", "fatal", info.name, message)
        return trails

    def _check_frame(
        self,
        segment: Segment,
        view: Tables,
        position: int,
        data: bytes,
        trails: dict[tuple[str, str], _Trail],
    ) -> None:
        name, seed = segment.id_of(view, frame.number(data))
        # What is archived counts in its archive.
        dead = name in self._home.segments.dead
        last = frame.first_event(data) - 1 if dead else self._heads.get(name, 0)
        if frame.first_event(data) == last + 1:
            # Also if a rune of it is damaged: then that is what is wrong, not the next one's id.
            self._heads[name] = last + frame.count(data)
        _, first, time, runes, content = frame.check(data, name, seed, position)
        if first != last + 1:
            message = f"event {last + 1} of {name} should be next, and {first} is"
            self._note("INV-EVENTID-MONOTONIC", "fatal", name, message)
        self._heads[name] = first + runes - 1
        codec = self._log.codec
        envelopes = codec.envelopes(runes, content, name, first, position, time)
        for envelope in envelopes:
            trails[name, ""].add(envelope.position)
            for entity in {envelope.owner, *envelope.observers}:
                trails[name, entity].add(envelope.position)
            if not dead:
                self._check_payload(envelope)
        if self._progress is not None and not dead:
            self._progress(len(envelopes))

    def _check_payload(self, envelope: Envelope) -> None:
        """Decode a rune as far as its kind is known. One that does not decode harms no other."""
        where = f"{envelope.conversation} event {envelope.event_id}"
        try:
            if isinstance(envelope.payload, Tombstone):
                return
        except NewerFormat as error:
            self._note("INV-REPLAY-DETERMINISTIC", "error", where, str(error))
        except Corrupt as error:
            self._note("INV-CRC-VALID", "fatal", where, str(error))
        self._report.runes += 1

    def _check_index(
        self, info: SegmentInfo, view: Tables, trails: dict[tuple[str, str], _Trail]
    ) -> None:
        numbers: dict[int, Head] = {}
        for key, value in entries(view, "heads"):
            numbers[NUMBER.unpack(key)[0]] = decode_head(key, value)
        for key, value in entries(view, "names"):
            head = numbers.get(NUMBER.unpack(value)[0])
            if head is None or head.id != key.decode():
                self._wrong_index(info, f"the name {key.decode()} leads nowhere")
        by_name = {head.id: number for number, head in numbers.items()}
        for (name, entity), trail in trails.items():
            number = by_name[name]
            prefix = stream_prefix(number, entity) if entity else NUMBER.pack(number)
            table = "streams" if entity else "events"
            found = _Trail()
            for run in postings(view, table, prefix, 0):
                for position in range(run.position, run.position + run.length):
                    found.add(position)
            if (found.count, found.checksum) != (trail.count, trail.checksum):
                what = f"the stream of {entity} in {name}" if entity else name
                self._wrong_index(info, f"the index of {what} does not lead to its runes")
            if not entity and numbers[number].head != self._heads[name]:
                self._wrong_index(info, f"the head of {name} is not its last event")
        listed = sum(1 for head in numbers.values() if head.state is State.LIVE)
        if listed != sum(1 for _, entity in trails if not entity):
            self._wrong_index(info, "the heads are not those of the conversations it holds")

    def _wrong_index(self, info: SegmentInfo, message: str) -> None:
        self._note("INV-SEGMENT-CONTIGUOUS", "error", info.name, message)

    # -- everything beside the segments -------------------------------------------------------

    def _check_catalog(self) -> None:
        home = self._home
        listed = set()
        for head in home.lookup.heads():
            self._report.conversations += 1
            listed.add(head.id)
            if head.state is State.ARCHIVED:
                self._check_archive(head)
            elif head.state is State.LIVE:
                self._check_live(head)
            self._check_gone(head)
            for message in home.snapshots.verify(head.id):
                self._note("INV-SNAPSHOT-INTEGRITY", "warn", head.id, message)
        for name in self._heads.keys() - listed:
            message = f"{name} is in a segment, and the index does not list it"
            self._note("INV-SEGMENT-CONTIGUOUS", "error", name, message)

    def _check_gone(self, head: Head) -> None:
        """Note runes in segments of a conversation that has none there, as far as is known."""
        segments = self._home.segments
        if (
            head.state is not State.LIVE
            and head.id in self._heads
            and head.id not in segments.dead
            and not segments.manifest.pending
            and not manifest.writer_alive(self._log.directory)
        ):
            message = f"{head.id} is {head.state.name.lower()}, and segments still hold its runes"
            self._note("INV-SEGMENT-CONTIGUOUS", "error", head.id, message)

    def _check_live(self, head: Head) -> None:
        last = self._heads.get(head.id, 0)
        # A live writer may have gone on since its segment was looked at.
        if head.head != last and not (
            head.head > last and manifest.writer_alive(self._log.directory)
        ):
            message = f"the index says that {head.id} ends at event {head.head}, and it is {last}"
            self._note("INV-EVENTID-MONOTONIC", "error", head.id, message)
        for digest in self._home.blobs.list(head.id):
            try:
                self._home.blobs.get(head.id, digest)
            except Corrupt as error:
                self._note("INV-CRC-VALID", "fatal", f"{head.id} blob {digest[:12]}", str(error))

    def _check_archive(self, head: Head) -> None:
        """Check an archive's every byte, and then decode its runes as those of segments are."""
        archives = self._home.archives
        runes = 0
        try:
            for envelope in archives.checked(head.id, self._progress):
                runes += 1
                self._check_payload(envelope)
        except FileNotFoundError:
            now = self._home.lookup.head(head.id)
            if now is not None and now.state is not State.ARCHIVED:
                # A live writer has restored or erased it since it was listed.
                return
            name = archives.path(head.id).name
            dead = head.id in self._home.segments.dead
            way_out = "`runefold log repair` has its runes" if dead else "restore it from a backup"
            message = f"{head.id} is archived, and {name} is missing: {way_out}"
            self._note("INV-CRC-VALID", "fatal", head.id, message)
        except UnknownConversation:
            message = f"{archives.path(head.id).name} is the archive of another conversation"
            self._note("INV-CRC-VALID", "fatal", head.id, message)
        except (BadStream, NewerFormat) as error:
            message = f"the archive of {head.id} cannot be read: {error}"
            self._note("INV-CRC-VALID", "fatal", head.id, message)
        else:
            if runes != head.head:
                message = f"{head.id} has {head.head} runes, its archive {runes}"
                self._note("INV-EVENTID-MONOTONIC", "error", head.id, message)


class _Holes:
    """The holes of a segment, in order."""

    def __init__(self, view: Tables) -> None:
        self._holes: Iterator[Hole] = (decode_hole(*entry) for entry in entries(view, "holes"))
        self._next = next(self._holes, None)

    def skip(self, position: int) -> int:
        """Return the next position at or behind `position` that is not in a hole."""
        while self._next is not None and self._next.position <= position:
            position = max(position, self._next.position + self._next.length)
            self._next = next(self._holes, None)
        return position


def _where(error: RunefoldError, place: str) -> str:
    if isinstance(error, Corrupt) and error.conversation:
        return (
            f"{error.conversation} event {error.event_id}" if error.event_id else error.conversation
        )
    return place
