"""Performs the model calls of one entity, within that entity's actor.

A model call has a law and an id and no actor. What comes of it is decided by its law, here, and
appended by the entity that calls, which observes it. A fault in here is a fault of the caller: its
supervisor starts it again, and before it decides anything, calls in doubt are settled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from actors.budget.runes import Amounts
from actors.common_commands import Cancel, Recover, TimeUp
from actors.errors import Overloaded
from actors.model.lifecycle import NAME, TIMEOUT, BreakOff, Fail, Finish
from actors.model.provider import Request, blocks, is_async, price_of
from actors.model.runes import AssistantDelta, Cancelled, Completed, Failed
from actors.model.stream import Stream
from actors.model.tokens import tokens_of
from actors.scheduling.event_loop import EventLoopClosed
from actors.shell.entities import PassiveEntity
from actors.shell.shell import NEAR, Shell
from actors.shell.transition_log import forget_logged, log_replayed, warn_time_short
from actors.units import counted
from runelog.errors import RunefoldError
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from actors.model.lifecycle import State
    from actors.model.provider import Message, Provider
    from actors.ports import Job, Timer
    from actors.process.ref import Ref
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune

    End: TypeAlias = Completed | Failed | Cancelled

ENDS: Final = (Completed, Failed, Cancelled)
"""The runes with which a model call ends."""


class LookAtCall(NamedTuple):
    """Look at a model call: something of its answer has come, or its time may be up."""

    call_id: str


class PreparedRequest(NamedTuple):
    """What a model call sends, to whom, and how long is waited for an answer."""

    provider: Provider
    messages: Sequence[Message]
    settings: Mapping[str, Any]
    """The other fields of the request."""
    first_byte: int
    """How long a first byte is waited for, in nanoseconds."""
    silence: int
    """How long the next one is waited for."""


def _tell(caller: Ref, call_id: str, stream: Stream) -> None:
    """Have a call looked at; nothing more of it is wanted if the actor was killed."""
    if caller.is_alive():
        caller.notify(LookAtCall(call_id))
    else:
        stream.closed = True


class _Call:
    """A call under way."""

    def __init__(self, stream: Stream, request: PreparedRequest) -> None:
        self.stream = stream
        self.price = price_of(request.provider)
        self.blocks = blocks(request.provider)
        self.first_byte = request.first_byte
        self.silence = request.silence
        self.job: Job | None = None
        self.timer: Timer | None = None
        self.look_by = 0
        """When the timer rings."""
        self.warned = 0
        """When operators were to be warned last that time runs short."""

    def used(self, state: State, usage: Amounts | None) -> dict[str, int | None]:
        """Return how much of the answer came, and what was used costs, as far as that is known."""
        stream, price = self.stream, self.price
        if price is None:
            return {"said": stream.length, "cost": None}
        if usage is None:
            cost = counted(price.of(state.call.sent, tokens_of(stream.length)))
        else:
            cost = counted(price.of(stream.used.input_tokens, stream.used.output_tokens))
        return {"said": stream.length, "cost": cost}

    def let_go(self) -> None:
        """Let the stream end: nothing more of it is taken."""
        self.stream.close()
        if self.job is not None:
            self.job.wake()
        if self.timer is not None:
            # It would keep the whole answer in memory until it rings.
            self.timer.cancel()


class ModelCalls:
    """The model calls that one entity makes."""

    def __init__(self, shell: Shell) -> None:
        """Begin without any, for the actor of the entity that calls."""
        self._shell = shell
        self._ctx: ConversationContext = shell.ctx
        self._kind = shell.ctx.kinds[NAME]
        self._prepared: dict[str, PreparedRequest] = {}
        self._calls: dict[str, _Call] = {}
        """Those that are under way."""
        self._streams: dict[str, Stream] = {}
        """What was said, until that is forgotten."""

    # -- for the caller -----------------------------------------------------------------------

    def prepare(self, call_id: str, request: PreparedRequest) -> None:
        """Keep what a call sends that is about to be born."""
        self._prepared[call_id] = request

    def perform(self, call_id: str) -> None:
        """Ask the provider, unless that was done; the birth of the call is on disk."""
        if call_id in self._calls:
            return
        request = self._prepared.pop(call_id)
        services = self._ctx.services
        tell = partial(_tell, self._shell.ref, call_id)
        stream = Stream(
            services.clock,
            services.scheduler,
            services.chance,
            tell,
            services.redactor,
            services.speaking,
        )
        call = self._calls[call_id] = _Call(stream, request)
        self._streams[call_id] = stream
        asked = Request(messages=request.messages, cancelled=stream.is_closed, **request.settings)
        name, provider = f"{self._ctx.conversation}/{call_id}", request.provider
        scheduler = services.scheduler
        try:
            if is_async(provider):
                call.job = scheduler.begin_async(name, stream.read(provider, asked))
            else:
                steps = stream.steps(provider, asked, blocks=call.blocks)
                call.job = scheduler.work(name, steps, blocks=call.blocks)
        except Overloaded as error:
            self._end(call_id, Fail("overloaded", str(error), retryable=True))
            return
        except EventLoopClosed as error:
            self._end(call_id, Fail("event_loop_closed", str(error)))
            return
        self._watch(call_id, call, stream.heard_at)

    def drop(self, call_id: str) -> None:
        """Forget a call that has ended: its words, or its request that is not sent."""
        self._prepared.pop(call_id, None)
        self._streams.pop(call_id, None)
        self._ctx.drop_passive(call_id)
        forget_logged(self._ctx, call_id)

    def drop_ended(self) -> None:
        """Forget the words of all calls that have ended."""
        self._streams = {name: each.stream for name, each in self._calls.items()}

    @property
    def busy(self) -> bool:
        """Whether any call is under way."""
        return bool(self._calls or self._prepared)

    def __contains__(self, call_id: str) -> bool:
        """Return True if a call is under way here, or about to begin."""
        return call_id in self._calls or call_id in self._prepared

    @property
    def heard(self) -> Collection[str]:
        """The calls whose words are remembered."""
        return self._streams

    def text_of(self, call_id: str) -> str:
        """Return the words of a call, as remembered or from the log; none if there was no call."""
        stream = self._streams.get(call_id)
        if stream is not None:
            return stream.text
        runes = self._logged(call_id) if call_id else ()
        return "".join(rune.text for rune in runes if isinstance(rune, AssistantDelta))

    def end_of(self, call_id: str) -> End | None:
        """Return the rune with which a call ended, as the log has it; None if it has not."""
        return next((rune for rune in self._logged(call_id) if isinstance(rune, ENDS)), None)

    def _logged(self, call_id: str) -> Iterable[Rune]:
        ctx = self._ctx
        ctx.sync()
        return (envelope.payload for envelope in ctx.log.stream(ctx.conversation, call_id))

    def cancel(self, call_id: str, wish: Cancel) -> None:
        """Stop a call and keep what was said; nothing if it is not under way."""
        if call_id in self._calls:
            self._end(call_id, BreakOff(wish.reason, actor=wish.actor))
        elif self._prepared.pop(call_id, None) is not None:
            # It was born, and nothing was sent.
            self._decide(call_id, BreakOff(wish.reason, Amounts(), said=0, actor=wish.actor))

    def recover(self, call_id: str) -> None:
        """Settle a call in doubt: the log says that it began, and not how it ended."""
        ctx, kind = self._ctx, self._kind
        found = ctx.replayed(kind, call_id)
        if kind.lifecycle.is_over(found.state) or not found.version:
            return
        agent = kind.context(found.state)[0]
        log_replayed(ctx, kind, call_id, agent, found.event_id)
        ctx.add_passive(call_id, PassiveEntity(kind, found.state, found.version))
        self._decide(call_id, Recover(ctx.services.clock.now()))

    def finish(self) -> None:
        """Write what has come of each answer, and take no more: the caller's actor stops."""
        for call_id, call in [*self._calls.items()]:
            rest = call.stream.close()
            if rest and self._ctx.broken is None:
                self._write(call_id, rest)
        self.close()

    def close(self) -> None:
        """Take nothing more of any answer: the caller's next actor settles what is in doubt."""
        calls, self._calls = self._calls, {}
        for call_id, call in calls.items():
            call.let_go()
            self._ctx.drop_passive(call_id)
        self._streams.clear()
        # Each would keep the other alive until Python looks for circles.
        del self._shell

    # -- while an answer comes ----------------------------------------------------------------

    def look(self, call_id: str) -> None:
        """Take what has come of an answer; see whether it has ended, or its time is up."""
        call = self._calls.get(call_id)
        if call is None:
            return
        stream = call.stream
        outcome = stream.outcome
        begun = self._state(call_id).begun
        now = self._ctx.services.clock.now()
        text = ""
        if outcome is None or (call.blocks and not begun):
            # The first words of what is read on a thread have an append of their own, also if the
            # end is there by now: which appends there are is no matter of a moment.
            text = stream.take()
            if text:
                stream.hold_back()
                if not self._write(call_id, text):
                    return
        if outcome is not None:
            self._end(call_id, outcome)
        elif now >= call.look_by or (text and not begun):
            self._watch(call_id, call, now)

    def _state(self, call_id: str) -> State:
        state: State = self._ctx.passive(call_id).state
        return state

    def _write(self, call_id: str, text: str) -> bool:
        """Append a fragment; return False if the call failed because that could not be."""
        ctx, passive, rune = self._ctx, self._ctx.passive(call_id), AssistantDelta(text=text)
        agent, turn = self._kind.context(passive.state)
        try:
            cause = self._shell.event
            change = Change(call_id, None, [rune], agent=agent, turn=turn, cause=cause)
            ctx.append_fragment(change, first=not passive.state.begun)
        except RunefoldError as error:
            # An answer that the log has no room for has to be given again.
            self._end(call_id, Fail(type(error).__name__, str(error), retryable=True))
            return False
        passive.state = self._kind.lifecycle.apply(passive.state, rune)
        passive.version += 1
        return True

    def _watch(self, call_id: str, call: _Call, now: int) -> None:
        """End a call whose time is up, or look again when it is; warn when most of it is."""
        state = self._state(call_id)
        if not state.begun and now >= state.call.first_byte_by and call.stream.heard:
            # The answer has begun, though it has no words yet.
            if not self._write(call_id, ""):
                return
            state = self._state(call_id)
        # The first byte has a deadline of its own, in the log.
        by, length, of = state.call.first_byte_by, call.first_byte, ""
        if state.begun:
            by, length, of = call.stream.heard_at + call.silence, call.silence, "silence"
        if now >= by:
            late = Fail(TIMEOUT, "the stream fell silent", retryable=True)
            self._end(call_id, late if state.begun else TimeUp(now))
            return
        near = by - length // NEAR
        if now >= near > call.warned:
            call.warned = near
            warn_time_short(self._ctx, self._kind, call_id, state, by, of)
        self._look_by(call_id, call, by if now >= near else near)

    def _look_by(self, call_id: str, call: _Call, when: int) -> None:
        if call.timer is not None:
            call.timer.cancel()
        call.look_by = when
        call.timer = self._shell.later(when, lambda _now: LookAtCall(call_id))

    # -- how one ends -------------------------------------------------------------------------

    def _end(self, call_id: str, how: Finish | Fail | BreakOff | TimeUp) -> None:
        """Decide how a call ends, and append that with what was said last."""
        call = self._calls[call_id]
        rest = call.stream.close()
        if not isinstance(how, TimeUp):
            usage = how.usage if how.usage is not None else call.stream.usage
            how = replace(how, usage=usage, **call.used(self._state(call_id), usage))
        self._decide(call_id, how, [AssistantDelta(text=rest)] if rest else ())
        call.let_go()
        del self._calls[call_id]

    def _decide(self, call_id: str, command: object, before: Sequence[Rune] = ()) -> None:
        refused = self._shell.decide_for(call_id, command, before)
        assert refused is None, refused
        self._ctx.drop_passive(call_id)
        forget_logged(self._ctx, call_id)


class ModelCaller(Shell):
    """An actor whose entity calls models."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before any model is asked."""
        super().__init__(ctx, me)
        self.model_calls = ModelCalls(self)

    def calls_in_doubt(self) -> Sequence[str]:
        """Return the model calls that began and have not ended, by the state as it was replayed."""
        raise NotImplementedError

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command, or look at a call: then nothing else is due unless that ended."""
        if type(message) is not LookAtCall:
            return super().on_receive(message)
        self.ctx.check()
        before = self.state
        self.model_calls.look(message.call_id)
        if self.state is not before:
            self.act()
        return None

    def _settle_doubts(self) -> None:
        """Settle the calls in doubt first: what the caller does depends on how they ended."""
        for call_id in self.calls_in_doubt():
            self.model_calls.recover(call_id)
        super()._settle_doubts()

    def is_idle(self) -> bool:
        """Return True if no model is asked, and nothing else is under way."""
        return super().is_idle() and not self.model_calls.busy

    def on_stop(self) -> None:
        """Keep what the models have said until now."""
        self.model_calls.finish()
        super().on_stop()

    def on_failure(self, *about: object) -> None:
        """Let the streams end."""
        self.model_calls.close()
        super().on_failure(*about)
