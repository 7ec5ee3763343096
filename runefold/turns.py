"""A turn, as an app sees it: what it said, live, and how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from actors.budget.runes import Amounts
from actors.errors import Unanswered
from actors.session.actor import Await, Ended, Refusal, ended
from actors.session.lifecycle import message_entity
from actors.session.runes import InputRefused
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Generator, Iterator

    from runefold.runtime import Runtime
    from runelog.rune import Envelope, Rune

_END_KINDS: Final = frozenset({"turn.completed", "turn.interrupted", "turn.error"})


@dataclass(frozen=True)
class TurnResult:
    """How a turn ended; true if it ended well.

    >>> bool(TurnResult("turn_3", "interrupted", "Let me", reason="never mind"))
    False
    """

    turn_id: str
    status: Literal["completed", "interrupted", "error"]
    output: str
    """What was said: all of it, or what there was by then."""
    reason: str = ""
    """Why it was interrupted, or what kind of error it was."""
    message: str = ""
    usage: Amounts = field(default_factory=Amounts)

    def __bool__(self) -> bool:
        """Tell whether it ended well."""
        return self.status == "completed"


class Turn:
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

    def __init__(self, runtime: Runtime, conversation: str, message_id: str, after: int) -> None:
        """Refer to the turn of a message; its runes come behind event `after`."""
        self._runtime = runtime
        self.conversation = conversation
        self.message_id = message_id
        self._after = after
        self._fresh = after > 0
        self._id = ""

    def __repr__(self) -> str:
        """Show which turn of which conversation it is."""
        return f"<Turn {self._id or 'of ' + self.message_id} of {self.conversation}>"

    @property
    def id(self) -> str | None:
        """The turn's id, `turn_3`; None while the message waits for the turn before it."""
        if not self._id:
            for envelope in self._story():
                if isinstance(rune := envelope.payload, turns.Started):
                    self._id = rune.turn_id
        return self._id or None

    def _story(self) -> Iterator[Envelope]:
        """Yield what the log has of the message: accepted, refused, taken up."""
        entity = message_entity(self.message_id)
        return self._runtime.log.stream(self.conversation, entity)

    # -- waiting ------------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> TurnResult:
        """Wait until the turn has ended, and return how.

        Raises `Unanswered` if it takes longer than `timeout` seconds: the turn goes on, and can be
        asked again. Raises `Refused` if the message never became a turn.
        """
        # Of a message that was just sent the session knows more than the log.
        found = (None if self._fresh else self._ended()) or self._runtime.ask(
            self.conversation, Await(self.message_id), timeout, before=self._ended
        )
        self._fresh = False
        match found:
            case Ended(turn_id, rune):
                self._id = turn_id
                return outcome(turn_id, rune)
            case Refusal(message_id, reason):
                msg = f"the message {message_id} never became a turn: {reason}"
                raise Refused(msg)
            case _:
                msg = f"{self!r} has not ended"
                raise Unanswered(msg)

    def _ended(self) -> Ended | Refusal | None:
        """Return how it ended, as the log has it; None if it has not."""
        return ended(self._runtime.log, self.conversation, self.message_id)

    def __await__(self) -> Generator[Any, None, TurnResult]:
        """Wait for the result without holding the event loop up."""
        return asyncio.to_thread(self.result).__await__()

    # -- live ---------------------------------------------------------------------------------

    def runes(self, kinds: Collection[str] | None = None) -> TurnRunes:
        """Give the runes of this turn as they are committed; ends with the turn.

        To iterate over with `for`, or with `async for`.
        """
        return TurnRunes(self, kinds)

    def follow(self, kinds: Collection[str] | None) -> Iterator[Envelope]:
        """Yield the turn's runes, live."""
        for item in self._runtime.log.follow(self.conversation, self._after):
            if isinstance(item, Gap):
                continue
            rune: Rune | None = None
            if not self._id:
                rune = item.payload
                if isinstance(rune, turns.Started) and rune.message_id == self.message_id:
                    self._id = rune.turn_id
                elif isinstance(rune, InputRefused) and rune.message_id == self.message_id:
                    return
            if self._id and item.turn == self._id:
                if kinds is None or item.kind in kinds:
                    yield item
                if item.owner == self._id and item.kind in _END_KINDS:
                    return


class TurnRunes:
    """The runes of a turn, for `for` and for `async for`."""

    def __init__(self, turn: Turn, kinds: Collection[str] | None) -> None:
        """Begin at the turn's beginning, each time."""
        self._turn = turn
        self._kinds = kinds

    def __iter__(self) -> Iterator[Envelope]:
        """Yield them as they come."""
        return self._turn.follow(self._kinds)

    async def __aiter__(self) -> AsyncIterator[Envelope]:
        """Yield them as they come, without holding the event loop up."""
        runes = self._turn.follow(self._kinds)
        while (rune := await asyncio.to_thread(next, runes, None)) is not None:
            yield rune


def outcome(turn_id: str, rune: Rune) -> TurnResult:
    """Return how a turn ended, in an app's words."""
    match rune:
        case turns.Completed(final_output=text, usage=usage):
            return TurnResult(turn_id, "completed", text, usage=usage)
        case turns.Interrupted(reason=reason, partial_output=text):
            return TurnResult(turn_id, "interrupted", text, reason)
        case turns.Error(error_type=kind, message=message, partial_output=text):
            return TurnResult(turn_id, "error", text, kind, message)
        case _:
            msg = f"{turn_id} has not ended"
            raise AssertionError(msg)
