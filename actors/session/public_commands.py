"""The public commands of a session. Its law decides on most of them as they are.

A message gets its id first, and an interrupt waits for what it stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from actors.budget.runes import Amounts
from actors.errors import Unanswered
from actors.public_command import Command, Count, Quantity, Reason, about
from actors.session import messages
from actors.session.hand_over import TakeOver
from actors.session.queue import Accept, message_entity
from actors.session.runes import Mode, ToolTraffic
from actors.turn.runes import Interrupted
from actors.units import COST, SECOND
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from msgspec import Meta

    from actors.public_command import CommandTarget, DecisionInput
    from actors.session.lifecycle import State


class Send(Command, frozen=True):
    """Send a message to a session. It is on disk when this returns.

    Its turn begins as soon as its agent is free. Refused if the message is empty, if the session is
    closed, if it has no such agent, if the message id was used for another message, and if 1,000
    messages wait already (send it again later).
    """

    done: ClassVar[str] = "accepted"

    content: Annotated[str, about("The message; - for standard input.", metavar="TEXT", stdin=True)]
    mode: Annotated[Mode, about("Wait for the turn that runs now, or take over from it.")] = "queue"
    to: Annotated[str, about("The name or id of the agent that it is for.", metavar="AGENT")] = ""
    message_id: Annotated[
        str | None, about("Sent again with the same id, it counts once.", metavar="ID")
    ] = None

    def check(self) -> None:
        """Refuse an empty message, and an id that is none."""
        if not self.content.strip():
            # A variable that was not set, or a pipe that broke: an empty message is a mistake.
            msg = "the message is empty: nothing was sent"
            raise Refused(msg)
        if self.message_id is not None:
            check_id(self.message_id, "message id")

    def message(self, target: CommandTarget) -> messages.Send:
        """Return what the session's actor is sent, with an id."""
        own, runtime = self.message_id, target.runtime
        name = runtime.new_id("msg") if own is None else runtime.redactor.value(own)
        check_id(name, "message id")
        return messages.Send(name, self.content, self.mode, self.to, own_id=own is not None)

    async def execute(self, target: CommandTarget) -> dict[str, str]:
        """Answer with the message's id."""
        return {"message_id": (await target.ask(self.message(target))).message_id}

    def law_command(self, given: DecisionInput) -> Accept:
        """Keep it offline: no turn begins whose time would run while no runtime runs it."""
        name = given.new_id("msg") if self.message_id is None else self.message_id
        return Accept(
            message_id=given.check_id(name, "message id"),
            content=self.content,
            now=given.now(),
            mode=self.mode,
            to=self.to,
            earlier=given.birth(message_entity(name)),
            begin=False,
        )

    def offline_answer(self, recorded: Accept) -> dict[str, str]:
        """Answer with the message's id."""
        return {"message_id": recorded.message_id}

    def report(self, entity: str, answer: Any, *, later: bool) -> str:  # noqa: ANN401 -- as above
        """Report the message's id."""
        del entity, later
        return f"accepted {answer['message_id']}"


class Interrupt(Command, frozen=True):
    """Stop the running turns of a session; their output so far is kept.

    Refused if no runtime has the log open and turns are unfinished: they go on when it is opened.
    """

    done: ClassVar[str] = "interrupted"

    reason: Reason = "interrupt"

    async def execute(self, target: CommandTarget) -> dict[str, int]:
        """Answer, once they have ended, with how many turns were stopped."""
        # By their names: asked again after a crash, it does not stop those that began since.
        now: State = await target.ask(messages.Look(), target.timeout)
        if not now.running:
            return {"stopped": 0}
        halt = messages.Interrupt(self.reason, tuple(each.turn_id for each in now.running))
        await target.ask(halt, target.timeout)
        stopped = [await _is_stopped(target, each.message_id, halt) for each in now.running]
        return {"stopped": sum(stopped)}

    def law_command(self, given: DecisionInput) -> None:
        """Refuse it offline if something is unfinished."""
        left = len(given.state.running)
        if left:
            msg = (
                f"no runtime has the log open: {_turns(left)} of {given.conversation} will go on "
                "when it is opened, and can be interrupted then"
            )
            raise Refused(msg)

    def offline_answer(self, recorded: None) -> dict[str, int]:
        """Answer that nothing was running."""
        del recorded
        return {"stopped": 0}

    def report(self, entity: str, answer: Any, *, later: bool) -> str:  # noqa: ANN401 -- as above
        """Report how many turns were stopped."""
        del entity, later
        stopped = answer["stopped"]
        return f"interrupted {_turns(stopped)}" if stopped else "nothing was running"


