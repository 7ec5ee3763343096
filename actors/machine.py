"""The shell of a machine whose law may have calls, questions, children and requests due.

Such a machine needs no actor of its own unless it does something else outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from actors.approval import lifecycle as approval
from actors.approval import runes as approvals
from actors.budget.runes import Amounts
from actors.calls import (
    CANCELLED,
    Answered,
    BearChild,
    CallModel,
    CallTool,
    EndChild,
    NotAnswered,
    Request,
    StopCall,
    StopRequest,
)
from actors.children import Ended
from actors.common_commands import Cancel
from actors.entity import Routing
from actors.model import lifecycle as model
from actors.model.performer import ENDS, ModelCaller, PreparedRequest
from actors.model.provider import price_of
from actors.model.request_hash import MessagesHash, request_hash
from actors.model.runes import AskedCall, Called, Completed, Failed
from actors.model.tokens import length_of, length_of_message, tokens_of
from actors.public_command import Order
from actors.questions import AskHuman, Conclude
from actors.request import runes as requests
from actors.request.lifecycle import NAME as REQUEST
from actors.shell.birth import birth, entry, to_be_born
from actors.shell.shared_caches import SharedCache
from actors.tool.judging import Judging
from actors.tool.lifecycle import NAME as TOOL
from actors.tool.planning import Caller, Planner
from actors.tool.public_commands import Approve, Deny
from actors.tool.spec import digest
from actors.units import SECOND, counted
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.model.performer import End
    from actors.shell.conversation import ConversationContext
    from actors.tool.planning import Ruling
    from runelog.rune import Rune

ANSWER_WITHIN = 24 * 3600 * SECOND
"""How long a human has where the phase has no time-out, in nanoseconds."""
PLANNERS = SharedCache[Planner]()
"""By the names of the tools, joined; all tools have no name."""


def human_answer(command: Approve | Deny, now: int, process: str = "") -> approval.Answer:
    """Return a human's answer as the law of the approval takes it."""
    match command:
        case Approve(approver):
            return approval.Answer("approve", approver, now, process=process)
        case Deny(approver, reason):
            return approval.Answer("deny", approver, now, reason, process)


