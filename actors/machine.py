"""The shell of a machine that calls tools and asks humans: whichever law has that due.

Such a machine needs no actor of its own unless it does something else outside.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from actors.approval import lifecycle as approval
from actors.approval import runes as approvals
from actors.budget import lifecycle as ledger
from actors.calls import AskHuman, CallTool, Request, StopCall, StopRequest
from actors.command import Order
from actors.commands import Cancel
from actors.entity import Routing
from actors.model.runes import AskedCall
from actors.request import runes as requests
from actors.scheduling.clock import SECOND
from actors.shell.shell import Shell
from actors.tool.planning import Caller, Planner
from actors.tool.requests import Approve, Deny
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ports import Steps
    from actors.shell.conversation import ConversationContext
    from actors.tool.planning import Ruling
    from runelog.rune import Rune

ANSWER_WITHIN = 24 * 3600 * SECOND
"""How long a human has where the phase has no time-out, in nanoseconds."""


class Judged(NamedTuple):
    """A policy of the app's has said what is to become of a call."""

    effect: CallTool
    rules: Sequence[Ruling]


def human_answer(command: Approve | Deny, now: int, process: str = "") -> approval.Answer:
    """Return a human's answer as the law of the approval takes it."""
    match command:
        case Approve(approver):
            return approval.Answer("approve", approver, now, process=process)
        case Deny(approver, reason):
            return approval.Answer("deny", approver, now, reason, process)


