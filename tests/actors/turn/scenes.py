"""Turns to tell stories about: their runes, their commands, and a world around one of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from actors.budget import lifecycle as ledger
from actors.budget.runes import Amounts, Exhausted, Limits
from actors.children import EnsureChild
from actors.model import runes as model
from actors.tool import runes as tool
from actors.turn.kind import KIND
from actors.turn.lifecycle import (
    LIFECYCLE,
    Ask,
    AskModel,
    Command,
    Complete,
    Effect,
    End,
    Fail,
    Interrupt,
    PerformModelCall,
    Phase,
    ReceiveCalls,
    State,
    TakeCalls,
    under_way,
)
from actors.turn.runes import Started, StreamRestarted, Summary, ToolCallsReceived, ToolsFinished
from actors.turn.time_slices import Halt, Run, Stand, StartClock, StopClock, Tick
from runelog.errors import Refused
from runelog.lifecycle import fold
from tests.folding import cascade

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.entity import Actor
    from runelog.rune import Rune

TURN, AGENT = "turn_1", "agt_1"
BY = 1_000
"""When the turn must be over."""
USED = Amounts(tokens=10)
ONE = Amounts(tool_calls=1)
"""What a tool call that was begun is charged with."""
BORN = Started(turn_id=TURN, agent_id=AGENT, input="hi", deadline=BY, model="scripted")
LATE = Exhausted(scope=AGENT, what="wall", used=100, limit=100, key="turn_1-w0")
"""What the budget says when it has no more time."""
SLICE = 50
"""How much time is set aside at once."""
SPENT = Exhausted(scope="session", what="tokens", used=9, limit=10, key="turn_1-r0-a0")


def account(
    limits: Limits = Limits(),  # noqa: B008 -- it cannot be changed
    used: Amounts = Amounts(),  # noqa: B008 -- as above
    session: ledger.Scope = ledger.Scope("session"),  # noqa: B008 -- as above
) -> ledger.State:
    """Return a budget in which the agent has these limits and has used so much."""
    return ledger.State(scopes=(session, ledger.Scope(AGENT, "session", limits, used)))


ROOM = account()
"""A budget without limits."""
NO_TOKENS = account(
    session=ledger.Scope("session", limits=Limits(tokens=10), used=Amounts(tokens=9))
)
"""One that says `SPENT`."""
NO_TIME = account(Limits(wall=100), Amounts(wall=100))
"""One that says `LATE`."""


def room_for(wall: int) -> ledger.State:
    """Return a budget that has one slice of time left, which is so long."""
    return account(Limits(wall=wall))


SOME_TIME = room_for(SLICE)


def called(round_: int = 0, attempt: int = 0, turn_by: int | None = None) -> model.Called:
    """Return the birth of a model call."""
    return model.Called(
        model_call_id=f"{TURN}-r{round_}-a{attempt}",
        caller=TURN,
        agent_id=AGENT,
        account=AGENT,
        model="scripted",
        round=round_,
        attempt=attempt,
        upto=3,
        prompt="hash",
        request="all of it",
        made_by=1,
        reserved=Amounts(tokens=100),
        first_byte_by=60,
        turn_by=turn_by,
    )


def ask(round_: int = 0, attempt: int = 0) -> Ask:
    """Return the command that makes a model call."""
    return Ask(
        model_call_id=f"{TURN}-r{round_}-a{attempt}",
        upto=3,
        prompt="hash",
        request="all of it",
        made_by=1,
        sent=0,
        max_output_tokens=100,
        cost=None,
        first_byte_by=60,
        turn_by=9_000,
    )


def finished(model_call_id: str) -> End:
    """Return how a turn ends well."""
    return End(model_call_id, Complete())


def ended_early(model_call_id: str, reason: str, actor: Actor = "system") -> End:
    """Return how a turn ends that was stopped."""
    return End(model_call_id, Interrupt(reason, actor=actor))


def given_up(model_call_id: str, error_type: str, message: str) -> End:
    """Return how a turn ends that cannot go on."""
    return End(model_call_id, Fail(error_type, message))


def answered(*ids: str, round_: int = 0, attempt: int = 0) -> model.Completed:
    """Return an answer that asks for these calls."""
    return model.Completed(
        model_call_id=f"{TURN}-r{round_}-a{attempt}",
        calls=tuple(model.AskedCall(call_id, "add") for call_id in ids),
        charged=USED,
    )


def failed(error_type: str = "overloaded", attempt: int = 0, *, retry: bool = True) -> model.Failed:
    """Return the failure of a model call in the first round."""
    return model.Failed(
        model_call_id=f"{TURN}-r0-a{attempt}", error_type=error_type, message="!", retryable=retry
    )


def plan(call_id: str, *, hold: bool = False, verdict: tool.Ruling = "allow") -> tool.Called:
    """Return the birth of a tool call."""
    return tool.Called(
        call_id=call_id,
        tool_name="add",
        arguments={},
        caller=TURN,
        agent_id=AGENT,
        account=AGENT,
        rule=tool.Rule(verdict=verdict),
        at=0,
        hold=hold,
    )


def question(call_id: str) -> tool.ApprovalRequested:
    """Return what a call asks a human."""
    return tool.ApprovalRequested(call_id, "", 9_000, f"apr_{call_id}")


def agreed(call_id: str) -> tool.Approved:
    """Return a human's consent to a call."""
    return tool.Approved(call_id, "ada")


