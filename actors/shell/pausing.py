"""Whether an entity is paused, with its session or with another entity that bore it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.shell.conversation import ConversationContext


def is_halted(ctx: ConversationContext, entity: str) -> bool:
    """Return True if an entity is to begin nothing outside: its parent, or theirs, is paused."""
    while (found := ctx.child(entity)) is not None and found.on_pause == "pause":
        # The first in a line was born by the root.
        entity = found.parent or ctx.root.prefix
        kind = ctx.kinds.of(entity)
        if kind is not None and kind.pauses and ctx.state_of(kind, entity).phase in kind.pauses:
            return True
    return False
