"""One answer as it comes: text that waits to be written, and what is known of the rest.

A provider is read step by step: on a pooled thread; if it is async, on the event loop; or, if it
never blocks, by the loop of the actors, between messages. What came is laid down here, and the
caller's actor is told once that there is something; it takes all of it at once. One side only adds
to what waits, the other only takes from its front: no lock is needed. Once the stream is closed,
nothing more is taken.
"""

from __future__ import annotations

import asyncio
import math
import re
import weakref
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from actors.app_errors import report
from actors.budget.runes import Amounts
from actors.model.lifecycle import BAD_RESPONSE, Fail, Finish
from actors.model.provider import Done, Failure, Pause, Text, ToolCall, Used
from actors.model.runes import AskedCall
from actors.redaction.machine import MOST_HELD
from actors.redaction.redactor import DEFAULT
from actors.tool.runes import PREFIX
from actors.units import SECOND, counted
from runelog.codec import MAX_DEPTH, MAX_INLINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableSet

    from actors.model.provider import Event, Provider, Request
    from actors.ports import Chance, Clock, Scheduler, Steps, Timer
    from actors.redaction.redactor import Redactor

GATHER: Final = SECOND // 70
"""Fragments are kept back so long, in nanoseconds: with what an alarm may be late, under 20 ms."""
LONGEST_GATHER: Final = SECOND // 4
"""They are kept back so long at most where actors do not keep up: fewer runes, and none is lost."""
MOST_A_SECOND: Final = 5_000
"""If so many streams speak that they would be more runes than that, each is kept back longer."""
MANY: Final = 1_000
"""If more messages than that wait for actors, streams are read more slowly."""
STRETCH: Final = 16
"""Of a provider that never blocks, so much text at most is taken in one step."""
MAX_CALLS: Final = 1_000
"""How many calls of one answer are listened to, far beyond what a turn accepts."""
MAX_NAME: Final = 256
MAX_WORDS: Final = 10_000
"""How much of an error is kept, in characters."""
MAX_NESTED: Final = MAX_DEPTH - 8
"""How deep arguments may go: the rune that holds them is nested itself."""
MAX_USED: Final = 10**15
"""More tokens than one answer can have."""
MAX_COST: Final = 10**9
"""More of any currency than one answer can cost."""
MAX_PAUSE: Final = 10**9
"""In seconds."""
_NOT_DECLARED: Final = (
    "the provider's stream is asynchronous and not declared so: write `async def stream`, for it "
    "to be read on the event loop"
)
MAX_TEXT: Final = 8 << 20
"""How many characters an answer may have before it is broken off."""


