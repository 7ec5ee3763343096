"""Keeping a log in order: archive, restore, erase, and taking in conversations from elsewhere.

Each is prepared aside and becomes real by one replacement of the manifest, which also names what is
left to do afterwards; opening a log finishes what a crash interrupted there.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec

from runelog import rewrite
from runelog.errors import Corrupt, Fault, Gone, Refused, UnknownConversation
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
            self._home.untidy = True
            try:
                with self._home.owned():
                    for name in names:
                        runes = self._home.reader.read(name, 0, None, None)
                        self._home.archives.write(name, runes, self._home.blobs, self._clock())
                self._take_out("archive", dict.fromkeys(names, State.ARCHIVED))
            except BaseException:
                self._withdraw(names)
                raise
            self.finish()

    def _withdraw(self, names: Sequence[str]) -> None:
        """Remove archives that came to nothing. Should that fail, closing the log does it."""
        with contextlib.suppress(Fault, OSError), self._home.owned():
            if not self._home.volumes.manifest.pending:
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
                self._check_readable(head)
            names = sorted(head.id for head in heads if head.state is State.ARCHIVED)
            if not names:
                return
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
        if self._home.volumes.manifest.pending:
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
        with self._home.owned():
            try:
                for number in sorted(where):
                    with volumes.take(number) as (volume, view):
                        _check_sound(volume)
                        made[number] = rewrite.without(view, volume.info, volumes.path, drop)
                now = volumes.manifest
                segments = tuple(made.get(info.number, info) for info in now.segments)
                for info in made.values():
                    volumes.verified.add((info.number, info.generation))
                pending = (*now.pending, Pending(op, tuple(sorted(drop))))
                volumes.publish(msgspec.structs.replace(now, segments=segments, pending=pending))
            except BaseException:
                self._home.discard(made.values())
                raise
            finally:
                # However it ends: what others have in mind of these may not be so any more.
                for name in drop:
                    self._writer.forget(name)
                self._home.reader.news.stir()

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
        with home.owner.no_way_back():
            with home.owned():
                done, fresh = self._build(conversations, size, pending, progress)
            active = volumes.volume(fresh.number).env
            assert active is not None
            self._writer.use(active, done.last)
            if pending is None:
                # Until it knows of them, somebody could begin them a second time.
                with home.owned():
                    home.catch_up()
        home.reader.news.announce(done.last)

    def _build(
        self,
        conversations: Sequence[tuple[str, Iterable[Entry]]],
        size: int,
        pending: Pending | None,
        progress: Callable[[int], None] | None,
    ) -> tuple[SegmentInfo, SegmentInfo]:
        """Make the segment, and the one to go on with; return what the manifest says of both."""
        home, volumes = self._home, self._home.volumes
        now = volumes.manifest
        empty = now.active
        room = max(empty.map_size, 3 * size + (16 << 20))
        side = msgspec.structs.replace(empty, generation=empty.generation + 1, map_size=room)
        made = [side]
        birth = home.birth()
        env = rewrite.create(
            volumes.path(side), side, birth, 0, aside=True, silent=pending is not None
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
            rewrite.create(volumes.path(fresh), fresh, birth, home.owner.epoch).close()
            volumes.verified.add((done.number, done.generation))
            volumes.publish(
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
        steps = home.volumes.manifest.pending
        try:
            with home.owned():
                home.catch_up()
                for step in steps:
                    for name in step.conversations:
                        if step.op == "erase":
                            self._bury(name)
                        elif step.op == "archive":
                            self._put_away(name)
                now = home.volumes.manifest
                settled = now.revision + 1
                home.lookup.catalog.note_settled(settled)
                home.volumes.publish(msgspec.structs.replace(now, pending=(), settled=settled))
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
        catalog = self._home.lookup.catalog
        head = catalog.head(name)
        assert head is not None
        head.state = State.ARCHIVED
        head.since = 1
        catalog.settle(head)
        self._home.blobs.drop(name)


def _check_sound(volume: Volume) -> None:
    if volume.damaged:
        msg = (
            f"{volume.info.name} is damaged, and would have to be written anew: "
            "run `runefold log repair` first"
        )
        raise Corrupt(msg)