def result(
    call_id: str,
    status: tool.Status = "success",
    trigger: str = "",
    actor: Actor = "system",
    charged: Amounts = ONE,
) -> tool.Result:
    """Return the result of a tool call that was begun."""
    return tool.Result(
        call_id=call_id, status=status, charged=charged, trigger=trigger, actor=actor
    )


def executing(*plans: tool.Called) -> tuple[Rune, ...]:
    """Return a turn whose first round has these calls under way."""
    ids = tuple(each.call_id for each in plans)
    return (BORN, called(), answered(*ids), ToolCallsReceived(ids, 0), *plans)


STREAMING = (BORN, called())
EXECUTING = executing(plan("a"), plan("b"))
BACK = (*EXECUTING, result("a"), result("b"))
SECOND_ROUND = (*BACK, ToolsFinished((Summary("a", "success"), Summary("b", "success"))))
RESTARTED = (*STREAMING, failed(), StreamRestarted(0, 1, "overloaded", "turn_1-r0-a0"))


class World:
    """A turn and everything around it, played from choices that somebody draws."""

    def __init__(self, born: Started = BORN) -> None:
        """Begin with a newborn turn."""
        self.stream: list[Rune] = []
        """What the turn's fold sees, in order."""
        self.decided: list[Rune] = []
        """What its law decided, in order."""
        self.state: State = LIFECYCLE.initial
        self.now = 1
        self._add([born])

    def _add(self, runes: Iterable[Rune]) -> None:
        before = self.state
        self.state, found = cascade(KIND, TURN, self.state, list(runes))
        self.decided += [rune for rune in found if not isinstance(rune, Started)]
        for rune in found:
            at = KIND.route(before, rune)
            if TURN in {at.owner, *at.observers}:
                self._check(rune)
                self.stream.append(rune)

    def _check(self, rune: Rune) -> None:
        """Refuse what must never be: an end, or another question, before all results are in."""
        if isinstance(rune, model.Called) or LIFECYCLE.table.get(_leads_to(rune)) == {}:
            calls = Counter(each.call_id for each in self.stream if isinstance(each, tool.Called))
            back = Counter(each.call_id for each in self.stream if isinstance(each, tool.Result))
            assert set(back) == set(calls)
            assert set(calls.values()) <= {1}

    def tell(self, command: Command, account: ledger.State = ROOM) -> bool:
        """Give a command, with the budget that the law reads; say whether it was carried out."""
        try:
            self._add(LIFECYCLE.decided(self.state, command, lambda _budget: account))
        except Refused:
            return False
        return True

    def hear(self, *runes: Rune) -> None:
        """Let the turn hear of one append of others, and do what is due internally."""
        for rune in runes:
            self.state = LIFECYCLE.apply(self.state, rune)
            self.stream.append(rune)
        self._add([])

    @property
    def is_over(self) -> bool:
        """Whether the turn has come to its end."""
        return LIFECYCLE.is_over(self.state)

    def replayed(self) -> State:
        """Return the state as the log has it."""
        return fold(LIFECYCLE, self.stream)

    def stop(self, reason: str) -> None:
        """Cancel what goes on, as an actor does that is told to stop; then do what is due."""
        for entity in under_way(self.state):
            self.hear(cancelled(self.state, entity, reason))
        for _ in range(10):
            if self.is_over:
                return
            if not any(self.answer(effect) for effect in LIFECYCLE.due(self.state)):
                assert self.tell(Interrupt(reason))

    def answer(self, effect: Effect) -> bool:
        """Perform what ends a turn; say whether it was that."""
        match effect:
            case End(_, how):
                return self.tell(replace(how, text="part", now=self.now))
            case _:
                return False

    def keep_time(self, effect: Effect, choice: int) -> bool:
        """Do what is due about the clock; say whether it was that."""
        account = NO_TIME if choice % 8 == 0 else SOME_TIME
        match effect:
            case StartClock():
                return self.tell(Run(self.now), account)
            case Tick():
                self.now += choice
                return self.tell(Run(self.now), account)
            case StopClock():
                return self.tell(Stand(self.now))
            case Halt(reason):
                for entity in under_way(self.state):
                    self.hear(cancelled(self.state, entity, reason))
                return True
            case _:
                return False

    def perform(self, effect: Effect, choice: int) -> None:
        """Do what is due, and have it come out in one of many ways."""
        match effect:
            case AskModel(_, round_, attempt):
                assert self.tell(ask(round_, attempt), NO_TOKENS if choice % 10 == 0 else ROOM)
            case PerformModelCall():
                self.hear(_outcome(self.state, choice))
            case ReceiveCalls():
                assert self.state.answer is not None
                verdict: tool.Ruling = "ask" if choice % 3 == 0 else "allow"
                plans = [
                    plan(call_id, hold=(choice + n) % 2 == 0, verdict=verdict)
                    for n, call_id in enumerate(self.state.answer.asked)
                ]
                assert self.tell(TakeCalls(tuple(plans)))
            case EnsureChild(call_id, "tool") if choice % 4 == 0:
                asked = {call.call_id for call in self.state.calls if call.asked}
                self.hear(agreed(call_id) if call_id in asked else question(call_id))
            case EnsureChild(call_id, "tool"):
                status = STATUSES[choice % len(STATUSES)]
                begun = status in {"success", "unknown", "timeout"}
                self.hear(result(call_id, status, "timeout", charged=ONE if begun else Amounts()))
            case _:
                if not self.answer(effect):
                    self.keep_time(effect, choice)


