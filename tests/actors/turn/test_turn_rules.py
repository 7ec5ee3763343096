"""Rules about what a turn does when: questions, tools, stops and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from actors.budget.runes import BUDGET_EXHAUSTED, Amounts, Exhausted, Limits
from actors.children import EnsureChild
from actors.common_commands import TimeUp
from actors.entity import ROOT, Actor, Routing
from actors.model import runes as model
from actors.turn.delegation import GoOn, HoldUp
from actors.turn.kind import KIND
from actors.turn.lifecycle import (
    LIFECYCLE,
    MAX_CALLS,
    AskModel,
    CloseRound,
    Complete,
    Fail,
    Interrupt,
    PerformModelCall,
    Phase,
    ReceiveCalls,
    Release,
    RestartStream,
    TakeCalls,
    spoken_by,
)
from actors.turn.runes import (
    Completed,
    Error,
    Interrupted,
    StreamRestarted,
    Summary,
    ToolCallsReceived,
    ToolsFinished,
)
from actors.turn.time_slices import StopClock, Tick
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import state_hash
from tests.actors.turn.scenes import (
    AGENT,
    BACK,
    BORN,
    BY,
    EXECUTING,
    NO_TOKENS,
    RESTARTED,
    ROOM,
    SECOND_ROUND,
    SPENT,
    STREAMING,
    TURN,
    USED,
    account,
    agreed,
    answered,
    ask,
    called,
    ended_early,
    executing,
    failed,
    finished,
    given_up,
    plan,
    question,
    result,
)

if TYPE_CHECKING:
    from actors.tool import runes as tool
    from runelog.rune import Rune

FIRST = "turn_1-r0-a0"


# -- asking ------------------------------------------------------------------------------------


def test_a_turn_begins_by_asking_its_model() -> None:
    """What is due says which round and which attempt, and what the model call is to be called."""
    assert Given(LIFECYCLE, BORN).due == [AskModel(FIRST, 0, 0)]
    assert Given(LIFECYCLE, *STREAMING).due == [PerformModelCall(FIRST)]


def test_asking_reserves_in_the_same_append() -> None:
    """A model call is born with its reservation."""
    [born] = Given(LIFECYCLE, BORN).when(ask(), ROOM)

    assert born == called()
    assert isinstance(born, model.Called)
    assert (born.key, born.account, born.reserved) == (FIRST, AGENT, Amounts(tokens=100))


def test_what_is_reserved_is_all_that_a_call_may_come_to() -> None:
    """What is sent, what may come back, a retry if it is one, and what that costs at most.

    Without a price something is set aside where cost is limited, so that no limit means nothing.
    """
    limited = account(Limits(cost=5))
    [first] = Given(LIFECYCLE, BORN).when(replace(ask(), sent=7, cost=3), ROOM)
    [again] = Given(LIFECYCLE, *RESTARTED).when(ask(0, 1), ROOM)
    [unpriced] = Given(LIFECYCLE, BORN).when(ask(), limited)
    _, broke, _ = Given(LIFECYCLE, BORN).when(ask(), account(Limits(cost=0)))

    begun = [each for each in (first, again, unpriced) if isinstance(each, model.Called)]
    assert [each.reserved for each in begun] == [
        Amounts(tokens=107, cost=3),
        Amounts(tokens=100, retries=1),
        Amounts(tokens=100, cost=1),
    ]
    assert broke == Exhausted(AGENT, "cost", 0, 0, FIRST)


def test_what_cannot_be_afforded_ends_the_turn() -> None:
    """The call fails as it begins, nothing is reserved for it, and the turn ends for that."""
    turn = Given(LIFECYCLE, BORN)
    [born, spent, end] = turn.when(ask(), NO_TOKENS)
    why = "tokens of session: 9 of 10 are spoken for"

    assert born == replace(called(), reserved=Amounts())
    assert spent == SPENT
    assert turn.having(born, end).due == [given_up(FIRST, "budget_exhausted", why)]
    places = [KIND.route(turn.state, each) for each in (born, spent, end)]
    assert [each.owner for each in places] == [FIRST, "budget", FIRST]
    assert [each.observers[0] for each in places] == [TURN, ROOT, TURN]


def test_words_of_the_attempt_before_are_kept_if_the_next_cannot_be_afforded() -> None:
    """The refused call has said nothing; one that was made has, be it that it was cancelled."""
    retried = Given(LIFECYCLE, *RESTARTED)
    born, _, end = retried.when(ask(0, 1), NO_TOKENS)
    halted = retried.having(called(0, 1), model.Cancelled(f"{TURN}-r0-a1", BUDGET_EXHAUSTED))

    assert spoken_by(retried.state) == FIRST
    assert spoken_by(retried.having(born, end).state) == FIRST
    assert spoken_by(halted.state) == f"{TURN}-r0-a1"
    assert (
        spoken_by(Given(LIFECYCLE, BORN, *Given(LIFECYCLE, BORN).when(ask(), NO_TOKENS)).state)
        == ""
    )


def test_a_question_that_is_out_of_date_is_refused() -> None:
    """An answer to an earlier `AskModel` does not make a model call of a later attempt."""
    turn = Given(LIFECYCLE, *RESTARTED)

    with pytest.raises(Refused, match="it cannot take Ask now"):
        turn.when(ask(), ROOM)
    assert turn.when(ask(0, 1), ROOM)


# -- tools -------------------------------------------------------------------------------------


def test_calls_are_born_with_the_round() -> None:
    """The turn says which calls it awaits in the same append in which they are born."""
    turn = Given(LIFECYCLE, *STREAMING, answered("a", "b"))
    plans = (plan("a"), plan("b", hold=True))

    assert turn.due == [ReceiveCalls(FIRST)]
    assert turn.when(TakeCalls(plans)) == [
        ToolCallsReceived(("a", "b"), 0, trigger="tool_calls"),
        *plans,
    ]


def test_calls_that_were_taken_are_not_taken_again() -> None:
    """The same calls once more lead to nothing, also when they are back; others are refused."""
    plans = (plan("a"), plan("b"))

    assert Given(LIFECYCLE, *EXECUTING).when(TakeCalls(plans)) == []
    assert Given(LIFECYCLE, *BACK).when(TakeCalls(plans)) == []
    with pytest.raises(Refused, match="it cannot take TakeCalls now"):
        Given(LIFECYCLE, *EXECUTING).when(TakeCalls(plans[:1]))


@pytest.mark.parametrize(
    "plans",
    [
        (),
        (plan("a"),),
        (plan("b"), plan("a")),
        (plan("a"), plan("b"), plan("c")),
        (plan("a"), replace(plan("b"), caller="turn_2")),
        (plan("a"), replace(plan("b"), agent_id="agt_2")),
    ],
)
def test_all_calls_are_taken_and_no_others(plans: tuple[tool.Called, ...]) -> None:
    """A call left out would never have a result, one made up was never asked for."""
    turn = Given(LIFECYCLE, *STREAMING, answered("a", "b"))

    with pytest.raises(Refused, match="not the calls that turn_1-r0-a0 asks for"):
        turn.when(TakeCalls(plans))


def test_safe_calls_run_at_once_and_the_others_one_by_one_after_them() -> None:
    """A call that is not safe in parallel is let go once nothing else of the round goes on."""
    plans = (plan("w1", hold=True), plan("r1"), plan("w2", hold=True), plan("r2"))
    turn = Given(LIFECYCLE, *executing(*plans))
    ensured = {name: EnsureChild(name, "tool") for name in ("w1", "r1", "w2", "r2")}

    assert turn.due == list(ensured.values())
    assert turn.having(result("r2")).due == [ensured["w1"], ensured["r1"], ensured["w2"]]
    turn = turn.having(result("r1"), result("r2"))
    assert turn.due == [ensured["w1"], ensured["w2"], Release("w1")]
    assert turn.having(result("w1", "error")).due == [ensured["w2"], Release("w2")]


@pytest.mark.parametrize("before", [plan("a"), plan("a", verdict="ask")])
def test_a_call_on_hold_waits_also_for_one_that_waits_for_a_human(before: tool.Called) -> None:
    """What a human has yet to approve may still run, and must not run beside it."""
    turn = Given(LIFECYCLE, *executing(before, plan("b", hold=True)))
    ensured = [EnsureChild("a", "tool"), EnsureChild("b", "tool")]

    assert turn.due == ensured
    assert turn.having(question("a")).due == ensured
    assert turn.having(question("a"), agreed("a")).due == ensured
    assert turn.having(question("a"), result("a", "denied")).due == [ensured[1], Release("b")]


def test_nobody_goes_before_the_first_if_all_are_on_hold() -> None:
    """The first of several that all want to be alone is alone: it begins with its birth."""
    turn = Given(LIFECYCLE, *STREAMING, answered("a", "b"))
    runes = turn.when(TakeCalls((plan("a", hold=True), plan("b", hold=True))))

    assert runes[1:] == [plan("a"), plan("b", hold=True)]


def test_the_last_result_closes_the_round() -> None:
    """Once every call is back that is recorded, whatever the results, and the model asked again."""
    turn = Given(LIFECYCLE, *EXECUTING, result("b", "unknown"))
    results = (Summary("a", "denied"), Summary("b", "unknown"))
    closed = ToolsFinished(results, trigger="tools_finished")

    assert turn.due == [EnsureChild("a", "tool")]
    with pytest.raises(Refused):
        turn.when(CloseRound())
    turn = turn.having(result("a", "denied"))
    assert turn.due == [CloseRound()]
    assert turn.when(CloseRound()) == [closed]
    assert turn.having(closed).due == [AskModel("turn_1-r1-a0", 1, 0)]


def test_a_call_has_one_result() -> None:
    """A second result of a call, and one of an earlier round, change nothing."""
    once = Given(LIFECYCLE, *EXECUTING, result("a"))
    later = Given(LIFECYCLE, *SECOND_ROUND, called(1))

    assert once.having(result("a", "error")).state == once.state
    assert later.having(result("a", "cancelled", "steer")).state == later.state
    assert later.having(answered("x"), plan("a", verdict="ask")).state == later.state


def test_a_round_leaves_only_sums() -> None:
    """The next round begins with its first attempt and no calls, however often this one failed."""
    past = (*RESTARTED, called(0, 1), answered("a", attempt=1), ToolCallsReceived(("a",), 0))
    closed = ToolsFinished((Summary("a", "success"),))
    turn = Given(LIFECYCLE, *past, plan("a"), result("a"), closed)

    assert turn.state.calls == ()
    assert turn.due == [AskModel("turn_1-r1-a0", 1, 0)]


@pytest.mark.parametrize("asked", [MAX_CALLS, MAX_CALLS + 1, 10_000])
def test_a_model_that_asks_for_too_much_at_once_ends_the_turn(asked: int) -> None:
    """Up to the limit calls are made; beyond it none is, so that none is left without a result."""
    turn = Given(LIFECYCLE, *STREAMING, answered(*(f"call_{n}" for n in range(asked))))
    [effect] = turn.due

    if asked == MAX_CALLS:
        assert effect == ReceiveCalls(FIRST)
    else:
        assert effect == given_up(
            FIRST, "too_many_calls", "the model asked for more than 128 calls at once"
        )
        with pytest.raises(Refused):
            turn.when(TakeCalls(tuple(plan(f"call_{n}") for n in range(asked))))
        assert state_hash(turn.state) == state_hash(
            Given(LIFECYCLE, *STREAMING, answered(*(f"call_{n}" for n in range(200)))).state
        )


def test_a_model_that_never_stops_asking_ends_the_turn() -> None:
    """What its last answer asks for is not run, as no answer would follow to tell of it."""
    born = replace(BORN, max_rounds=2)
    last = Given(LIFECYCLE, born, *SECOND_ROUND[1:], called(1), answered("c", round_=1))
    message = (
        "the model still asks for tools in its answer number 2, and a turn of this agent has "
        "max_rounds=2"
    )

    assert last.due == [given_up("turn_1-r1-a0", "too_many_rounds", message)]
    with pytest.raises(Refused):
        last.when(TakeCalls((plan("c"),)))
    assert Given(LIFECYCLE, born, *STREAMING[1:], answered("a")).due == [ReceiveCalls(FIRST)]
    said = Given(LIFECYCLE, born, *SECOND_ROUND[1:], called(1), answered(round_=1))
    assert said.due == [finished("turn_1-r1-a0")]


# -- ends --------------------------------------------------------------------------------------


def test_an_answer_that_asks_for_nothing_completes_the_turn() -> None:
    """The end carries the last words and the sum of what all model calls and tools used."""
    turn = Given(LIFECYCLE, *SECOND_ROUND, called(1), answered(round_=1))
    used = Amounts(tokens=20, tool_calls=2)

    assert turn.due == [finished("turn_1-r1-a0")]
    assert turn.when(Complete("4")) == [
        Completed("4", used, "turn_1", trigger="response_done"),
    ]


def test_only_what_was_begun_is_in_the_sum() -> None:
    """Of three calls that the model asks for, the one that is charged counts, and counts once."""
    turn = Given(LIFECYCLE, *executing(plan("a"), plan("b"), plan("c")))
    never = Amounts()
    over = turn.having(
        result("a", "error", charged=never), result("b", "denied", charged=never), result("c")
    )
    others = over.having(result("call_of_another_turn"))

    assert turn.state.used == USED
    assert over.state.used == others.state.used == replace(USED, tool_calls=1)


def test_a_turn_that_ends_with_its_tools_says_so() -> None:
    """Where nobody asks the model again, the results are what completed the turn."""
    used = replace(USED, tool_calls=2)

    assert Given(LIFECYCLE, *BACK).when(Complete("4")) == [
        Completed("4", used, "turn_1", trigger="tools_finished")
    ]


def test_what_a_failed_attempt_used_is_in_the_sum() -> None:
    """A charge does not go away because the answer was dropped."""
    lost = replace(failed(), charged=Amounts(tokens=7))
    restarted = StreamRestarted(0, 1, "overloaded", FIRST)
    turn = Given(LIFECYCLE, *STREAMING, lost, restarted, called(0, 1), answered(attempt=1))

    assert turn.state.used == Amounts(tokens=17)


@pytest.mark.parametrize("place", [STREAMING, EXECUTING])
def test_a_turn_does_not_end_before_its_calls(place: tuple[Rune, ...]) -> None:
    """Who wants to end it is told what goes on, and to cancel it first."""
    turn = Given(LIFECYCLE, *place)

    for command in (Interrupt("steer"), Fail("no_provider"), TimeUp(BY), Complete("")):
        with pytest.raises(Refused, match=r"while (turn_1-r0-a0|a, b) goes on; cancel first$"):
            turn.when(command)


def test_a_long_list_of_what_goes_on_is_cut() -> None:
    """A refusal names a few and says how many more there are."""
    turn = Given(LIFECYCLE, *executing(*(plan(f"c{n}") for n in range(9))))

    with pytest.raises(Refused, match="while c0, c1, c2 and 6 more goes on"):
        turn.when(Interrupt("steer"))


@pytest.mark.parametrize(
    ("why", "actor"),
    [("steer", "user"), ("steer", "system"), ("timeout", "user"), ("budget_exhausted", "user")],
)
def test_an_interrupt_goes_the_way_of_what_it_cancelled(why: str, actor: Actor) -> None:
    """Whoever was killed in between, why and who are in the log, and so the end is the same."""
    stopped = model.Cancelled(model_call_id=FIRST, reason=why, actor=actor)
    streaming = Given(LIFECYCLE, *STREAMING, stopped)
    tools = Given(LIFECYCLE, *EXECUTING, result("b"), result("a", "cancelled", why, actor))

    for turn in (streaming, tools):
        assert turn.due == [ended_early(FIRST, why, actor)]
        assert turn.when(Interrupt(why, "4 is", actor)) == [
            Interrupted(why, "4 is", "turn_1", turn.state.used, trigger=why, actor=actor)
        ]
    with pytest.raises(Refused):
        tools.when(CloseRound())
    with pytest.raises(Refused):
        tools.when(Complete("4"))


def test_the_first_reason_to_stop_is_the_reason() -> None:
    """A turn that is stopped twice ends for what stopped it first."""
    stops = (
        result("b", "cancelled", "steer", "user"),
        result("a", "cancelled", "timeout", "timeout"),
    )
    turn = Given(LIFECYCLE, *EXECUTING, *stops)

    assert turn.due == [ended_early(FIRST, "steer", "user")]


def test_a_turn_between_calls_is_interrupted_at_once() -> None:
    """Where nothing goes on there is nothing to cancel."""
    for place in ((BORN,), RESTARTED, BACK, SECOND_ROUND):
        [end] = Given(LIFECYCLE, *place).when(Interrupt("interrupt"))
        assert isinstance(end, Interrupted)


def test_a_call_that_somebody_else_ended_does_not_hold_the_turn() -> None:
    """A tool whose actor is gone for good is ended for it, and the turn goes on or can be ended."""
    turn = Given(LIFECYCLE, *EXECUTING, result("a"), result("b", "unknown"))

    assert turn.due == [CloseRound()]
    assert turn.when(Interrupt("steer"))


# -- where runes go ----------------------------------------------------------------------------


def test_runes_go_to_the_turn_its_calls_and_the_budget() -> None:
    """Agent and session hear where the turn begins and ends, the session of results in between.

    The turn hears of the calls that it gives birth to.
    """
    state = Given(LIFECYCLE, BORN).state
    aloft = Routing(TURN, (AGENT, ROOT))

    assert KIND.births == (type(BORN),)
    assert KIND.route(LIFECYCLE.initial, BORN) == aloft
    for end in (Completed(""), Interrupted(""), Error("")):
        assert KIND.route(state, end) == aloft
    assert KIND.route(state, ToolsFinished(())) == Routing(TURN, (ROOT,))
    assert KIND.route(state, ToolCallsReceived((), 0)) == Routing(TURN)
    assert KIND.route(state, called()) == Routing(FIRST, (TURN, "budget"))
    assert KIND.route(state, plan("a")) == Routing("a", (TURN,))
    assert KIND.route(state, SPENT) == Routing("budget", (ROOT, "session"))
    dear = Exhausted(scope=AGENT, what="cost", used=1, limit=1)
    assert KIND.route(state, dear) == Routing("budget", (ROOT, AGENT))


def test_of_a_turn_only_its_model_call_and_its_time_can_be_in_doubt() -> None:
    """It touches nothing else outside: its calls of tools settle their own doubts."""
    assert KIND.external == {PerformModelCall, Tick, StopClock}
    assert KIND.internal == {CloseRound, RestartStream, HoldUp, GoOn}
    assert Given(LIFECYCLE, *EXECUTING).state.phase is Phase.TOOL_EXECUTING
