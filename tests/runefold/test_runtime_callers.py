"""Rules about machines that ask models: what they are told, charged with, and left with by a crash.

The machine is the errand of `tests/laws/errands.py`, in a session and in the system's conversation.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.budget import lifecycle as budgets
from actors.budget import runes as budget
from actors.catalogue import KINDS
from actors.errors import Dead
from actors.invariants import violations
from actors.model import runes as model
from actors.model.provider import Price
from actors.model.providers.recorded import Recorded
from actors.model.providers.scripted import Scripted, fail, pause
from actors.tool import runes as tool
from runefold.machines import Machine
from runefold.observe.monitoring import Monitor
from runefold.spec import AgentSpec, Budget
from runefold.testing.stage import PowerCut, Stage
from runelog.lifecycle import fold
from runelog.rune import SYSTEM, kind_of
from tests.laws.errands import (
    ADVISER,
    ERRAND,
    CallBack,
    Done,
    Missed,
    Send,
    advise,
    errands,
    fetch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.kind import Kind
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.testing.stage import FragileLog
    from runelog.rune import Appended, Change, Envelope, Rune

NAME: Final = "conv_errand"
ME: Final = "errand_1"


@dataclass
class There:
    """A runtime in which somebody is sent on an errand."""

    script: Callable[[Request], Reply] = advise
    conversation: str = NAME
    limits: Budget | None = None
    kind: Kind = ERRAND
    price: Price | None = None
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Open the runtime; make a session unless it is the system's conversation."""
        adviser = Scripted(self._answer)
        adviser.price = self.price
        bot = Scripted(["Hello!"])
        self.stage = Stage(
            kinds=[self.kind], tools=[fetch], providers={ADVISER: adviser, "bot": bot}
        )
        if self.conversation != SYSTEM:
            spec = AgentSpec(role="helper", model="bot")
            self.stage.runtime.create_session(
                spec, conversation_id=self.conversation, budget=self.limits
            )

    def _answer(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.script(request)

    def send(self, what: str = "bread") -> None:
        """Send somebody."""
        self.stage.runtime.do(self.conversation, Send(what), ME)
        self.stage.run()

    @property
    def log(self) -> list[Envelope]:
        """All that was written, committed."""
        self.stage.log.flush()
        return list(self.stage.log.read(self.conversation))

    def runes(self, *kinds: type[Rune]) -> list[Any]:
        """Return the runes of some kinds, in order."""
        return [each.payload for each in self.log if isinstance(each.payload, kinds)]

    @property
    def result(self) -> str:
        """What the errand came to."""
        (done,) = self.runes(Done)
        return str(done.result)

    @property
    def account(self) -> budgets.Scope:
        """The account of the conversation's root, with nothing left reserved."""
        runes = [each.payload for each in self.log if "budget" in {each.owner, *each.observers}]
        state = fold(budgets.LIFECYCLE, runes)
        assert state.reservations == ()
        return state.scopes[0]

    def check(self) -> None:
        """Look whether every invariant holds, replay's and the budget's among them."""
        assert found(self.log, self.kind) == []


def found(log: list[Envelope], kind: Kind = ERRAND) -> list[str]:
    """Return what is wrong about a log."""
    return [str(each) for each in violations(log, kinds=KINDS.plus([kind]))]


@pytest.mark.parametrize("conversation", [NAME, SYSTEM])
def test_a_machine_asks_a_model_and_calls_what_it_asks_for(conversation: str) -> None:
    """It is told the words and the calls; the account of the conversation's root is charged."""
    there = There(conversation=conversation)
    there.send("bread")
    (request,) = there.asked
    (called,) = there.runes(model.Called)
    (completed,) = there.runes(model.Completed)

    assert there.result == "success"
    assert (request.caller, request.key, request.agent_id) == (ME, "advice-0", "")
    assert (request.call_id, called.caller) == (called.model_call_id, ME)
    assert [each["name"] for each in request.tools] == ["fetch"]
    assert [each.text for each in request.messages] == ["bread"]
    assert there.account.used == completed.charged + budget.Amounts(tool_calls=1)
    assert completed.charged.tokens
    there.check()


def test_a_model_call_of_a_machine_has_no_turn() -> None:
    """Its runes belong to no agent and no turn, and its caller observes how it began and ended."""
    there = There()
    there.send()
    (called,) = there.runes(model.Called)
    of_it = [each for each in there.log if each.owner == called.model_call_id]

    assert {(each.agent, each.turn) for each in of_it} == {(None, None)}
    assert [each.kind for each in of_it if ME in each.observers] == [
        "model.called",
        "model.completed",
    ]


@pytest.mark.parametrize("at", range(1, 12))
def test_killed_between_any_two_appends_it_comes_to_the_same(at: int) -> None:
    """An answer that is in the log is not asked for again; each call is charged once."""
    log = errands(cut_at=at)
    written = list(log.read(SYSTEM))
    runes = [each.payload for each in written]

    assert [each.result for each in runes if isinstance(each, Done)] == ["success", "success"]
    assert len([each for each in runes if isinstance(each, model.Completed)]) == 2
    assert found(written) == []


@pytest.mark.parametrize("kind", ["errand.advised", "tool.call", "errand.done"])
def test_killed_just_before_it_takes_note_it_goes_on_from_there(kind: str) -> None:
    """What had come before is in the log, and is neither lost nor done a second time."""
    there = There()
    cut_before(there.stage.log, kind)
    with contextlib.suppress(PowerCut, Dead):
        there.send()
    assert there.stage.log.is_cut

    there.stage.reopen()
    there.stage.run()

    assert there.result == "success"
    assert len(there.asked) == len(there.runes(model.Called)) == 1
    assert len(there.runes(tool.Called)) == 1
    there.check()


def cut_before(log: FragileLog, kind: str) -> None:
    """Have the power fail just before a kind of rune is written, though what is before it is."""
    whole = log.append

    def append(conversation: str, changes: Sequence[Change], **options: Any) -> Appended:  # noqa: ANN401 -- as they come
        kinds = [[kind_of(rune) for rune in change.runes] for change in changes]
        at = next((number for number, each in enumerate(kinds) if kind in each), None)
        if at is not None:
            if any(kinds[:at]):
                whole(conversation, changes[:at], durable=True)
            log.cut_at = log.appends + 1
            del log.append
        return whole(conversation, changes, **options)

    log.append = append  # type: ignore[method-assign]  # of one log, for one test


def test_a_call_that_a_crash_cut_off_may_be_made_again_under_another_key() -> None:
    """The law is told that it crashed, and of what came until then; it decides what follows."""
    there = There(lambda _: ["half of ", pause(50), "it"])
    there.send()
    there.stage.advance(1)
    there.stage.log.flush()
    there.stage.crash()
    there.script = advise
    there.stage.reopen()
    there.stage.run()

    assert [each.error_type for each in there.runes(Missed)] == ["crash"]
    assert [each.key for each in there.asked] == ["advice-0", "advice-1"]
    assert there.result == "success"
    there.check()


def test_a_call_that_the_budget_has_no_room_for_is_not_made() -> None:
    """The law is told so, no provider is asked, and nothing is reserved or charged."""
    there = There(limits=Budget(tokens=4_097))
    there.send()
    (failed,) = there.runes(model.Failed)

    assert there.result == "budget_exhausted"
    assert failed.message.startswith("tokens of session: 0 of 4097")
    assert there.asked == []
    assert [each.key for each in there.runes(budget.Exhausted)] == [failed.model_call_id]
    assert there.account.used == budget.Amounts()
    there.check()


def test_what_a_call_costs_is_set_aside_and_charged_by_the_price() -> None:
    """A limit on cost holds for machines, too: what is set aside is what the call may cost."""
    there = There(lambda _: ["yes"], price=Price(input=1, output=2))
    there.send()
    (called,) = there.runes(model.Called)

    assert there.account.used == budget.Amounts(tokens=2, cost=3)
    assert called.reserved.cost > 2 * 4096
    there.check()


@pytest.mark.parametrize(
    ("gone", "error_type"), [({"providers": {}}, "unknown_model"), ({"tools": []}, "unknown_tool")]
)
def test_what_is_not_registered_is_a_failure_that_the_law_is_told_of(
    gone: dict[str, Any], error_type: str
) -> None:
    """An app that was changed meanwhile opens all the same; nothing is reserved or charged."""
    there = There(conversation=SYSTEM)
    there.stage.change(**gone)
    there.stage.reopen()
    there.send()

    assert there.result == error_type
    assert [each.reserved for each in there.runes(budget.Reserves)] == [budget.Amounts()]
    there.check()


def talkative(_request: Request) -> Reply:
    """Begin, and go on for long."""
    return ["one ", pause(20), "two ", pause(20), "three"]


def test_a_call_is_stopped_while_it_streams() -> None:
    """The law has that due beside the call; what came until then is charged for, once."""
    there = There(talkative)
    there.send()
    there.stage.advance(30)
    there.stage.runtime.do(NAME, CallBack("enough"), ME)
    there.stage.run()
    (cancelled,) = there.runes(model.Cancelled)

    assert (cancelled.reason, there.result) == ("enough", "cancelled")
    assert there.account.used == cancelled.charged
    assert 0 < cancelled.charged.tokens < 4096
    there.check()


def test_a_session_that_closes_stops_the_call_that_streams() -> None:
    """The machine is told to stop, and the session is closed once the call has ended."""
    there = There(talkative)
    there.send()
    there.stage.advance(30)
    there.stage.runtime.session(NAME).close()
    there.stage.run()

    assert [kind_of(each) for each in there.runes(model.Cancelled, Done)] == [
        "model.cancelled",
        "errand.done",
    ]
    assert there.stage.runtime.session(NAME).state.phase.value == "closed"
    there.check()


def test_a_stop_outlives_a_crash() -> None:
    """Killed after it was wanted, the call is not made again: the law said what it wants."""
    there = There(talkative)
    there.send()
    there.stage.advance(30)
    there.stage.runtime.do(NAME, CallBack("enough"), ME)
    there.stage.crash()
    there.stage.reopen()
    there.stage.run()

    assert len(there.asked) == 1
    assert there.result in {"crash", "cancelled"}
    there.check()


@pytest.mark.parametrize(
    ("script", "passed"), [([pause(70)], 61), (["so ", pause(70), "slow"], 100)]
)
def test_a_provider_that_says_nothing_for_long_is_given_up(script: Reply, passed: float) -> None:
    """For the first byte and for each that follows there is a limit; the law may ask again."""
    there = There(lambda _: script)
    there.send()
    there.stage.advance(passed)

    assert [each.error_type for each in there.runes(Missed)] == ["timeout"]
    assert [each.key for each in there.asked] == ["advice-0", "advice-1"]


def test_a_failure_is_told_as_the_provider_said_it() -> None:
    """Whether to ask again is for the law to say: here it does, if that is worth it, twice."""
    there = There(lambda _: [fail("overloaded", "later", retryable=True)])
    there.send()

    assert [each.error_type for each in there.runes(Missed)] == ["overloaded", "overloaded"]
    assert there.result == "overloaded"
    assert [each.key for each in there.asked] == ["advice-0", "advice-1", "advice-2"]
    there.check()


class Trapped(Machine):
    """An actor that cannot be kept alive once its call is under way."""

    def act(self) -> None:
        """Do what is due, and crash."""
        super().act()
        if self.state.what == "trap":
            msg = "trapped"
            raise RuntimeError(msg)

    def _settle_doubts(self) -> None:
        """Crash before anything is settled."""
        msg = "trapped again"
        raise RuntimeError(msg)


def kind(actor: type[Machine]) -> Kind:
    """Return the errand with another actor."""
    return replace(ERRAND, actor=actor)


def test_a_machine_that_is_given_up_leaves_no_call_behind() -> None:
    """Its parent ends the calls under way, then the machine: all is charged, no work is left."""
    there = There(talkative, kind=kind(Trapped))
    there.send("trap")
    there.stage.advance(60)
    (failed,) = there.runes(model.Failed)

    assert failed.error_type == "crash"
    assert there.result.startswith("its actors kept crashing")
    assert there.account.used.tokens
    assert [*there.stage.log.open_work()] == []
    there.check()


class Deaf(Machine):
    """An actor whose law does not take an answer."""

    def carry_out(self, command: object) -> Any:  # noqa: ANN401 -- a refusal, or nothing
        """Drop the answer."""
        return None if type(command).__name__ == "Answered" else super().carry_out(command)


def test_a_law_that_does_not_take_an_answer_is_not_asked_for_ever() -> None:
    """It would wait without end: the actor crashes, and the machine is given up."""
    there = There(kind=kind(Deaf))
    there.send()
    there.stage.advance(60)

    assert there.result.startswith("its actors kept crashing")
    assert len(there.asked) == 1


def slow(_request: Request) -> Reply:
    """Take very long, without ever falling silent."""
    return [line for _ in range(40) for line in ("still ", pause(50))]


def test_history_and_alerts_know_calls_without_a_turn() -> None:
    """How long a call streams is told from the log, and one that takes too long is reported."""
    there = There(slow)
    there.send()
    there.stage.advance(1_900)
    (called,) = there.runes(model.Called)
    session = there.stage.runtime.session(NAME)
    history = session.history(called.model_call_id)
    monitor = Monitor(there.stage.log, now=there.stage.clock.now, kinds=there.stage.runtime.kinds)
    alerts = [(each.entity, each.rule) for each in monitor.alerts()]

    assert (history.phase, round(history.seconds["calling"])) == ("calling", 1_900)
    assert (called.model_call_id, "stuck") in alerts
    assert [each.id for each in there.stage.runtime.sessions()] == [NAME]
    assert session.in_doubt() == []


def test_a_recorded_answer_is_found_by_its_key() -> None:
    """The id of a call differs from conversation to conversation, the key does not."""
    there = There()
    there.send()
    asked = len(there.asked)
    there.stage.change(providers={ADVISER: Recorded(there.stage.log, NAME)})
    there.stage.reopen()
    there.stage.runtime.do(SYSTEM, Send("bread"), ME)
    there.stage.run()
    there.stage.log.flush()
    again = [each.payload for each in there.stage.log.read(SYSTEM)]

    assert [each.result for each in again if isinstance(each, Done)] == ["success"]
    assert len(there.asked) == asked
    assert len([each for each in again if isinstance(each, tool.Result)]) == 1


def test_an_errand_that_is_over_asks_nothing() -> None:
    """Opened again, a machine that has come to its end asks no model."""
    there = There()
    there.send()
    there.stage.reopen()
    there.stage.run()

    assert len(there.asked) == 1
    assert there.runes(Done)


def test_an_actor_that_dies_while_the_model_answers_is_replaced() -> None:
    """The call has crashed with it, and the law decides; each is asked for and charged for once."""
    there = There(talkative)
    there.send()
    there.stage.advance(1)
    running = there.stage.runtime._core.tree.running(NAME)
    assert running is not None
    member: Any = running.ctx._members[ME]
    member.ref.kill()
    there.stage.advance(100)

    assert [each.key for each in there.asked] == ["advice-0", "advice-1"]
    assert [each.error_type for each in there.runes(model.Failed)] == ["crash"]
    assert there.asked[0].cancelled()
    assert there.result == "advice"
    there.check()
