"""Commands for a log that no runtime has open: they are recorded, and nothing else happens.

Where a runtime has the log open, commands go to it through its socket. Where none has, the process
that brings one opens the log itself, only for as long as it takes to record it: no actor is
started, no model asked, no tool run and nothing recovered. So neither models nor tools need to be
known here. A message waits; a call that is approved is due. The runtime that opens the log next
does the rest, and with its own clock: nothing that is recorded here sets a deadline.

Secrets are kept out here too, as far as they are known by their looks. The patterns of an app are
known where the app runs, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.approval.kind import KIND as APPROVAL
from actors.catalogue import KINDS
from actors.machine import human_answer
from actors.public_command import DecisionInput, Order, noun
from actors.scheduling.clock import SystemClock
from actors.scheduling.threads import ThreadScheduler
from actors.session.kind import KIND as SESSION
from actors.shell.conversation import ConversationContext, Services
from actors.shell.decision import Decision
from actors.tool.policy import Policy
from actors.tool.public_commands import Approve, Deny
from actors.tool.toolbox import Toolbox
from runefold.chance import SystemChance
from runefold.handles import Commander
from runelog.errors import Refused
from runelog.rune import check_id
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from actors.entity import Placed
    from actors.kind import Kind, Kinds
    from actors.ports import Clock
    from actors.public_command import Command
    from actors.session.lifecycle import State
    from runelog.log import Log


class OfflineCommands(Commander):
    """A log that no runtime has open, to record commands in."""

    def __init__(self, log: Log, *, clock: Clock | None = None, kinds: Kinds = KINDS) -> None:
        """Write to a log that is open here and nowhere else."""
        self.log = log
        self.commands = kinds.commands
        self._kinds = kinds
        self._clock = clock or SystemClock()
        self._chance = SystemChance()

    @classmethod
    def open(
        cls,
        directory: str | Path,
        errand: str = "a command for a session",
        kinds: Kinds = KINDS,
    ) -> Self:
        """Open the log in a directory; `Held` if another process has it open already.

        An app that is started meanwhile waits for the end of the `errand`.
        """
        log = Runelog.open(directory, kinds.codec, create=False, errand=errand)
        return cls(log, kinds=kinds)

    def close(self) -> None:
        """Let go of the log."""
        self.log.close()

    def __enter__(self) -> Self:
        """Return this object; leaving the block lets go of the log."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Let go of the log."""
        self.close()

    def do(self, conversation: str, command: Command, entity: str = "") -> Any:  # noqa: ANN401 -- the answer
        """Record a command for an entity of a conversation, the session itself if none is named."""
        kind, entity = self.commands.address(command, entity)
        if command.offline == "no" or command.begins:
            msg = f"no runtime has the log open, and {command.verb()} needs one: {command.way_out}"
            raise Refused(msg)
        ctx = self._context(conversation)
        first = next(iter(self.log.stream(conversation, entity)), None)
        if first is None:
            msg = f"there is no {noun(kind, command)} {entity} in {conversation}"
            raise Refused(msg)
        if not isinstance(first.payload, kind.births):
            return self._answer_for(ctx, kind, command, entity)
        writer = OfflineWriter(ctx, kind, entity)
        order = Order(command, "", self._chance.id("cmd") if command.numbered else "")
        given = DecisionInput(ctx, entity, writer.state, order, offline=True)
        recorded = command.law_command(given)
        if recorded is not None:
            writer.record(recorded, at_once=command.offline == "at_once")
        return command.offline_answer(recorded)

    def _answer_for(
        self, ctx: ConversationContext, kind: Kind, command: Command, entity: str
    ) -> None:
        """Answer what an entity of another kind asks a human: by its approval, whose law is ours.

        So the app's code need not be known here. Anything else is refused.
        """
        asked = [
            each.approval_id
            for each in self.state(ctx.conversation).approvals
            if each.call_id == entity
        ]
        if not isinstance(command, Approve | Deny):
            named = f"there is no {noun(kind, command)} {entity} in {ctx.conversation}"
            raise Refused(self._kinds.unknown(entity) or named)
        if not asked:
            msg = f"{entity} asks for no approval now"
            raise Refused(msg)
        answer = human_answer(command, self._clock.now())
        OfflineWriter(ctx, APPROVAL, asked[0]).record(answer, at_once=True)

    def state(self, session: str) -> State:
        """Return what a session's runes add up to."""
        state: State = OfflineWriter(self._context(session), SESSION, SESSION.name).state
        return state

    def _context(self, session: str) -> ConversationContext:
        check_id(session, "conversation id")
        self.log.conversation(session)
        if not self.log.version(session, SESSION.name):
            msg = f"{session} is no session"
            raise Refused(msg)
        # No actor is ever in it: it finds entities, and says what is born.
        scheduler = ThreadScheduler(self._clock)
        services = Services(
            clock=self._clock,
            chance=self._chance,
            scheduler=scheduler,
            models={},
            tools=Toolbox(()),
            policy=Policy(mode="read_only"),
            secret=str,
        )
        return ConversationContext(
            session, self.log, scheduler.lane(session), services, self._kinds
        )


@dataclass
class _Author:
    """An entity, as the one that writes for it knows it."""

    kind: Kind
    me: str
    version: int
    index_entry: tuple[bool, int | None] | None
    event: int


class OfflineWriter:
    """Decides for one entity by its law, and writes that down."""

    def __init__(self, ctx: ConversationContext, kind: Kind, me: str) -> None:
        """Replay the entity `me` of a kind."""
        self._ctx = ctx
        self._kind = kind
        self._me = me
        found = ctx.replayed(kind, me)
        self.state: Any = found.state
        self.version = found.version
        self._event = found.event_id

    def record(self, command: object, *, at_once: bool) -> None:
        """Append what a command leads to; with `at_once`, what is then due internally as well."""
        kind, before = self._kind, self.state
        runes = self._ctx.services.decided(kind.lifecycle, before, command)
        if not runes:
            # It was said before.
            return
        placed: list[Placed] = []
        if at_once:
            after, placed, _ = kind.fold_with_internal(self._me, before, runes)
        else:
            after = kind.fold_routed(self._me, before, runes, placed)
        # What the index says of it is not known: a replay does not tell.
        author = _Author(kind, self._me, self.version, None, self._event)
        decision = Decision(self._ctx, author, after, placed)
        self._ctx.append(decision.changes)
        self._ctx.sync()
