"""Deliberate bugs of the runtime, switched on one at a time: the crash kit must find each.

A bug is switched on in the process that opens the app, before it does; nobody else has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace

from actors.budget.runes import Amounts
from actors.model import lifecycle as model
from actors.model.runes import CRASH
from actors.process.process import Process
from actors.session.actor import SessionActor
from actors.session.messages import Sent
from actors.shell.conversation import ConversationContext
from actors.shell.shell import Shell
from actors.shell.write_buffer import WriteBuffer, head_of
from actors.tool import lifecycle as tool
from actors.tool.runes import Result
from runefold.runtime import Runtime
from runefold.testing import CrashApp
from runelog.replay import remember
from runelog.snapshot import Snapshots
from supervisors import conversation_supervisor
from supervisors.strategy import Restart
from tests.changing import everywhere
from tests.crash.core import apps
from tests.crash.core.outcome_mutants import OUTCOME_MUTANTS
from tests.crash.kit import machines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runelog.rune import Change, Rune


def _put(where: object, name: str, bug: object) -> None:
    """Put a bug in the place of what is right, for good."""
    patch.object(where, name, bug).start()


def _put_in_all(name: str, bug: object) -> None:
    """Put a bug in the place of what every kind of actor does."""
    for each in everywhere(Shell, name):
        _put(each, name, bug)


def _effect_first() -> None:
    """Have an effect begin before its intent is on disk."""

    def begin(shell: Shell, due: Sequence[Any]) -> bool:
        before = shell.state
        for effect in due:
            if effect not in shell._under_way:
                shell._under_way.add(effect)
                shell.ctx.buffer.flush()
                shell._perform(effect)
                if shell.state is not before:
                    return True
        return False

    _put_in_all("_begin", begin)


def _told_early() -> None:
    """Tell an app that its message is kept before it is on disk."""
    reply, at_once = SessionActor._reply, Process._reply

    def early(session: SessionActor, reply_to: Any, answer: object) -> None:  # noqa: ANN401 -- pykka's
        (at_once if isinstance(answer, Sent) else reply)(session, reply_to, answer)

    _put(SessionActor, "_reply", early)


def _nothing_due() -> None:
    """Forget after a replay what is due."""
    on_start = Shell.on_start

    def start(shell: Shell) -> None:
        on_start(shell)
        if shell.replayed:
            shell._under_way.update(shell.kind.lifecycle.due(shell.state))

    _put_in_all("on_start", start)


def _snapshot_first() -> None:
    """Keep states before the log has what led to them, as if they were all that it has."""
    opened, hand_over = Runtime.__init__, ConversationContext.hand_over

    def with_files(runtime: Runtime, log: Any, **options: Any) -> None:  # noqa: ANN401 -- as given
        if log.snapshots is None:
            # One in memory has no place for snapshots: it is given the same files.
            log.snapshots = Snapshots(log.directory / "snapshots")
        opened(runtime, log, **options)

    def too_early(ctx: ConversationContext) -> None:
        snapshots = ctx.log.snapshots
        assert snapshots is not None
        for kind, name, state, _ in (
            ctx._entity_states() if head_of(ctx.log, ctx.conversation) else ()
        ):
            runes = [*ctx.log.stream(ctx.conversation, name)]
            if runes:
                remember(snapshots, kind.lifecycle, runes[-1], len(runes), state, entity=name)
        hand_over(ctx)

    _put(Runtime, "__init__", with_files)
    _put(ConversationContext, "hand_over", too_early)


def _torn_append() -> None:
    """Flush a buffer in two halves, so that a crash may fall in between."""

    def append(buffer: WriteBuffer, changes: Sequence[Change]) -> None:
        with_runes = [number for number, change in enumerate(changes) if change.runes]
        middle = with_runes[len(with_runes) // 2] if len(with_runes) > 1 else 0
        for half in filter(None, (changes[:middle], changes[middle:])):
            buffer._log.append(buffer._conversation, half, durable=True)

    _put(WriteBuffer, "_append", append)


def _settled_twice() -> None:
    """Charge a call twice whose probe was asked."""
    probed = tool._probed

    def twice(state: tool.State, found: Any) -> list[Rune]:  # noqa: ANN401 -- as the law has it
        return [
            replace(rune, charged=rune.charged + rune.charged) if isinstance(rune, Result) else rune
            for rune in probed(state, found)
        ]

    _put(tool, "_probed", twice)


def _unsettled() -> None:
    """Charge nothing for a call that was in doubt."""

    def result(state: tool.State, status: Any, **more: Any) -> list[Rune]:  # noqa: ANN401 -- as above
        [end] = right(state, status, **more)
        assert isinstance(end, Result)
        return [replace(end, charged=Amounts()) if status == "unknown" else end]

    right = tool._result
    _put(tool, "_result", result)


def _strange_result() -> None:
    """Give a call in doubt up in the name of a call that there is not."""

    def unknown(state: tool.State, why: str, actor: Any = "system") -> list[Rune]:  # noqa: ANN401 -- as above
        runes = right(state, why, actor)
        assert isinstance(runes[0], Result)
        return [Result(call_id="call_ffffffffffffffff", status="unknown"), *runes[1:]]

    right = tool._unknown
    _put(tool, "_unknown", unknown)


def _run_again() -> None:
    """Run again whatever is in doubt, whatever its tool says."""

    def in_doubt(state: tool.State, now: int) -> list[Rune]:
        return [tool._retried(state, now, "why not", "in_doubt")]

    _put(tool, "_in_doubt", in_doubt)


def _believes_in_it() -> None:
    """Take a call for done of which its probe says that it did not happen."""

    def probed(state: tool.State, _found: tool.Probed) -> list[Rune]:
        return tool._result(state, "success", output="charged", trigger="probe")

    _put(tool, "_probed", probed)


def _half_an_answer() -> None:
    """Take an answer that a crash cut off for the whole answer."""
    fail = model._fail

    def finish(state: model.State, fault: model.Fail, *charge: Any) -> list[Rune]:  # noqa: ANN401 -- as above
        if fault.error_type == CRASH:
            return model.decide(state, model.Finish(stop_reason="stop"))
        return fail(state, fault, *charge)

    _put(model, "_fail", finish)


def _forgets_ids() -> None:
    """Count a message that is sent again under its id as a new one."""
    _put(SessionActor, "_earlier", lambda *_: None)


def _nobody_restarts() -> None:
    """Do not start an actor again that has crashed."""

    class Lost:
        TRANSIENT = TEMPORARY = Restart.TEMPORARY

    _put(conversation_supervisor, "Restart", Lost)


def _waits_in_vain() -> None:
    """Forget whoever waits for a turn when the session's actor dies."""
    _put(SessionActor, "_dismiss", lambda _: None)