STATUSES: tuple[tool.Status, ...] = (
    *("success", "error", "denied", "unknown", "timeout"),
    *("success", "error", "denied", "cancelled", "success"),
)


def _leads_to(rune: Rune) -> Phase:
    found = LIFECYCLE.table[Phase.STREAMING].get(type(rune), Phase.STREAMING)
    assert isinstance(found, Phase)
    return found


def cancelled(state: State, entity: str, reason: str) -> Rune:
    """Return what a model call or tool call of a turn says when it is told to stop."""
    by: Actor = "timeout" if reason == "timeout" else "system"
    if entity == state.model_call_id:
        return model.Cancelled(model_call_id=entity, reason=reason, actor=by)
    return result(entity, "cancelled", reason, by)


def _outcome(state: State, choice: int) -> Rune:
    ids = [f"call_{state.round}_{n}" for n in range(200)]
    round_, attempt, me = state.round, state.attempt, state.model_call_id
    kinds = ("answer", "calls", "calls", "calls", "fault", "crash", "fatal", "stop", "many")
    match kinds[choice % len(kinds)]:
        case "answer":
            return answered(round_=round_, attempt=attempt)
        case "calls":
            return answered(*ids[: 1 + choice % 4], round_=round_, attempt=attempt)
        case "many":
            return answered(*ids[:129], round_=round_, attempt=attempt)
        case "stop":
            return cancelled(state, me, "timeout" if choice % 2 else "steer")
        case "fault":
            return model.Failed(model_call_id=me, error_type="overloaded", retryable=True)
        case "crash":
            return model.Failed(model_call_id=me, error_type="crash", retryable=True)
        case _:
            return model.Failed(model_call_id=me, error_type="refused")
