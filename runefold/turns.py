"""A turn, as an app sees it: its runes, live, and its result."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard

from actors.agent.runes import Spawning
from actors.errors import Crashed, Dead, Unanswered
from actors.scheduling.edge import run
from actors.session.messages import (
    Await,
    Ended,
    Interrupt,
    Refusal,
    ended,
    is_handed_over,
)
from actors.session.queue import message_entity
from actors.session.runes import InputRefused
from actors.turn import runes as turns
from runefold import checks
from runefold.observe.filters import wanted
from runefold.observe.following import Following
from runefold.observe.held_up import NEWS as HUMAN_NEWS
from runefold.observe.held_up import HeldUp, held_up
from runefold.observe.spending import Spent
from runelog.errors import Refused
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Generator, Iterator

    from actors.process.process import Answer
    from runefold.core import Core
    from runefold.observe.filters import Wanted
    from runefold.observe.session_list import Approval
    from runelog.rune import Envelope, Rune, Visibility

_END_KINDS: Final = frozenset({"turn.completed", "turn.interrupted", "turn.error"})
_BEGINNINGS: Final = frozenset({"turn.started", "session.input_refused"})
_NEWS: Final = _END_KINDS | _BEGINNINGS
"""The kinds of runes that say how far a message has come."""


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended; true if it ended well.

    >>> bool(TurnResult("turn_3", "interrupted", "Let me", reason="never mind"))
    False
    """

    turn_id: str
    status: Literal["completed", "interrupted", "error", "waiting", "paused", "suspended"]
    """How it ended; the last three are for `result(until="human")`: it goes on if a human acts."""
    output: str
    """The text of the answer; of a turn that did not complete, the text until then."""
    reason: str = ""
    """Why it was interrupted, what kind of error it was, or what a human has to do."""
    message: str = ""
    """What the error says; of one that waits for a human, what to call."""
    usage: Spent = field(default_factory=Spent)
    """What it was charged with, however it ended, in the units of a `Budget`."""
    approvals: tuple[Approval, ...] = ()
    """Of one that waits for a human: the calls that do."""

    def __bool__(self) -> bool:
        """Return True if it ended well."""
        return self.status == "completed"


