"""Makes a model call happen: streams from its provider, and says how it ended."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import replace

from actors.common_commands import Cancel, TimeUp
from actors.model.lifecycle import BreakOff, CallProvider, Fail, Finish
from actors.model.pending_request import PENDING_REQUESTS
from actors.model.provider import price_of
from actors.model.runes import AssistantDelta
from actors.model.stream import STREAMS, Flush, Stream
from actors.model.tokens import tokens_of
from actors.shell.shell import NEAR, Shell
from actors.shell.transition_log import warn_time_short

if TYPE_CHECKING:
    from actors.budget.runes import Amounts
    from actors.model.provider import Price
    from actors.ports import Job, Timer
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune


class Silence:
    """It may be that nothing has come for too long."""


class ModelActor(Shell):
    """One call of a model."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before the provider is asked."""
        super().__init__(ctx, me)
        self._stream: Stream | None = None
        self._job: Job | None = None
        self._first_byte = 0
        self._patience = 0
        self._price: Price | None = None
        self._watch_alarm: Timer | None = None
        self._rest = ""
        """The last words, on their way into the log together with how it ended."""
        self._fragments: deque[tuple[int, AssistantDelta]] = deque()
        """What is in the log and not folded yet, with the event ids."""

    def runes_before(self) -> list[Rune]:
        """Have the last words go into the log with what follows them."""
        return [AssistantDelta(text=self._rest)] if self._rest else []

    def on_folded(self, rune: Rune) -> None:
        """Take notice that the last words are there."""
        if isinstance(rune, AssistantDelta):
            self._rest = ""

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand how the stream ended; a cancelled one says what was used until then."""
        match message:
            case Flush():
                if self._stream is not None:
                    self._stream.flush()
                return None
            case Silence():
                return self._if_silent()
            case Finish(usage=usage) | Fail(usage=usage):
                self._end_stream()
                return replace(message, **self._used(usage))
            case TimeUp() if not self.state.begun:
                if self._stream is not None and self._stream.heard:
                    self._stream.begin()
                    return None
                self._end_stream()
                return message
            case Cancel(reason, actor):
                self._end_stream()
                usage = self._stream.usage if self._stream else None
                return BreakOff(reason, usage, actor=actor, **self._used(usage))
            case _:
                return super().understand(message)

    def _used(self, usage: Amounts | None) -> dict[str, int | None]:
        """Say how much of the answer came, and what was used costs, as far as we know."""
        stream, price = self._stream, self._price
        if stream is None:
            # It was not we who asked.
            return {}
        if price is None:
            return {"said": stream.length, "cost": None}
        if usage is None:
            cost = price.of(self.state.call.sent, tokens_of(stream.length))
        else:
            cost = price.of(stream.used.input_tokens, stream.used.output_tokens)
        return {"said": stream.length, "cost": cost}

    def perform(self, effect: CallProvider) -> None:
        """Ask the provider, on a thread of its own."""
        match effect:
            case CallProvider():
                self._call()
            case _:
                assert_never(effect)

    def _call(self) -> None:
        services = self.ctx.services
        request = self.ctx.caches[PENDING_REQUESTS].pop(self.me)
        self._first_byte, self._patience = request.first_byte, request.silence
        self._price = price_of(request.provider)
        self._stream = stream = Stream(
            self.ctx.append_fragment,
            self.me,
            services.clock,
            services.chance,
            self.ref.notify,
            self._heard,
            self.kind.context(self.state),
            services.redactor,
        )
        self.ctx.caches[STREAMS][self.me] = stream
        steps = stream.steps(request.provider, request.request(stream.is_closed))
        self._job = services.scheduler.work(self.name, steps)
        self._watch()

    def _heard(self, event_id: int, rune: AssistantDelta) -> None:
        """Take notice of a fragment: it is folded with the next message.

        None is due because of it. The deadline of the first byte passes in vain.
        """
        self._fragments.append((event_id, rune))

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Fold the fragments that have come; then do as ever."""
        self._fold_fragments()
        return super().on_receive(message)

    def _fold_fragments(self) -> None:
        while self._fragments:
            event_id, rune = self._fragments.popleft()
            if event_id > self.event:
                before, self.state = self.state, self.kind.lifecycle.apply(self.state, rune)
                self.version += 1
                self.event = event_id
                self._believe(before, (rune,))

    def _end_stream(self) -> None:
        if self._stream is not None:
            rest = self._stream.close()
            self._fold_fragments()
            self._rest += rest
        if self._job is not None:
            self._job.wake()
        if self._watch_alarm is not None:
            # It would keep the whole answer in memory until it rings.
            self._watch_alarm.cancel()

    def near(self) -> int:
        """Return when most of the time has passed that the first byte has."""
        return int(self.state.call.first_byte_by) - self._first_byte // NEAR

    def _watch(self) -> None:
        assert self._stream is not None
        self._watch_until(self._stream.heard_at + self._patience - self._patience // NEAR)

    def _if_silent(self) -> Fail | None:
        stream = self._stream
        if stream is None or stream.closed:
            return None
        now = self.ctx.services.clock.now()
        # The first byte has a deadline of its own, in the log.
        by = (stream.heard_at if self.state.begun else now) + self._patience
        if now < by:
            near = by - self._patience // NEAR
            if now >= near:
                warn_time_short(self.ctx, self.kind, self.me, self.state, by, "silence")
            self._watch_until(near if now < near else by)
            return None
        self._end_stream()
        silent = Fail("timeout", "the stream fell silent", retryable=True)
        return replace(silent, usage=stream.usage, **self._used(stream.usage))

    def _watch_until(self, when: int) -> None:
        self._watch_alarm = self.later(when, lambda _: Silence())

    def on_stop(self) -> None:
        """Let the stream end as well."""
        if self._stream is not None and self.ctx.broken is None:
            self._stream.finish()
        self._end_stream()
        # Each would keep the other alive until Python looks for circles.
        self._stream = None
        super().on_stop()

    def on_failure(self, *about: object) -> None:
        """Let the stream end as well."""
        if self._stream is not None:
            self._stream.closed = True
        super().on_failure(*about)
