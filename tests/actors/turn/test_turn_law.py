"""Rules about the law of a turn: its table, and whatever holds in every state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.budget.runes import Settles
from actors.common_commands import Recover, TimeUp
from actors.entity import Moved
from actors.model import runes as model
from actors.turn.kind import KIND
from actors.turn.lifecycle import (
    LIFECYCLE,
    CloseRound,
    Command,
    Complete,
    Fail,
    Interrupt,
    Phase,
    RestartStream,
    State,
    TakeCalls,
    under_way,
)
from actors.turn.runes import (
    Completed,
    Error,
    Interrupted,
    Started,
    TimeReserved,
    TimeSettled,
    ToolCallsReceived,
)
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import describe, state_hash
from tests.actors.turn.scenes import (
    BACK,
    BORN,
    BY,
    EXECUTING,
    RESTARTED,
    ROOM,
    SECOND_ROUND,
    STREAMING,
    World,
    answered,
    ask,
    called,
    failed,
    plan,
    result,
)
from tests.folding import cascade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Rune

DRAWN = """
idle           | streaming      | turn.started
streaming      | streaming      | turn.assistant_delta
streaming      | tool_executing | turn.tool_calls_received
streaming      | completed      | turn.completed
streaming      | interrupted    | turn.interrupted
streaming      | error          | turn.error
tool_executing | streaming      | turn.tools_finished
tool_executing | completed      | turn.completed
tool_executing | interrupted    | turn.interrupted
tool_executing | error          | turn.error
completed      | idle           | finalized
interrupted    | idle           | finalized
error          | idle           | finalized
streaming      | streaming      | turn.stream_restarted
tool_executing | tool_executing | tool.result
"""
ROWS = [tuple(cell.strip() for cell in row.split("|")) for row in DRAWN.strip().splitlines()]

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.IDLE: (),
    Phase.STREAMING: STREAMING,
    Phase.TOOL_EXECUTING: EXECUTING,
    Phase.COMPLETED: (*STREAMING, answered(), Completed("done")),
    Phase.INTERRUPTED: (BORN, Interrupted("steer")),
    Phase.ERROR: (BORN, Error("timeout")),
}
"""One way into each phase."""

COMMANDS: tuple[Command, ...] = (
    ask(),
    ask(1),
    ask(0, 1),
    ask(2),
    TakeCalls((plan("a"), plan("b"))),
    TakeCalls(()),
    Complete("done"),
    Interrupt("steer"),
    Fail("no_provider"),
    CloseRound(),
    RestartStream(),
    TimeUp(BY),
    TimeUp(BY - 1),
    Recover(),
)

PLACES: dict[str, tuple[Rune, ...]] = {
    "unborn": (),
    "newborn": (BORN,),
    "streaming": STREAMING,
    "asked for tools": (*STREAMING, answered("a", "b")),
    "answered": (*STREAMING, answered()),
    "failed": (*STREAMING, failed()),
    "failed for good": (*STREAMING, failed(retry=False)),
    "restarted": RESTARTED,
    "cancelled": (*STREAMING, model.Cancelled(model_call_id="turn_1-r0-a0", reason="steer")),
    "executing": EXECUTING,
    "one back": (*EXECUTING, result("b")),
    "all back": BACK,
    "second round": SECOND_ROUND,
    "completed": PAST[Phase.COMPLETED],
    "interrupted": PAST[Phase.INTERRUPTED],
    "error": PAST[Phase.ERROR],
}
"""One way to each place where a turn can stand."""

CARRIED_OUT: dict[str, set[int]] = {
    "newborn": {0, 7, 8, 11},
    "asked for tools": {4, 7, 8, 11},
    "answered": {6, 7, 8},
    "failed": {7, 8, 10, 11},
    "failed for good": {7, 8},
    "restarted": {2, 7, 8, 11},
    "cancelled": {7, 8},
    "all back": {6, 7, 8, 9, 11},
    "second round": {1, 7, 8, 11},
}
"""Which of the commands, by number, lead to something where; all others lead to nothing."""


def test_the_printed_table_is_the_specified_one() -> None:
    """The picture and the law are the same, row for row, each of them once."""
    shown = describe(LIFECYCLE)

    assert sorted((row.origin, row.to, row.on) for row in shown.transitions) == sorted(ROWS)
    assert shown.initial == "idle"
    assert set(shown.terminal) == {"completed", "interrupted", "error"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", range(len(COMMANDS)))
def test_a_command_is_carried_out_where_it_is_meant_and_once(place: str, number: int) -> None:
    """Wherever a turn stands, a command does what it is for or nothing; repeated, nothing."""
    turn, command = Given(LIFECYCLE, *PLACES[place]), COMMANDS[number]
    runes = _decided(turn.state, command)

    assert bool(runes) == (number in CARRIED_OUT.get(place, ()))
    assert _decided(turn.having(*_heard(turn.state, runes)).state, command) == []


def _decided(state: State, command: Command) -> list[Rune]:
    """Return what a command leads to; none if it is refused."""
    try:
        return list(LIFECYCLE.decided(state, command, lambda _budget: ROOM))
    except Refused:
        return []


def _heard(state: State, runes: Sequence[Rune]) -> list[Rune]:
    """Keep those of the runes that are in the turn's own stream."""
    placed = [(KIND.route(state, rune), rune) for rune in runes]
    return [rune for at, rune in placed if "turn_1" in {at.owner, *at.observers}]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_due_internally_is_allowed(place: str) -> None:
    """An internal effect is a command that leads to something at once, and to an end of them."""
    turn = Given(LIFECYCLE, *PLACES[place])
    internal = [effect for effect in turn.due if type(effect) in KIND.internal]
    state, _ = cascade(KIND, "turn_1", turn.state, [])

    for effect in internal:
        assert isinstance(effect, CloseRound | RestartStream)
        assert turn.when(effect)
    assert not [effect for effect in LIFECYCLE.due(state) if type(effect) in KIND.internal]


