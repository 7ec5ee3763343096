"""Bugs to plant in the runtime: the simulation must find each of them.

Each does what a careless change would do, in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from actors.agent.history import History
from actors.budget.runes import Amounts
from actors.model import lifecycle as model_law
from actors.model.performer import ModelCalls
from actors.model.runes import CRASH
from actors.redaction.flow import Flow
from actors.scheduling.event_loop import AsyncJob
from actors.session import lifecycle as session_law
from actors.session import members, queue
from actors.session.actor import SessionActor
from actors.session.members import member
from actors.session.queue import next_for
from actors.shell.conversation import ConversationContext
from actors.shell.decision import Decision
from actors.shell.shell import Shell
from actors.shell.snapshot_policy import SnapshotPolicy
from actors.shell.write_buffer import WriteBuffer
from actors.tool import lifecycle as tool_law
from actors.tool import runes as tools
from actors.tool.actor import ToolActor
from actors.tool.lifecycle import Fail, Finish
from actors.turn import lifecycle as turn_law
from supervisors.recovery import Recovery
from tests.changing import everywhere

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from actors.shell.snapshot_policy import EntityState

    Plant = Callable[[pytest.MonkeyPatch], None]


def _all(patch: pytest.MonkeyPatch, name: str, changed: object) -> None:
    """Change how all kinds of actors do something."""
    for each in everywhere(Shell, name):
        patch.setattr(each, name, changed)


def forgotten_due(patch: pytest.MonkeyPatch) -> None:
    """Do not look what is due after a replay."""
    wake = Shell.wake
    _all(patch, "wake", lambda self: None if self.replayed else wake(self))


def read_on(patch: pytest.MonkeyPatch) -> None:
    """Let what is read on the event loop go on, whoever wants it cancelled."""
    patch.setattr(AsyncJob, "_cancel", lambda _self: None)


def effect_before_append(patch: pytest.MonkeyPatch) -> None:
    """Begin models and tools before their intent is on disk."""
    patch.setattr(ConversationContext, "sync", lambda _self: None)


def double_settle(patch: pytest.MonkeyPatch) -> None:
    """Charge a model call that ends well twice."""
    finish = model_law._finish

    def twice(*args: Any) -> list[Any]:  # noqa: ANN401 -- as given
        end: Any = finish(*args)[0]
        return [replace(end, charged=end.charged + end.charged)]

    patch.setattr(model_law, "_finish", twice)


def unobserved_charges(patch: pytest.MonkeyPatch) -> None:
    """Have the live budget observe nothing: it takes what is under way for free."""
    patch.setattr(Decision, "_observe", lambda *_: None)


def dropped_news(patch: pytest.MonkeyPatch) -> None:
    """Have observers miss one rune in forty."""
    take, count = Shell.take, 0

    def forgetful(self: Shell, *news: Any) -> None:  # noqa: ANN401 -- as given
        nonlocal count
        count += 1
        if count % 40:
            take(self, *news)

    _all(patch, "take", forgetful)


def approval_applied_twice(patch: pytest.MonkeyPatch) -> None:
    """Have a human's word count as often as it is said, and however late."""
    answered = tool_law._answered
    patch.setattr(tool_law, "_why_not", lambda *_: "")
    patch.setattr(
        tool_law, "_answered", lambda state, word: answered(replace(state, answered=None), word)
    )


def blind_rerun(patch: pytest.MonkeyPatch) -> None:
    """Run a call in doubt again, whatever its tool says."""
    in_doubt = tool_law._in_doubt

    def again(state: Any, now: int) -> list[Any]:  # noqa: ANN401 -- as given
        if state.call.rule.in_doubt == "unknown":
            return [tool_law._retried(state, now, "why not", "in_doubt")]
        return in_doubt(state, now)

    patch.setattr(tool_law, "_in_doubt", again)


def denied_and_run(patch: pytest.MonkeyPatch) -> None:
    """Run what the policy denies all the same."""
    begin = tool_law._begin

    def allowed(state: Any, now: int, account: Any) -> list[Any]:  # noqa: ANN401 -- as given
        denied = state.call.rule.verdict == "deny"
        return (tool_law._start if denied else begin)(state, now, account)

    patch.setattr(tool_law, "_begin", allowed)


