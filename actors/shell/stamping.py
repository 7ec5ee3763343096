"""Times in runes: a law knows none, so what it decided gets them on the way to the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.entity import Clocked
from runelog.lifecycle import stamped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.children import Started
    from actors.kind import Kind
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune


def with_times(
    ctx: ConversationContext,
    kind: Kind,
    entity: str,
    state: Any,  # noqa: ANN401 -- of whichever law
    rune: Rune,
    born: Mapping[str, Started],
) -> Rune:
    """Return a rune of an entity in this state with its times, if its kind `stamps` any.

    `born` are the entries of children that are born in the same decision.
    """
    if isinstance(rune, Clocked) and rune.at is None:
        rune = replace(rune, at=ctx.services.clock.now())
    law = kind.lifecycle
    if not law.enforced:
        return rune
    root = ctx.state_of(ctx.root, ctx.root.prefix)
    stands = bool(law.standing) and root.phase in ctx.root.pauses and _pauses(ctx, entity, born)
    now = ctx.services.clock.now()
    return stamped(law, state, rune, now, ctx.root.limits(root), paused=stands)


def _pauses(ctx: ConversationContext, entity: str, born: Mapping[str, Started]) -> bool:
    """Return True if an entity is paused while the root is."""
    while (found := born.get(entity) or ctx.child(entity)) and found.on_pause == "pause":
        if not found.parent:
            return True
        entity = found.parent
    return False