def _turns(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"


async def _is_stopped(target: CommandTarget, message_id: str, halt: messages.Interrupt) -> bool:
    """Wait until a turn has ended that is to stop; return False if it ended by itself."""
    log, conversation = target.runtime.log, target.conversation
    try:
        how = await target.ask(
            messages.Await(message_id, halt),
            target.timeout,
            lambda: messages.ended(log, conversation, message_id),
        )
    except Unanswered:
        msg = (
            f"{conversation}: the turn of {message_id} has not ended within {target.timeout} s; "
            "it was told to stop, and may still do so"
        )
        raise Unanswered(msg) from None
    return isinstance(how, messages.Ended) and isinstance(how.rune, Interrupted)


class Pause(Command, frozen=True):
    """Pause a session: no turn begins until it is resumed. Messages are still accepted.

    Refused if the session is suspended (unsuspend it first) or closed, and if running turns are to
    be interrupted although an earlier pause lets them finish (interrupt them instead).
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


class Resume(Command, frozen=True):
    """Resume a paused session.

    Refused if the session is suspended (unsuspend it first) or closed.
    """

    done: ClassVar[str] = "resumed"


class Suspend(Command, frozen=True):
    """Suspend a session: no turn begins until a human unsuspends it.

    Refused if the session is paused (resume it first) or closed.
    """

    done: ClassVar[str] = "suspended"

    reason: Reason


class Unsuspend(Command, frozen=True):
    """Resume a suspended session, once the reason was dealt with.

    Refused if the session is paused (resume it first) or closed, and if its root agent is gone.
    """

    done: ClassVar[str] = "unsuspended"

    reason: Reason = ""


def _more(what: str) -> Meta:
    return about(f"So many {what} more.", metavar="N")


class Replenish(Command, frozen=True):
    """Raise the limits of a session's budget; a session suspended for lack of it resumes.

    Refused if it raises nothing, if there is no such agent, and if the session is closed.
    """

    done: ClassVar[str] = "replenished"
    numbered: ClassVar[bool] = True

    agent: Annotated[
        str | None, about("An agent's budget, not the session's.", metavar="AGENT")
    ] = None
    tokens: Annotated[Count, _more("tokens")] = 0
    tool_calls: Annotated[Count, _more("tool calls")] = 0
    wall_seconds: Annotated[Quantity, _more("seconds of running turns")] = 0
    retries: Annotated[Count, _more("retries")] = 0
    sub_calls: Annotated[Count, _more("calls of other agents")] = 0
    cost: Annotated[Quantity, _more("units of cost")] = 0

    def amounts(self) -> Amounts:
        """Return it as it is stored: whole numbers."""
        return Amounts(
            tokens=self.tokens,
            tool_calls=self.tool_calls,
            wall=round(self.wall_seconds * SECOND),
            retries=self.retries,
            sub_calls=self.sub_calls,
            cost=round(self.cost * COST),
        )

    def check(self) -> None:
        """Refuse what raises nothing."""
        if self.amounts() == Amounts():
            msg = "replenish raises nothing: say by how much, such as tokens=10_000"
            raise Refused(msg)

    def report(self, entity: str, answer: object, *, later: bool) -> str:
        """Report whose budget it is."""
        del answer, later
        return f"replenished {self.agent or entity}"


class HandOver(Command, frozen=True):
    """Make another agent the one that answers messages addressed to none.

    It is shown what was said before. Refused if the session has no such agent, or is closed.
    """

    done: ClassVar[str] = "handed over"

    to: Annotated[str, about("The name or id of the agent that takes over.", metavar="AGENT")]
    last: Annotated[
        Count | None, about("Show it only the last N messages; 0 for none.", metavar="N")
    ] = None
    tools: Annotated[ToolTraffic, about("Tell it of calls in a line each, or not at all.")] = (
        "summary"
    )

    def law_command(self, given: DecisionInput) -> TakeOver:
        """Hand over without a turn: none is asked to end."""
        del given
        return TakeOver(self.to, last=self.last, tools=self.tools)


class Close(Command, frozen=True):
    """Close a session: refuse new messages, stop what runs and end its agents.

    Never refused; a session that is closed stays closed. With an entity of a kind that is not known
    here it is closing until a runtime with the app's code has ended that.
    """

    done: ClassVar[str] = "closed"

    reason: Reason = ""

    async def execute(self, target: CommandTarget) -> None:
        """Return once everything in the session has ended."""
        await target.order(self)
        state: State = await target.ask(messages.Look())
        for each in state.children:
            if why := target.runtime.kinds.unknown(each.child):
                msg = f"{target.conversation} is closing until {each.child} has ended: {why}"
                raise Unanswered(msg)
        await target.wait_for("session.closed")

    def report(self, entity: str, answer: object, *, later: bool) -> str:
        """Report that it is closed, or will be."""
        del answer
        return f"{'closing' if later else 'closed'} {entity}"


class Archive(Command, frozen=True):
    """Move a closed session to cold storage: still listed and readable.

    Refused if the session is not closed: close it first.
    """

    done: ClassVar[str] = "archived"
    offline: ClassVar[Literal["no"]] = "no"
    way_out: ClassVar[str] = "use `runefold log archive`"

    async def execute(self, target: CommandTarget) -> None:
        """Record it, then move the runes."""
        await target.order(self)
        await target.runtime.archive(target.conversation)


COMMANDS: Final[tuple[type[Command], ...]] = (
    Send,
    Interrupt,
    Pause,
    Resume,
    Suspend,
    Unsuspend,
    Replenish,
    HandOver,
    Close,
    Archive,
)
"""What users may ask of a session."""
