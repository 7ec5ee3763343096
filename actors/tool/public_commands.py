"""The public commands of a tool call: what a human may say about one in doubt, or that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta

from actors.public_command import LONGEST, Command, Order, Reason, Who, about
from actors.tool import lifecycle as law
from runelog.errors import Refused

if TYPE_CHECKING:
    from actors.public_command import DecisionInput


class _Word(Command, frozen=True):
    """What a human says. Only recorded offline: what follows is for the runtime that can run it."""

    noun: ClassVar[str] = "call"
    offline: ClassVar[Literal["later"]] = "later"

    approver: Who

    def check(self) -> None:
        """Refuse an answer without an approver."""
        if not self.approver:
            msg = "an approver has a name: say who answers, such as approver='ada'"
            raise Refused(msg)


class Approve(_Word, frozen=True):
    """Approve a tool call, or what an entity asks, that waits for a human.

    Refused if nothing waits, if the deadline has passed, if another human has
    answered, if its session is suspended because it kept failing (unsuspend it first), and if it is
    the call of a machine that is paused with its session (resume that first).
    """

    done: ClassVar[str] = "approved"

    def law_command(self, given: DecisionInput) -> law.Answer:
        """Say when it was said, and by which process."""
        if given.offline and given.is_halted(given.state.call.caller):
            raise Refused(is_paused(given.entity))
        return _answer(given, "approve", self.approver)


class Deny(_Word, frozen=True):
    """Deny a tool call, or what an entity asks, that waits for a human.

    A call in doubt is given up. Refused if nothing waits, if the deadline has passed,
    and if another human has answered.
    """

    done: ClassVar[str] = "denied"

    reason: Annotated[Reason, about("Why; the model is told.", metavar="TEXT")] = ""

    def law_command(self, given: DecisionInput) -> law.Answer:
        """Say when it was said, and by which process."""
        return _answer(given, "deny", self.approver, self.reason)


class Answer(_Word, frozen=True):
    """Resolve a tool call in doubt: run it again, record that it happened, or give up.

    To run it again needs a runtime that has the log open; the other answers are kept for the next
    one. Refused if the call is not in doubt, and if another human has answered.
    """

    done: ClassVar[str] = "answered"

    verdict: Annotated[
        Literal["rerun", "happened", "give_up"],
        about(
            "rerun, happened (with --output what came out of it), or give-up.", metavar="VERDICT"
        ),
    ]
    output: Annotated[Any, about("What came out of it: JSON, or else text.", metavar="VALUE")] = (
        None
    )

    def check(self) -> None:
        """Refuse what came out of nothing."""
        super().check()
        if self.output is not None and self.verdict != "happened":
            msg = "only a call that happened has an output: leave the output out"
            raise Refused(msg)

    def law_command(self, given: DecisionInput) -> law.Answer:
        """Refuse to run it again offline: it would be a run that no process sees end."""
        if given.offline and self.verdict == "rerun":
            msg = f"no runtime is open to run {given.entity} again: open one, and answer there"
            raise Refused(msg)
        return _answer(given, self.verdict, self.approver, output=self.output)

    def report(self, entity: str, answer: object, *, later: bool) -> str:
        """Report the verdict."""
        del answer, later
        return f"answered {entity}: {self.verdict.replace('_', '-')}"


class Acknowledge(Command, frozen=True):
    """Take a tool call that ended as unknown off the list of calls in doubt.

    Its result stays what it is; the log has who saw to it. Refused if its outcome is known or still
    to come, if it waits for an answer (answer it), and if another human has acknowledged it.
    """

    noun: ClassVar[str] = "call"
    done: ClassVar[str] = "acknowledged"

    by: Who
    note: Annotated[
        str,
        Meta(max_length=LONGEST),
        about("What was found; the note is recorded.", metavar="TEXT"),
    ] = ""

    def check(self) -> None:
        """Refuse an acknowledgement that does not name a human."""
        if not self.by:
            msg = "say who has seen to it, such as by='ada'"
            raise Refused(msg)

    def law_command(self, given: DecisionInput) -> law.Acknowledge:
        """Say through which process it was said."""
        return law.Acknowledge(self.by, self.note, given.process)


def lets_run(message: object) -> bool:
    """Return True if a command has a tool run; to say no, or what happened, runs nothing."""
    match message:
        case Order(Approve()) | Order(Answer(verdict="rerun")):
            return True
        case _:
            return False


def is_paused(call: str) -> str:
    """Return why no tool may run for a call whose caller is paused."""
    return f"{call} cannot run now: what calls it is paused; resume that first, then answer"


def _answer(
    given: DecisionInput,
    verdict: law.Verdict,
    approver: str,
    reason: str = "",
    output: Any = None,  # noqa: ANN401 -- whatever the tool would have returned
) -> law.Answer:
    return law.Answer(
        given.state.approval_id,
        verdict,
        approver,
        given.now(),
        reason,
        output,
        given.process,
    )


COMMANDS: Final[tuple[type[Command], ...]] = (Approve, Deny, Answer, Acknowledge)
"""What users may ask of a tool call."""
