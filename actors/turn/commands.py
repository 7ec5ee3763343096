"""What a turn can be told, and what can be due in it."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from actors.budget.runes import Amounts, Exhausted, Warning  # noqa: A004 -- named as its kind
from actors.commands import Recover, TimeUp
from actors.entity import Actor
from actors.tool import runes as tool

# -- commands ----------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True):
    """Make the model call that is due, or end the turn if it cannot be afforded."""

    model_call_id: str
    upto: int
    prompt: str
    reserved: Amounts
    first_byte_by: int
    turn_by: int | None = None
    """When the turn must be over if its time begins now; counts only if a human was waited for."""
    exhausted: Exhausted | None = None
    """What the budget says against it; None if it fits."""
    warnings: tuple[Warning, ...] = ()
    """What the budget says to it all the same."""
    now: int | None = None
    sent: int = 0
    """About how many tokens of what is reserved are for what is sent."""
    text: str = ""
    """What the attempt before it had said: kept if this one cannot be afforded."""


class TakeCalls(msgspec.Struct, frozen=True):
    """Have the calls made that the model asked for: all of them, in its order."""

    plans: tuple[tool.Called, ...]
    """Their births. Those that are not safe in parallel have `hold`."""


class Complete(msgspec.Struct, frozen=True):
    """End well, with the model's last words."""

    final_output: str
    now: int | None = None


class Interrupt(msgspec.Struct, frozen=True):
    """Stop and keep what there is. Model and tools have to be cancelled first."""

    reason: str
    partial_output: str = ""
    actor: Actor = "user"
    now: int | None = None


class Fail(msgspec.Struct, frozen=True):
    """Give up and keep what there is. Model and tools have to be cancelled first."""

    error_type: str
    message: str = ""
    partial_output: str = ""
    now: int | None = None


class Run(msgspec.Struct, frozen=True):
    """Let the clock run: so much time is to be set aside, unless the budget has none."""

    now: int
    length: int
    exhausted: Exhausted | None = None
    """What the budget says against it; None if it fits."""


class Stand(msgspec.Struct, frozen=True):
    """Let the clock stand, if a human is waited for."""

    now: int
    anyhow: bool = False
    """Also if the turn works: the process ends in order, and knows what time it is."""


# -- both: due, and decided in the append that made it so -----------------------------------------


class HoldUp(msgspec.Struct, frozen=True):
    """Only a human is waited for: whoever asked for this turn has to know."""


class GoOn(msgspec.Struct, frozen=True):
    """A human is waited for no longer: whoever asked for this turn has to know."""


# -- effects -----------------------------------------------------------------------------------


class AskModel(msgspec.Struct, frozen=True):
    """The model has to be asked; comes back as `Ask`."""

    model_call_id: str
    round: int
    attempt: int


class EnsureModel(msgspec.Struct, frozen=True):
    """The model call is under way: its actor has to be there."""

    model_call_id: str


class ReceiveCalls(msgspec.Struct, frozen=True):
    """The model asks for tools: each needs a ruling. Comes back as `TakeCalls`."""

    model_call_id: str


class EnsureTool(msgspec.Struct, frozen=True):
    """The tool call is under way: its actor has to be there."""

    call_id: str


class Release(msgspec.Struct, frozen=True):
    """Those before it are done: this call need not hold any longer."""

    call_id: str


class CloseRound(msgspec.Struct, frozen=True):
    """Every call of the round is back, which has to be recorded."""


class RestartStream(msgspec.Struct, frozen=True):
    """The model call failed and may be made again, which has to be recorded."""


class FinishTurn(msgspec.Struct, frozen=True):
    """The answer asks for nothing more: its text has to be fetched. Comes back as `Complete`."""

    model_call_id: str


class FinishEarly(msgspec.Struct, frozen=True):
    """It was stopped: the text there is has to be fetched. Comes back as `Interrupt`."""

    model_call_id: str
    reason: str
    actor: Actor


class GiveUp(msgspec.Struct, frozen=True):
    """It cannot go on: the text there is has to be fetched. Comes back as `Fail`."""

    model_call_id: str
    error_type: str
    message: str


class StartClock(msgspec.Struct, frozen=True):
    """The turn works and no time is set aside for it. Comes back as `Run`."""

    number: int


class Tick(msgspec.Struct, frozen=True):
    """Time passes, and not only here: after a crash it is in doubt how much had passed."""

    key: str


class StopClock(msgspec.Struct, frozen=True):
    """A human is waited for: that is not the turn's time. Comes back as `Stand`."""

    key: str


class Halt(msgspec.Struct, frozen=True):
    """What is under way has to be cancelled, with this reason: there is no time for it."""

    reason: str


TimeCommand: TypeAlias = Recover | TimeUp | Run | Stand | HoldUp | GoOn
Command: TypeAlias = (
    Ask | TakeCalls | Complete | Interrupt | Fail | CloseRound | RestartStream | TimeCommand
)
ClockEffect: TypeAlias = StartClock | Tick | StopClock | Halt
Effect: TypeAlias = (
    AskModel
    | EnsureModel
    | ReceiveCalls
    | EnsureTool
    | Release
    | CloseRound
    | RestartStream
    | FinishTurn
    | FinishEarly
    | GiveUp
    | HoldUp
    | GoOn
    | ClockEffect
)
Ending: TypeAlias = FinishTurn | FinishEarly | GiveUp

INTERNAL: Final[frozenset[type]] = frozenset({CloseRound, RestartStream, HoldUp, GoOn})
EXTERNAL: Final[frozenset[type]] = frozenset({Tick, StopClock})
