"""What a model call said, and which calls it asked for: as remembered, or as the log has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.model.runes import AskedCall, AssistantDelta, Completed
from actors.model.stream import STREAMS

if TYPE_CHECKING:
    from actors.shell.conversation import ConversationContext


def text_of(ctx: ConversationContext, call: str) -> str:
    """Return the words of a model call; none if there was no call."""
    stream = ctx.caches[STREAMS].get(call)
    if stream is not None:
        return stream.text
    if not call:
        return ""
    ctx.sync()
    runes = (envelope.payload for envelope in ctx.log.stream(ctx.conversation, call))
    return "".join(rune.text for rune in runes if isinstance(rune, AssistantDelta))


def calls_asked_for(ctx: ConversationContext, call: str) -> tuple[AskedCall, ...]:
    """Return the calls of tools that a model call asked for, as the log has them."""
    ctx.sync()
    runes = (envelope.payload for envelope in ctx.log.stream(ctx.conversation, call))
    return next(rune.calls for rune in runes if isinstance(rune, Completed))


def forget(ctx: ConversationContext, turn: str) -> None:
    """Remember the words of a turn's model calls no longer."""
    streams, prefix = ctx.caches[STREAMS], f"{turn}-"
    for call in [call for call in streams if call.startswith(prefix)]:
        del streams[call]
