"""Makes a tool call happen: hands it to its adapter, and says how it came out."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

import msgspec
from msgspec.structs import replace

from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.operator_log import log as operator
from actors.scheduling.event_loop import EventLoopClosed
from actors.shell.shell import NEAR, Shell
from actors.tool.context import Call, Cancellation, surroundings
from actors.tool.lifecycle import (
    Action,
    Fail,
    Finish,
    Phase,
    Probe,
    Probed,
    Report,
    RunTool,
    is_running,
)
from actors.tool.outcome import Outcome, in_words
from actors.tool.output import clip
from actors.tool.progress import ProgressReporter
from actors.tool.runes import Result
from actors.tool.running_calls import RunningCall
from actors.tool.spec import asked, fitted, reported
from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Steps, Timer
    from actors.shell.conversation import ConversationContext
    from actors.tool.lifecycle import State
    from actors.tool.running_calls import RunningCalls
    from actors.tool.spec import Tool
    from runelog.rune import Rune


def near(state: State) -> int | None:
    """Return when most of the time limit of a call's phase has passed; None if it has none."""
    by, rule = state.deadline, state.call.rule
    waits = state.phase is Phase.AWAITING_APPROVAL
    length = rule.approval_timeout if waits else rule.timeout
    return None if by is None else by - length // NEAR


LATE_BYTES: Final = 1_024
"""How much of an answer that comes too late an operator is told."""


class Undone(NamedTuple):
    """A run was stopped by the end of an earlier actor, while the call itself is to go on."""

    outcome: Fail