def resent_and_taken_twice(patch: pytest.MonkeyPatch) -> None:
    """Take a message that is sent again for another message."""
    patch.setattr(SessionActor, "_earlier", lambda *_: None)


def answered_too_early(patch: pytest.MonkeyPatch) -> None:
    """Answer whoever asked before it is on disk."""
    patch.setattr(ConversationContext, "answer", lambda _self, give, _fail: give())


def stopped_by_nobody(patch: pytest.MonkeyPatch) -> None:
    """Do not tell a turn that is to be stopped."""
    patch.setattr(SessionActor, "_stop_turn", lambda *_: None)


def recovered_by_nobody(patch: pytest.MonkeyPatch) -> None:
    """Wake nobody when a runtime is opened."""
    patch.setattr(Recovery, "recover", lambda *_: [])


def no_alarm_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Arm the deadlines of what was just born, and no others."""
    arm = Shell._arm
    _all(patch, "_arm", lambda self: None if self.replayed else arm(self))


def last_words_dropped(patch: pytest.MonkeyPatch) -> None:
    """Do not write what a model said last with the end of its answer."""
    decide = ModelCalls._decide
    patch.setattr(
        ModelCalls, "_decide", lambda self, call, command, _before=(): decide(self, call, command)
    )


def lost_buffer_unnoticed(patch: pytest.MonkeyPatch) -> None:
    """Let nobody hear of an append that failed."""

    def keep(_self: WriteBuffer, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception:  # noqa: BLE001 -- that is the bug
            return

    patch.setattr(WriteBuffer, "_keep", keep)


def history_without_results(patch: pytest.MonkeyPatch) -> None:
    """Show a model calls that were cancelled, and not that they were."""
    take = History.take

    def partly(self: History, rune: Any, text: Any) -> None:  # noqa: ANN401 -- as given
        if not (isinstance(rune, tools.Result) and rune.status == "cancelled"):
            take(self, rune, text)

    patch.setattr(History, "take", partly)


def two_turns_at_once(patch: pytest.MonkeyPatch) -> None:
    """Let an agent take a message up while it runs a turn."""

    def can_begin(state: Any, agent_id: str) -> bool:  # noqa: ANN401 -- as given
        found = member(state.members, agent_id)
        return found is not None and found.ready and not found.spent

    patch.setattr(queue, "can_begin", can_begin)


def snapshot_ahead(patch: pytest.MonkeyPatch) -> None:
    """Keep states that have taken in one rune more than is said of them."""
    keep = SnapshotPolicy.keep

    def ahead(self: SnapshotPolicy, entities: Sequence[EntityState]) -> None:
        keep(self, [each._replace(version=each.version - 1) for each in entities])

    patch.setattr(SnapshotPolicy, "keep", ahead)


def newest_first(patch: pytest.MonkeyPatch) -> None:
    """Let an agent take up the message that came last."""

    def last(waiting: Any, agent_id: str) -> Any:  # noqa: ANN401 -- as given
        return next_for(waiting[::-1], agent_id)

    patch.setattr(queue, "next_for", last)


def other_words(patch: pytest.MonkeyPatch) -> None:
    """Keep a message with words that nobody sent."""
    accept = session_law._accept
    patch.setattr(
        session_law, "_accept", lambda state, word: accept(state, replace(word, content="w0"))
    )


def to_whoever_is_in_front(patch: pytest.MonkeyPatch) -> None:
    """Do not look whom a message is for."""
    accept = session_law._accept
    patch.setattr(session_law, "_accept", lambda state, word: accept(state, replace(word, to="")))


def steered_by_nobody(patch: pytest.MonkeyPatch) -> None:
    """Have a message that steers wait like any other."""
    accept = session_law._accept
    patch.setattr(
        session_law, "_accept", lambda state, word: accept(state, replace(word, mode="queue"))
    )


def calls_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """Charge nothing for a tool call."""
    result = tool_law._result

    def unpaid(*args: Any, **options: Any) -> list[Any]:  # noqa: ANN401 -- as given
        return [replace(each, charged=Amounts()) for each in result(*args, **options)]

    patch.setattr(tool_law, "_result", unpaid)


def crashes_for_nothing(patch: pytest.MonkeyPatch) -> None:
    """Charge nothing for a model call that a crash cut off."""
    fail = model_law._fail

    def unpaid(state: Any, fault: Any, charged: Amounts, estimated: Any) -> list[Any]:  # noqa: ANN401 -- as given
        crashed = fault.error_type == CRASH
        return fail(state, fault, Amounts() if crashed else charged, estimated)

    patch.setattr(model_law, "_fail", unpaid)


def results_without_outputs(patch: pytest.MonkeyPatch) -> None:
    """Show a model that its calls are done, and nothing of what they returned."""
    take = History.take

    def mute(self: History, rune: Any, text: Any) -> None:  # noqa: ANN401 -- as given
        take(self, replace(rune, output=None) if isinstance(rune, tools.Result) else rune, text)

    patch.setattr(History, "take", mute)


def all_calls_at_once(patch: pytest.MonkeyPatch) -> None:
    """Run calls beside each other that must not be."""
    take = turn_law._take

    def loose(*args: Any) -> list[Any]:  # noqa: ANN401 -- as given
        found = take(*args)
        return [replace(each, hold=False) if type(each) is tools.Called else each for each in found]

    patch.setattr(turn_law, "_take", loose)


def nothing_held_back(patch: pytest.MonkeyPatch) -> None:
    """Look for secrets in each fragment by itself."""
    feed, end = Flow.feed, Flow.end

    def hasty(self: Flow, piece: str) -> str:
        alone = Flow(self._machine, self._mark)
        return feed(alone, piece) + end(alone)

    patch.setattr(Flow, "feed", hasty)


def left_behind(patch: pytest.MonkeyPatch) -> None:
    """Let agents stay whose parent is gone."""
    patch.setattr(session_law, "orphans", lambda _members: set())
    for module in (members, queue):
        patch.setattr(module, "is_orphan", lambda *_: False)


def contradicted_in_silence(patch: pytest.MonkeyPatch) -> None:
    """Tell a human who comes second that the answer counts, whatever it is."""
    answered = tool_law._answered

    def polite(state: Any, word: Any) -> list[Any]:  # noqa: ANN401 -- as given
        last = state.answered
        again = last is not None and last.approval_id == word.approval_id
        return [] if again else answered(state, word)

    patch.setattr(tool_law, "_answered", polite)


def done_and_cancelled(patch: pytest.MonkeyPatch) -> None:
    """Say of a tool that was told to stop that it was cancelled, also if it came to its end."""
    understand = ToolActor.understand

    def stubborn(self: ToolActor, message: Any) -> Any:  # noqa: ANN401 -- as given
        done = isinstance(message, Finish) and self._why is not None
        return understand(self, Fail("", "cancelled") if done else message)

    patch.setattr(ToolActor, "understand", stubborn)


def cancelled_while_it_runs(patch: pytest.MonkeyPatch) -> None:
    """Do not wait for the end of a tool that can be stopped."""
    patch.setattr(ToolActor, "_ends_by_itself", lambda _self: False)


COMMON: Final[tuple[Plant, ...]] = (
    forgotten_due,
    read_on,
    effect_before_append,
    double_settle,
    unobserved_charges,
    dropped_news,
    approval_applied_twice,
    denied_and_run,
    resent_and_taken_twice,
    answered_too_early,
    stopped_by_nobody,
    last_words_dropped,
    lost_buffer_unnoticed,
    history_without_results,
    two_turns_at_once,
    snapshot_ahead,
    newest_first,
    other_words,
    to_whoever_is_in_front,
    steered_by_nobody,
    calls_for_nothing,
    crashes_for_nothing,
    results_without_outputs,
    all_calls_at_once,
    nothing_held_back,
)
"""Bugs that show within a few seeds."""
RARE: Final[tuple[Plant, ...]] = (
    blind_rerun,
    recovered_by_nobody,
    no_alarm_after_a_restart,
    done_and_cancelled,
    cancelled_while_it_runs,
)
"""Bugs that take more."""
