"""Keeping a log in order: archive, restore, erase, and taking in conversations from elsewhere.

Each is prepared aside and becomes real by one replacement of the manifest, which also names what is
left to do afterwards; opening a log finishes what a crash interrupted there.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from runelog import rewrite
from runelog.errors import Corrupt, Gone, Refused, UnknownConversation
from runelog.index import Head
from runelog.manifest import Pending, SegmentInfo
from runelog.premises import Premises, check_absent
from runelog.rune import SYSTEM, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runelog.commit import Writer
    from runelog.transfer import Entry
    from runelog.volumes import Volume


class Keeper:
    """Moves whole conversations, while nobody appends."""

    def __init__(self, premises: Premises, writer: Writer, clock: Callable[[], int]) -> None:
        """Work on `premises`, holding up its `writer` meanwhile."""
        self._home = premises
        self._writer = writer
        self._clock = clock

    def archive(self, conversations: Sequence[str]) -> None:
        """Move conversations to cold storage."""
        with self._writer.paused():
            heads = self._heads(conversations, "archived")
            for head in heads:
                self._check_readable(head)
                for work in self._home.lookup.work(head.id):
                    msg = f"{head.id} has open work, {work.entity}: let it end before archiving"
                    raise Refused(msg)
            names = [head.id for head in heads if head.state is State.LIVE]
            if not names:
                return
            try:
                for name in names:
                    runes = self._home.reader.read(name, 0, None, None)
                    self._home.archives.write(name, runes, self._home.blobs, self._clock())
                self._take_out("archive", dict.fromkeys(names, State.ARCHIVED))
            except BaseException:
                if not self._home.volumes.manifest.pending:
                    for name in names:
                        self._home.archives.drop(name)
                raise
            self.finish()

    def erase(self, conversations: Sequence[str]) -> None:
        """Remove conversations for good."""
        with self._writer.paused():
            heads = self._heads(conversations, "erased")
            names = [head.id for head in heads if head.state is not State.ERASED]
            if not names:
                return
            self._take_out("erase", dict.fromkeys(names, State.ERASED))
            self.finish()

    def restore(self, conversations: Sequence[str]) -> None:
        """Bring archived conversations back."""
        with self._writer.paused():
            heads = self._heads(conversations, "")
            for head in heads:
                self._check_readable(head)
            names = sorted(head.id for head in heads if head.state is State.ARCHIVED)
            if not names:
                return
            with contextlib.ExitStack() as stack:
                readers = {
                    name: stack.enter_context(self._home.archives.opened(name)) for name in names
                }
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

    # -- parts --------------------------------------------------------------------------------

    def _heads(self, conversations: Sequence[str], verb: str) -> list[Head]:
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

    @staticmethod
    def _check_readable(head: Head) -> None:
        if head.state is State.ERASED:
            msg = f"{head.id} was erased: only its tombstone is left"
            raise Gone(msg)

    def _take_out(self, op: str, drop: dict[str, State]) -> None:
        """Rewrite the segments that hold these conversations, and make the new ones real."""
        volumes, lookup = self._home.volumes, self._home.lookup
        where = {
            span.segment
            for name in drop
            if lookup.head(name) is not None
            for span in lookup.spans(name, 0)
        }
        if volumes.manifest.active.number in where:
            self._writer.use(self._home.next_segment())
        made: dict[int, SegmentInfo] = {}
        try:
            for number in sorted(where):
                with volumes.take(number) as (volume, view):
                    _check_sound(volume)
                    made[number] = rewrite.without(view, volume.info, volumes.path, drop)
        except BaseException:
            for info in made.values():
                rewrite.discard(volumes.path(info))
            raise
        now = volumes.manifest
        segments = tuple(made.get(info.number, info) for info in now.segments)
        for info in made.values():
            volumes.verified.add((info.number, info.generation))
        pending = (*now.pending, Pending(op, tuple(sorted(drop))))
        volumes.publish(msgspec.structs.replace(now, segments=segments, pending=pending))

    def _install(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        *,
        pending: Pending | None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Build a sealed segment out of whole conversations and put it behind all others."""
        home, volumes = self._home, self._home.volumes
        self._writer.use(home.next_segment())
        empty = volumes.manifest.active
        room = max(empty.map_size, 3 * size + (16 << 20))
        side = msgspec.structs.replace(empty, generation=empty.generation + 1, map_size=room)
        path = volumes.path(side)
        env = rewrite.create(path, side, 0, silent=pending is not None)
        fresh = None
        try:
            last = rewrite.fill(env, side.first, conversations, progress)
            done = rewrite.sealed(env, side, last)
            fresh = SegmentInfo(
                number=side.number + 1,
                first=last + 1,
                map_size=empty.map_size,
                since=empty.since,
            )
            rewrite.create(volumes.path(fresh), fresh, home.epoch).close()
            now = volumes.manifest
            volumes.verified.add((done.number, done.generation))
            volumes.publish(
                msgspec.structs.replace(
                    now,
                    segments=(*now.segments[:-1], done, fresh),
                    pending=(*now.pending, pending) if pending else now.pending,
                )
            )
        except BaseException:
            env.close()
            if volumes.manifest.active != fresh:
                rewrite.discard(path)
                if fresh is not None:
                    rewrite.discard(volumes.path(fresh))
            raise
        env.close()
        with volumes.take(done.number) as (_, view):
            home.lookup.catalog.merge(done.number, view)
        active = volumes.volume(fresh.number).env
        assert active is not None
        self._writer.use(active, last)
        home.reader.news.announce(last)
        home.sweep()

    def finish(self) -> None:
        """Carry out what the manifest names as left to do. Doing it twice changes nothing."""
        home = self._home
        catalog = home.lookup.catalog
        for step in home.volumes.manifest.pending:
            for name in step.conversations:
                if step.op == "erase":
                    home.archives.bury(name)
                    catalog.settle(Head(name, 0, 0, 0, 0, 0, State.ERASED))
                    home.archives.drop(name)
                    home.blobs.drop(name)
                    home.snapshots.drop(name)
                elif step.op == "archive":
                    head = catalog.head(name)
                    assert head is not None
                    head.state = State.ARCHIVED
                    head.since = 1
                    catalog.settle(head)
                    home.blobs.drop(name)
                else:
                    home.archives.drop(name)
                self._writer.forget(name)
        home.volumes.publish(msgspec.structs.replace(home.volumes.manifest, pending=()))
        home.sweep()


def _check_sound(volume: Volume) -> None:
    if volume.damaged:
        msg = (
            f"{volume.info.name} is damaged, and would have to be written anew: "
            "run `runefold log repair` first"
        )
        raise Corrupt(msg)
