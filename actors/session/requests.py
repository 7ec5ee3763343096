"""The public commands of a session: those that its law decides on, and those that need more.

Here are the latter: a message gets its id, an interrupt waits for what it stops, and amounts come
in the units of users.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from actors.budget.runes import Amounts
from actors.command import Command, Count, Quantity, Reason, about
from actors.errors import Unanswered
from actors.scheduling.clock import SECOND
from actors.session import actor
from actors.session import commands as orders
from actors.session import lifecycle as law
from actors.session.lifecycle import message_entity
from actors.session.runes import Mode
from actors.turn.runes import Interrupted
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from msgspec import Meta

    from actors.command import Facts, Owner
    from actors.session.lifecycle import State

COST: Final = 1_000_000
"""In so many parts a unit of cost is counted."""


class Send(Command, frozen=True):
    """Send a message to a session. It is on disk when this returns.

    Its turn begins as soon as its agent is free. Refused if the session is closed, if it has no
    such agent, and if 1,000 messages wait already (send it again later).
    """

    done: ClassVar[str] = "accepted"

    content: Annotated[str, about("The message; - for standard input.", metavar="TEXT", stdin=True)]
    mode: Annotated[Mode, about("Wait for the turn that runs now, or take over from it.")] = "queue"
    to: Annotated[str, about("The agent that it is for.", metavar="AGENT")] = ""
    message_id: Annotated[
        str | None, about("Sent again with the same id, it counts once.", metavar="ID")
    ] = None

    def check(self) -> None:
        """Refuse what is no id."""
        if self.message_id is not None:
            check_id(self.message_id, "message id")

    def message(self, owner: Owner) -> actor.Send:
        """Return what the session's actor is sent, with an id."""
        own, runtime = self.message_id, owner.runtime
        name = runtime.new_id("msg") if own is None else runtime.redactor.value(own)
        check_id(name, "message id")
        return actor.Send(name, self.content, self.mode, self.to, own_id=own is not None)

    def carry_out(self, owner: Owner) -> dict[str, str]:
        """Answer with the message's id."""
        return {"message_id": owner.ask(self.message(owner)).message_id}

    def meant(self, facts: Facts) -> law.Accept:
        """Keep it offline: no turn begins whose time would run while no runtime runs it."""
        name = facts.new_id("msg") if self.message_id is None else self.message_id
        return law.Accept(
            message_id=facts.check_id(name, "message id"),
            content=self.content,
            now=facts.now(),
            mode=self.mode,
            to=self.to,
            known=facts.is_known(message_entity(name)),
            begin=False,
        )

    def answered(self, meant: law.Accept) -> dict[str, str]:
        """Answer with the message's id."""
        return {"message_id": meant.message_id}

    def told(self, target: str, answer: Any, *, later: bool) -> str:  # noqa: ANN401 -- as above
        """Report the message's id."""
        del target, later
        return f"accepted {answer['message_id']}"


class Interrupt(Command, frozen=True):
    """Stop what a session does now; what was said until then is kept.

    Refused if no runtime has the log open and turns are unfinished: they go on when it is opened.
    """

    done: ClassVar[str] = "interrupted"

    reason: Reason = "interrupt"

    def carry_out(self, owner: Owner) -> dict[str, int]:
        """Answer, once they have ended, with how many turns were stopped."""
        # By their names: asked again after a crash, it does not stop those that began since.
        now: State = owner.ask(actor.Look(), owner.timeout)
        if not now.running:
            return {"stopped": 0}
        halt = actor.Interrupt(self.reason, tuple(each.turn_id for each in now.running))
        owner.ask(halt, owner.timeout)
        stopped = [_is_stopped(owner, each.message_id, halt) for each in now.running]
        return {"stopped": sum(stopped)}

    def meant(self, facts: Facts) -> None:
        """Refuse it offline if something is unfinished."""
        left = len(facts.state.running)
        if left:
            msg = (
                f"no runtime has the log open: {_turns(left)} of {facts.conversation} will go on "
                "when it is opened, and can be interrupted then"
            )
            raise Refused(msg)

    def answered(self, meant: None) -> dict[str, int]:
        """Answer that nothing was running."""
        del meant
        return {"stopped": 0}

    def told(self, target: str, answer: Any, *, later: bool) -> str:  # noqa: ANN401 -- as above
        """Report how many turns were stopped."""
        del target, later
        stopped = answer["stopped"]
        return f"interrupted {_turns(stopped)}" if stopped else "nothing was running"


def _turns(number: int) -> str:
    return f"{number} turn{'' if number == 1 else 's'}"


def _is_stopped(owner: Owner, message_id: str, halt: actor.Interrupt) -> bool:
    """Wait until a turn has ended that is to stop; return False if it ended by itself."""
    log, conversation = owner.runtime.log, owner.conversation
    try:
        how = owner.ask(
            actor.Await(message_id, halt),
            owner.timeout,
            lambda: actor.ended(log, conversation, message_id),
        )
    except Unanswered:
        msg = (
            f"{conversation}: the turn of {message_id} has not ended within {owner.timeout} s; "
            "it was told to stop, and may still do so"
        )
        raise Unanswered(msg) from None
    return isinstance(how, actor.Ended) and isinstance(how.rune, Interrupted)


class Suspend(Command, frozen=True):
    """Begin no more turns until a human has seen to the reason, and unsuspends the session.

    Refused if the session is paused (resume it first) or closed.
    """

    done: ClassVar[str] = "suspended"

    reason: Reason

    def meant(self, facts: Facts) -> law.Suspend:
        """Record that a user asked for it."""
        del facts
        return law.Suspend(self.reason, actor="user")


class Unsuspend(Command, frozen=True):
    """Go on with a session that was suspended, once the reason was seen to.

    Refused if the session is paused (resume it first) or closed, and if its root agent is gone.
    """

    done: ClassVar[str] = "unsuspended"

    reason: Reason = ""

    def meant(self, facts: Facts) -> law.Unsuspend:
        """Record that a user asked for it."""
        del facts
        return law.Unsuspend(self.reason)


def _more(what: str) -> Meta:
    return about(f"So many {what} more.", metavar="N")


class Replenish(Command, frozen=True):
    """Raise the limits of a session's budget. One that was suspended for that goes on.

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

    def meant(self, facts: Facts) -> law.Replenish:
        """Name the account by its scope."""
        return law.Replenish(facts.request_id, self.agent or "session", self.amounts())

    def told(self, target: str, answer: object, *, later: bool) -> str:
        """Report whose budget it is."""
        del answer, later
        return f"replenished {self.agent or target}"


COMMANDS: Final[tuple[type[Command], ...]] = (
    Send,
    Interrupt,
    orders.Pause,
    orders.Resume,
    Suspend,
    Unsuspend,
    Replenish,
    orders.HandOver,
    orders.Close,
    orders.Archive,
)
"""What users may ask of a session."""
