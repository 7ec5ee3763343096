"""The law of an approval: a state machine, not a boolean.

requested ── awaiting ──> awaiting_human ──┬── approved ──> approved ── executed ──> executed
                               │           │                   │
                               │           └── rejected ──> rejected ── aborted ──> aborted
                               │                               │                      ^
                               └── aborted ────────────────────┴── aborted ───────────┘

It has no actor. A tool call that asks decides its runes along with its own and in the same append;
the table here says which of them may follow which. An approval that another machine asks for is
answered here: its asker observes what becomes of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Never, TypeAlias, assert_never

import msgspec

from actors.approval.answers import Answered, Question, judge
from actors.approval.runes import Aborted, Approved, Awaiting, Executed, Rejected, Requested
from actors.entity import ROOT, Routing
from actors.questions import Conclude
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Table

if TYPE_CHECKING:
    from runelog.rune import Rune

NAME: Final = "approval"


class Phase(StrEnum):
    """What an approval can be."""

    REQUESTED = "requested"
    AWAITING_HUMAN = "awaiting_human"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXECUTED = "executed"
    ABORTED = "aborted"


TABLE: Final[Table[Phase]] = {
    Phase.REQUESTED: {Awaiting: Phase.AWAITING_HUMAN},
    Phase.AWAITING_HUMAN: {
        Approved: Phase.APPROVED,
        Rejected: Phase.REJECTED,
        Aborted: Phase.ABORTED,
    },
    Phase.APPROVED: {Executed: Phase.EXECUTED, Aborted: Phase.ABORTED},
    Phase.REJECTED: {Aborted: Phase.ABORTED},
    Phase.EXECUTED: {},
    Phase.ABORTED: {},
}


_UNASKED: Final = Requested(approval_id="", asker="", tools_hash="", reason="", deadline=0)


class State(msgspec.Struct, frozen=True):
    """What an approval's runes add up to: all that is shown to the human who is asked."""

    phase: Phase = Phase.REQUESTED
    asked: Requested = _UNASKED
    approver: str = ""
    """Who answered."""
    outcome: str = ""
    """Why it was rejected or aborted: the human's own words, if there are any."""


class Answer(msgspec.Struct, frozen=True):
    """A human says yes or no."""

    verdict: Literal["approve", "deny"]
    approver: str
    now: int
    reason: str = ""
    process: str = ""


Command: TypeAlias = Answer | Conclude
Effect: TypeAlias = Never


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    approval_id = state.asked.approval_id
    match command:
        case Answer():
            return _answered(state, command)
        case Conclude(reason) if state.phase in {Phase.AWAITING_HUMAN, Phase.REJECTED}:
            return [Aborted(approval_id=approval_id, reason=state.outcome or reason)]
        case Conclude() if state.phase is Phase.APPROVED:
            return [Executed(approval_id=approval_id)]
        case Conclude():
            return []
        case _:
            assert_never(command)


_SAID: Final = {
    Phase.APPROVED: "approve",
    Phase.EXECUTED: "approve",
    Phase.REJECTED: "deny",
}


def _answered(state: State, word: Answer) -> list[Rune]:
    approval_id = state.asked.approval_id
    # What came of one that was aborted since is not known any more: it was taken once.
    said = _SAID.get(state.phase, word.verdict)
    last = Answered(approval_id, state.approver, said) if state.approver else None
    waits = state.phase is Phase.AWAITING_HUMAN
    question = Question(approval_id, waits, state.asked.deadline, last)
    why = judge(question, Answered(approval_id, word.approver, word.verdict), word.now)
    if why is None:
        return []
    if why:
        asker = state.asked.asker
        msg = f"{approval_id} is {state.phase.value}: {why}; {asker} takes no answer to it any more"
        raise Refused(msg)
    if word.verdict == "approve":
        return [
            Approved(
                approval_id=approval_id, approver=word.approver, process=word.process, actor="user"
            )
        ]
    return [
        Rejected(
            approval_id=approval_id,
            approver=word.approver,
            reason=word.reason,
            process=word.process,
            actor="user",
        )
    ]


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    replace = msgspec.structs.replace
    match rune:
        case Requested():
            return replace(state, asked=rune)
        case Approved(_, approver):
            return replace(state, approver=approver)
        case Rejected(_, approver, reason):
            return replace(state, approver=approver, outcome=reason)
        case Aborted(_, reason):
            return replace(state, outcome=state.outcome or reason)
        case _:
            return state


def due(_state: State) -> list[Effect]:
    """Ask for nothing: its asker sees to it, has the same deadline, and withdraws it."""
    return []


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune of an approval belongs: the root lists what waits for a human."""
    asked = rune if isinstance(rune, Requested) else state.asked
    observers = (asked.asker, ROOT) if asked.observed else (ROOT,)
    match rune:
        case (
            Requested(approval_id)
            | Awaiting(approval_id)
            | Approved(approval_id)
            | Rejected(approval_id)
            | Executed(approval_id)
            | Aborted(approval_id)
        ):
            return Routing(approval_id, observers)
        case _:
            msg = f"{type(rune).__name__} is no rune of an approval"
            raise AssertionError(msg)


def context(state: State) -> tuple[str | None, str | None]:
    """Return the agent whose model asked for the call."""
    return state.asked.agent_id or None, None


LIFECYCLE: Final = Lifecycle(
    name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due, version=3
)