class Stream:
    """An answer under way."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        chance: Chance,
        tell: Callable[[Stream], None],
        redactor: Redactor = DEFAULT,
        speaking: MutableSet[Stream] | None = None,
    ) -> None:
        """Begin before the provider is asked; `tell` says that there is something to take.

        Streams that have something to say are in the set of those that are `speaking`.
        """
        self._speaking: MutableSet[Stream] = weakref.WeakSet() if speaking is None else speaking
        self._redactor = redactor
        self._flow = redactor.flow()
        self._clock = clock
        self._scheduler = scheduler
        self._chance = chance
        self._tell = tell
        self._told = False
        """Whether the caller was told, or will be, and has not taken anything since."""
        self._waiting: list[str] = []
        """What has come and was not taken: whether it is a secret shows then."""
        self._said: list[str] = []
        self._length = 0
        self._asked_length = 0
        self._calls: list[AskedCall] = []
        self._used: Used | None = None
        self.closed = False
        self.outcome: Finish | Fail | None = None
        """How the provider ended the answer; None until it did."""
        self.heard = False
        """Whether anything came at all, be it no text."""
        self.heard_at = clock.now()
        """When something last came."""
        self.held_until = 0
        """Until when text is kept back, so that what comes in between is taken together."""
        self._due_at = 0
        """When the actor was to take what waits."""
        self._alarm: Timer | None = None

    # -- for the caller's actor ---------------------------------------------------------------

    def close(self) -> str:
        """Take what has come and was not taken; nothing more is taken after that."""
        if self.closed:
            return ""
        self.closed = True
        self._speaking.discard(self)
        if self._alarm is not None:
            # It would keep the whole answer in memory until it rings.
            self._alarm.cancel()
        return self.take(last=True)

    def take(self, *, last: bool = False) -> str:
        """Take the text that waits and may be shown; at the last what was held back as well.

        Then that is no part of a secret, or all of one.
        """
        # In this order: what is added from now on is told of again.
        self._told = False
        waiting = self._waiting
        count = len(waiting)
        text = ""
        if count:
            pieces = waiting[:count]
            del waiting[:count]
            text = self._flow.feed(clean("".join(pieces)))
        if last:
            text += self._flow.end()
        if text:
            self._said.append(text)
        return text

    def hold_back(self) -> None:
        """Keep back what comes next for a moment.

        Longer, the later the actor was to take this, and the more streams speak: what each costs
        then, be it taken late or not, makes all of them late.
        """
        self._speaking.add(self)
        now = self._clock.now()
        late = now - self._due_at
        share = len(self._speaking) * SECOND // MOST_A_SECOND
        gather = max(GATHER, share, 2 * late if late > GATHER else 0)
        self.held_until = now + min(gather, LONGEST_GATHER)

    def is_closed(self) -> bool:
        """Return True if the answer is not wanted any more."""
        return self.closed

    @property
    def text(self) -> str:
        """All that was taken so far."""
        return "".join(self._said)

    @property
    def length(self) -> int:
        """How many characters have come, those of calls included."""
        return self._length + self._asked_length

    @property
    def usage(self) -> Amounts | None:
        """What was used, if the provider said."""
        if self._used is None:
            return None
        used = self._used
        return Amounts(tokens=used.input_tokens + used.output_tokens, cost=counted(used.cost))

    @property
    def used(self) -> Used:
        """What the provider said of it so far."""
        return self._used or Used()

    # -- reading the provider -----------------------------------------------------------------

    def steps(self, provider: Provider, request: Request, *, blocks: bool = True) -> Steps:
        """Read the provider to the end; then the actor is told what came of it.

        Of one that never `blocks`, text that comes at once is taken together.
        """
        outcome: Finish | Fail | None = None
        events: Iterator[Event] | Fail = self._asked(provider, request)
        if isinstance(events, Fail):
            outcome, events = events, iter(())
        now, scheduler = self._clock.now, self._scheduler
        while outcome is None and not self.closed:
            if scheduler.backlog > MANY:
                # More slowly than it comes: the actors are behind. Not to read is no silence.
                yield now() + GATHER
                self.heard_at = now()
                continue
            # Whatever the provider raises is an answer too.
            try:
                event = next(events) if blocks or not self._told else self._rush(events)
            except StopIteration:
                outcome = self._cut_off()
                break
            except BaseException as error:  # noqa: BLE001 -- a provider may do what it likes
                outcome = self._failed(error, request)
                break
            self.heard_at = now()
            if type(event) is Pause and is_short(event.seconds):
                yield self.heard_at + round(event.seconds * SECOND)
                continue
            outcome = self._heard(event)
            yield None
        return None if outcome is None else partial(self._end, outcome)

    def _rush(self, events: Iterator[Event]) -> Event:
        """Take some text, of which the actor need not be told anew; return what comes next."""
        add, length = self._waiting.append, self._length
        try:
            for event in islice(events, STRETCH):
                if type(event) is not Text or type(text := event.text) is not str:
                    return event
                if length + len(text) > MAX_TEXT:
                    return event
                add(text)
                length += len(text)
        finally:
            self._length = length
        return next(events)

    async def read(self, provider: Provider, request: Request) -> None:
        """Read an async provider to the end, on an event loop; then the actor is told.

        Cancelled from elsewhere, as when the app's loop is closed, it tells nothing: the call is in
        doubt.
        """
        outcome: Finish | Fail | None = None
        try:
            answer: Any = provider.stream(request)
            if not hasattr(answer, "__aiter__"):
                answer = await answer
            events = aiter(answer)
            try:
                async for event in events:
                    if self.closed:
                        return
                    self.heard_at = self._clock.now()
                    if type(event) is Pause and is_short(event.seconds):
                        await asyncio.sleep(event.seconds)
                        continue
                    outcome = self._heard(event)
                    if outcome is not None:
                        break
                    while self._scheduler.backlog > MANY and not self.closed:
                        # As above: the actors are behind.
                        await asyncio.sleep(GATHER / SECOND)
                        self.heard_at = self._clock.now()
            finally:
                # Its connection is closed here and now, and not when Python finds the generator.
                if hasattr(events, "aclose"):
                    await events.aclose()
            outcome = outcome or self._cut_off()
        except BaseException as error:
            if asyncio._get_running_loop() is None:  # noqa: SLF001 -- the public one raises
                # Dropped with its loop, as when a process is killed by hand: none is left to tell.
                return
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            outcome = outcome or self._failed(error, request)
        self._end(outcome)

    def _end(self, outcome: Finish | Fail) -> None:
        self.outcome = outcome
        if not self.closed:
            self._tell(self)

    def _asked(self, provider: Provider, request: Request) -> Iterator[Event] | Fail:
        try:
            answer: Any = provider.stream(request)
            if hasattr(answer, "__aiter__") or hasattr(answer, "__await__"):
                return Fail(BAD_RESPONSE, _NOT_DECLARED)
            return iter(cast("Iterable[Event]", answer))
        except BaseException as error:  # noqa: BLE001 -- a provider may do what it likes
            return self._failed(error, request)

    def _cut_off(self) -> Fail:
        message = "the stream ended without an end"
        return Fail("cut_off", message, retryable=True, usage=self.usage)

    def _failed(self, error: BaseException, request: Request) -> Fail:
        about = {"model": request.model, "call": request.call_id}
        about["conversation"] = request.conversation
        frames = report("provider_failed", error, self._redactor, **about)
        try:
            message = self._words(str(error), MAX_WORDS)
        except Exception:  # noqa: BLE001 -- as above, an error's own words included
            message = ""
        name = self._words(type(error).__name__, MAX_NAME)
        return Fail(name, message, usage=self.usage, frames=frames)

    def _words(self, text: str, most: int) -> str:
        """Return a text as it may be kept: without secrets, and not without end."""
        return self._redactor.text(clean(text[: most + MOST_HELD]))[:most]

    def _heard(self, event: Event) -> Finish | Fail | None:
        """Take in one event; return how the answer ended if it was the last."""
        self.heard = True
        # Most of what comes is text, by far.
        if type(event) is Text and type(event.text) is str:
            return self._say(event.text)
        return self._take(event)

    def _take(self, event: Event) -> Finish | Fail | None:
        match event:
            case Text(str(text)):
                return self._say(text)
            case ToolCall(str(), str(), str()):
                self._calls.append(asked(self._chance.id(PREFIX), event, self._redactor))
                self._asked_length += len(event.name) + len(event.arguments)
                if len(self._calls) >= MAX_CALLS:
                    return Finish(tuple(self._calls), self.usage, "too_many_calls")
            case Used():
                if why := why_unsound(event):
                    return Fail(BAD_RESPONSE, self._words(why, MAX_WORDS), usage=self.usage)
                self._used = event
            case Failure(str(error_type), str(message), retryable):
                kind, words = self._words(error_type, MAX_NAME), self._words(message, MAX_WORDS)
                return Fail(kind, words, bool(retryable), self.usage)
            case Done(str(stop_reason)):
                reason = self._words(stop_reason, MAX_NAME)
                return Finish(tuple(self._calls), self.usage, reason)
            case _:
                kind = self._words(type(event).__name__, MAX_NAME)
                message = f"the provider gave a {kind} that is no proper event"
                return Fail(BAD_RESPONSE, message, usage=self.usage)
        return None

    def _say(self, text: str) -> Fail | None:
        if self.closed or not text:
            return None
        length = self._length + len(text)
        if length > MAX_TEXT:
            # The rest is not kept: all that was said has to fit into one rune.
            self._waiting.append(text[: MAX_TEXT - self._length])
            self._length = length
            return Fail("endless", f"the answer is over {MAX_TEXT:,} characters long")
        self._length = length
        self._waiting.append(text)
        if not self._told:
            self._told = True
            self._due_at = max(self.heard_at, self.held_until)
            if self.heard_at >= self.held_until:
                self._tell(self)
            else:
                self._alarm = self._clock.at(self.held_until, partial(self._tell, self))
        return None


def clean(text: str) -> str:
    """Return a text that can be stored: what a provider gives may hold halves of characters."""
    return text.encode("utf-8", "replace").decode()


def is_short(seconds: object) -> bool:
    """Return True if a provider may pause for so long."""
    return isinstance(seconds, int | float) and 0 <= seconds <= MAX_PAUSE


def why_unsound(used: Used) -> str:
    """Return why what a provider says was used cannot be counted; nothing if it can.

    >>> why_unsound(Used(10, 20, cost=0.01))
    ''
    >>> why_unsound(Used(10, 20, cost="0.01"))
    "the provider says that cost='0.01' was used: give a number, such as 0.01, from 0 up"
    """
    for name in ("input_tokens", "output_tokens"):
        amount = getattr(used, name)
        if type(amount) is not int or not 0 <= amount <= MAX_USED:
            return f"the provider says that {name}={amount!r:.80} was used: give a whole number"
    cost, kind = used.cost, type(used.cost)
    if kind not in {int, float, Decimal} or not math.isfinite(cost) or not 0 <= cost <= MAX_COST:
        why = "give a number, such as 0.01, from 0 up"
        return f"the provider says that cost={cost!r:.80} was used: {why}"
    return ""


def asked(call_id: str, event: ToolCall, redactor: Redactor = DEFAULT) -> AskedCall:
    """Return a call as it is kept: its arguments read or, if they cannot be, as they are."""
    name = redactor.text(clean(event.name[: MAX_NAME + MOST_HELD]))[:MAX_NAME]
    # What lies beyond is looked at as well, or a secret could be cut in two.
    raw = clean(event.arguments[: MAX_INLINE + MOST_HELD])
    kept = redactor.text(raw)[:MAX_INLINE]
    theirs = redactor.text(clean(event.id[: MAX_NAME + MOST_HELD]))[:MAX_NAME]
    unread = AskedCall(call_id, name, raw=kept, provider_id=theirs)
    try:
        if len(event.arguments) > MAX_INLINE or _depth(raw) > MAX_NESTED:
            return unread
        found = msgspec.json.decode(raw or "{}")
        # Numbers may be larger than what can be stored.
        msgspec.msgpack.encode(found)
    except (msgspec.DecodeError, UnicodeError, OverflowError, RecursionError):
        return unread
    if not isinstance(found, dict):
        return unread
    return AskedCall(call_id, name, redactor.value(found), provider_id=theirs)


def _depth(text: str) -> int:
    """Return how deeply JSON is nested, without reading it."""
    if text.count("[") + text.count("{") <= MAX_NESTED:
        return 0
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile(r"[\[\]{}]")