class ToolActor(Shell):
    """One call of a tool."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before anything runs."""
        super().__init__(ctx, me)
        self._cancellation = Cancellation()
        self._running_calls: RunningCalls = ctx.services.running_calls
        self._why: Cancel | None = None
        """Why it is being stopped, for as long as that takes, and who wants it."""
        self._given_up: Timer | None = None
        """When it is not waited for any longer, though it was to stop as its time is up."""

    def on_start(self) -> None:
        """Take over; a warning that was given before this conversation slept is not given again."""
        super().on_start()
        self._warned = self._running_calls.warned.get((self.ctx.conversation, self.me))

    def _settle_doubts(self) -> None:
        """Wait for a run that outlived the actor before; without one, the law settles it."""
        run = self._running_calls.find(self.ctx.conversation, self.me)
        for effect in self.kind.lifecycle.due(self.state):
            if isinstance(effect, RunTool) and run is not None and run.attempt == effect.attempt:
                self._under_way.add(effect)
                self._cancellation = run.cancellation
                run.take_over(self._hear_of(run))
                return
        super()._settle_doubts()

    def _hear_of(self, run: RunningCall) -> Callable[[object], None]:
        """Return how a run that an earlier actor began tells this one its outcome."""

        def tell(outcome: object) -> None:
            # Stopped by the end of the actor that began it, unless this one wanted that as well.
            if isinstance(outcome, Fail) and run.cancellation.cancelled and self._why is None:
                self.ref.notify(Undone(outcome))
            else:
                self.ref.notify(outcome)

        return tell

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Have whatever runs stop where the law is about to give it up."""
        match message:
            case Cancel() | TimeUp():
                return None if self._waits_for_its_end(message) else message
            case Fail(status="cancelled"):
                return self._ended_as_told(message)
            case Undone(outcome):
                # It may be that we want it stopped since: then that is what it came to.
                if self._why is not None:
                    return self.understand(outcome)
                return Recover(now=self._now())
        return super().understand(message)

    def _waits_for_its_end(self, why: Cancel | TimeUp) -> bool:
        """Stop what runs; return True if the run itself will report that it has stopped."""
        self._cancellation.cancel()
        if not self._ends_by_itself():
            return False
        if isinstance(why, Cancel):
            self._why = why
        elif self._given_up is not None:
            return False  # it had its time
        else:
            # A clock that was set forward has left it none to stop in: it has that now.
            until = why.now + self.state.call.rule.grace
            self._given_up = self.later(until, lambda now: TimeUp(now=now))
        return True

    def _ended_as_told(self, end: Fail) -> Fail | TimeUp:
        """Understand that a run has stopped: it was cancelled, or its time was up."""
        if self._why is not None:
            why = f"cancelled: {self._why.reason}; {end.error}"
            return replace(end, error=why, stopped=self._why)
        if self._given_up is not None:
            # As late as it was found to be, whatever the clock says since.
            by = self.kind.deadline(self.state)
            return TimeUp(now=max(self._now(), by or 0))
        return end

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; what a run says is kept until that is decided on."""
        answer = super().on_receive(message)
        run = self._running_calls.find(self.ctx.conversation, self.me)
        if run is not None and isinstance(message, Report):
            run.recorded(message)
        return answer

    def _ends_by_itself(self) -> bool:
        """Return True if something runs that is being stopped, and will say when it has ended."""
        runs = any(isinstance(effect, RunTool) for effect in self._under_way)
        return runs and is_running(self.state) and self.state.call.rule.grace > 0

    def on_folded(self, rune: Rune) -> None:
        """Log an unknown or late outcome for operators; the rune tells the model and the app."""
        if isinstance(rune, Result):
            late = self._running_calls.end(self.ctx.conversation, self.me)
            if late is not None and _said(late) != rune.status:
                # It was on its way to us when the call came to another end.
                self._dropped(late)
        if isinstance(rune, Result) and rune.status == "unknown":
            operator.warning(
                "outcome_unknown",
                conversation=self.ctx.conversation,
                call=self.me,
                tool=self.state.call.tool_name,
                reason=rune.error,
            )

    def perform(self, effect: Action) -> None:
        """Do what is due, on a pooled thread: a tool may block, and a probe as well."""
        match effect:
            case RunTool(attempt=attempt):
                self._run(lambda tool, call: self._ran(_outcome(tool, call), attempt), attempt)
            case Probe(attempt=attempt):
                self._run(lambda tool, call: self._probed(tool, call, attempt), None)
            case _:
                assert_never(effect)

    def _run(self, work: Callable[[Tool, Call], object], attempt: int | None) -> None:
        services = self.ctx.services
        what = self.state.call
        tool = services.tools.get(what.tool_name)
        if tool is None:
            missing = f"the tool {what.tool_name} is not registered any more"
            # A first run has not begun: what is in doubt after a crash was settled before.
            self.carry_out(Fail(missing) if attempt == 0 else Abandon(missing))
            return
        # A word to stop that was meant for an earlier run does not count for this one.
        self._cancellation = Cancellation()
        deadline = self.state.deadline
        redactor = services.redactor
        run = RunningCall(attempt, self._cancellation, self.ref.notify, self._dropped)
        reporter = ProgressReporter(redactor, self.ref.notify if attempt is None else run.say)
        left = None if deadline is None else max(0.0, (deadline - services.clock.now()) / SECOND)
        call = Call(
            call_id=self.me,
            arguments=what.arguments,
            timeout=left,
            progress=reporter.say,
            cancellation=self._cancellation,
            secret=services.secret,
            redactor=redactor,
            hidden=services.hidden,
            **surroundings(self.ctx, what.caller, what.agent_id),
        )

        def steps() -> Steps:
            yield None
            outcome = work(tool, call)
            reporter.end()
            return partial(run.over, outcome)

        async def awaited() -> None:
            outcome = await _outcome_async(tool, call)
            reporter.end()
            run.over(self._ran(outcome, attempt or 0))

        try:
            if attempt is not None and getattr(tool, "is_async", False):
                services.scheduler.begin_async(self.name, awaited())
            else:
                services.scheduler.work(self.name, steps())
        except EventLoopClosed as closed:
            self.carry_out(Fail(str(closed)) if attempt == 0 else Abandon(str(closed)))
            return
        if attempt is not None:
            # Only now: what could not even begin is not under way.
            self._running_calls.begin(self.ctx.conversation, self.me, run)

    def _dropped(self, outcome: object) -> None:
        """Write an answer that came too late to be recorded to the operator's log.

        The call has its result, or is in doubt when the log is opened next, and that stands.
        """
        if isinstance(outcome, Finish):
            said = outcome.output
        elif isinstance(outcome, Fail) and outcome.status == "error":
            said = outcome.error
        else:
            return  # it stopped as it was told to
        text = said if isinstance(said, str) else msgspec.json.encode(said).decode()
        operator.warning(
            "late_answer_dropped",
            conversation=self.ctx.conversation,
            call=self.me,
            tool=self.state.call.tool_name,
            outcome="success" if isinstance(outcome, Finish) else "error",
            recorded=self.state.status or "nothing",
            idempotent=self.state.call.rule.idempotent,
            output=clip(text, LATE_BYTES)[0],
        )

    def _ran(self, outcome: Outcome, attempt: int) -> Finish | Fail:
        if outcome.status == "success":
            return Finish(outcome.output, outcome.truncated)
        end = Fail(outcome.error, outcome.status, outcome.output, outcome.truncated, attempt)
        return replace(end, frames=outcome.frames) if outcome.frames else end

    def _probed(self, tool: Tool, call: Call, attempt: int) -> Probed:
        found = asked(tool.spec, call)
        return replace(found, attempt=attempt, now=self._now())

    def on_stop(self) -> None:
        """Stop what still runs, except for a call that asks another agent."""
        if not self.state.call.rule.sub_call:
            # Such a call is resumed when the other agent goes on; it has no effect of its own.
            self._cancellation.cancel()
        if self._given_up is not None:
            self._given_up.cancel()
        if self._warned is not None and self.state.phase is Phase.AWAITING_APPROVAL:
            self._running_calls.warned[self.ctx.conversation, self.me] = self._warned
        else:
            self._running_calls.warned.pop((self.ctx.conversation, self.me), None)
        super().on_stop()


def _said(end: object) -> str:
    return end.status if isinstance(end, Fail) else "success"


def _outcome(tool: Tool, call: Call) -> Outcome:
    """Run a tool; one that raises, which none should, has failed, and that is told like any end."""
    try:
        found: object = tool.run(call)
    except BaseException as error:  # noqa: BLE001 -- an app's own code: the error would be lost
        return _raised(error, tool, call)
    return _checked(found, tool, call)


async def _outcome_async(tool: Any, call: Call) -> Outcome:  # noqa: ANN401 -- one with `run_async`
    """Do as `_outcome`, on the event loop; if that ends, nothing is told: the call is in doubt."""
    try:
        found: object = await tool.run_async(call)
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 -- as above
        return _raised(error, tool, call)
    return _checked(found, tool, call)


def _raised(error: BaseException, tool: Tool, call: Call) -> Outcome:
    frames = reported("tool_failed", tool.spec, call, error)
    return Outcome("error", error=in_words(error, call.redactor), frames=frames)


def _checked(found: object, tool: Tool, call: Call) -> Outcome:
    if not isinstance(found, Outcome):
        return Outcome("error", error=f"the tool gave a {type(found).__name__} and no outcome")
    # To look at a long output twice takes time.
    return found if getattr(tool, "is_plain", False) else fitted(found, tool.spec, call.redactor)
