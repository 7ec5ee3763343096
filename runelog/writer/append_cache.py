"""The writer's cache of the conversations that were appended to lately."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from runelog.checks import check_live
from runelog.errors import WrongVersion
from runelog.rune import State
from runelog.writer.segment_writer import CachedConversation, EarlierSegments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.index.frame_streams import Seen
    from runelog.index.records import Head
    from runelog.rune import Change
    from runelog.writer.segment_writer import Behind

MAX_CONVERSATIONS: Final = 2_048
"""At most this many conversations are cached; others are looked up in the index."""
MAX_STREAMS: Final = 32_768
"""At most this many streams are cached in all; one takes some 600 bytes."""
_LIVE: Final = State.LIVE


class Index(EarlierSegments, Protocol):
    """What is committed."""

    behind: Behind

    def head(self, conversation: str) -> Head | None:
        """Return what is known of a conversation."""
        ...

    def version(self, conversation: str, entity: str, *, frames: bool = True) -> int:
        """Return how many committed runes an entity's stream holds.

        The active segment's `frames` are not followed for what is certainly in its tables.
        """
        ...


class AppendCache:
    """Caches the conversations that were appended to lately. The writer's lock guards it."""

    def __init__(self, index: Index) -> None:
        """Look up in `index` what is not cached."""
        self._index = index
        self._cache: OrderedDict[str, CachedConversation] = OrderedDict()
        self._streams = 0
        """At most this many streams are cached: some may have been dropped since."""

    def take(self, conversation: str) -> CachedConversation:
        """Return a conversation; refuse one that cannot be appended to."""
        if conversation in self._cache:
            cached = self._cache[conversation]
            self._cache.move_to_end(conversation)
            if cached.rests:
                cached.resume(self._index.head(conversation))
                self._begin(cached)
        else:
            record = self._index.head(conversation)
            cached = self._cache[conversation] = CachedConversation(conversation, record)
            self._begin(cached)
            self._clear()
        if cached.record is not None and cached.record.state is not _LIVE:
            check_live(cached.id, cached.record.state)
        return cached

    def _begin(self, cached: CachedConversation) -> None:
        behind = self._index.behind
        # Of what came behind the tables before, nothing is cached.
        cached.since = behind.generation + (cached.id in behind.conversations)

    def head(self, conversation: str | None) -> int | None:
        """Return the last event of a conversation if it is on disk, None if the index has to tell.

        What comes behind it meanwhile is not asked for.
        """
        cached = None if conversation is None else self._cache.get(conversation)
        return None if cached is None or cached.pending or cached.rests else cached.head

    def _clear(self) -> None:
        while len(self._cache) > MAX_CONVERSATIONS:
            conversation, cached = next(iter(self._cache.items()))
            if cached.pending:
                return
            del self._cache[conversation]

    def check_versions(self, cached: CachedConversation, changes: Sequence[Change]) -> None:
        """Raise if an entity that changes is not at the version that is expected."""
        known = cached.versions.get
        for change in changes:
            expected = change.expected_version
            if expected is not None and expected != known(change.entity):
                version = self._version(cached, change.entity)
                if expected != version:
                    raise WrongVersion(cached.id, change.entity, expected, version)

    def grown(self, cached: CachedConversation, seen: Seen) -> dict[str, int]:
        """Return the versions of streams when they have runes that they see."""
        found: dict[str, int] = {}
        known, grown = cached.versions.get, found.get
        for entities, count in seen:
            for entity in entities:
                version = grown(entity) or known(entity) or self._version(cached, entity)
                found[entity] = version + count
        return found

    def _version(self, cached: CachedConversation, entity: str) -> int:
        version = cached.versions.get(entity)
        if version is None:
            version = cached.older.get(entity)
        if version is not None:
            return version
        self._streams += 1
        if self._streams > MAX_STREAMS:
            self._forget_oldest(cached)
        version = 0
        if not cached.is_new(entity):
            frames = self._index.behind.generation < cached.since
            version = self._index.version(cached.id, entity, frames=frames)
        cached.versions[entity] = version
        return version

    def _forget_oldest(self, in_use: CachedConversation) -> None:
        """Keep half as many streams, those of the conversations appended to last."""
        kept = 0
        for cached in [*reversed(self._cache.values())]:
            idle = cached is not in_use and not cached.pending
            streams = len(cached.versions) + len(cached.older)
            if idle and kept + streams > MAX_STREAMS // 2:
                del self._cache[cached.id]
            else:
                kept += streams
        self._streams = kept

    def rest(self, conversation: str) -> None:
        """Keep little of a conversation that is not appended to for a while."""
        cached = self._cache.get(conversation)
        if cached is not None and not cached.pending:
            cached.rest()

    def forget_segment(self) -> None:
        """Drop what is known of the active segment: another one has begun."""
        for cached in self._cache.values():
            cached.forget()

    def forget(self, conversation: str) -> None:
        """Look a conversation up anew at its next append."""
        self._cache.pop(conversation, None)

    def forget_all(self) -> None:
        """Look every conversation up anew at its next append."""
        self._cache.clear()
