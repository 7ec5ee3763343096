"""What every law says of its runes: their base classes, and where each belongs. Pure."""

from __future__ import annotations

import hashlib
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

import msgspec

from runelog.rune import Rune

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Actor = Literal["user", "system", "timeout"]
"""What caused a transition."""


class Moved(Rune, frozen=True, kw_only=True):
    """Base of runes that record a transition with more than one possible cause."""

    trigger: str = ""
    actor: Actor = "system"


class Timed(Moved, frozen=True, kw_only=True):
    """Base of runes that enter a phase with a time-out, or begin an entity in one."""

    deadline: int | None = None
    """When the time-out of the phase is over, in nanoseconds; put in by the shell."""
    stands_since: int | None = None
    """Since when its clock stands, if the entity is paused; put in by the shell."""


class Clocked(Moved, frozen=True, kw_only=True):
    """Base of runes with which the clocks of entities that observe them stand, or go on."""

    clocks: ClassVar[Literal["stand", "go"]] = "go"
    at: int | None = None
    """When, in nanoseconds; put in by the shell."""


ROOT: Final = "<root>"
"""Among the observers of a rune: the root of its conversation, whichever kind that is. No id."""


class Routing(msgspec.Struct, frozen=True, gc=False):
    """Where a rune belongs: the entity whose table it moves, and others whose folds need it."""

    owner: str
    observers: tuple[str, ...] = ()

    def within(self, root: str) -> Routing:
        """Return where it belongs in a conversation with this root."""
        return Routing(
            self.owner,
            tuple(dict.fromkeys([root if each == ROOT else each for each in self.observers])),
        )


LedBy: TypeAlias = "Callable[[Any], str | None]"
"""Name the entity that led to a rune; "" if nothing in the log did, so that it begins something;
None for the entity that decided it."""


def begins(_rune: Rune) -> str:
    """Say of a rune that a user, a crash or another conversation led to it, and no other rune."""
    return ""


def begins_by_user(rune: Any) -> str | None:  # noqa: ANN401 -- of whichever kind
    """Say of a rune that it begins something if a user wanted it, and else follows."""
    return "" if rune.actor == "user" else None


Placed: TypeAlias = tuple[Routing, Rune]
"""A rune, and where it belongs."""


def keyed(prefix: str, conversation: str, entity: str, key: str) -> str:
    """Return the id of what an entity asks for by a key.

    >>> keyed("model", "conv_1", "order_1", "summary")
    'model_0a32f56cb74f99cf'
    """
    name = f"{prefix}\0{conversation}\0{entity}\0{key}"
    return f"{prefix}_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


class Origin(NamedTuple):
    """What a root says of whom its conversation is for."""

    labels: Mapping[str, str] = MappingProxyType({})
    client_id: str = ""


def no_origin(_state: object) -> Origin:
    """Say nothing of whom it is for."""
    return Origin()


_ID = re.compile(r"\b([a-z]+)_[0-9a-f]{16}\b")


def nameless(text: str) -> str:
    """Return a text with only the prefixes of the ids in it.

    >>> nameless("call_0123456789abcdef is done")
    'call is done'
    """
    return _ID.sub(r"\1", text)


def without_ids(value: object) -> str:
    """Return a value as JSON with only the prefixes of the ids in it: those of each run are new.

    >>> without_ids({"to": "agt_0123456789abcdef"})
    '{"to":"agt"}'
    """
    return nameless(msgspec.json.encode(value, order="deterministic").decode())
