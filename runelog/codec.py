"""Rune <-> bytes.

A stored rune is a msgpack array: the envelope's fields and, last, the payload with its kind as tag.
Reading decodes the envelope and leaves the payload as bytes; `Codec.payload` decodes that by kind
when it is asked for. A kind that is not listed becomes `Unknown`, an older schema goes through its
upcasters, a newer one is refused.
"""

from __future__ import annotations

import functools
import hashlib
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol, Union, cast

import msgspec

from runelog.decoders import from_msgpack
from runelog.encodable import MAX_DEPTH, UNREADABLE, check_depth, check_encodable, forms
from runelog.errors import Corrupt, NewerFormat, Refused, TooLarge
from runelog.rune import Change, Envelope, Origin, Rune, Tombstone, Unknown, Visibility, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "LARGE_FIELD",
    "MAX_DEPTH",
    "MAX_INLINE",
    "MAX_RUNE",
    "Blobs",
    "Codec",
    "check_depth",
    "digest_of",
    "installed",
    "tombstone",
]

MAX_INLINE: Final = 1 << 20
"""A larger rune keeps its large fields as blobs."""
MAX_RUNE: Final = 64 << 20
"""A larger rune is refused."""
LARGE_FIELD: Final = 64 << 10
"""Fields from this size on are moved to blobs when their rune is too large to be kept inline."""

_ARRAY_9 = b"\x99"
_ARRAY_10 = b"\x9a"
_SMALL_ARRAYS = [bytes([0x90 + count]) for count in range(16)]
_NO_FORM = forms[Tombstone]
_TO_COME = msgspec.Raw()
"""Takes the place of a payload in its array and, encoded, no room: the payload follows."""
_encode = msgspec.msgpack.Encoder().encode
_envelopes = msgspec.msgpack.Decoder(list[Envelope]).decode
_builtins = msgspec.msgpack.Decoder().decode
_mapping = msgspec.msgpack.Decoder(dict[Any, Any]).decode
_set = msgspec.structs.force_setattr


class Blobs(Protocol):
    """Where large fields are kept: by conversation, under the hash of their content."""

    def put(self, conversation: str, content: bytes) -> str:
        """Store `content` durably and return its hash."""
        ...

    def get(self, conversation: str, digest: str) -> bytes:
        """Return what was stored under `digest`, or raise `Corrupt`."""
        ...


class _Kind(msgspec.Struct, gc=False):
    kind: str


_kind = msgspec.msgpack.Decoder(_Kind).decode


