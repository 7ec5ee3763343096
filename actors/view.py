"""Views: what a kind wants kept in step with the log, such as files that other programs read.

Only declarations; `runefold.views` keeps them. A view is told of committed runes only, so that it
is never ahead of the log, and it can be made anew from the log at any time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from runelog.errors import Refused
from runelog.rune import MAX_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FIELDS: Final = frozenset({"conversation", "entity"})


class Move(msgspec.Struct, frozen=True):
    """A rune for which an entity's table has a row."""

    event_id: int
    time: float
    """Seconds since 1970, UTC."""
    entity: str
    lifecycle: str
    origin: str
    to: str
    rune: str
    """Its kind."""
    trigger: str
    actor: str
    """Who caused it: `user`, `system` or `timeout`."""
    human: str = ""
    """Who answered, as they were named, if it was a human's answer."""


@dataclass(frozen=True, slots=True)
class Step:
    """One committed rune of an entity's stream, and how the entity stands after it."""

    conversation: str
    entity: str
    event_id: int
    position: int
    time: float
    """Seconds since 1970, UTC."""
    created: float
    """When the entity was born, likewise."""
    state: Any
    move: Move | None
    """None if the entity's table has no row for the rune."""
    moves: Sequence[Move]
    """All moves of the entity that were read, perhaps later ones too: use `history`."""
    count: int
    """How many of them were made so far."""

    @property
    def history(self) -> tuple[Move, ...]:
        """All moves so far."""
        return tuple(self.moves[: self.count])


class Mark(msgspec.Struct, frozen=True):
    """How far a view has come: a position of the log, and a hash of the rune that is there."""

    position: int
    anchor: str


class View:
    """Anything that is kept in step with the log: derive from it for a table in a database, say.

    Whatever raises is reported to operators and tried again later; the machine goes on meanwhile.
    """

    name: str = ""
    """Must be the only one of that name in a runtime."""

    def mark(self) -> Mark | None:
        """Return the mark that was last kept; None if there is none, or it cannot be trusted."""
        raise NotImplementedError

    def take(self, steps: Sequence[Step], mark: Mark) -> None:
        """Take in steps that are behind the last mark, and keep the new mark in one write."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin anew: everything is told again, from the beginning of the log."""
        raise NotImplementedError

    def erase(self, conversation: str) -> None:
        """Remove everything of a conversation. It is called again at each open."""
        raise NotImplementedError

    def caught_up(self) -> None:
        """Everything that is in the log was told."""

    def close(self) -> None:
        """Nothing more is told."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _File:
    path: str
    """Where it is, such as `runs/{entity}/STATE.json`: relative to the directory of the views, with
    `{conversation}` and `{entity}` in the place of ids. No other program may write there."""
    version: int = 1
    """Raise it when the file is to be written in another way: all are made anew then."""

    def __post_init__(self) -> None:
        """Refuse a path that cannot be kept apart from others."""
        try:
            parts = [*Formatter().parse(self.path)]
        except ValueError as error:
            msg = f"the path {self.path!r} of a view cannot be read: {error}"
            raise Refused(msg) from None
        for _, field, spec, conversion in parts:
            if field is not None and (field not in _FIELDS or spec or conversion):
                msg = f"the path {self.path!r} of a view: use {{conversation}} and {{entity}} only"
                raise Refused(msg)
        names = self.path.split("/")
        if "\0" in self.path or any(name in {"", ".", ".."} for name in names):
            msg = f"the path {self.path!r} of a view must be relative, without '.' and '..'"
            raise Refused(msg)

    def at(self, conversation: str, entity: str) -> str:
        """Return the path of an entity's file."""
        return self.path.format(conversation=conversation, entity=entity)

    def names(self, field: str) -> bool:
        """Return True if the path contains an id of this sort."""
        return any(found == field for _, found, _, _ in Formatter().parse(self.path))

    def pattern(self, prefix: str) -> re.Pattern[str]:
        """Return what fits the paths of files of entities whose ids have a prefix."""
        ids = rf"[A-Za-z0-9_-]{{1,{MAX_ID}}}"
        sorts = {"conversation": ids, "entity": rf"{re.escape(prefix)}(?:_{ids})?"}
        found, seen = "", set[str]()
        for text, field, _, _ in Formatter().parse(self.path):
            found += re.escape(text)
            if field in seen:
                found += f"(?P={field})"
            elif field is not None:
                seen.add(field)
                found += f"(?P<{field}>{sorts[field]})"
        return re.compile(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class StateFile(_File):
    """A JSON file per entity that shows how the entity stands; it is replaced as a whole.

    >>> StateFile(path="orders/{entity}.json", render=lambda step: step.state).at("conv_a", "ord_1")
    'orders/ord_1.json'
    """

    render: Callable[[Step], object]
    """Return what the file holds after a step, to be written as JSON; None if there is no file."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LineFile(_File):
    """A file with one line of JSON per transition, in the log's order; it only grows.

    There is one file per entity if its path names the entity, else one for all of them.
    """

    line: Callable[[Step], object]
    """Return the line of a step that is a transition; None if it has none."""
