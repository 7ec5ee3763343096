"""The rune and its envelope: what is stored, and what a reader is given.

A `Rune` is a payload: one frozen Struct per kind, its tag spelling the kind out. An `Envelope` is a
rune in its place: which conversation, which event, when, whose, why. Writers hand the log `Change`s
and get back an `Appended`; readers get `Envelope`s, decoded first, and ask for the payload when
they need it.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol

import msgspec

from runelog.errors import BadId

SYSTEM: Final = "conv_system"
"""The one reserved conversation: what belongs to none."""

MAX_ID: Final = 64
MAX_SHOWN: Final = 2_000
"""Characters of a rune that are shown where it is printed."""
_ID = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_ID}}}")


MAX_KNOWN_IDS: Final = 1_024
known_ids: set[str] = set()
"""Ids that were found good lately: the same few come with every append, and most come again."""


def is_id(value: object) -> bool:
    """Return True if `value` may be an id."""
    if not isinstance(value, str):
        return False
    if value in known_ids:
        return True
    if _ID.fullmatch(value) is None:
        return False
    if len(known_ids) >= MAX_KNOWN_IDS:
        known_ids.clear()
    known_ids.add(value)
    return True


def check_id(value: str, what: str = "id") -> str:
    """Return `value` if it may be an id, refuse it otherwise.

    >>> check_id("conv_0123456789abcdef")
    'conv_0123456789abcdef'
    """
    if is_id(value):
        return value
    shown = value if isinstance(value, str) and len(value) <= MAX_ID else f"{value!r:.80}"
    msg = f"{shown!r} is not a valid {what}: use 1 to 64 of A-Z, a-z, 0-9, _ and -"
    raise BadId(msg)


class Visibility(enum.IntEnum):
    """Who may see a rune."""

    PUBLIC = 0
    """Any client."""
    INTERNAL = 1
    """Agents and the pipeline; hidden from clients."""
    SECRET = 2
    """Its own agent only; an export has a tombstone in its place."""


class Rune(msgspec.Struct, frozen=True, gc=False, tag_field="kind", omit_defaults=True):
    """Base of every payload. A subclass names its kind as its tag, and says `frozen=True` again.

    >>> class Greeted(Rune, frozen=True, tag="greeting.made"):
    ...     name: str
    >>> kind_of(Greeted(name="Ada"))
    'greeting.made'
    """

    schema: ClassVar[int] = 1
    """Raised when a field's meaning changes; an upcaster then turns old payloads into new ones."""
    visibility: ClassVar[Visibility] = Visibility.PUBLIC
    """Who sees runes of this kind unless the change that appends them says otherwise."""


def kind_of(rune: Rune | type[Rune]) -> str:
    """Return a rune's dotted name, `turn.started`."""
    return str(rune.__struct_config__.tag)


class Unknown(Rune, frozen=True, gc=False, tag="log.unknown"):
    """A rune of a kind this version does not know: kept and shown, never fatal."""

    name: str
    fields: dict[str, object]


class Tombstone(Rune, frozen=True, gc=False, tag="log.tombstone"):
    """Stands where a rune was that is not shown or could not be saved, so ids stay gap-free."""

    reason: str
    was: str = ""


LOST: Final = "lost"
"""The owner of the tombstones that a repair puts in place of runes that cannot be read."""


class Payloads(Protocol):
    """What an envelope needs in order to decode its body: a codec."""

    known: Callable[[msgspec.Raw], Rune]
    """Decodes a payload of a kind and schema that is known, and raises at others."""

    def payload(self, envelope: Envelope) -> Rune:
        """Decode the payload of `envelope` by its kind, whatever that is."""
        ...

    def kind(self, envelope: Envelope) -> str:
        """Read the kind of `envelope` without decoding its payload."""
        ...


class Origin(msgspec.Struct, frozen=True, gc=False):
    """What consecutive runes of one append have in common, told from where they were found."""

    conversation: str
    time: int
    shift: int
    """What to add to an event id in order to get its position in the whole log."""
    codec: Payloads


class Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rune in its place in the log.

    The first ten fields are what is stored; the others are told from where it was found.
    """

    owner: str
    """The entity whose table this rune moves."""
    observers: tuple[str, ...]
    """Other entities whose folds need it, as a rule the parent."""
    agent: str | None
    turn: str | None
    cause: int
    """The event id that led to this one, 0 if none: the answer to "why?"."""
    visibility: Visibility
    tags: tuple[str, ...]
    schema: int
    body: msgspec.Raw
    """The payload as stored; see `payload`."""
    blobs: tuple[tuple[tuple[str | int, ...], str, bool], ...] = ()
    """Large fields kept aside: the path to each, its content's hash, and whether it is text."""

    event_id: int = 0
    """Its place in the conversation: 1, 2, 3 …; also the cursor for reading on."""
    origin: Origin | None = None

    def __repr__(self) -> str:
        """Show what happened, where, and all that is known of it."""
        if self.origin is None:
            return f"<Envelope of {self.owner}, that no log gave out>"
        try:
            shown = f"{self.kind} {self.event_id} of {self.conversation}: {self.payload!r}"
        except Exception as error:  # noqa: BLE001 -- a damaged rune is shown, too
            shown = f"{self.event_id} of {self.conversation}, which cannot be read: {error}"
        return f"<Envelope {shown[:MAX_SHOWN]}{'…' * (len(shown) > MAX_SHOWN)}>"

    @property
    def conversation(self) -> str:
        """The conversation it belongs to."""
        return self._origin.conversation

    @property
    def position(self) -> int:
        """Its place in the whole log; the cursor for following everything."""
        return self._origin.shift + self.event_id

    @property
    def at(self) -> float:
        """When it was appended: seconds since 1970, UTC."""
        return self._origin.time / 1e9

    @property
    def time(self) -> int:
        """The same as it is stored, to the nanosecond."""
        return self._origin.time

    @property
    def kind(self) -> str:
        """The rune's dotted name, `turn.started`."""
        return self._origin.codec.kind(self)

    @property
    def payload(self) -> Rune:
        """The rune itself, decoded by its kind now."""
        # Called for every rune that is folded, hence this short way for what it nearly always is.
        codec = self._origin.codec if self.origin is None else self.origin.codec
        if not self.blobs:
            try:
                rune = codec.known(self.body)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return codec.payload(self)
            if rune.schema == self.schema:
                return rune
        return codec.payload(self)

    @property
    def _origin(self) -> Origin:
        assert self.origin is not None, "an envelope that no log gave out"
        return self.origin

    @property
    def cursor(self) -> int:
        """What to pass as `after` in order to read on behind this rune."""
        return self.event_id


class Change(msgspec.Struct, frozen=True, kw_only=False):
    """What one entity adds to its conversation in one append.

    `expected_version` is how many runes the writer has seen of the entity's stream, 0 for a birth,
    None to append whatever the version. `open` says whether the entity has work left after this
    change (None leaves that as it was) and `deadline` when it must be looked at again; both feed
    the index that recovery reads, and a change that says so may do without runes. So may one that
    only says which version it expects, of a stream that this append was decided by. One append may
    have several changes of one entity, so that its runes keep their order among those of others;
    only the first of them can expect a version.
    """

    entity: str
    expected_version: int | None
    runes: Sequence[Rune]
    observers: tuple[str, ...] = ()
    agent: str | None = None
    turn: str | None = None
    cause: int = 0
    visibility: Visibility | None = None
    tags: tuple[str, ...] = ()
    open: bool | None = None
    deadline: int | None = None


class Appended(msgspec.Struct, frozen=True):
    """Where an append's runes are.

    `first` to `last` in the conversation, from `position` on in the log.
    """

    conversation: str
    first: int
    last: int
    position: int
    time: int


class Gap(msgspec.Struct, frozen=True):
    """A stretch of the log that a reader does not get, and why.

    `erased` or `archived`: taken out since; `moved`: archived and restored since, so its runes are
    back, to be read by their conversation; `damaged`: lost, and set aside by a repair; `slow`: the
    reader fell too far behind.
    """

    first: int
    last: int
    reason: str
    conversation: str | None = None


class State(enum.IntEnum):
    """Where a conversation's runes are."""

    LIVE = 0
    ARCHIVED = 1
    ERASED = 2


class Conversation(msgspec.Struct, frozen=True):
    """What the index knows of one conversation, without reading a rune of it."""

    id: str
    head: int
    """The last event id."""
    size: int
    """Bytes of its encoded runes."""
    first_time: int
    last_time: int
    state: State = State.LIVE


class Work(msgspec.Struct, frozen=True):
    """An entity that has something left to do, and by when."""

    conversation: str
    entity: str
    deadline: int | None
