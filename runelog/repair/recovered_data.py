"""All that can be read out of a damaged segment, and where what is lost must have been."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import struct
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from runelog.errors import Corrupt
from runelog.index import frame
from runelog.index.follow import follow
from runelog.index.notes import decode_notes
from runelog.index.records import NUMBER, PLACE, Hole, decode_head, decode_hole, decode_work
from runelog.index.unwritten import indexed
from runelog.repair.frame_owner import names_of
from runelog.rune import State, is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runelog.index.notes import Notes
    from runelog.index.records import Head
    from runelog.lmdb.salvage import SalvageView
    from runelog.manifest import SegmentInfo


class RecoveredRune(NamedTuple):
    """A rune that was read out of a damaged segment, or what stands for one that could not be."""

    position: int
    conversation: str
    event_id: int
    time: int
    body: bytes | None


class RecoveredData:
    """Everything that can be read out of a damaged segment."""

    def __init__(
        self, view: SalvageView, info: SegmentInfo, size: int, conversations: Iterable[str] = ()
    ) -> None:
        """Read all that `view` can; `size`, the length of the file, bounds what is believed.

        `conversations` are those that anything else speaks of: a rune may be one of theirs.
        """
        # A rune takes at least this much: a position or an event id beyond is damage, not data.
        self._most = size // 24
        self._last = info.last or info.first + self._most
        self._first = info.first
        self.runes: dict[int, RecoveredRune] = {}
        self.holes: dict[int, Hole] = {}
        self.work: dict[tuple[str, bytes], tuple[bool, int | None]] = {}
        self.heads: dict[int, Head] = {}
        self._names: dict[int, str] = {}
        self.knows_ends = view.complete("heads") and view.complete("runes") and not view.stale
        """Whether it tells where each conversation ends, so that all that is lost is missed."""
        # What is found on a page that nothing leads to may be of another table: its shape must fit.
        self._take_names(view)
        self._take_runes(view, conversations)
        self.knows_holes = self._take_holes(view)
        """Whether all that was taken out of the segment before is known."""
        self._take_work(view)
        self.notes = list(view.problems)

    def _take_names(self, view: SalvageView) -> None:
        for key, value in itertools.chain(view.salvage("heads"), self._following(view)):
            if len(key) == NUMBER.size:
                try:
                    head = decode_head(key, value)
                except Corrupt:
                    self.knows_ends = False
                    continue
                number = NUMBER.unpack(key)[0]
                known = self.heads.get(number)
                if is_id(head.id) and (known is None or known.head < head.head):
                    self.heads[number] = head
                    self._names[number] = head.id
        for key, value in view.salvage("names"):
            if len(value) == NUMBER.size and is_id(_text(key)):
                self._names.setdefault(NUMBER.unpack(value)[0], _text(key))
        for _, data, notes in self._noted(view):
            if notes.opening is not None and is_id(notes.opening.id):
                self._names.setdefault(frame.number(data), notes.opening.id)

    def _following(self, view: SalvageView) -> list[tuple[bytes, bytes]]:
        """Return the heads that frames tell and the table does not have yet."""
        try:
            heads = follow(view, damaged=True).tables["heads"]
        except (Corrupt, struct.error, UnicodeDecodeError, IndexError):
            self.knows_ends = False
            return []
        return [(key, value) for key, value in heads.items() if value is not None]

    def _noted(self, view: SalvageView) -> Iterator[tuple[int, bytes, Notes]]:
        """Yield the frames that have notes, each with its position."""
        for key, data in view.salvage("runes"):
            with contextlib.suppress(Corrupt, struct.error):
                position = PLACE.unpack(key)[0]
                if stored := frame.notes(data):
                    yield position, data, decode_notes(position, stored)

    def _take_work(self, view: SalvageView) -> None:
        """Take what entities have left to do, as the table tells it and the notes behind that."""
        for key, stored in view.salvage("work"):
            name = self._names.get(NUMBER.unpack(key[:4])[0]) if len(key) > NUMBER.size else None
            if name is not None and is_id(_text(key[4:])):
                with contextlib.suppress(Corrupt):
                    self.work[name, key[4:]] = decode_work(key, stored)
        try:
            since = indexed(view) or 0
        except Corrupt:
            since = None
        known = {*self.work}
        for position, data, notes in self._noted(view):
            name = self._names.get(frame.number(data))
            if name is None or position <= (since or 0):
                continue
            for entity, said in notes.work:
                whose = (name, entity.encode())
                if since is None and whose in known:
                    continue  # the table may have what was said later
                if said is None:
                    self.work.pop(whose, None)
                else:
                    deadline = None if isinstance(said, bool) else said
                    self.work[whose] = (said is not False, deadline)

    def _take_holes(self, view: SalvageView) -> bool:
        """Take what is told of runes taken out before; return whether that is all there was."""
        whole = view.complete("holes")
        for key, value in view.salvage("holes"):
            if len(key) == PLACE.size:
                try:
                    hole = decode_hole(key, value)
                except Corrupt:
                    whole = False
                    continue
                if self._first <= hole.position and hole.position + hole.length - 1 <= self._last:
                    self.holes[hole.position] = hole
        return whole

    def name_of(self, number: int) -> str | None:
        """Return the conversation that had a number in the damaged segment."""
        return self._names.get(number)

    def _take_runes(self, view: SalvageView, conversations: Iterable[str]) -> None:
        frames: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for key, data in view.salvage("runes"):
            if len(key) == PLACE.size:
                position = PLACE.unpack(key)[0]
                name = self._names.get(frame.number(data))
                if name is None or not self._take_frame(position, data, name):
                    frames[frame.number(data)].append((position, data))
        known = {*conversations, *self._names.values()}
        for number, name in names_of(frames, known).items():
            self._names.setdefault(number, name)
            for position, data in frames[number]:
                self._take_frame(position, data, name)
        damaged = {position for those in frames.values() for position, _ in those}
        self._take_copies(view, {PLACE.pack(position) for position in damaged})

    def _take_copies(self, view: SalvageView, keys: set[bytes]) -> None:
        """Take runes that are damaged where they are from older copies of their pages."""
        for key, data in view.copies(keys) if keys else ():
            position = PLACE.unpack(key)[0]
            near = self.runes.get(position) or self.runes.get(position + frame.count(data) - 1)
            if near and near.time != frame.time_of(data):
                continue  # of an append that a crash took back
            name = self._names.get(frame.number(data))
            if name is not None:
                self._take_frame(position, data, name)

    def _take_frame(self, position: int, data: bytes, name: str) -> bool:
        """Take what is sound of a frame, if it is of this conversation; return True if all is."""
        try:
            parts = frame.salvage(data, name, frame.seed_of(name), position)
        except Corrupt:
            return False
        for offset, body in enumerate(parts.bodies):
            at = position + offset
            if body is not None and self._first <= at <= self._last:
                rune = RecoveredRune(at, name, parts.first + offset, parts.time, body)
                self.runes.setdefault(at, rune)
        return None not in parts.bodies

    def complete(
        self, info: SegmentInfo, before: dict[str, int], ends: dict[str, int], since: int
    ) -> tuple[list[RecoveredRune], list[Hole]]:
        """Return what was rescued, in order, and the positions that nothing is known of.

        A stand-in takes the place of each lost rune. `before` tells where conversations ended
        before this segment, and `ends` where they must have ended in it, as far as others know.
        `since` is the time of stand-ins where none is known.
        """
        known: dict[str, dict[int, int]] = defaultdict(dict)
        for rune in self.runes.values():
            known[rune.conversation][rune.event_id] = rune.position
        gone = {at for hole in self.holes.values() for at in range(hole.position, _end(hole) + 1)}
        last = max([info.last, info.first - 1, *self.runes, *gone])
        wanted = list(self._lost(known, before, ends, last))
        free = [at for at in range(info.first, last + 1) if at not in self.runes and at not in gone]
        if info.last:
            wanted = _at_most(len(free), wanted, last)
        placed, left = _place(wanted, free, last)
        times = sorted((rune.position, rune.time) for rune in self.runes.values())
        runes = sorted(
            [*self.runes.values(), *_stand_ins(placed, times, since)],
            key=lambda rune: rune.position,
        )
        return runes, list(_holes(left))

    def _lost(
        self,
        known: dict[str, dict[int, int]],
        before: dict[str, int],
        ends: dict[str, int],
        last: int,
    ) -> Iterator[tuple[int, int, str, int]]:
        """Yield each event that must have been here, with the bounds of its place.

        As (not before, not after, conversation, event id).
        """
        own = {head.id: head.head for head in self.heads.values() if head.size}
        ends = {**own, **ends}
        most = max(self._most, last - self._first + 1)
        for name in sorted(known.keys() | ends.keys()):
            places = known.get(name, {})
            first = before.get(name, 0) + 1
            end = max([*places, min(ends.get(name, 0), max([*places, first]) + most)])
            after = 0
            upper: list[tuple[int, int]] = sorted(places.items(), reverse=True)
            for event_id in range(first, end + 1):
                while upper and upper[-1][0] < event_id:
                    upper.pop()
                if event_id in places:
                    after = places[event_id]
                else:
                    yield after + 1, upper[-1][1] - 1 if upper else last, name, event_id


def _at_most(
    room: int, wanted: list[tuple[int, int, str, int]], last: int
) -> list[tuple[int, int, str, int]]:
    """Leave out the events there is no room for: the latest of those that nothing follows."""
    excess = len(wanted) - room
    if excess <= 0:
        return wanted
    tail = sorted((lost for lost in wanted if lost[1] == last), key=lambda lost: -lost[3])
    left_out = set(tail[:excess])
    return [lost for lost in wanted if lost not in left_out]


def _place(
    wanted: list[tuple[int, int, str, int]], free: list[int], last: int
) -> tuple[list[tuple[int, str, int]], list[int]]:
    """Give each lost event one of the free positions between those of its neighbours.

    The one whose time is up first goes first, which finds places for all if there are places for
    all. What finds none goes behind the last.
    """
    waiting: list[tuple[int, int, str]] = []
    order = sorted(wanted)
    placed: list[tuple[int, str, int]] = []
    left: list[int] = []
    at = 0
    for position in free:
        while at < len(order) and order[at][0] <= position:
            _, latest, name, event_id = order[at]
            heapq.heappush(waiting, (latest, event_id, name))
            at += 1
        if waiting:
            _, event_id, name = heapq.heappop(waiting)
            placed.append((position, name, event_id))
        else:
            left.append(position)
    rest = [(event_id, name) for _, event_id, name in sorted(waiting)]
    rest += [(event_id, name) for _, _, name, event_id in order[at:]]
    placed += [(last + 1 + index, name, event_id) for index, (event_id, name) in enumerate(rest)]
    return placed, left


def _stand_ins(
    placed: list[tuple[int, str, int]], times: list[tuple[int, int]], since: int
) -> Iterator[RecoveredRune]:
    """Yield lost runes with the time of the last one that is known before them, else `since`."""
    index, time = 0, times[0][1] if times else since
    for position, name, event_id in sorted(placed):
        while index < len(times) and times[index][0] < position:
            time = times[index][1]
            index += 1
        yield RecoveredRune(position, name, event_id, time, None)


def _holes(positions: list[int]) -> Iterator[Hole]:
    start = count = 0
    for position in positions:
        if count and position == start + count:
            count += 1
            continue
        if count:
            yield Hole(start, count, 0, State.LIVE)
        start, count = position, 1
    if count:
        yield Hole(start, count, 0, State.LIVE)


def _end(hole: Hole) -> int:
    return hole.position + hole.length - 1


def _text(data: bytes) -> str:
    return data.decode("ascii", "replace")