class Mutant(NamedTuple):
    """A bug, where it shows, and what finds it."""

    bug: Callable[[], None]
    scenario: str
    mode: str
    caught: str
    """The verdict that names it when the runtime is cut off within one process,"""
    killed: str
    """and in processes that are really killed. What never ends is a hang there."""
    moment: str
    """At which moment; empty if it is found before anything is swept."""
    of: str
    """Of the commit with this rune, or of this message of an actor."""
    wanders: bool = False
    """Whether it is up to the machine at which moment it shows where processes are really killed:
    what nobody waits for is on disk a few milliseconds later."""


MUTANTS: Final = {
    "effect before its intent": Mutant(
        _effect_first, "charges", "every", "effect", "effect", "after-effect", "tool.started"
    ),
    "told before it is on disk": Mutant(
        _told_early,
        "queue",
        "every",
        "acknowledged",
        "acknowledged",
        "before-sync",
        "session.input_accepted",
        wanders=True,
    ),
    "nothing due after replay": Mutant(
        _nothing_due, "plain", "every", "finished", "hang", "after-commit", "model.called"
    ),
    "snapshot before the log": Mutant(
        _snapshot_first,
        "charges",
        "every",
        "finished",
        "finished",
        "before-commit",
        "turn.completed",
    ),
    "torn append": Mutant(
        _torn_append, "charges", "every", "finished", "hang", "before-commit", "tool.call"
    ),
    "settled twice": Mutant(
        _settled_twice, "charges", "every", "state", "state", "after-effect", "tool.started"
    ),
    "reservation lost": Mutant(
        _unsettled,
        "blind charges",
        "every",
        "invariant",
        "invariant",
        "after-effect",
        "tool.started",
    ),
    "result without a call": Mutant(
        _strange_result,
        "blind charges",
        "every",
        "finished",
        "hang",
        "after-effect",
        "tool.started",
    ),
    "in doubt, so run again": Mutant(
        _run_again, "blind charges", "every", "effect", "effect", "after-effect", "tool.started"
    ),
    "in doubt, so it was done": Mutant(
        _believes_in_it, "charges", "every", "check", "check", "after-commit", "tool.started"
    ),
    "half an answer": Mutant(
        _half_an_answer, "plain", "every", "state", "state", "after-commit", "model.called"
    ),
    "forgotten message ids": Mutant(_forgets_ids, "plain", "every", "state", "state", "", ""),
    "nobody restarts": Mutant(
        _nobody_restarts,
        "plain",
        "actor",
        "finished",
        "hang",
        "actor-before-effect",
        "model.called",
    ),
    "waits in vain": Mutant(
        _waits_in_vain, "steer", "actor", "finished", "hang", "actor-before-message", "session Wake"
    ),
}


@dataclass(frozen=True)
class Build:
    """Opens an app with a bug in it."""

    name: str
    build: Callable[[Path], Runtime] = apps.build_warm

    def __call__(self, directory: Path) -> Runtime:
        """Switch the bug on, once in this process, and open."""
        if self.name not in _on:
            _on.add(self.name)
            bug = OUTCOME_MUTANTS.get(self.name)
            (MUTANTS[self.name].bug if bug is None else bug.plant)()
        return self.build(directory)


_on: set[str] = set()


def app(name: str) -> CrashApp:
    """Return a scenario as an app with a bug in it."""
    outcome = OUTCOME_MUTANTS.get(name)
    scenario = MUTANTS[name].scenario if outcome is None else outcome.scenario
    if scenario in machines.APPS:
        found = machines.APPS[scenario]
        return CrashApp(Build(name, found.build), found.scenario, found.check, name)
    # What the kit itself makes of a bug is the question, not what is known of this scenario.
    check = apps.Check(scenario, ended=False)
    return CrashApp(Build(name), apps.Play(scenario), check, name)