class Machine(ModelCaller, Judging):
    """An entity whose law may have the effects of `actors.calls` due."""

    asks_humans = True

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before anything is asked."""
        super().__init__(ctx, me)
        self._questions: set[str] = set()
        """Approvals that were asked for and are not concluded."""
        self._ends: dict[str, End] = {}
        """How model calls ended of which the law was not told yet."""
        self._paused: set[str] = set()
        """Children that know that this entity is paused."""

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

    @property
    def _where(self) -> tuple[str, str]:
        """What the ids of its calls, questions and requests are made of, beside their keys."""
        return self.ctx.conversation, self.me

    @property
    def payer(self) -> str:
        """The account that its calls are charged to: that of the conversation's root."""
        return self.ctx.root.prefix

    def perform(self, effect: Any) -> None:  # noqa: ANN401 -- of whichever law
        """Make a call, stop one or ask a human; a subclass does what else its law has due."""
        match effect:
            case CallTool():
                self._call(effect, effect.call_id(*self._where))
            case CallModel():
                self._ask_model(effect, effect.call_id(*self._where))
            case StopCall():
                self._stop_call(effect)
            case AskHuman():
                self._ask(effect, effect.approval_id(*self._where))
            case BearChild():
                self._bear(effect)
            case EndChild():
                self._end_child(effect)
            case Request():
                self._request(effect, effect.request_id(*self._where))
            case StopRequest(reason=reason):
                request_id = effect.request_id(*self._where)
                self.ctx.children.ensure(REQUEST, request_id, self.me)
                self.ctx.tell(request_id, Cancel(reason, "system"))
            case _:
                msg = f"{self.kind.name} has {type(effect).__name__} due, and no actor does that"
                raise NotImplementedError(msg)

    def _perform(self, effect: Any) -> None:  # noqa: ANN401 -- of whichever law
        """Do what is due; nothing begins outside while this entity is paused."""
        if self._begins(effect) and self.ctx.is_halted(self.me):
            self._hold(effect)
        else:
            super()._perform(effect)

    def _begins(self, effect: Any) -> bool:  # noqa: ANN401 -- as above
        """Return True if an effect begins something outside, rather than going on with it."""
        match effect:
            case CallTool(key) | CallModel(key):
                found = self.ctx.exists(effect.call_id(*self._where))
                return not found and self._stop_of(key) is None
            case Request(key):
                found = self.ctx.exists(effect.request_id(*self._where))
                return not found and self._stop_of(key) is None
            case _:
                return type(effect) in self.kind.external

    def _stop_of(self, key: str) -> str | None:
        """Return why what has this key is to stop; None if it is not.

        What is to stop before it began is recorded, and nothing is done outside.
        """
        for each in self.kind.lifecycle.due(self.state):
            if isinstance(each, StopCall | StopRequest) and each.key == key:
                return each.reason or CANCELLED
        return None

    def _hold(self, effect: Any) -> None:  # noqa: ANN401 -- as above
        """Leave an effect due, until this entity is paused no longer."""
        self._under_way.discard(effect)
        self.ctx.halted.add(self.me)

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand what a human says."""
        match message:
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

    def has_work(self, due: Sequence[Any]) -> bool:
        """Act on every change while it asks humans: a question may not be asked any more."""
        return bool(self._questions) or super().has_work(due)

    def act(self) -> None:
        """Do what is due; then settle the questions that are not asked any more."""
        super().act()
        if self.exit is None and self.kind.keeps_children and self.state.children:
            self._pause_children()
        if self._questions and self.exit is None:
            self._settle_questions()

    @classmethod
    def left_behind(cls, state: Any, conversation: str, me: str) -> list[str]:  # noqa: ANN401 -- of whichever law
        """Return the calls that are under way."""
        due = cls.kind.lifecycle.due(state)
        calls = [each for each in due if isinstance(each, CallTool | CallModel)]
        return [each.call_id(conversation, me) for each in calls]

    # -- calls --------------------------------------------------------------------------------

    def _stop_call(self, stop: StopCall) -> None:
        model_call = CallModel(stop.key, "").call_id(*self._where)
        self.model_calls.cancel(model_call, Cancel(stop.reason, "system"))
        if self.ctx.exists(call_id := CallTool(stop.key, "").call_id(*self._where)):
            self._ensure(stop.key, call_id)

    def _ensure(self, key: str, call_id: str) -> None:
        """Have the actor of a tool call be there, and stop the call if the law wants that."""
        self.ctx.children.ensure(TOOL, call_id, self.me)
        for each in self._under_way:
            if isinstance(each, StopCall) and each.key == key:
                self.ctx.tell(call_id, Cancel(each.reason, "system"))

    def calls_in_doubt(self) -> Sequence[str]:
        """Return the model calls that the law waits for, as far as they began."""
        due = [each for each in self.kind.lifecycle.due(self.state) if isinstance(each, CallModel)]
        ids = [each.call_id(*self._where) for each in due]
        return [call_id for call_id in ids if self.ctx.exists(call_id)]

    def resend_to(self, entity: str) -> None:
        """Do again what is under way about a call whose actor begins anew."""
        super().resend_to(entity)
        under_way = self._under_way
        calls = (each for each in under_way if isinstance(each, CallTool))
        keys = {call.key for call in calls if call.call_id(*self._where) == entity}
        if self.kind.keeps_children:
            keys |= {each.key for each in self.state.children if each.child == entity}
        if keys:
            self._under_way = {each for each in under_way if getattr(each, "key", None) not in keys}
            self.wake()

    def _planner(self, tools: Sequence[str] | None = None) -> Planner:
        """Return what judges and describes these tools; all that are registered if None."""
        planners, names = self.ctx.caches[PLANNERS], " ".join(tools or ())
        return planners.get(names) or planners.setdefault(names, Planner(self.ctx.services, tools))

    # -- tools --------------------------------------------------------------------------------

    def _call(self, effect: CallTool, call_id: str) -> None:
        if self.ctx.exists(call_id):
            self._ensure(effect.key, call_id)
        else:
            self.judge(effect, self._planner(), (self._asked(effect, call_id),))

    def _asked(self, effect: CallTool, call_id: str) -> AskedCall:
        redactor = self.ctx.services.redactor
        arguments, raw = redactor.value(effect.arguments), redactor.text(effect.raw)
        return AskedCall(call_id, effect.tool, arguments, raw)

    def judged(self, effect: CallTool, rules: Sequence[Ruling]) -> None:
        """Begin a call by the policy's ruling, unless this entity was paused meanwhile."""
        call_id = effect.call_id(*self._where)
        if self._begins(effect) and self.ctx.is_halted(self.me):
            self._hold(effect)
            return
        if not self.ctx.exists(call_id):
            asked, caller = self._asked(effect, call_id), Caller(self.me, account=self.payer)
            plans = self._planner().plans((asked,), rules, caller, self._now())
            # Whether calls may run at once is for the law to say: it has them due.
            stops = self._stop_of(effect.key) is not None
            plans = tuple(replace(plan, hold=stops) for plan in plans)
            self.append([(Routing(call_id, (self.me,)), plan) for plan in plans])
        self._ensure(effect.key, call_id)

    # -- models -------------------------------------------------------------------------------

    def _ask_model(self, effect: CallModel, call_id: str) -> None:
        """Begin a call of a model, go on with it, or tell the law how it ended."""
        calls, end = self.model_calls, self._ends.get(call_id)
        if end is None and call_id not in calls:
            if self.ctx.exists(call_id):
                end = calls.end_of(call_id)
            else:
                self._begin_model_call(effect, call_id)
                end = self._ends.get(call_id)
        if end is not None:
            self._tell(effect, call_id, end)
        elif self.awaits_commit():
            self._under_way.discard(effect)
        else:
            calls.perform(call_id)

    def on_folded(self, rune: Rune) -> None:
        """Take notice of the end of a model call: the law is told what came of it."""
        if isinstance(rune, ENDS):
            self._ends[rune.model_call_id] = rune
            self._under_way -= {
                each
                for each in self._under_way
                if isinstance(each, CallModel) and each.call_id(*self._where) == rune.model_call_id
            }
            self.wake()

    def _tell(self, effect: CallModel, call_id: str, end: End) -> None:
        key, text = effect.key, self.model_calls.text_of(call_id)
        command: Answered | NotAnswered
        match end:
            case Completed(calls=calls, charged=charged, stop_reason=why):
                command = Answered(key, text, calls, charged, why)
            case Failed(error_type=kind, message=message, retryable=retryable, charged=charged):
                command = NotAnswered(key, kind, message, retryable, text, charged)
            case _:
                command = NotAnswered(key, CANCELLED, end.reason, text=text, usage=end.charged)
        refused = self.carry_out(command)
        if refused is not None or effect in self.kind.lifecycle.due(self.state):
            why = f"refuses it: {refused}" if refused else "still has the call due"
            msg = f"{self.name} has to take {type(command).__name__} for {key!r}, and {why}"
            raise AssertionError(msg)
        self._ends.pop(call_id, None)
        self.model_calls.drop(call_id)

    def _begin_model_call(self, effect: CallModel, call_id: str) -> None:
        """Append the birth of a call, with what it sends prepared."""
        ctx, services, now = self.ctx, self.ctx.services, self._now()
        sending: CallModel = services.redactor.value(effect)
        described = self._planner(effect.tools).described if effect.tools else None
        tools = services.redactor.value(described.tools) if described else []
        prompt = [sending.system, *([msgspec.json.encode(tools).decode()] if tools else [])]
        sent = tokens_of(
            sum(map(length_of, prompt)) + sum(map(length_of_message, sending.messages))
        )
        provider = services.models.get(effect.model)
        price = price_of(provider)
        most = effect.max_output_tokens
        cost = None if price is None else counted(price.of(sent, most))
        waits = round(effect.first_byte_timeout * SECOND), round(effect.silence_timeout * SECOND)
        facts = {
            "model": effect.model,
            "system": sending.system,
            "tools": tools,
            "max_output_tokens": most,
            "conversation": ctx.conversation,
            "call_id": call_id,
            "caller": self.me,
            "key": effect.key,
        }
        messages = MessagesHash()
        messages.add(sending.messages)
        called = Called(
            model_call_id=call_id,
            caller=self.me,
            model=effect.model,
            upto=self.event,
            prompt=digest(prompt),
            request=request_hash(facts, messages),
            made_by=self.kind.lifecycle.version,
            reserved=Amounts(tokens=sent + most),
            first_byte_by=now + waits[0],
            account=self.payer,
            sent=sent,
        )
        begin = model.Begin(called, cost, *self._obstacle(effect))
        if provider is not None:
            request = PreparedRequest(provider, sending.messages, facts, *waits)
            self.model_calls.prepare(call_id, request)
        self.append(birth(ctx, ctx.kinds[model.NAME], call_id, begin))

    def _obstacle(self, effect: CallModel) -> tuple[str, str]:
        """Return why a call cannot be made here, as a type of error and a message, if it cannot."""
        if (reason := self._stop_of(effect.key)) is not None:
            return CANCELLED, reason
        models, tools = self.ctx.services.models, self.ctx.services.tools
        if effect.model not in models:
            known = ", ".join(sorted(models)) or "none"
            return (
                "unknown_model",
                f"there is no model {effect.model!r} here; registered: {known}",
            )
        gone = [name for name in effect.tools if name not in tools]
        if gone:
            known = ", ".join(sorted(tool.spec.name for tool in tools)) or "none"
            return "unknown_tool", f"there is no tool {gone[0]!r} here; registered: {known}"
        return "", ""

    # -- children -----------------------------------------------------------------------------

    def _bear(self, effect: BearChild) -> None:
        """Append the birth of a child, with its entry in this one's table and in the root's."""
        ctx, me = self.ctx, self.me
        try:
            kind = to_be_born(ctx.kinds, effect.kind, self.kind)
            child = effect.child_id(kind.prefix, ctx.conversation, me)
            births = [] if ctx.exists(child) else birth(ctx, kind, child, effect.command)
        except Refused as refusal:
            refused = Ended("", "", parent=me, key=effect.key, refused=str(refusal))
            self.append([(Routing(me), refused)])
            return
        if births:
            started = entry(kind, child, me, effect.key)
            self.append([(Routing(me, (ctx.root.prefix,)), started), *births])
        ctx.children.ensure(kind.name, child, child)

    def _pause_children(self) -> None:
        """Have children know that this entity is paused: some are told to stop for that."""
        if self.state.phase not in self.kind.pauses and not self.ctx.is_halted(self.me):
            self._paused.clear()
            return
        for each in self.state.children:
            if each.child not in self._paused:
                self._paused.add(each.child)
                self.ctx.children.ensure(each.kind, each.child, each.child)
                if each.on_pause == "cancel":
                    self.ctx.tell(each.child, Cancel(f"{self.me} is paused", "system"))
                elif each.on_pause == "pause":
                    self.ctx.wake(each.child)

    def _end_child(self, effect: EndChild) -> None:
        for each in self.state.children:
            if each.key == effect.key:
                self.ctx.children.ensure(each.kind, each.child, each.child)
                self.ctx.tell(each.child, Cancel(effect.reason, "system"))

    # -- other conversations --------------------------------------------------------------------

    def _request(self, effect: Request, request_id: str) -> None:
        ctx = self.ctx
        if not ctx.exists(request_id):
            where = Routing(request_id, (self.me,))
            self.append([(where, rune) for rune in self._sent(effect, request_id)])
        ctx.children.ensure(REQUEST, request_id, self.me)

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
        stop = self._stop_of(effect.key)
        why = "" if stop is None else f"withdrawn before it began: {stop}"
        try:
            kind, _ = ctx.kinds.commands.address(command)
            check_id(sent.to, "conversation id")
        except Refused as refusal:
            why = str(refusal)
        else:
            child = effect.child_id(kind.prefix, ctx.conversation, self.me)
            sent = replace(sent, machine=kind.name, child=child)
        if why:
            return [sent, requests.Answered(request_id, effect.key, "refused", message=why)]
        return [sent]

    # -- humans -------------------------------------------------------------------------------

    def _ask(self, effect: AskHuman, approval_id: str) -> None:
        self._questions.add(approval_id)
        if self.ctx.exists(approval_id):
            return
        by = self.kind.deadline(self.state)
        asked = approvals.Requested(
            approval_id=approval_id,
            asker=self.me,
            tools_hash="",
            reason=self.ctx.services.redactor.text(effect.reason),
            deadline=self._now() + ANSWER_WITHIN if by is None else by,
            observed=True,
        )
        runes = [asked, approvals.Awaiting(approval_id=approval_id)]
        state = approval.LIFECYCLE.apply(approval.State(), asked)
        self.append([(approval.route(state, rune), rune) for rune in runes])

    def _settle_questions(self) -> None:
        """Conclude approvals whose question is not due any more, whatever became of it."""
        due = self.kind.lifecycle.due(self.state)
        wanted = {each.approval_id(*self._where) for each in due if isinstance(each, AskHuman)}
        for approval_id in sorted(self._questions - wanted):
            self._questions.discard(approval_id)
            self.decide_for(approval_id, Conclude("no longer wanted"))
