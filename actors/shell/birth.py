"""The birth of an entity, decided by its own law for the parent that bears it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from actors.children import Adopt, Started
from runelog.errors import Refused

if TYPE_CHECKING:
    from actors.children import CreateChild
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


def entry(kind: Kind, child: str, parent: str = "", key: str = "") -> Started:
    """Return the entry of a child in the tables of its parent and of the root."""
    return Started(
        child,
        kind.name,
        kind.on_close,
        parent=parent,
        key=key,
        on_pause=kind.on_pause,
        on_fail=kind.on_fail,
    )


def adoption(
    ctx: ConversationContext, root: Kind, order: CreateChild
) -> tuple[Adopt, list[Placed]]:
    """Return the entry of a child in the root's table, and its birth; or refuse the child.

    Asked for again it is the same child, without a birth; with other content it is refused.
    """
    kind = to_be_born(ctx.kinds, order.kind, root)
    content = _content(ctx.services.redactor.value(order.command))
    started = replace(entry(kind, order.child), asker=order.asker, content=content)
    known = ctx.exists(order.child)
    if known and order.asker is None:
        _check_content(ctx, kind, started)
    births = [] if known else birth(ctx, kind, order.child, order.command)
    return Adopt(started, known=known, conversation_id=ctx.conversation), births


def _content(command: msgspec.Struct) -> str:
    """Return a hash of a command's content; a field that has its default makes no difference."""
    fields = {
        each.name: value
        for each in msgspec.structs.fields(command)
        if (value := getattr(command, each.name)) != _default(each)
    }
    said = msgspec.json.encode([type(command).__name__, fields], order="deterministic")
    return hashlib.blake2b(said, digest_size=8).hexdigest()


def _default(field: msgspec.structs.FieldInfo) -> object:
    made = field.default_factory
    return field.default if made is msgspec.NODEFAULT else made()


def _check_content(ctx: ConversationContext, kind: Kind, asked: Started) -> None:
    """Refuse what is asked for under the id of another entity, and would not be done."""
    ctx.sync()
    child = asked.child
    first = next(iter(ctx.log.stream(ctx.conversation, child)))
    # The entry in the table goes right before the birth.
    before = ctx.log.read(ctx.conversation, first.event_id - 2, first.event_id - 1)
    found = next((each.payload for each in before if isinstance(each.payload, Started)), None)
    if found is not None and found.content != asked.content:
        known = kind.summary(ctx.state_of(kind, child))
        msg = (
            f"{child} is there already, and was begun with other content ({known}): "
            f"give another {kind.name} an id of its own"
        )
        raise Refused(msg)
