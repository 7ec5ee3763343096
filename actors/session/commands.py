"""What can be asked of a session, and what has to be done while it lives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import msgspec

from actors import command as public
from actors.agent.runes import AgentConfig
from actors.budget.runes import Amounts
from actors.children import Adopt as Adopt  # noqa: PLC0414 -- the session's law takes these too
from actors.children import EnsureChild as EnsureChild  # noqa: PLC0414
from actors.children import NoteRestart as NoteRestart  # noqa: PLC0414
from actors.children import Reopen as Reopen  # noqa: PLC0414
from actors.children import Rest as Rest  # noqa: PLC0414
from actors.children import StopChild as StopChild  # noqa: PLC0414
from actors.command import Reason, about
from actors.entity import Actor
from actors.session.runes import BudgetInfo, Mode, SessionConfig
from runelog.rune import check_id

if TYPE_CHECKING:
    from actors.command import Owner


class Spawn(msgspec.Struct, frozen=True):
    """Bring an agent into the world."""

    agent_id: str
    role: str
    model: str
    parent_id: str | None = None
    """The agent that spawns it; None is the root, or makes it the root if there is none."""
    config: AgentConfig = AgentConfig()
    known: bool = False
    """The log has an agent of this id; unless it lives, it is gone for good."""


class Create(msgspec.Struct, frozen=True):
    """Begin a conversation with its root agent."""

    conversation_id: str
    root: Spawn
    config: SessionConfig = SessionConfig()


class Accept(msgspec.Struct, frozen=True):
    """Keep a message, and take it up at once if its agent is free."""

    message_id: str
    content: str
    now: int
    mode: Mode = "queue"
    to: str = ""
    """The agent it is for; empty for whoever speaks for the session."""
    known: bool = False
    """The log has a message of this id, however old: it is sent again."""
    begin: bool = True
    """Somebody is there to run its turn; if not, it waits even for an agent that is free."""
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


class Withdraw(msgspec.Struct, frozen=True):
    """Take questions back that still wait: all that were asked in a turn, or one."""

    reason: str
    turn_id: str = ""
    message_id: str = ""


class Begin(msgspec.Struct, frozen=True):
    """Make a turn of a message that waits; the answer to `BeginTurn`."""

    message_id: str
    now: int


class Pause(public.Command, frozen=True):
    """Begin no more turns in a session until it is resumed. Messages are still accepted.

    Refused if the session is suspended (unsuspend it first) or closed, and if it is paused and an
    earlier pause lets turns finish that are to be interrupted now (interrupt them).
    """

    done: ClassVar[str] = "paused"

    reason: Reason = ""
    finish: Annotated[
        bool,
        about(
            "Let running turns finish; if false, interrupt them.",
            off=("--interrupt", "Stop running turns; without it they finish."),
        ),
    ] = True


class Resume(public.Command, frozen=True):
    """Go on with a session that was paused.

    Refused if the session is suspended (unsuspend it first) or closed.
    """

    done: ClassVar[str] = "resumed"


class Replenish(msgspec.Struct, frozen=True):
    """Raise the limits of the session's budget, or of an agent's."""

    request_id: str
    scope: str
    amounts: Amounts
    actor: Actor = "user"


class Close(public.Command, frozen=True):
    """Bring a session to its end: nothing more is accepted, what runs is stopped.

    Never refused; a session that is closed stays closed.
    """

    done: ClassVar[str] = "closed"

    reason: Reason = ""

    def carry_out(self, owner: Owner) -> None:
        """Return once everything in the session has ended."""
        owner.order(self)
        owner.wait_for("session.closed")

    def told(self, target: str, answer: object, *, later: bool) -> str:
        """Report that it is closed, or will be."""
        del answer
        return f"{'closing' if later else 'closed'} {target}"


class Archive(public.Command, frozen=True):
    """Move a closed session to cold storage: still listed and readable.

    Refused if the session is not closed: close it first.
    """

    done: ClassVar[str] = "archived"
    offline: ClassVar[Literal["no"]] = "no"
    way_out: ClassVar[str] = "use `runefold log archive`"

    def carry_out(self, owner: Owner) -> None:
        """Record it, then move the runes."""
        owner.order(self)
        owner.runtime.archive(owner.conversation)


class HandOver(public.Command, frozen=True):
    """Let another agent take the messages that name none.

    Refused if the session has no such agent, or is closed.
    """

    done: ClassVar[str] = "handed over"

    to: Annotated[str, about("The id of the agent that takes over.", metavar="AGENT")]

    def check(self) -> None:
        """Refuse what is no id."""
        check_id(self.to, "agent id")


class AgentGone(msgspec.Struct, frozen=True):
    """A supervisor gave an agent up: its actor cannot write its own end."""

    agent_id: str
    error: str


# -- due, and commands at once: decided in the append that made them due ---------------------------


class Activate(msgspec.Struct, frozen=True):
    """The root agent is ready, or will never be: turns may begin, or somebody must look."""

    trigger: str


class Suspend(msgspec.Struct, frozen=True):
    """Begin nothing until somebody has seen to the reason. Anybody may ask for it too."""

    reason: str
    budget_info: BudgetInfo | None = None
    actor: Actor = "system"


class Unsuspend(msgspec.Struct, frozen=True):
    """Somebody has seen to it: go on."""

    reason: str = ""
    actor: Actor = "user"


class RefuseInputs(msgspec.Struct, frozen=True):
    """Messages wait that nobody will take up: each is told so."""


class CloseBudget(msgspec.Struct, frozen=True):
    """An agent is gone and its last turn has ended: its account is not needed any more."""

    agent_id: str


class Finish(msgspec.Struct, frozen=True):
    """Nobody is left and nothing is open: the session is closed."""


# -- due, and done by the session's actor ----------------------------------------------------------


class EnsureAgent(msgspec.Struct, frozen=True):
    """The agent's actor has to be there."""

    agent_id: str


class BeginTurn(msgspec.Struct, frozen=True):
    """A message can be taken up: ask for `Begin` with the time it is."""

    agent_id: str
    message_id: str


class SteerTurn(msgspec.Struct, frozen=True):
    """The turn has to stop, with reason `steer`: a message waits that takes it over."""

    turn_id: str


class InterruptTurn(msgspec.Struct, frozen=True):
    """The turn has to stop. Its actor is started first if it is not there."""

    turn_id: str
    reason: str
    actor: Actor = "user"


class TerminateAgent(msgspec.Struct, frozen=True):
    """The agent has to terminate. Its actor is started first if it is not there."""

    agent_id: str
    reason: str


Internal: TypeAlias = Activate | Suspend | Unsuspend | RefuseInputs | CloseBudget | Finish
MessageCommand: TypeAlias = Accept | Withdraw | Begin | RefuseInputs
AgentCommand: TypeAlias = Create | Spawn | HandOver | AgentGone | CloseBudget | Adopt
HaltCommand: TypeAlias = Pause | Resume | Suspend | Unsuspend | Replenish
CourseCommand: TypeAlias = Activate | Close | Finish | Archive
NoteCommand: TypeAlias = Reopen | Rest | NoteRestart
Command: TypeAlias = MessageCommand | AgentCommand | HaltCommand | CourseCommand | NoteCommand
Effect: TypeAlias = (
    Internal
    | EnsureChild
    | StopChild
    | EnsureAgent
    | BeginTurn
    | SteerTurn
    | InterruptTurn
    | TerminateAgent
)
