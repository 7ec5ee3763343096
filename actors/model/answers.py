"""What a model call said, what it asked for and how it ended: as remembered, or from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from actors.model import call_ids
from actors.model.runes import AskedCall, AssistantDelta, Cancelled, Completed, Failed
from actors.model.stream import STREAMS

if TYPE_CHECKING:
    from actors.shell.conversation import ConversationContext

End: TypeAlias = Completed | Failed | Cancelled
ENDS: Final = (Completed, Failed, Cancelled)
"""The runes with which a model call ends."""


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
    streams = ctx.caches[STREAMS]
    for call in [call for call in streams if call_ids.turn_of(call) == turn]:
        del streams[call]


def end_of(ctx: ConversationContext, call: str) -> End | None:
    """Return the rune with which a model call ended, as the log has it; None if it has not."""
    ctx.sync()
    runes = (envelope.payload for envelope in ctx.log.stream(ctx.conversation, call))
    return next((rune for rune in runes if isinstance(rune, ENDS)), None)