class Codec:
    """Encodes and decodes the runes of the kinds it lists.

    >>> from runelog.rune import Rune
    >>> class Noted(Rune, frozen=True, tag="note.taken"):
    ...     text: str
    >>> codec = Codec([Noted])
    >>> body, = codec.encode("conv_a", Change("note_1", 0, [Noted(text="hi")]))
    >>> envelope = codec.envelope(body, conversation="conv_a", event_id=1, position=1, time=0)
    >>> envelope.kind, envelope.payload
    ('note.taken', Noted(text='hi'))
    """

    def __init__(
        self,
        kinds: Iterable[type[Rune]] = (),
        upcasters: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]]
        | None = None,
        blobs: Blobs | None = None,
    ) -> None:
        """List the kinds to decode; `upcasters` maps (kind, schema) to a step to the next one."""
        self.kinds: dict[str, type[Rune]] = {kind_of(Tombstone): Tombstone}
        for cls in kinds:
            kind = kind_of(cls)
            if self.kinds.setdefault(kind, cls) is not cls:
                rivals = f"{self.kinds[kind].__qualname__}, {cls.__qualname__}"
                msg = f"two classes claim the kind {kind}: {rivals}"
                raise ValueError(msg)
        self.upcasters = dict(upcasters or {})
        self.blobs = blobs
        # One decoder for all kinds: it picks the class by the tag, with no step of ours between.
        union: Any = Union[tuple(self.kinds.values())]  # noqa: UP007 -- of a tuple made at run time
        self.known: Callable[[Any], Rune] = from_msgpack(union)
        """Decodes a payload of a kind and schema that is known, and raises at others."""

    def with_blobs(self, blobs: Blobs) -> Codec:
        """Return this codec bound to a place for large fields."""
        return Codec(
            (cls for cls in self.kinds.values() if cls is not Tombstone), self.upcasters, blobs
        )

    # -- writing ------------------------------------------------------------------------------

    def encode(self, conversation: str, change: Change) -> list[bytes]:
        """Encode the runes of one change, each as it is stored."""
        bodies: list[bytes] = []
        self.encode_into(bodies, conversation, change)
        return bodies

    def encode_into(self, bodies: list[bytes], conversation: str, change: Change) -> None:
        """Encode the runes of one change, each as it is stored, behind others.

        >>> from runelog.rune import Tombstone
        >>> bodies = []
        >>> Codec().encode_into(bodies, "conv_a", Change("note_1", 0, [Tombstone(reason="gone")]))
        >>> len(bodies)
        1
        """
        cls, head, form = None, b"", _NO_FORM
        for rune in change.runes:
            if type(rune) is not cls:
                cls = type(rune)
                form = forms[cls]
                # Everything that the runes of one change and kind have in common.
                head = _encode(
                    (
                        change.entity,
                        change.observers,
                        change.agent,
                        change.turn,
                        change.cause,
                        form.visibility if change.visibility is None else change.visibility,
                        change.tags,
                        form.schema,
                        _TO_COME,
                    )
                )
            try:
                payload = _encode(rune)
            except (TypeError, ValueError, OverflowError, RecursionError) as error:
                msg = f"a {kind_of(rune)} cannot be stored: {error}"
                raise Refused(msg) from error
            check_encodable(rune, payload, form)
            if len(payload) > MAX_INLINE:
                bodies.append(self._encode_large(conversation, head[1:], rune, payload))
            else:
                bodies.append(head + payload)

    def _encode_large(self, conversation: str, head: bytes, rune: Rune, payload: bytes) -> bytes:
        kind = kind_of(rune)
        if len(payload) > MAX_RUNE:
            msg = (
                f"a {kind} of {len(payload):,} bytes is over the limit of {MAX_RUNE:,}: "
                "store it elsewhere and append a reference"
            )
            raise TooLarge(msg)
        if self.blobs is None:
            msg = f"a {kind} of {len(payload):,} bytes needs a log that keeps blobs"
            raise TooLarge(msg)
        check_depth(payload)
        fields = _builtins(payload)
        leaves = list(_large_leaves(fields))
        for path, _ in leaves:
            _put_at(fields, path, None)
        slim = _encode(fields)
        if len(slim) > MAX_INLINE:
            # Many small values rather than a few large ones: the payload as a whole is the blob.
            leaves = [((), payload)]
            slim = _encode({"kind": kind})
        places = []
        for path, value in leaves:
            content = value.encode() if isinstance(value, str) else value
            places.append((path, self.blobs.put(conversation, content), isinstance(value, str)))
        return _ARRAY_10 + head + slim + _encode(places)

    # -- reading ------------------------------------------------------------------------------

    def envelope(
        self, body: bytes, *, conversation: str, event_id: int, position: int, time: int
    ) -> Envelope:
        """Decode the envelope of a stored rune found at this place; its payload stays bytes."""
        if body[:1] not in {_ARRAY_9, _ARRAY_10}:
            msg = f"rune {event_id} of {conversation} cannot be decoded: it is no rune"
            raise Corrupt(msg, conversation=conversation, event_id=event_id)
        return self.envelopes(1, body, conversation, event_id, position, time)[0]

    def envelopes(
        self, count: int, bodies: bytes, conversation: str, event_id: int, position: int, time: int
    ) -> list[Envelope]:
        """Decode the envelopes of `count` consecutive runes of one append, stored back to back."""
        try:
            # Put together they are a msgpack array, which one call decodes.
            head = _SMALL_ARRAYS[count] if count < 16 else b"\xdc" + count.to_bytes(2, "big")
            found = _envelopes(head + bodies)
        except UNREADABLE as error:
            which = f"rune {event_id}" if count == 1 else f"one of {count} runes from {event_id} on"
            msg = f"{which} of {conversation} cannot be decoded: {error}"
            raise Corrupt(msg, conversation=conversation, event_id=event_id) from error
        origin = Origin(conversation, time, position - event_id, self)
        for envelope in found:
            _set(envelope, "event_id", event_id)
            _set(envelope, "origin", origin)
            event_id += 1
        return found

    def kind(self, envelope: Envelope) -> str:
        """Read the kind of `envelope` without decoding its payload."""
        try:
            return _kind(envelope.body).kind
        except UNREADABLE as error:
            raise _undecodable(envelope, error) from error

    def payload(self, envelope: Envelope) -> Rune:
        """Decode the payload of `envelope` by its kind, also an unknown or older one."""
        kind = self.kind(envelope)
        cls = self.kinds.get(kind)
        try:
            if cls is None:
                return Unknown(name=kind, fields=self._fields(envelope))
            if envelope.schema > cls.schema:
                msg = (
                    f"rune {envelope.event_id} of {envelope.conversation} is a {kind} of schema "
                    f"{envelope.schema}, this version knows {cls.schema}: read it with a later one"
                )
                raise NewerFormat(msg)
            fields = self._upcast(kind, cls.schema, envelope)
            return from_msgpack(cls)(_encode(fields))
        except UNREADABLE as error:
            raise _undecodable(envelope, error) from error

    def _upcast(self, kind: str, schema: int, envelope: Envelope) -> dict[str, Any]:
        fields = self._fields(envelope)
        for step in range(envelope.schema, schema):
            upcaster = self.upcasters.get((kind, step))
            if upcaster is None:
                msg = f"no upcaster takes {kind} from schema {step} to {step + 1}"
                raise NewerFormat(msg)
            fields = upcaster(fields)
        return fields

    def _fields(self, envelope: Envelope) -> dict[str, Any]:
        """Return the payload as plain values, with its large fields back in their places."""
        fields = _builtins(envelope.body)
        for path, digest, text in envelope.blobs:
            if self.blobs is None:
                msg = (
                    f"rune {envelope.event_id} of {envelope.conversation} keeps large fields "
                    "in blobs that are not here"
                )
                raise Corrupt(msg, conversation=envelope.conversation, event_id=envelope.event_id)
            content = self.blobs.get(envelope.conversation, digest)
            try:
                if path:
                    _put_at(fields, path, content.decode() if text else content)
                else:
                    fields = _mapping(content)
            except (LookupError, TypeError, ValueError) as error:
                # Only bytes that we did not write name a place that is not there.
                raise _undecodable(envelope, error) from error
        return cast("dict[str, Any]", fields)