@pytest.mark.parametrize("place", PLACES)
def test_an_open_turn_has_something_due_and_an_ended_one_has_not(place: str) -> None:
    """No turn stands still: as long as it is open, something is due that brings it on."""
    turn = Given(LIFECYCLE, *PLACES[place])

    assert bool(turn.due) == KIND.is_open(turn.state)
    assert KIND.is_open(turn.state) == (turn.state.phase in {Phase.STREAMING, Phase.TOOL_EXECUTING})


# -- walks -------------------------------------------------------------------------------------

steps = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 89)), max_size=40)
births = st.builds(
    lambda retries, crash, timed: replace(BORN, retries=retries, on_crash=crash, timed=timed),
    st.integers(0, 2),
    st.sampled_from(["retry", "interrupt"]),
    st.booleans(),
)
LATE: tuple[Rune, ...] = (
    model.Completed(model_call_id="turn_1-r9-a9"),
    model.Failed(model_call_id="turn_0-r0-a0", error_type="crash", retryable=True),
    model.Cancelled(model_call_id="", reason="steer"),
    called(9, 9),
)
"""Runes of model calls that are not, or not any more, the turn's concern."""


def walked(born: Started, choices: list[tuple[int, int]]) -> World:
    """Play a turn: mostly what is due, and now and then something that nobody expects."""
    world = World(born)
    for way, choice in choices:
        due = LIFECYCLE.due(world.state)
        if way == 0:
            world.tell(COMMANDS[choice % len(COMMANDS)])
        elif way == 1:
            before = world.state
            world.hear(LATE[choice % len(LATE)])
            assert world.state == before
        elif due:
            world.perform(due[choice % len(due)], choice)
    return world


@given(births, steps)
def test_whatever_happens_live_and_replayed_are_the_same(
    born: Started, choices: list[tuple[int, int]]
) -> None:
    """No walk through the law meets an illegal rune, and its log gives the very same state."""
    world = walked(born, choices)

    assert state_hash(world.replayed()) == state_hash(world.state)
    assert LIFECYCLE.due(world.replayed()) == LIFECYCLE.due(world.state)


@given(births, steps, st.sampled_from(["steer", "timeout"]))
def test_every_turn_can_be_brought_to_an_end(
    born: Started, choices: list[tuple[int, int]], reason: str
) -> None:
    """Once what goes on is cancelled, a turn ends, with the reason it was stopped for if any."""
    world = walked(born, choices)
    held_up = world.state.stopped or world.state.broke
    stopped = () if held_up else under_way(world.state)
    world.stop(reason)

    assert world.is_over
    assert LIFECYCLE.due(world.state) == []
    if stopped:
        end = Error if reason == "timeout" else Interrupted
        assert isinstance(world.stream[-1], end)
        assert getattr(world.stream[-1], "trigger", "") == reason


@given(births, steps)
def test_no_turn_ends_while_something_of_it_goes_on(
    born: Started, choices: list[tuple[int, int]]
) -> None:
    """Until everything has ended, no command whatsoever ends the turn or asks the model again."""
    world = walked(born, choices)

    if under_way(world.state):
        for command in COMMANDS:
            # That time has passed can always be said.
            assert {type(rune) for rune in _decided(world.state, command)} <= {TimeSettled}
        with pytest.raises(Refused, match=r"^turn turn_1 is .* cancel first$"):
            LIFECYCLE.decide(world.state, Interrupt("steer"))


@given(births, steps)
def test_time_that_is_set_aside_is_counted_once(
    born: Started, choices: list[tuple[int, int]]
) -> None:
    """One slice passes at a time, each is counted once, and at the end none is left."""
    world = walked(born, choices)
    world.stop("steer")
    kept = [rune for rune in world.stream if isinstance(rune, TimeReserved | TimeSettled)]
    begun, counted = kept[::2], kept[1::2]

    assert all(isinstance(rune, TimeReserved) for rune in begun)
    assert all(isinstance(rune, TimeSettled) for rune in counted)
    assert [rune.key for rune in begun] == [rune.key for rune in counted]
    assert len({rune.key for rune in begun}) == len(begun)
    assert world.state.used.wall == sum(
        rune.charged.wall for rune in counted if isinstance(rune, TimeSettled)
    )
    assert born.timed or not kept


@given(births, steps)
def test_a_turn_stays_small(born: Started, choices: list[tuple[int, int]]) -> None:
    """Only the current round is kept: calls of earlier rounds leave nothing but sums."""
    world = walked(born, choices)
    taken = [rune for rune in world.stream if isinstance(rune, ToolCallsReceived)]
    kept = [call.call_id for call in world.state.calls]

    assert kept == [] or tuple(kept) == taken[-1].call_ids
    assert world.state.used.tool_calls == sum(
        rune.charged.tool_calls for rune in world.stream if isinstance(rune, Settles)
    )


@given(births, steps)
def test_every_transition_says_what_triggered_it(
    born: Started, choices: list[tuple[int, int]]
) -> None:
    """Whatever happens to a turn, no rune that its law decides leaves that open."""
    world = walked(born, choices)

    assert all(rune.trigger for rune in world.decided if isinstance(rune, Moved))


@pytest.mark.parametrize("command", [Interrupt(""), Fail("")], ids=repr)
def test_an_end_without_a_reason_has_a_trigger(command: Command) -> None:
    """Whoever wants it to end need not say why."""
    [end] = Given(LIFECYCLE, BORN).when(command)

    assert isinstance(end, Moved)
    assert end.trigger
