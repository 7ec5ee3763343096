"""Decides for one entity without its actor: offline, or because its actors keep crashing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.shell.conversation import ConversationContext
from actors.shell.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.entity import Placed
    from actors.kind import Kind, Kinds
    from actors.shell.conversation import Services
    from runelog.log import Log
    from runelog.rune import Rune


class _IdleLane:
    """A lane of a conversation in which nothing runs."""

    def run(self, job: Callable[[], None]) -> None:
        """Drop the job."""


def unattended(
    conversation: str, log: Log, services: Services, kinds: Kinds
) -> ConversationContext:
    """Return a conversation in which no actor ever runs."""
    return ConversationContext(conversation, log, _IdleLane(), services, kinds)


class Unattended:
    """An entity for which its law decides, without an actor."""

    index_entry: tuple[bool, int | None] | None = None
    """What the index says of it is not known: a replay does not tell."""

    def __init__(self, ctx: ConversationContext, kind: Kind, me: str) -> None:
        """Replay the entity `me` of a kind."""
        self._ctx = ctx
        self.kind = kind
        self.me = me
        self.state: Any
        self.state, self.version, self.event = ctx.replayed(kind, me)

    def at_once(self, effect: object, state: object, runes: Sequence[Rune]) -> None:
        """Leave every effect to an actor."""

    def record(
        self, command: object, *, cascade: bool = True, births: Sequence[Placed] = ()
    ) -> None:
        """Append what a command leads to; with `cascade`, what is then due internally as well.

        What is born with it is in the same append.
        """
        ctx = self._ctx
        runes = ctx.decided(self.kind, self.state, command)
        if runes:
            # Not with the others' next commit: no lane is run here.
            decision = Decision(ctx, self, runes, also=births, cascade=cascade)
            ctx.buffer.write(decision.changes, decision.touched)
            ctx.sync()