@functools.cache
def installed() -> Codec:
    """Return a codec for all runes that installed packages declare: entry points `runefold.codecs`.

    So what is below needs to know of no kind by name.
    """
    found = [each.load() for each in entry_points(group="runefold.codecs")]
    kinds = {cls: None for codec in found for cls in codec.kinds.values() if cls is not Tombstone}
    steps = {step: up for codec in found for step, up in codec.upcasters.items()}
    return Codec(kinds, steps)


def tombstone(envelope: Envelope, reason: str) -> bytes:
    """Encode what stands in place of a rune that may not be shown: who, when, why; not what."""
    rune = Tombstone(reason=reason, was=envelope.kind)
    change = Change(
        envelope.owner,
        None,
        [rune],
        observers=envelope.observers,
        agent=envelope.agent,
        turn=envelope.turn,
        cause=envelope.cause,
        visibility=Visibility(envelope.visibility),
    )
    return Codec().encode(envelope.conversation, change)[0]


def digest_of(content: bytes) -> str:
    """Return the name under which content is kept: its SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()


def _undecodable(envelope: Envelope, error: Exception) -> Corrupt:
    return Corrupt(
        f"the payload of rune {envelope.event_id} of {envelope.conversation} "
        f"cannot be decoded: {error}",
        conversation=envelope.conversation,
        event_id=envelope.event_id,
    )


def _large_leaves(
    value: object, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str | bytes]]:
    if isinstance(value, (str, bytes)):
        if len(value) >= LARGE_FIELD:
            yield path, value
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            if isinstance(key, str):
                yield from _large_leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _large_leaves(item, (*path, index))


def _put_at(fields: Any, path: tuple[str | int, ...], value: object) -> None:  # noqa: ANN401 -- plain values of any shape
    for key in path[:-1]:
        fields = fields[key]
    fields[path[-1]] = value
