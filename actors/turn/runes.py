"""What happens in a turn. Its fragments of text belong to its model calls."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from actors.budget.runes import Amounts, Reserves, Settles
from actors.entity import Moved
from actors.tool.runes import Status
from runelog.rune import Rune

NAME: Final = "turn"
"""The name of the kind."""
OnCrash: TypeAlias = Literal["retry", "interrupt"]
"""What becomes of a turn whose model call was cut off by a crash."""

RETRIES = 3
"""How often a model is asked again in one round unless the agent says otherwise."""
MAX_ROUNDS = 50
"""How many rounds a turn may have unless the agent says otherwise."""


class Summary(msgspec.Struct, frozen=True):
    """How one call came out."""

    call_id: str
    status: Status


class Started(Moved, frozen=True, tag="turn.started"):
    """An agent takes a message up: the birth of the turn."""

    turn_id: str
    agent_id: str
    input: str
    message_id: str = ""
    deadline: int | None = None
    """When it must be over, in nanoseconds; None if it may take as long as it likes."""
    model: str = ""
    retries: int = RETRIES
    """How often the model is asked again in one round."""
    on_crash: OnCrash = "retry"
    max_rounds: int = MAX_ROUNDS
    """How often the model may answer: if its last answer asks for tools, the turn has failed."""
    timed: bool = False
    """Whether a budget limits the time of its agent's turns: then it is counted."""
    asked_in: str = ""
    """The turn in which another agent asks it, by the call that its message is named after."""
    continues: str = ""
    """The turn that handed this message over, if one did."""
    catches_up: bool = False
    """Whether its agent took over since its last turn: it is shown what others said till then."""


class ToolCallsReceived(Moved, frozen=True, tag="turn.tool_calls_received"):
    """The model asked for these; their births are in the same append."""

    call_ids: tuple[str, ...]
    round: int


class ToolsFinished(Moved, frozen=True, tag="turn.tools_finished"):
    """Every call of the round has its result; the model may be asked again."""

    results: tuple[Summary, ...]


class Completed(Moved, frozen=True, tag="turn.completed"):
    """The model had nothing more to ask for, or another agent goes on with the message."""

    final_output: str
    usage: Amounts = Amounts()
    """What its calls and its time were charged with, as the budget has it."""
    turn_id: str = ""
    handed_to: str = ""
    """The agent that answers the message in a turn of its own, if this one handed it over."""


class Interrupted(Moved, frozen=True, tag="turn.interrupted"):
    """It was stopped; what there is stays."""

    reason: str
    partial_output: str = ""
    turn_id: str = ""
    usage: Amounts = Amounts()


class Error(Moved, frozen=True, tag="turn.error"):
    """It could not go on; what there is stays."""

    error_type: str
    message: str = ""
    partial_output: str = ""
    turn_id: str = ""
    usage: Amounts = Amounts()


class StreamRestarted(Moved, frozen=True, tag="turn.stream_restarted"):
    """The model is asked once more in this round."""

    round: int
    attempt: int
    """The attempt that follows."""
    reason: str
    dropped: str
    """The model call whose fragments do not count."""


class TimeReserved(Reserves, frozen=True, tag="turn.time_reserved"):
    """A slice of its wall time is set aside; it passes by itself."""

    slice_id: str
    until: int
    """When all of it will have passed, in nanoseconds."""
    account: str
    reserved: Amounts

    @property
    def key(self) -> str:
        """The name of the slice."""
        return self.slice_id


class TimeSettled(Settles, frozen=True, tag="turn.time_settled"):
    """So much of a slice has passed as is charged."""

    slice_id: str
    charged: Amounts
    estimated: bool = False
    """It is not known how much of it had passed: it counts whole."""

    @property
    def key(self) -> str:
        """The name of the slice."""
        return self.slice_id


class HeldUp(Rune, frozen=True, tag="turn.held_up"):
    """It waits for nothing but a human, and so does the turn in which it was asked."""

    turn_id: str
    call_id: str
    """The call by which it was asked."""
    asked_in: str
    """The turn that this call is of."""


class WentOn(Rune, frozen=True, tag="turn.went_on"):
    """It waits for a human no longer. One that is stopped meanwhile need not say so: it ends."""

    turn_id: str
    call_id: str
    asked_in: str