class Machine(Shell):
    """An entity whose law may have `CallTool`, `StopCall` and `AskHuman` due."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before anything is asked."""
        super().__init__(ctx, me)
        self._questions: set[str] = set()
        """Approvals that were asked for and are not concluded."""

    def on_start(self) -> None:
        """Take over, with the questions that are not concluded, answered ones among them."""
        super().on_start()
        if self.replayed:
            for envelope in self.ctx.log.stream(self.ctx.conversation, self.me):
                match envelope.payload:
                    case approvals.Requested(approval_id):
                        self._questions.add(approval_id)
                    case approvals.Executed(approval_id) | approvals.Aborted(approval_id):
                        self._questions.discard(approval_id)
                    case _:
                        pass

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- of whichever law
        """Call a tool, stop a call or ask a human; a subclass does what else its law has due."""
        where = self.ctx.conversation, self.me
        match effect:
            case CallTool():
                self._call(effect, effect.call_id(*where))
            case StopCall(reason=reason):
                call_id = effect.call_id(*where)
                self.ctx.children.ensure("tool", call_id, self.me)
                self.ctx.tell(call_id, Cancel(reason, "system"))
            case AskHuman():
                self._ask(effect, effect.approval_id(*where))
            case Request():
                self._request(effect, effect.request_id(*where))
            case StopRequest(reason=reason):
                request_id = effect.request_id(*where)
                self.ctx.children.ensure("request", request_id, self.me)
                self.ctx.tell(request_id, Cancel(reason, "system"))
            case _:
                msg = f"{self.kind.name} has {type(effect).__name__} due, and no actor does that"
                raise NotImplementedError(msg)

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand the verdict of a policy."""
        match message:
            case Judged(effect, rules):
                # It may have been decided otherwise meanwhile.
                if effect in self.kind.lifecycle.due(self.state):
                    self._begin_call(effect, rules)
                return None
            case Order((Approve() | Deny()) as command, process):
                return human_answer(command, self._now(), process)
            case _:
                return super().understand(message)

    def carry_out(self, command: object) -> Refused | None:
        """Decide, and make it so; a human's answer is decided on by the law of the approval."""
        if not isinstance(command, approval.Answer):
            return super().carry_out(command)
        pending = self.ctx.pending(self.me)
        if not pending:
            return Refused(f"{self.me} is {self.state.phase.value}: it asks for no approval now")
        return self.decide_for(pending[0], command)

    def _now(self) -> int:
        return self.ctx.services.clock.now()

    def act(self) -> None:
        """Do what is due; then settle the questions that are not asked any more."""
        super().act()
        if self._questions and self.exit is None:
            self._settle_questions()

    # -- tools --------------------------------------------------------------------------------

    def _call(self, effect: CallTool, call_id: str) -> None:
        if not self.ctx.exists(call_id):
            services = self.ctx.services
            asked = AskedCall(call_id, effect.tool, services.redactor.value(effect.arguments))
            planner = Planner(services)
            if not planner.judged_by_hand:
                self._begin_call(effect, planner.rules((asked,)))
                return

            def steps() -> Steps:
                yield None
                return partial(self.ref.notify, Judged(effect, planner.rules((asked,))))

            # A function of the app's may take its time.
            services.scheduler.work(f"{self.name} policy", steps())
            return
        self.ctx.children.ensure("tool", call_id, self.me)

    def _begin_call(self, effect: CallTool, rules: Sequence[Ruling]) -> None:
        call_id = effect.call_id(self.ctx.conversation, self.me)
        if not self.ctx.exists(call_id):
            services = self.ctx.services
            asked = AskedCall(call_id, effect.tool, services.redactor.value(effect.arguments))
            caller = Caller(self.me, payer=self.ctx.root.prefix)
            (plan,) = Planner(services).plans((asked,), rules, caller, services.clock.now())
            # Whether calls may run at once is for the law to say: it has them due.
            plan = replace(plan, hold=False)
            if plan.rule.verdict in {"allow", "ask"}:
                account = self.ctx.passive("budget").state
                spent = ledger.afford(account, plan.payer, plan.rule.cost, call_id)
                plan = replace(plan, afford=spent)
            self.append([(Routing(call_id, (self.me,)), plan)])
        self.ctx.children.ensure("tool", call_id, self.me)

    # -- other conversations --------------------------------------------------------------------

    def _request(self, effect: Request, request_id: str) -> None:
        ctx = self.ctx
        if not ctx.exists(request_id):
            where = Routing(request_id, (self.me,))
            self.append([(where, rune) for rune in self._sent(effect, request_id)])
        ctx.children.ensure("request", request_id, self.me)

    def _sent(self, effect: Request, request_id: str) -> list[Rune]:
        """Return the birth of a request; with its answer, if no conversation can be asked."""
        ctx, command = self.ctx, effect.command
        fields = ctx.services.redactor.value(msgspec.to_builtins(command))
        sent = requests.Sent(
            request_id=request_id,
            caller=self.me,
            key=effect.key,
            to=effect.conversation,
            command={"do": command.verb(), **fields},
        )
        try:
            kind, _ = ctx.kinds.commands.address(command)
            check_id(sent.to, "conversation id")
        except Refused as refusal:
            why = str(refusal)
            return [sent, requests.Answered(request_id, effect.key, "refused", message=why)]
        child = effect.child_id(kind.prefix, ctx.conversation, self.me)
        return [replace(sent, machine=kind.name, child=child)]

    # -- humans -------------------------------------------------------------------------------

    def _ask(self, effect: AskHuman, approval_id: str) -> None:
        self._questions.add(approval_id)
        if self.ctx.exists(approval_id):
            return
        by = self.kind.deadline(self.state)
        asked = approvals.Requested(
            approval_id=approval_id,
            call_id=self.me,
            tools_hash="",
            reason=self.ctx.services.redactor.text(effect.reason),
            deadline=self.ctx.services.clock.now() + ANSWER_WITHIN if by is None else by,
            asker=self.me,
        )
        runes = [asked, approvals.Awaiting(approval_id=approval_id)]
        state = approval.LIFECYCLE.apply(approval.State(), asked)
        self.append([(approval.route(state, rune), rune) for rune in runes])

    def _settle_questions(self) -> None:
        """Conclude approvals whose question is not due any more, whatever became of it."""
        where = self.ctx.conversation, self.me
        due = self.kind.lifecycle.due(self.state)
        wanted = {each.approval_id(*where) for each in due if isinstance(each, AskHuman)}
        for approval_id in sorted(self._questions - wanted):
            self._questions.discard(approval_id)
            self.decide_for(approval_id, approval.Conclude("no longer wanted"))
