"""Replay: fold runes into state. Calls nothing, and writes nothing but the cache of snapshots."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

import msgspec

from runelog.decoders import from_msgpack
from runelog.lifecycle import Lifecycle, S, fold
from runelog.snapshot import Kept, Key, Snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runelog.log import Log
    from runelog.rune import Envelope, Rune

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Replayed(NamedTuple, Generic[S]):
    """A state, and the runes that led to it."""

    state: S
    event_id: int
    """Of the last rune that was folded, 0 if there was none."""
    version: int
    """How many runes of the stream there are up to there."""


def replay(
    log: Log,
    conversation: str,
    lifecycle: Lifecycle[Any, S, Any, Any],
    until: int | None = None,
    *,
    entity: str | None = None,
    snapshots: Snapshots | None = None,
    save_every: int | None = None,
) -> Replayed[S]:
    """Fold what an entity's stream holds up to event `until`, or all of the conversation's runes.

    Runes are folded as they are read, never gathered. With `snapshots` it begins at the newest one
    that fits; with `save_every` also, it keeps a new one each so many runes on its way.
    """
    if save_every is not None and save_every < 1:
        msg = f"save_every is {save_every}: a snapshot cannot be kept more often than each rune"
        raise ValueError(msg)
    head = log.conversation(conversation).head
    last = head if until is None else min(until, head)
    reader = _Reader(log, conversation, lifecycle, entity, last)
    begun = None if snapshots is None else reader.resume(snapshots)
    runes, state, event_id, version = begun or (reader.runes(0), lifecycle.initial, 0, 0)
    while True:
        # Up to the next round number: every replay then keeps the same ones.
        step = None if save_every is None else save_every - version % save_every
        counted = _Counted(itertools.islice(runes, step))
        state = fold(lifecycle, counted, state)
        if counted.latest is None:
            return Replayed(state, event_id, version)
        event_id = counted.latest.event_id
        version += counted.count
        if save_every is None or version % save_every:
            return Replayed(state, event_id, version)
        if snapshots is not None:
            remember(snapshots, lifecycle, counted.latest, version, state, entity=entity)


def remember(
    snapshots: Snapshots,
    lifecycle: Lifecycle[Any, S, Any, Any],
    latest: Envelope,
    version: int,
    state: S,
    *,
    entity: str | None = None,
) -> bool:
    """Keep a snapshot of the state after `latest`, the stream's rune number `version`.

    The rune must be durable by now. A state that would not come back as it is, is not kept.
    """
    try:
        content = _encode(state)
        same = from_msgpack(type(lifecycle.initial))(content) == state
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        snapshots.problems.append(f"a state of {lifecycle.name} cannot be kept: {error}")
        return False
    if not same:
        snapshots.problems.append(
            f"a state of {lifecycle.name} cannot be kept: it would come back as another"
        )
        return False
    kept = Kept(version, anchor(latest), content)
    key = _key(lifecycle, entity)
    return snapshots.save(latest.conversation, latest.event_id, {key: kept})


def anchor(envelope: Envelope) -> bytes:
    """Return what ties a snapshot to its history: a hash of the last rune that it took in.

    It has no position in it: a conversation that was archived and restored is still the same.
    """
    found = hashlib.blake2b(digest_size=16)
    found.update(_encode((envelope.owner, envelope.time, envelope.event_id, envelope.schema)))
    found.update(envelope.body)
    return found.digest()


def _key(lifecycle: Lifecycle[Any, Any, Any, Any], entity: str | None) -> Key:
    return Key(lifecycle.name, lifecycle.version, entity or "")


class _Reader(Generic[S]):
    """Reads one stream up to an event, from its beginning or from a snapshot on."""

    def __init__(
        self,
        log: Log,
        conversation: str,
        lifecycle: Lifecycle[Any, S, Any, Any],
        entity: str | None,
        last: int,
    ) -> None:
        self._log = log
        self._conversation = conversation
        self._lifecycle = lifecycle
        self._entity = entity
        self._last = last

    def runes(self, version: int) -> Iterator[Envelope]:
        """Yield the stream's runes behind `version`, which of a whole conversation is an event."""
        if self._entity is None:
            return self._log.read(self._conversation, version, self._last)
        return self._log.stream(self._conversation, self._entity, version, self._last)

    def resume(self, snapshots: Snapshots) -> tuple[Iterator[Envelope], S, int, int] | None:
        """Return the runes behind the newest snapshot that fits, its state, event and version."""
        key = _key(self._lifecycle, self._entity)
        until = self._last
        while (found := snapshots.load(self._conversation, key, until)) is not None:
            # Read from its last rune on, to see that the log still has it.
            runes = self.runes(found.version - 1)
            latest = next(runes, None)
            if latest is not None and anchor(latest) == found.anchor:
                try:
                    state = from_msgpack(type(self._lifecycle.initial))(found.state)
                except msgspec.MsgspecError as error:
                    why = str(error)
                else:
                    return runes, state, latest.event_id, found.version
            else:
                why = "the log has other runes there"
            snapshots.problems.append(
                f"the snapshot of {self._lifecycle.name} in {self._conversation} "
                f"at {found.event_id} is not used: {why}"
            )
            until = found.event_id - 1
        return None


class _Counted:
    """Gives payloads to a fold, and remembers how many and which was the last."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self._envelopes = envelopes
        self.count = 0
        self.latest: Envelope | None = None

    def __iter__(self) -> Iterator[Rune]:
        envelope = None
        for envelope in self._envelopes:
            self.count += 1
            yield envelope.payload
        self.latest = envelope