class TurnHandle:
    """What a turn is, however its callers wait."""

    def __init__(
        self,
        core: Core,
        conversation: str,
        message_id: str,
        after: int,
        end: Answer | None = None,
    ) -> None:
        """Refer to the turn of a message; its runes come behind event `after`.

        `end` is what its session has promised to answer when it ends, if it has.
        """
        self._inside = core
        self.conversation = conversation
        self.message_id = message_id
        self._after = after
        self._fresh = end is not None and after > 0
        self._end_told = end
        self._id = ""
        self._has_ended = False

    @property
    def _core(self) -> Core:
        """The inside of the runtime; `Forked` in a forked child, before anything is waited for."""
        self._inside.home.check()
        return self._inside

    def __repr__(self) -> str:
        """Show which turn of which conversation it is."""
        name = self._id or f"of {self.message_id}"
        return f"<{type(self).__name__} {name} of {self.conversation}>"

    def _find(self) -> str | None:
        """Return the turn's id, as the log has it."""
        if not self._has_ended:
            for envelope in self._story():
                if isinstance(rune := envelope.payload, turns.Started):
                    self._id = rune.turn_id
        return self._id or None

    def _story(self) -> Iterator[Envelope]:
        """Yield the message's runes: accepted, refused, or its turn started."""
        entity = message_entity(self.message_id)
        return self._core.log.stream(self.conversation, entity)

    # -- waiting ------------------------------------------------------------------------------

    async def _unanswered(self, core: Core, timeout: float | None) -> Unanswered:
        held = await core.read(lambda: held_up(core.log, self.conversation, self.message_id))
        why = "" if held is None else f"{held.reason}, with {held.way_out}; "
        return Unanswered(
            f"{self!r} has not ended within {timeout} s: {why}it goes on, and can be asked again"
        )

    async def _until_human(self, core: Core, timeout: float | None) -> TurnResult | None:
        """Wait until a human has to act, and return what to do; None if the turn ended before."""

        def look() -> Ended | Refusal | HeldUp | None:
            held = held_up(core.log, self.conversation, self.message_id)
            return self._ended() or held

        kinds = _NEWS | HUMAN_NEWS
        found = await core.wait_until(self.conversation, kinds, look, timeout)
        if found is None:
            raise await self._unanswered(core, timeout)
        if not isinstance(found, HeldUp):
            return None
        how, turn_id, reason, way_out, approvals = found
        return TurnResult(turn_id, how, "", reason, way_out, approvals=approvals)

    async def _told(
        self, core: Core, timeout: float | None, known: Callable[[], object]
    ) -> TurnResult:
        """Ask the session how the turn ended, unless that is `known`.

        The crash kit notes here what an app is told; results that come from the log pass here too.
        """
        found = await core.ask(
            self.conversation,
            Await(self.message_id),
            timeout,
            before=known,
            promised=self._end_told,
        )
        match found:
            case Ended(turn_id, rune):
                self._id, self._has_ended = turn_id, True
                return outcome(turn_id, rune)
            case Refusal(message_id, reason):
                msg = f"the message {message_id} never became a turn: {reason}"
                raise Refused(msg)
            case _:
                msg = f"{self!r} has not ended"
                raise Unanswered(msg)

    def _known(self) -> Ended | Refusal | None:
        """Return how it ended, if that is known without asking; None if it is not."""
        # Of a message that was just sent the session knows more than the log.
        fresh, self._fresh = self._fresh, False
        return None if fresh else self._ended()

    def _ended(self) -> Ended | Refusal | None:
        """Return how it ended, as the log has it; None if it has not."""
        return ended(self._core.log, self.conversation, self.message_id)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        """Wait for the result without holding the event loop up, or a thread."""
        return self._awaited(None).__await__()

    async def _awaited(self, timeout: float | None) -> TurnResult:
        """Wait for the result as a task of an event loop. No actor is woken or asked for that."""
        patience = checks.seconds(timeout, "timeout")
        core = self._core.awaiting
        found: object = None
        try:
            async with asyncio.timeout(patience):
                if self._end_told is not None and await core.edge.wait(self._end_told, None):
                    # If it was put to sleep or crashed, the log will have the end.
                    with contextlib.suppress(Dead, Crashed):
                        found = self._end_told.result()
                if found is None:
                    found = await self._end(core)
        except TimeoutError:
            raise await self._unanswered(core, timeout) from None
        return await self._told(core, None, lambda: found)

    async def _end(self, core: Core) -> Ended | Refusal:
        """Wait until the log has the turn's end."""
        goes_on = core.watch_owner()
        with core.watch.waiter(self.conversation, _NEWS) as waiter:
            # The waiter is there before this look, so an end that comes later wakes it.
            found, turn_id = await core.read(lambda: (self._ended(), self._find()))
            while found is None:
                news = await waiter.news(core.look_every)
                if not news:
                    goes_on()
                for envelope in news:
                    match envelope.payload:
                        case turns.Started(message_id=self.message_id) as rune:
                            turn_id = self._id = rune.turn_id
                        case InputRefused(message_id=self.message_id, reason=reason):
                            found = Refusal(self.message_id, reason)
                        case turns.Completed() | turns.Interrupted() | turns.Error() as rune:
                            if rune.turn_id == turn_id and not is_handed_over(rune):
                                found = Ended(rune.turn_id, rune)
            return found

    async def _interrupt(self, reason: str) -> None:
        """Stop the turn, if the message has one yet, and no other."""
        core = self._core
        if (turn_id := await core.read(self._find)) is not None:
            await core.ask(self.conversation, Interrupt(reason, (turn_id,)))

    # -- live ---------------------------------------------------------------------------------

    def _runes(
        self,
        kinds: Collection[str] | None,
        entities: Collection[str] | None,
        visibility: Visibility | None,
        *,
        children: bool,
    ) -> TurnRunes:
        asked = wanted(kinds, entities, visibility)
        # Besides what is asked for, only what tells which turn it is and when that is over.
        seen = None if kinds is None else _NEWS.union(kinds)
        return TurnRunes(self._core, self, self._after, seen, asked, children=children)


class Turn(TurnHandle):
    """A message that was accepted, and the turn that it becomes.

    >>> import tempfile
    >>> from runefold import AgentSpec, Runtime
    >>> from runefold.providers import Scripted
    >>> with Runtime.open(tempfile.mkdtemp(), providers={"demo": Scripted(["Hello!"])}) as runtime:
    ...     session = runtime.create_session(AgentSpec(role="helper", model="demo"))
    ...     turn = session.send("Hi")
    ...     [rune.kind for rune in turn.runes() if rune.owner == turn.id]
    ['turn.started', 'turn.completed']
    """

    @property
    def id(self) -> str | None:
        """The turn's id, `turn_3`; None while the message waits for the turn before it.

        Of a message that is handed over it is the turn that has it now.
        """
        return self._find()

    def result(
        self, timeout: float | None = None, *, until: Literal["end", "human"] = "end"
    ) -> TurnResult:
        """Wait until the turn has ended, and return how; or until a human has to act.

        With `until="human"` a turn that waits for an approval or an answer, or that stands as its
        session is paused or suspended, is returned at once: `status` says which, `reason` why, and
        `message` what to call.

        Raises `Unanswered` if it takes longer than `timeout` seconds: the turn goes on, and you can
        ask again. Raises `Refused` if the message never became a turn.
        """
        patience = checks.seconds(timeout, "timeout")
        self._core.scheduler.check_may_block("await turn")
        checks.choice(until, "until", ("end", "human"))
        if until == "human":
            held = run(self._until_human(self._core, patience))
            if held is not None:
                return held
        try:
            return run(self._told(self._core, patience, self._known))
        except Unanswered:
            raise run(self._unanswered(self._core, timeout)) from None

    def runes(
        self,
        kinds: Collection[str] | None = None,
        *,
        entities: Collection[str] | None = None,
        visibility: Visibility | None = None,
        children: bool = False,
    ) -> TurnRunes:
        """Return the runes of this turn, as they are committed, to iterate over until its end.

        Use `for` or `async for`. The filters are those of `Session.runes`. With `children`, those
        of the turns of agents that are asked in this one come as well; `name_of(rune)` of what is
        returned names the agent of each.
        """
        return self._runes(kinds, entities, visibility, children=children)


