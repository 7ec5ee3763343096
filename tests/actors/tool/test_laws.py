"""Laws that hold for a tool call whatever is asked of it, in whatever order, and whenever it dies.

A `World` plays the shell: it keeps the log, the passive entities, and what is under way in this
process. A crash takes everything but the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, get_args

import msgspec
from hypothesis import event, given, settings
from hypothesis import strategies as st

from actors.approval import lifecycle as approvals
from actors.approval import runes as approval
from actors.budget.runes import Amounts
from actors.common_commands import Abandon, Cancel, Recover, TimeUp
from actors.tool.kind import KIND
from actors.tool.lifecycle import (
    LIFECYCLE,
    Answer,
    Begin,
    Command,
    Fail,
    Finish,
    Go,
    Phase,
    Probe,
    Probed,
    Report,
    RunTool,
)
from actors.tool.runes import Approved, Called, InDoubt, Result, Retried, Ruling, Started
from runelog.errors import Refused
from runelog.lifecycle import fold, state_hash
from tests.actors.tool.calls import (
    APR,
    APR_2,
    EMPTY,
    ID,
    NOW,
    ROOM,
    answer,
    approve,
    called,
    deny,
)
from tests.folding import cascade

if TYPE_CHECKING:
    from actors.budget import lifecycle as ledger
    from runelog.rune import Rune

APPROVAL_RUNES = approvals.LIFECYCLE.runes | {approval.Requested}


class World:
    """One call, its log and its passive entities."""

    def __init__(self, call: Called, budget: ledger.State = ROOM) -> None:
        """Let the call be born, and whatever follows from that."""
        self.call = call
        self.budget = budget
        self.log: list[Rune] = []
        self.approvals: dict[str, approvals.State] = {}
        self.under_way: set[RunTool | Probe] = set()
        self.runs = 0
        """How often the tool was run."""
        self.allowed = 0
        """How often a human or a probe said that it may run again."""
        self.state = LIFECYCLE.initial
        self.now = NOW
        self.record([call])

    def record(self, runes: list[Rune]) -> list[Rune]:
        """Append runes and what is then due internally, and fold them where they belong."""
        self.state, found = cascade(KIND, ID, self.state, runes, self._read)
        for rune in found:
            owner = KIND.route(self.state, rune).owner
            if type(rune) in APPROVAL_RUNES:
                before = self.approvals.get(owner, approvals.LIFECYCLE.initial)
                self.approvals[owner] = approvals.LIFECYCLE.apply(before, rune)
        self.log += found
        return found

    def ask(self, command: Command) -> list[Rune]:
        """Have a command decided; a refusal leads to nothing."""
        if isinstance(command, Answer) and command.approval_id == "now":
            command = msgspec.structs.replace(command, approval_id=self.state.approval_id)
        attempt = self.state.attempt
        try:
            runes = self.record(list(LIFECYCLE.decided(self.state, command, self._read)))
        except Refused:
            return []
        match command:
            case Probed(happened=False) if runes:
                # What a probe says of an earlier run allows nothing.
                self.allowed += command.attempt == attempt
            case Answer(verdict="rerun") if runes:
                self.allowed += 1
        return runes

    def _read(self, _entity: str) -> ledger.State:
        return self.budget

    def perform(self) -> None:
        """Begin what is due and not under way."""
        for effect in LIFECYCLE.due(self.state):
            assert isinstance(effect, RunTool | Probe)
            if effect not in self.under_way:
                self.under_way.add(effect)
                self.runs += isinstance(effect, RunTool)

    def crash(self) -> None:
        """Lose everything but the log, come back, and settle what is in doubt."""
        self.state = fold(LIFECYCLE, self.log)
        self.under_way.clear()
        if any(type(effect) in KIND.external for effect in LIFECYCLE.due(self.state)):
            self.ask(Recover(now=self.now))

    def go_on(self) -> None:
        """Answer whatever is waited for, so that the tool runs and runs again if it may."""
        state, asked = self.state, self.state.approval_id
        if state.phase is Phase.PENDING_CALL:
            self.ask(Go(now=NOW))
        elif state.phase is Phase.AWAITING_APPROVAL and state.started:
            self.ask(answer(approval_id=asked, approver="ada", verdict="rerun", now=NOW))
        elif state.phase is Phase.AWAITING_APPROVAL:
            self.ask(approve(approval_id=asked, approver="ada", now=NOW))
        elif state.doubted:
            self.ask(Probed(attempt=state.attempt, happened=False, now=NOW))
        self.perform()

    def count(self, kind: type[Rune]) -> int:
        """Tell how many runes of a kind are in the log."""
        return sum(isinstance(rune, kind) for rune in self.log)


Step: TypeAlias = Command | str

NAMES = ("now", "now", "now", APR, APR_2, "apr_1")
"""Approvals that are answered; `now` is the one that was asked for last."""
words: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        answer,
        st.sampled_from(NAMES),
        st.sampled_from(["ada", "bob"]),
        st.sampled_from(["rerun", "happened", "give_up"]),
        st.integers(NOW, NOW + 100),
    ),
    st.builds(
        approve,
        st.sampled_from(NAMES),
        st.sampled_from(["ada", "bob"]),
        st.integers(NOW, NOW + 100),
    ),
    st.builds(deny, st.sampled_from(NAMES), st.just("ada"), st.just("no"), st.just(NOW)),
)
others: st.SearchStrategy[Command] = st.one_of(
    st.builds(
        Probed,
        st.sampled_from([True, False, None]),
        attempt=st.integers(0, 3),
        now=st.just(NOW),
    ),
    st.sampled_from([Go(now=NOW), Begin(), Report(stream="stdout", chunk="…")]),
    st.sampled_from(
        [
            Finish(output=4),
            Fail(error="boom"),
            Fail(error="boom", attempt=0),
            Abandon(reason="gone"),
            Cancel(reason="enough"),
            TimeUp(now=NOW + 60),
            TimeUp(now=NOW * NOW),
        ]
    ),
)
commands = words | others
# Most steps keep the call going: one that ends at once teaches nothing about crashes.
steps: st.SearchStrategy[Step] = st.sampled_from(
    ["go on", "go on", "crash", "crash", "perform", "mistake", "any"]
).flatmap(lambda step: commands if step == "any" else st.just(step))
calls = st.builds(
    called,
    st.sampled_from(["allow", "ask"] * 4 + [*get_args(Ruling)]),
    st.sampled_from(get_args(InDoubt)),
    idempotent=st.booleans(),
    hold=st.booleans(),
)


def walk(call: Called, budget: ledger.State, wishes: list[Step]) -> World:
    """Do one thing after the other; nothing of it may be illegal."""
    world = World(call, budget)
    for step in wishes:
        match step:
            case "perform":
                world.perform()
            case "crash":
                world.crash()
            case "go on":
                world.go_on()
            case "mistake":
                world.ask(approve(approval_id="now", approver="bob", now=NOW))
                world.ask(Probed(attempt=0, happened=False, now=NOW))
            case str():
                raise AssertionError(step)
            case _:
                world.ask(step)
    return world


worlds = st.builds(walk, calls, st.sampled_from([ROOM] * 5 + [EMPTY]), st.lists(steps, max_size=25))


@settings(max_examples=400)
@given(worlds)
def test_what_is_not_idempotent_runs_once_unless_somebody_knows_better(world: World) -> None:
    """However often the process dies, and between whichever runes."""
    event(f"runs {world.runs}, allowed {world.allowed}")

    if not world.call.rule.idempotent:
        assert world.runs <= 1 + world.allowed
        assert world.count(Retried) == world.allowed


@given(worlds)
def test_every_call_can_come_to_exactly_one_result(world: World) -> None:
    """Wherever it is, it can be ended; once ended, nothing follows."""
    event(f"{world.state.phase}, results {world.count(Result)}")
    world.ask(Cancel(reason="the end"))

    assert world.count(Result) == 1
    assert not KIND.is_open(world.state)
    assert LIFECYCLE.is_over(world.state)
    assert LIFECYCLE.due(world.state) == []
    assert KIND.deadline(world.state) is None


@given(worlds)
def test_budget_and_approvals_end_with_the_call(world: World) -> None:
    """What was set aside is settled once; a call that never started costs nothing."""
    world.ask(Cancel(reason="the end"))
    reserved = [rune.reserved for rune in world.log if isinstance(rune, Started)]
    charged = [rune.charged for rune in world.log if isinstance(rune, Result)]

    assert charged == (reserved or [Amounts()])
    for state in world.approvals.values():
        assert approvals.LIFECYCLE.is_over(state)


@given(worlds)
def test_nothing_starts_that_was_not_approved(world: World) -> None:
    """What needs approval starts after it, what is denied never, and a run follows its start."""
    kinds = [type(rune) for rune in world.log]

    if world.call.rule.verdict not in {"allow", "ask"}:
        assert Started not in kinds
    if world.call.rule.verdict == "ask" and Started in kinds:
        assert kinds.index(Approved) < kinds.index(Started)
    if Started not in kinds:
        assert world.runs == 0


@given(worlds)
def test_a_replayed_call_is_the_live_one(world: World) -> None:
    """The log alone gives the same state, hash for hash."""
    assert state_hash(fold(LIFECYCLE, world.log)) == state_hash(world.state)


@given(worlds, commands.filter(lambda command: not isinstance(command, Report)))
def test_a_command_is_carried_out_once(world: World, command: Command) -> None:
    """Repeated, it leads to nothing or is refused, whatever it led to the first time."""
    first = world.ask(command)
    event(f"{type(command).__name__} leads to {len(first)}")

    assert world.ask(command) == []


@given(worlds)
def test_what_is_due_is_allowed(world: World) -> None:
    """Whatever the tool or its probe says is taken, and nothing internal is left over."""
    answers: list[Command] = []
    for effect in LIFECYCLE.due(world.state):
        assert isinstance(effect, RunTool | Probe)
        assert effect.call_id == ID
        if isinstance(effect, RunTool):
            answers += [Finish(output=4), Fail(error="boom", attempt=effect.attempt)]
        else:
            answers += [
                Probed(happened, attempt=effect.attempt, now=NOW)
                for happened in (True, False, None)
            ]

    for each in answers:
        assert LIFECYCLE.decide(world.state, each)


def test_the_state_does_not_grow_with_what_a_tool_says() -> None:
    """A fold over much progress is linear: it keeps none of it."""
    world = World(called())
    size = len(msgspec.msgpack.encode(world.state))
    for _ in range(1_000):
        world.ask(Report(stream="stdout", chunk="x" * 100))

    assert world.state.phase is Phase.EXECUTING
    assert len(msgspec.msgpack.encode(world.state)) == size
