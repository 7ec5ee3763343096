"""The birth of an entity, decided by its own law for the parent that bears it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.children import Started
from runelog.errors import Refused

if TYPE_CHECKING:
    from actors.children import Asker
    from actors.entity import Placed
    from actors.kind import Kind, Kinds
    from actors.shell.conversation import ConversationContext


def to_be_born(kinds: Kinds, name: str, parent: Kind) -> Kind:
    """Return the kind of a child, or refuse one that this parent cannot bear."""
    kind = kinds.by_name.get(name)
    if kind is not None and _bears(kinds, parent, kind):
        return kind
    known = ", ".join(each.name for each in kinds if _bears(kinds, parent, each))
    why = f"there is no such kind as {name}"
    if kind is not None:
        born_by = " or ".join(kind.parents) if kinds.is_child(kind) else "a law of its own"
        why = f"{name} is born by {born_by or 'the root of a conversation'}, not by {parent.name}"
    msg = f"{why}; {parent.name} bears: {known or 'nothing'}"
    raise Refused(msg)


def _bears(kinds: Kinds, parent: Kind, kind: Kind) -> bool:
    return kinds.is_child(kind) and (
        parent.name in kind.parents if kind.parents else parent.is_root
    )


def birth(ctx: ConversationContext, kind: Kind, child: str, command: object) -> list[Placed]:
    """Return the runes that begin a child, or refuse a command that does not begin one."""
    initial = kind.lifecycle.initial
    placed: list[Placed] = []
    runes = ctx.decided(kind, initial, command)
    if not runes or type(runes[0]) not in kind.births:
        name = type(command).__name__
        msg = f"{kind.name}: {name} does not begin one; use another command"
        raise Refused(msg)
    kind.fold_and_route(child, initial, runes, placed)
    return placed


def entry(
    kind: Kind, child: str, parent: str = "", key: str = "", asker: Asker | None = None
) -> Started:
    """Return the entry of a child in the tables of its parent and of the root."""
    return Started(
        child,
        kind.name,
        kind.on_close,
        asker,
        parent=parent,
        key=key,
        on_pause=kind.on_pause,
        on_fail=kind.on_fail,
    )
