"""Makes a turn happen: asks the model, has its calls made, and ends when there are no more."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from msgspec.structs import replace

from actors.agent.actor import TOOLSETS
from actors.agent.history import HISTORIES, HISTORY_VERSION, RUNES, History
from actors.common_commands import Cancel, TimeUp
from actors.errors import Overloaded
from actors.model import runes as model
from actors.model.lifecycle import TIMEOUT
from actors.model.performer import ModelCaller, PreparedRequest
from actors.model.request_hash import request_hash
from actors.model.tokens import tokens_of
from actors.shell.shell import NEAR
from actors.shell.transition_log import log_birth
from actors.tool.judging import Judging
from actors.tool.lifecycle import NAME as TOOL
from actors.tool.lifecycle import Go
from actors.tool.planning import Caller
from actors.turn.lifecycle import (
    Action,
    Ask,
    AskModel,
    End,
    Fail,
    Interrupt,
    PerformModelCall,
    Phase,
    ReceiveCalls,
    Release,
    TakeCalls,
    spoken_by,
    time_limit,
    under_way,
)
from actors.turn.runes import Started, ToolCallsReceived
from actors.turn.time_slices import Halt, Run, Stand, StartClock, StopClock, Tick
from actors.units import SECOND, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.agent.actor import AgentToolset
    from actors.ports import Steps
    from actors.shell.conversation import ConversationContext
    from actors.tool.planning import Ruling
    from runelog.rune import Rune

FIRST_PAUSE: Final = 0.5
"""Seconds before a model is asked again for the first time; then twice as long each time."""
LONGEST_PAUSE: Final = 30.0
LONG: Final = 1_000
"""A history of more events than that is read beside all actors: they would wait for it."""


class HistoryRead(NamedTuple):
    """The history was read, or could not be."""

    effect: AskModel
    until: int
    """The last event that it was read up to."""
    found: History | Exception


class TurnActor(ModelCaller, Judging):
    """One turn of an agent."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before anything is asked."""
        super().__init__(ctx, me)
        self._rested: AskModel | None = None
        self._asked: dict[str, tuple[model.AskedCall, ...]] = {}
        self._in_history = 0
        """The last event that belongs into the history, of those that were folded live."""
        self._halting: Cancel | None = None
        """Why it is to end as soon as nothing is under way, and who wants it; None if it is not."""

    def calls_in_doubt(self) -> Sequence[str]:
        """Return the model call that has not ended."""
        return under_way(self.state) if self.state.phase is Phase.STREAMING else ()

    # -- history ------------------------------------------------------------------------------

    def on_start(self) -> None:
        """Take over; after a crash the history is read from the log again."""
        super().on_start()
        if self.replayed:
            self.ctx.caches[HISTORIES].pop(self.state.agent_id, None)

    @property
    def _toolset(self) -> AgentToolset:
        return self.ctx.caches[TOOLSETS][self.state.agent_id]

    def _history(self, effect: AskModel) -> History | None:
        """Return what the model is shown; None if it is being read first, beside all actors."""
        ctx, agent = self.ctx, self.state.agent_id
        history = ctx.caches[HISTORIES].get(agent)
        if history is not None:
            return history
        ctx.sync()
        read = partial(History.read, ctx.log, ctx.conversation, agent, self.event)
        if self.event > LONG:
            steps = self._read(effect, self.event, read)
            with contextlib.suppress(Overloaded):
                ctx.services.scheduler.work(f"{self.name} history", steps)
                return None
        history = ctx.caches[HISTORIES][agent] = read()
        return history

    def _read(self, effect: AskModel, until: int, read: Callable[[], History]) -> Steps:
        yield None
        try:
            found: History | Exception = (history := read())
            # Each message is hashed once: those of a long history take a while.
            history.hashed()
        except Exception as error:  # noqa: BLE001 -- raised by the actor, as if it had read
            found = error
        return partial(self.ref.notify, HistoryRead(effect, until, found))

    def _take_history(self, message: HistoryRead) -> None:
        """Take over the history, unless more has happened since; then do what it was read for."""
        if isinstance(message.found, Exception):
            raise message.found
        if self._in_history <= message.until:
            self.ctx.caches[HISTORIES][self.state.agent_id] = message.found
        self._under_way.discard(message.effect)

    def on_folded(self, rune: Any) -> None:  # noqa: ANN401 -- of any kind
        """Take what happened into the history, if that is at hand."""
        sort = type(rune)
        if sort is model.Completed:
            self._asked = {rune.model_call_id: rune.calls}
        elif sort is ToolCallsReceived:
            for call in self.state.calls:
                if call.status is not None:
                    # It was over as soon as it was born: no actor comes for it that could tell.
                    log_birth(self.ctx, call.call_id)
        if sort in RUNES:
            self._in_history = self.event
            histories, agent = self.ctx.caches[HISTORIES], self.state.agent_id
            if sort is Started and rune.catches_up:
                # What others said comes before it: that is read from the log.
                histories.pop(agent, None)
            elif (history := histories.get(agent)) is not None:
                history.take(rune, self._said)

    def _said(self, model_call_id: str) -> str:
        return self.model_calls.text_of(model_call_id)

    # -- messages -----------------------------------------------------------------------------

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand a wish to stop as cancelling what is under way; the law does the rest."""
        match message:
            case Cancel():
                return self._halt(message)
            case TimeUp(now) if not self._is_late(now):
                current = self.state.time_slice
                over = current is not None and now >= current.until
                return Run(now) if over else None
            case TimeUp():
                return self._halt(Cancel(TIMEOUT, "timeout"))
            case HistoryRead():
                self._take_history(message)
                return None
            case _:
                return super().understand(message)

    def near(self) -> int | None:
        """Return when most of the turn's time has passed."""
        by, toolset = time_limit(self.state), self.ctx.caches[TOOLSETS].get(self.state.agent_id)
        # Without its agent it is about to be stopped anyway.
        return None if by is None or toolset is None else by - toolset.config.turn_timeout // NEAR

    def _is_late(self, now: int) -> bool:
        limit = time_limit(self.state)
        return limit is not None and now >= limit

    def _halt(self, wish: Cancel) -> Interrupt | TimeUp | None:
        """Cancel what is under way, and remember why: it may come to its end by itself before."""
        if not self._cancel(wish):
            return self._ending(wish)
        self._halting = self._halting or wish
        return None

    def _ending(self, wish: Cancel) -> Interrupt | TimeUp:
        """Return the command that ends the turn where nothing is under way any more."""
        text, now = self._text_so_far(), self._now()
        if wish.actor == "timeout":
            return TimeUp(now, text)
        return Interrupt(wish.reason, text, wish.actor, now)

    def _cancel(self, wish: Cancel) -> bool:
        """Cancel what is under way; return True if anything still is: tools say when they end."""
        if self.state.phase is Phase.STREAMING:
            for call_id in under_way(self.state):
                self.model_calls.cancel(call_id, wish)
        for call_id in (going := under_way(self.state)):
            # After a restart we may be asked to stop before they are there.
            self.ensure(TOOL, call_id)
            self.ctx.tell(call_id, wish)
        return bool(going)

    def _end_if_still(self, wish: Cancel) -> None:
        """End now, as that was asked for, if nothing is under way any more."""
        if under_way(self.state) or not self.kind.is_open(self.state):
            return
        self._halting = None
        self.carry_out(self._ending(wish))

    def _text_so_far(self) -> str:
        return self._said(spoken_by(self.state))

    @property
    def is_settled(self) -> bool:
        """Whether its law may decide in appends of others: not while it is to end first."""
        return self._halting is None and super().is_settled

    # -- effects ------------------------------------------------------------------------------

    def at_once(self, effect: Any, state: Any, runes: Sequence[Rune]) -> object:  # noqa: ANN401 -- as above
        """Return the command that makes the calls of an answer, or ends the turn with its words.

        Unless a policy of the app's has to be asked, or the words are in the log alone.
        """
        toolset = self.ctx.caches[TOOLSETS].get(self.state.agent_id)
        match effect:
            case _ if self._halting is not None:
                return None
            case ReceiveCalls(call) if toolset is not None and not toolset.planner.judged_by_hand:
                for rune in runes:
                    if type(rune) is model.Completed and rune.model_call_id == call:
                        rules = toolset.planner.rules(rune.calls)
                        return self._taken(toolset, rune.calls, rules)
            case End(how=how) if (spoken := spoken_by(state)) in self.model_calls.heard:
                return replace(how, text=self._said(spoken), now=self._now())
        return None

    def perform(self, effect: Action) -> None:
        """Do what is due."""
        match effect:
            case AskModel() | ReceiveCalls() if (
                self.state.agent_id not in self.ctx.caches[TOOLSETS]
            ):
                # Its agent is not there: gone, and it is about to be stopped; or yet to come.
                self.retry_effect(effect, round(FIRST_PAUSE * SECOND))
            case AskModel():
                self._ask(effect)
            case PerformModelCall(call):
                self.model_calls.drop_ended()
                self.model_calls.perform(call)
            case ReceiveCalls(call):
                asked = self._asked_for(call)
                self.judge(effect, self._toolset.planner, asked, self.state.agent_id)
            case Release(call_id):
                self._release(call_id)
            case End(how=how):
                self.carry_out(replace(how, text=self._text_so_far(), now=self._now()))
            case StartClock():
                self.carry_out(Run(self._now()))
            case StopClock():
                self.carry_out(Stand(self._now()))
            case Halt(reason):
                self._cancel(Cancel(reason, "system"))
            case Tick():
                pass  # it passes by itself, and the deadline says when it has
            case _:
                assert_never(effect)

    def _ask(self, effect: AskModel) -> None:
        clock = self.ctx.services.clock
        if effect.attempt and self._rested != effect:
            self._rested = effect
            longest = min(FIRST_PAUSE * 2 ** (effect.attempt - 1), LONGEST_PAUSE)
            pause = self.ctx.services.chance.between(longest / 2, longest)
            self.retry_effect(effect, round(pause * SECOND))
            return
        toolset = self._toolset
        provider = toolset.provider
        if provider is None or (toolset.missing and not effect.round):
            # Further rounds go on: their model has seen its tools, and is told of one that is gone.
            kind = "unknown_model" if provider is None else "unknown_tool"
            self.carry_out(Fail(kind, toolset.missing, self._text_so_far(), clock.now()))
            return
        history = self._history(effect)
        if history is None:
            return
        sent, output = (
            tokens_of(history.characters + toolset.characters),
            toolset.config.max_output_tokens,
        )
        now = clock.now()
        facts = {
            "model": toolset.model,
            "system": toolset.system,
            "tools": toolset.tools,
            "max_output_tokens": output,
            "conversation": self.ctx.conversation,
            "call_id": effect.model_call_id,
            "caller": self.me,
            "agent_id": self.state.agent_id,
            "round": effect.round,
            "attempt": effect.attempt,
        }
        waits = toolset.config.first_byte_timeout, toolset.config.silence_timeout
        request = PreparedRequest(provider, tuple(history.messages), facts, *waits)
        self.model_calls.prepare(effect.model_call_id, request)
        self.carry_out(
            Ask(
                model_call_id=effect.model_call_id,
                upto=self.event,
                prompt=toolset.hash,
                request=request_hash(facts, history.hashed()),
                made_by=HISTORY_VERSION,
                sent=sent,
                max_output_tokens=output,
                cost=None if toolset.price is None else counted(toolset.price.of(sent, output)),
                first_byte_by=now + toolset.config.first_byte_timeout,
                turn_by=now + toolset.config.turn_timeout,
            )
        )
        if self.state.answer is not None:
            # It failed as it began: nothing is sent.
            self.model_calls.drop(effect.model_call_id)

    def _asked_for(self, model_call_id: str) -> tuple[model.AskedCall, ...]:
        asked = self._asked.get(model_call_id)
        if asked is None:
            end = self.model_calls.end_of(model_call_id)
            assert isinstance(end, model.Completed), end
            asked = end.calls
        return asked

    def judged(self, effect: ReceiveCalls, rules: Sequence[Ruling]) -> None:
        """Make the calls that the model asks for, by the policy's rulings."""
        asked = self._asked_for(effect.model_call_id)
        refused = self.carry_out(self._taken(self._toolset, asked, rules))
        assert refused is None, refused

    def _taken(
        self, toolset: AgentToolset, asked: Sequence[model.AskedCall], rules: Sequence[Ruling]
    ) -> TakeCalls:
        caller = Caller(self.me, agent=self.state.agent_id)
        return TakeCalls(toolset.planner.plans(asked, rules, caller, self._now()))

    def resend_to(self, entity: str) -> None:
        """Cancel anew what was cancelled and begins anew."""
        super().resend_to(entity)
        if self._halting is not None and entity in under_way(self.state):
            self.ctx.tell(entity, self._halting)

    def _release(self, call_id: str) -> None:
        self.ctx.tell(call_id, Go(self._now()))

    def on_stop(self) -> None:
        """Count the time until now: the actor that goes on with the turn cannot know it."""
        if self.state.time_slice is not None and self.ctx.broken is None:
            self.carry_out(Stand(self._now(), anyhow=True))
        super().on_stop()

    def is_idle(self) -> bool:
        """Return True if it waits for nothing but a human, or others."""
        at_work = any(isinstance(e, AskModel | ReceiveCalls) for e in self._under_way)
        return super().is_idle() and not at_work

    def held_up(self) -> tuple[str, ...]:
        """Name the calls that ask an agent which waits for a human."""
        return tuple(call.call_id for call in self.state.calls if call.asked and not call.status)

    def has_work(self, due: Sequence[Any]) -> bool:
        """Act on every change while it is being stopped: nothing may be under way any more."""
        return self._halting is not None or super().has_work(due)

    def act(self) -> None:
        """Do what is due; end first, if that was asked for and nothing is under way any more."""
        if self._halting is not None:
            self._end_if_still(self._halting)
        super().act()
