"""The commands of a session that users give and its law decides on as they are.

Those that need facts from outside first, such as an id or the time, are in `requests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from actors import command as public
from actors.command import Reason, about
from actors.errors import Unanswered
from runelog.rune import check_id

if TYPE_CHECKING:
    from actors.command import Owner


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


class Close(public.Command, frozen=True):
    """Bring a session to its end: nothing more is accepted, what runs is stopped.

    Never refused; a session that is closed stays closed. With an entity of a kind that is not known
    here it is closing until a runtime with the app's code has ended that.
    """

    done: ClassVar[str] = "closed"

    reason: Reason = ""

    def carry_out(self, owner: Owner) -> None:
        """Return once everything in the session has ended."""
        owner.order(self)
        kinds = owner.runtime.kinds
        for each in owner.runtime.session(owner.conversation).state.children:
            if why := kinds.unknown(each.child):
                msg = f"{owner.conversation} is closing until {each.child} has ended: {why}"
                raise Unanswered(msg)
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
