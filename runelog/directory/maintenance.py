"""Maintenance: archive, restore, erase, and import of conversations from other logs.

Each is prepared aside and becomes real by one replacement of the manifest, which also names what is
left to do afterwards; opening a log finishes what a crash interrupted there.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import msgspec

from runelog.checks import check_readable
from runelog.directory import rewrite
from runelog.errors import Corrupt, Fault, LogFull, Refused, UnknownConversation
from runelog.index.records import Head
from runelog.manifest import Pending, SegmentInfo, Status
from runelog.reader.lookup import check_absent
from runelog.rune import SYSTEM, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runelog.directory.log_directory import LogDirectory
    from runelog.reader.segments import Segment
    from runelog.stream.stream_blocks import Entry
    from runelog.writer.commit import Writer

MAX_DEAD: Final = 256
"""Archived conversations that may still be in segments; MANIFEST names each."""
MIN_DEAD: Final = 4_096
"""Dead runes that are left in the segments in any case."""


class Maintenance:
    """Moves whole conversations, while appends are held up."""

    def __init__(
        self, log_directory: LogDirectory, writer: Writer, clock: Callable[[], int]
    ) -> None:
        """Work on a log directory, holding up its `writer` meanwhile."""
        self._home = log_directory
        self._writer = writer
        self._clock = clock

    def archive(self, conversations: Sequence[str]) -> None:
        """Move conversations to cold storage."""
        with self._writer.paused():
            heads = self._heads(conversations, "archived")
            for head in heads:
                check_readable(head.id, head.state)
                for work in self._home.lookup.work(head.id):
                    msg = f"{head.id} has open work, {work.entity}: let it end before archiving"
                    raise Refused(msg)
            names = [head.id for head in heads if head.state is State.LIVE]
            if not names:
                return
            self._home.untidy = True
            try:
                with self._home.owned():
                    for name in names:
                        runes = self._home.reader.read(name, 0, None, None)
                        self._home.archives.write(name, runes, self._home.blobs, self._clock())
                    self._decide(names)
            except BaseException:
                self._withdraw(names)
                raise
            self.finish()
            dead = self._removable()
            if self._is_worth_compacting(dead):
                # They are archived. What is not removed now is tried again with the next ones.
                with contextlib.suppress(LogFull, Corrupt):
                    self._compact(dead)

    def _decide(self, names: Sequence[str]) -> None:
        """Make it real that conversations are archived; their runes in segments are dead now."""
        now = self._home.segments.manifest
        pending = (*now.pending, Pending("archive", tuple(sorted(names))))
        try:
            self._home.segments.publish(
                msgspec.structs.replace(now, pending=pending, dead=(*now.dead, *names))
            )
        finally:
            self._forget(names)

    def _forget(self, names: Iterable[str]) -> None:
        """Have caches look conversations up again: what they hold may be out of date."""
        for name in names:
            self._writer.forget(name)
            self._home.dead_spans.pop(name, None)
        self._home.reader.subscriptions.stir()

    def _removable(self) -> list[str]:
        """Return the dead conversations that are in sound segments only."""
        home, known = self._home, self._home.dead_spans
        home.dead_spans = {
            name: known[name] if name in known else home.lookup.spans(name, 0)
            for name in home.segments.dead
        }
        held = {span.segment for spans in home.dead_spans.values() for span in spans}
        damaged = {number for number in held if home.segments.is_damaged(number)}
        return [
            name
            for name, spans in home.dead_spans.items()
            if damaged.isdisjoint(span.segment for span in spans)
        ]

    def _is_worth_compacting(self, dead: Sequence[str]) -> bool:
        """Return True if so much in the segments is dead that writing them anew is cheap for it.

        The more there is, the more rarely it happens: archiving one by one costs the same for each.
        """
        if len(dead) > MAX_DEAD:
            return True
        spans = [span for name in dead for span in self._home.dead_spans[name]]
        runes = sum(span.last - span.first + 1 for span in spans)
        held = sum(self._positions(number) for number in {span.segment for span in spans})
        return runes >= MIN_DEAD and 2 * runes >= held

    def _positions(self, number: int) -> int:
        """Return how many positions a segment has."""
        info = self._home.segments.info(number)
        active = info.status is Status.ACTIVE
        return (self._home.lookup.last_position() if active else info.last) - info.first + 1

    def _is_half_full(self) -> bool:
        """Return True if the active segment is better sealed than written anew."""
        segments = self._home.segments
        env = segments.segment(segments.manifest.active.number).env
        return env is None or 2 * env.used > env.map_size

    def _compact(self, names: Iterable[str]) -> None:
        """Remove runes of archived conversations from the segments."""
        drop = dict.fromkeys(names, State.ARCHIVED)
        if drop:
            self._take_out("compact", drop)
            self.finish()

    def _withdraw(self, names: Sequence[str]) -> None:
        """Remove archives that came to nothing. Should that fail, closing the log does it."""
        with contextlib.suppress(Fault, OSError), self._home.owned():
            if not self._home.segments.manifest.pending:
                for name in names:
                    self._home.archives.drop(name)

    def erase(self, conversations: Sequence[str]) -> None:
        """Remove conversations for good."""
        with self._writer.paused():
            heads = self._heads(conversations, "erased")
            names = [head.id for head in heads if head.state is not State.ERASED]
            if names:
                self._take_out("erase", dict.fromkeys(names, State.ERASED))
                self.finish()
            with self._home.owned():
                for head in heads:
                    if head.state is State.ERASED:
                        self._bury(head.id)

    def restore(self, conversations: Sequence[str]) -> None:
        """Bring archived conversations back."""
        with self._writer.paused():
            heads = self._heads(conversations, "")
            for head in heads:
                check_readable(head.id, head.state)
            names = sorted(head.id for head in heads if head.state is State.ARCHIVED)
            if not names:
                return
            self._compact(self._home.segments.dead.intersection(names))
            self._home.untidy = True
            with contextlib.ExitStack() as stack:
                readers = {
                    name: stack.enter_context(self._home.archives.opened(name)) for name in names
                }
                with self._home.owned():
                    for name, reader in readers.items():
                        for _, content in reader.blobs(name):
                            self._home.blobs.put(name, content)
                self._install(
                    [(name, reader.read(name)) for name, reader in readers.items()],
                    sum(reader.section(name).size for name, reader in readers.items()),
                    pending=Pending("restore", tuple(names)),
                )
            self.finish()

    def take_in(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Add conversations that are not here yet, all of them or none."""
        with self._writer.paused():
            check_absent(self._home.lookup, (name for name, _ in conversations))
            for name, _ in conversations:
                self._writer.forget(name)
            self._install(conversations, size, pending=None, progress=progress)
            with self._home.owned():
                self._home.sweep()

    # -- parts --------------------------------------------------------------------------------

    def _heads(self, conversations: Sequence[str], verb: str) -> list[Head]:
        if self._home.segments.manifest.pending:
            self.finish()  # what was begun before, and interrupted
        heads = []
        for name in dict.fromkeys(conversations):
            if name == SYSTEM and verb:
                msg = f"{SYSTEM} cannot be {verb}: it holds what belongs to no conversation"
                raise Refused(msg)
            head = self._home.lookup.head(name)
            if head is None:
                raise UnknownConversation(name)
            heads.append(head)
        return heads

    def _take_out(self, op: str, drop: dict[str, State]) -> None:
        """Rewrite the segments that hold these conversations, and make the new ones real."""
        home, segments, lookup = self._home, self._home.segments, self._home.lookup
        where = {
            span.segment
            for name in drop
            if lookup.head(name) is not None
            for span in lookup.spans(name, 0)
        }
        active = segments.manifest.active.number
        if active in where and self._is_half_full():
            self._writer.use(home.next_segment())
        made: dict[int, SegmentInfo] = {}
        try:
            with home.owner.no_way_back():
                with home.owned():
                    self._rewrite(op, drop, sorted(where), made)
                if segments.manifest.active.number in made:
                    env = segments.segment(active).env
                    assert env is not None
                    self._writer.use(env)
        finally:
            self._forget(drop)

    def _rewrite(
        self, op: str, drop: dict[str, State], where: Sequence[int], made: dict[int, SegmentInfo]
    ) -> None:
        segments = self._home.segments
        now = segments.manifest
        try:
            for number in where:
                with segments.take(number) as (segment, view):
                    _check_sound(segment)
                    made[number] = rewrite.without(view, segment.info, segments.path, drop)
            for info in made.values():
                segments.verified.add((info.number, info.generation))
            segments.publish(
                msgspec.structs.replace(
                    now,
                    segments=tuple(made.get(info.number, info) for info in now.segments),
                    pending=(*now.pending, Pending(op, tuple(sorted(drop)))),
                    dead=tuple(name for name in now.dead if name not in drop),
                )
            )
        except BaseException:
            self._home.discard(made.values())
            raise

    def _install(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        *,
        pending: Pending | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Build a sealed segment out of whole conversations and put it behind all others."""
        home, segments = self._home, self._home.segments
        self._writer.use(home.next_segment())
        with home.owner.no_way_back():
            with home.owned():
                done, fresh = self._build(conversations, size, pending, progress)
            active = segments.segment(fresh.number).env
            assert active is not None
            self._writer.use(active, done.last)
            if pending is None:
                # Until it knows of them, an append could begin them a second time.
                home.stamp()
                with home.owned():
                    home.catch_up()
        home.reader.subscriptions.announce(done.last)

    def _build(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        pending: Pending | None,
        progress: Callable[[int], None] | None,
    ) -> tuple[SegmentInfo, SegmentInfo]:
        """Make the segment, and the one to go on with; return what the manifest says of both."""
        home, segments = self._home, self._home.segments
        now = segments.manifest
        empty = now.active
        room = max(empty.map_size, 3 * size + (16 << 20))
        side = msgspec.structs.replace(empty, generation=empty.generation + 1, map_size=room)
        made = [side]
        birth = home.birth()
        env = rewrite.create(
            segments.path(side), side, birth, 0, aside=True, silent=pending is not None
        )
        try:
            last = rewrite.fill(env, side.first, conversations, progress)
            done = rewrite.sealed(env, side, last, aside=True)
            fresh = SegmentInfo(
                number=side.number + 1,
                first=last + 1,
                map_size=empty.map_size,
                since=empty.since,
            )
            made.append(fresh)
            rewrite.create(segments.path(fresh), fresh, birth, home.owner.epoch).close()
            segments.verified.add((done.number, done.generation))
            segments.publish(
                msgspec.structs.replace(
                    now,
                    segments=(*now.segments[:-1], done, fresh),
                    pending=(*now.pending, pending) if pending else now.pending,
                )
            )
        except BaseException:
            home.discard(made)
            raise
        finally:
            env.close()
        return done, fresh

    def finish(self) -> None:
        """Carry out what the manifest names as left to do. Doing it twice changes nothing."""
        home = self._home
        steps = home.segments.manifest.pending
        try:
            home.stamp()
            with home.owned():
                home.catch_up()
                for step in steps:
                    for name in step.conversations:
                        if step.op == "erase":
                            self._bury(name)
                        elif step.op != "restore":
                            self._put_away(name)
                now = home.segments.manifest
                settled = now.revision + 1
                home.lookup.catalog.note_settled(settled)
                home.segments.publish(msgspec.structs.replace(now, pending=(), settled=settled))
                for step in steps:
                    if step.op == "restore":
                        for name in step.conversations:
                            home.archives.drop(name)
                home.sweep()
                home.untidy = False
        finally:
            for step in steps:
                for name in step.conversations:
                    self._writer.forget(name)

    def _bury(self, name: str) -> None:
        """Leave nothing of an erased conversation but its tombstone."""
        home = self._home
        home.archives.bury(name)
        home.lookup.catalog.settle(Head(name, 0, 0, 0, 0, 0, State.ERASED))
        home.forget(name)

    def _put_away(self, name: str) -> None:
        """Note that a conversation is in its archive now."""
        head = self._home.lookup.head(name)
        if head is None or not head.head:
            # The catalog was made anew since, or is an older one.
            head = self._home.archives.head(name)
        head.since = 1
        self._home.lookup.catalog.settle(head, dead=name in self._home.segments.dead)
        self._home.blobs.drop(name)


def _check_sound(segment: Segment) -> None:
    if segment.damaged:
        msg = (
            f"{segment.info.name} is damaged, and would have to be written anew: "
            "run `runefold log repair` first"
        )
        raise Corrupt(msg)
