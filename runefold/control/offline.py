"""Commands for a log that no runtime has open: they are recorded, and nothing else happens.

Where a runtime has the log open, commands go to it through its socket. Where none has, the process
that brings one opens the log itself, only for as long as it takes to record it: no actor is
started, no model asked, no tool run and nothing recovered. So neither models nor tools need to be
known here. A message waits; a call that is approved is due; an entity that is begun is there. The
runtime that opens the log next does the rest. A phase with a time-out that is entered here has its
deadline from now on; the time of a turn or of a call begins when a runtime runs it.

Secrets are kept out here too, as far as they are known by their looks. The patterns of an app are
known where the app runs, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.approval.kind import KIND as APPROVAL
from actors.catalogue import KINDS
from actors.children import CreateChild, Rest
from actors.machine import human_answer
from actors.public_command import DecisionInput, Order, noun
from actors.scheduling.clock import SystemClock
from actors.scheduling.loop import Loop
from actors.session.kind import KIND as SESSION
from actors.shell.birth import adoption
from actors.shell.conversation import Services
from actors.shell.unattended import Unattended, unattended
from actors.tool.policy import Policy
from actors.tool.public_commands import Approve, Deny
from actors.tool.toolbox import Toolbox
from runefold.chance import SystemChance
from runefold.handles import Commander
from runelog.errors import Refused, UnknownConversation
from runelog.rune import check_id
from runelog.store import Runelog
from supervisors.recovery import at_work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Self

    from actors.entity import Placed
    from actors.kind import Kind, Kinds
    from actors.ports import Clock
    from actors.public_command import Command
    from actors.session.lifecycle import State
    from actors.shell.conversation import ConversationContext
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
        if command.offline == "no":
            msg = f"no runtime has the log open, and {command.verb()} needs one: {command.way_out}"
            raise Refused(msg)
        ctx = self._context(conversation, begins=command.begins)
        if command.begins:
            return self._begin(ctx, kind, command, entity or self._chance.id(kind.prefix))
        first = next(iter(self.log.stream(conversation, entity)), None)
        if first is None:
            msg = f"there is no {noun(kind, command)} {entity} in {conversation}"
            raise Refused(msg)
        if not isinstance(first.payload, kind.births):
            return self._answer_for(ctx, kind, command, entity)
        writer = Unattended(ctx, kind, entity)
        order = Order(command, "", self._chance.id("cmd") if command.numbered else "")
        given = DecisionInput(ctx, entity, writer.state, order, offline=True)
        recorded = command.law_command(given)
        if recorded is not None:
            self._record(ctx, writer, recorded, cascade=command.offline == "at_once")
        return command.offline_answer(recorded)

    def _begin(
        self, ctx: ConversationContext, kind: Kind, command: Command, entity: str
    ) -> dict[str, str]:
        """Record the birth of an entity: the runtime that opens the log next goes on with it."""
        writer = Unattended(ctx, ctx.root, ctx.root.prefix)
        adopt, births = adoption(ctx, ctx.root, CreateChild(kind.name, entity, command))
        self._record(ctx, writer, adopt, births=births)
        return {"entity": entity}

    def _answer_for(
        self, ctx: ConversationContext, kind: Kind, command: Command, entity: str
    ) -> None:
        """Answer what an entity of another kind asks a human: by its approval, whose law is ours.

        So the app's code need not be known here. Anything else is refused.
        """
        asked = ctx.pending(entity)
        if not isinstance(command, Approve | Deny):
            named = f"there is no {noun(kind, command)} {entity} in {ctx.conversation}"
            raise Refused(self._kinds.unknown(entity) or named)
        if not asked:
            msg = f"{entity} asks for no approval now"
            raise Refused(msg)
        answer = human_answer(command, self._clock.now())
        self._record(ctx, Unattended(ctx, APPROVAL, asked[0]), answer)

    def _record(
        self,
        ctx: ConversationContext,
        writer: Unattended,
        command: object,
        *,
        cascade: bool = True,
        births: Sequence[Placed] = (),
    ) -> None:
        """Record what a command leads to, and that a log that rests still does so.

        Killed between the two, a process was killed with work left, and the next open counts it.
        """
        name, found = ctx.conversation, self._left(ctx.conversation)
        rested = Unattended(ctx, SESSION, SESSION.name).state.rested
        was_at_rest = rested or not found or not at_work(self.log, name, found, self._kinds)
        writer.record(command, cascade=cascade, births=births)
        if was_at_rest and self._left(name):
            Unattended(ctx, SESSION, SESSION.name).record(Rest())

    def _left(self, name: str) -> set[str]:
        """Return the entities of a conversation with work left."""
        try:
            return {work.entity for work in self.log.open_work(name)}
        except UnknownConversation:
            # The system's own, before anything was born in it.
            return set()

    def state(self, session: str) -> State:
        """Return what a session's runes add up to."""
        state: State = Unattended(self._context(session), SESSION, SESSION.name).state
        return state

    def _context(self, session: str, *, begins: bool = False) -> ConversationContext:
        check_id(session, "conversation id")
        root = self._kinds.root(session)
        if not (begins and root.conversation):
            self.log.conversation(session)
            if not self.log.version(session, root.prefix):
                msg = f"{session} is no session"
                raise Refused(msg)
        services = Services(
            clock=self._clock,
            chance=self._chance,
            scheduler=Loop(self._clock),
            models={},
            tools=Toolbox(()),
            policy=Policy(mode="read_only"),
            secret=str,
        )
        return unattended(session, self.log, services, self._kinds)