class _Sieve:
    """Tells the runes of a turn from others of its conversation."""

    def __init__(self, message_id: str, asked: Wanted, cursor: int, *, children: bool) -> None:
        self._message_id = message_id
        self._children: set[str] | None = set() if children else None
        """The turns of agents that are asked, if they are wanted."""
        self._wanted = asked
        self.cursor = cursor
        self._turn_id = ""
        self.is_over = False

    def lets_through(self, item: Envelope | Gap) -> TypeGuard[Envelope]:
        """Take the next item; return True if it is asked for."""
        if isinstance(item, Gap):
            self.cursor = item.last
            return False
        self.cursor = item.event_id
        rune = item.payload if item.kind in _BEGINNINGS else None
        if isinstance(rune, turns.Started) and rune.message_id == self._message_id:
            # The first one, or that of the agent it was handed over to.
            self._turn_id = rune.turn_id
        elif isinstance(rune, InputRefused) and rune.message_id == self._message_id:
            self.is_over = True
        asked = self._children
        if asked is not None and isinstance(rune, turns.Started) and rune.asked_in:
            asked |= {rune.turn_id} if rune.asked_in in {self._turn_id, *asked} else set()
        if not self._turn_id or item.turn != self._turn_id:
            return asked is not None and item.turn in asked and self._wanted.takes(item)
        if item.owner == self._turn_id and item.kind in _END_KINDS:
            self.is_over = not is_handed_over(item.payload)
        return self._wanted.takes(item)


class TurnRunes:
    """The runes of a turn, for `for` and for `async for`."""

    def __init__(
        self,
        core: Core,
        turn: TurnHandle,
        after: int,
        kinds: Collection[str] | None,
        asked: Wanted,
        *,
        children: bool = False,
    ) -> None:
        """Begin at the turn's beginning, each time."""
        self._children = children
        self._names: dict[str, str] = {}
        self._core = core
        self._turn = turn
        self._after = after
        self._kinds = kinds
        self._wanted = asked

    def _begin(self) -> tuple[_Sieve, Callable[[], bool]]:
        sieve = _Sieve(self._turn.message_id, self._wanted, self._after, children=self._children)
        return sieve, self._core.watch_owner()

    def name_of(self, rune: Envelope) -> str:
        """Return what the agent is called that a rune is of, whether it lives or not."""
        agent = rune.agent or ""
        if agent not in self._names:
            stream = self._core.log.stream(rune.conversation, agent) if agent else iter(())
            born = next((each.payload for each in stream), None)
            self._names[agent] = agent
            if isinstance(born, Spawning):
                self._names[agent] = born.name or born.role
        return self._names[agent]

    def _live(self, after: int) -> Following:
        conversation, wait = self._turn.conversation, self._core.look_every
        return Following(self._core, conversation, after, kinds=self._kinds, wait=wait)

    def __iter__(self) -> Iterator[Envelope]:
        """Yield them as they come."""
        sieve, goes_on = self._begin()
        while not sieve.is_over:
            for item in self._live(sieve.cursor):
                if sieve.lets_through(item):
                    yield item
                if sieve.is_over:
                    return
            if not goes_on():
                return

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        """Yield them as they come, without holding the event loop up, or a thread."""
        sieve, goes_on = self._begin()
        while not sieve.is_over:
            async for item in self._live(sieve.cursor):
                if sieve.lets_through(item):
                    yield item
                if sieve.is_over:
                    return
            if not goes_on():
                return


def outcome(turn_id: str, rune: Rune) -> TurnResult:
    """Return how a turn ended, in an app's words."""
    match rune:
        case turns.Completed(final_output=text, usage=usage):
            return TurnResult(turn_id, "completed", text, usage=Spent.of(usage))
        case turns.Interrupted(reason=reason, partial_output=text, usage=usage):
            return TurnResult(turn_id, "interrupted", text, reason, usage=Spent.of(usage))
        case turns.Error(error_type=kind, message=message, partial_output=text, usage=usage):
            return TurnResult(turn_id, "error", text, kind, message, Spent.of(usage))
        case _:
            msg = f"{turn_id} has not ended"
            raise AssertionError(msg)
