"""Rules about agents: one turn at a time, and an end that is final."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agent import runes
from actors.agent.kind import KIND
from actors.agent.lifecycle import (
    LIFECYCLE,
    MATERIALS,
    BecomeReady,
    Equip,
    Fail,
    Phase,
    Prepare,
    has_material,
)
from actors.agent.public_commands import Terminate
from actors.agent.runes import AgentConfig, Stats
from actors.budget import runes as budgets
from actors.budget.runes import Amounts
from actors.children import EnsureChild
from actors.common_commands import Abandon, Cancel
from actors.entity import ROOT, Moved, Routing
from actors.turn import runes as turns
from runefold.testing.spec import Given
from runelog.errors import Refused
from runelog.lifecycle import describe, fold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.agent.lifecycle import Command, Effect
    from runelog.rune import Rune

ME = "agt_0000000000000001"
PARENT = "agt_0000000000000000"
SPAWNING = (runes.Spawning(agent_id=ME, role="clerk", model="echo", parent_id=PARENT),)
READY = runes.Ready(agent_id=ME, trigger="init_complete")
STARTED = turns.Started(turn_id="turn_7", agent_id=ME, input="hello")
IDLE = (*SPAWNING, READY)
RUNNING = (*IDLE, STARTED)

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.SPAWNING: SPAWNING,
    Phase.IDLE: IDLE,
    Phase.RUNNING_TURN: RUNNING,
    Phase.FAILED: (*SPAWNING, runes.Failed(agent_id=ME, error="no model")),
    Phase.TERMINATED: (*IDLE, runes.Terminated(agent_id=ME, reason="kill")),
}
"""One way into each phase."""

SAMPLES: tuple[Rune, ...] = (
    SPAWNING[0],
    READY,
    runes.Failed(agent_id=ME, error="no model"),
    runes.Terminated(agent_id=ME, reason="kill"),
    runes.Equipped(agent_id=ME, hash="h", system="be kind"),
    STARTED,
    turns.Completed(final_output="done", usage=Amounts(tokens=5)),
    turns.Interrupted(reason="user"),
    turns.Error(error_type="provider"),
    budgets.Exhausted(scope=ME, what="tokens", used=9, limit=10),
    budgets.Replenished(scope=ME, amounts=Amounts(tokens=10)),
)
"""One rune of each kind that an agent's stream can have."""

ROWS = {
    ("spawning", "idle", "agent.ready"),
    ("spawning", "failed", "agent.failed"),
    ("idle", "running_turn", "turn.started"),
    ("idle", "terminated", "agent.terminated"),
    ("running_turn", "idle", "turn.completed"),
    ("running_turn", "idle", "turn.interrupted"),
    ("running_turn", "idle", "turn.error"),
    ("running_turn", "terminated", "agent.terminated"),
}
"""The agent's table, written down a second time and by hand."""


COMMANDS: tuple[Command, ...] = (
    BecomeReady(),
    Fail("no model"),
    Terminate("kill"),
    Terminate("kill", force=True),
    Cancel("session closed", "system"),
    Abandon("boom"),
    Equip("h", "be kind"),
)


def test_the_printed_table_is_the_one_on_paper() -> None:
    """Row for row, nothing more and nothing less."""
    found = describe(LIFECYCLE)

    assert {(row.origin, row.to, row.on) for row in found.transitions} == ROWS
    assert len(found.transitions) == len(ROWS)
    assert found.initial == "spawning"
    assert set(found.terminal) == {"failed", "terminated"}


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("command", COMMANDS, ids=repr)
def test_what_is_decided_can_be_folded_and_is_decided_once(phase: Phase, command: Command) -> None:
    """A command is carried out or refused; carried out, it leads to nothing when it is repeated."""
    agent = Given(LIFECYCLE, *PAST[phase])
    try:
        after = agent.after(command)
    except Refused:
        return

    assert after.when(command) == []


def test_it_becomes_ready_once_it_was_prepared() -> None:
    """While it is spawning, what it needs is looked for; then it is told that all is there."""
    agent = Given(LIFECYCLE, *SPAWNING)

    assert agent.due == [Prepare()]
    assert agent.when(BecomeReady()) == [READY]
    assert agent.when(Fail("no model")) == [
        runes.Failed(agent_id=ME, error="no model", trigger="init_error")
    ]
    assert agent.after(BecomeReady()).due == []


def test_a_running_turn_has_to_have_its_actor() -> None:
    """However it came to run, live or after a restart."""
    assert Given(LIFECYCLE, *RUNNING).due == [EnsureChild("turn_7", "turn")]


def test_terminating_tells_what_it_did() -> None:
    """The last rune of an agent has its sums."""
    agent = Given(
        LIFECYCLE,
        *RUNNING,
        turns.Completed(final_output="", usage=Amounts(tokens=5)),
        STARTED,
        turns.Error(error_type="x"),
        STARTED,
        turns.Interrupted(reason="user"),
    )
    stats = Stats(turns=3, completed=1, interrupted=1, failed=1, usage=Amounts(tokens=5))

    assert agent.when(Terminate("kill")) == [
        runes.Terminated(agent_id=ME, reason="kill", stats=stats, trigger="kill", actor="user")
    ]


def test_a_running_agent_terminates_only_by_force() -> None:
    """Without force the answer says what to do instead; the turn is left for the session."""
    agent = Given(LIFECYCLE, *RUNNING)

    with pytest.raises(Refused, match="turn_7: interrupt it first, or terminate by force"):
        agent.when(Terminate("kill"))
    [end] = agent.when(Terminate("kill", force=True))
    assert isinstance(end, runes.Terminated)
    assert end.trigger == "kill(force)"
    assert (
        agent.after(Terminate("kill", force=True)).having(turns.Interrupted(reason="x")).due == []
    )


def test_an_agent_that_was_never_ready_fails_when_it_is_terminated() -> None:
    """There is no other way out of spawning."""
    [end] = Given(LIFECYCLE, *SPAWNING).when(Cancel("session closed", "system"))

    assert end == runes.Failed(
        agent_id=ME,
        error="terminated before it was ready: session closed",
        trigger="session closed",
    )


@pytest.mark.parametrize("past", PAST.values(), ids=[phase.value for phase in PAST])
@pytest.mark.parametrize("command", [*COMMANDS, Terminate(""), Terminate("", force=True)])
def test_every_transition_says_what_triggered_it(past: tuple[Rune, ...], command: Command) -> None:
    """Whatever an agent is told, wherever it is, and be it without a reason."""
    try:
        decided = Given(LIFECYCLE, *past).when(command)
    except Refused:
        decided = []

    assert all(rune.trigger for rune in decided if isinstance(rune, Moved))


@pytest.mark.parametrize(("on_exhausted", "ends"), [("suspend", False), ("terminate", True)])
def test_a_spent_agent_terminates_if_it_is_configured_so(on_exhausted: str, *, ends: bool) -> None:
    """It does so once its turn has ended, and not if its budget was replenished by then."""
    config = AgentConfig(on_exhausted=on_exhausted)  # type: ignore[arg-type]  # one of the two
    birth = runes.Spawning(agent_id=ME, role="clerk", model="echo", config=config)
    spent = budgets.Exhausted(scope=ME, what="tokens", used=9, limit=10)
    running = Given(LIFECYCLE, birth, READY, STARTED, spent)
    idle = running.having(turns.Error(error_type="budget"))
    saved = idle.having(budgets.Replenished(scope=ME, amounts=Amounts(tokens=1)))

    assert running.due == [EnsureChild("turn_7", "turn")]
    assert idle.due == ([Cancel("budget_exhausted", "system")] if ends else [])
    assert saved.due == []


def test_the_limit_of_another_scope_does_not_end_it() -> None:
    """An agent goes by its own budget."""
    birth = runes.Spawning(
        agent_id=ME, role="clerk", model="echo", config=AgentConfig(on_exhausted="terminate")
    )
    other = budgets.Exhausted(scope="session", what="tokens", used=9, limit=10)

    assert Given(LIFECYCLE, birth, READY, other).due == []


def test_prompt_material_is_kept_once() -> None:
    """The same hash is stored once; as many hashes are remembered as can matter."""
    agent = Given(LIFECYCLE, *IDLE)
    first = agent.after(Equip("h0", "be kind", ({"name": "add"},)))
    for number in range(1, MATERIALS + 1):
        first = first.after(Equip(f"h{number}", "be kind"))

    assert agent.when(Equip("h0", "be kind", ({"name": "add"},))) == [
        runes.Equipped(agent_id=ME, hash="h0", system="be kind", tools=({"name": "add"},))
    ]
    assert first.when(Equip("h1", "be kind")) == []
    assert len(first.state.materials) == MATERIALS


def test_material_that_is_used_again_is_not_stored_again() -> None:
    """After an app went back to an older set of tools, nothing has to be stored with each message.

    The actor goes by the same rule as the law, so that it asks for no decision that comes to
    nothing.
    """
    agent = Given(LIFECYCLE, *IDLE).after(Equip("old", "")).after(Equip("new", ""))

    assert has_material(agent.state, "old")
    assert has_material(agent.state, "new")
    assert not has_material(agent.state, "other")
    assert agent.when(Equip("old", "")) == []


def test_the_session_hears_of_its_life_and_not_of_its_prompt() -> None:
    """Prompt material is nobody else's business; a parent would take an end for its own."""
    state = fold(LIFECYCLE, IDLE)

    assert KIND.route(state, READY) == Routing(ME, (ROOT,))
    assert KIND.route(state, SAMPLES[4]) == Routing(ME)


@pytest.mark.parametrize("phase", Phase)
def test_only_work_under_way_is_open(phase: Phase) -> None:
    """A restart sees to agents that were becoming ready; a turn is open by itself."""
    state = fold(LIFECYCLE, PAST[phase])

    assert KIND.is_open(state) == (phase is Phase.SPAWNING)


# -- any story ---------------------------------------------------------------------------------


def walk(wishes: Sequence[Rune]) -> list[Rune]:
    """Keep those of the runes that are allowed where they come."""
    state = LIFECYCLE.initial
    past: list[Rune] = []
    for rune in (SPAWNING[0], *wishes):
        # The session never gives an agent a second turn; see its own rules.
        if isinstance(rune, turns.Started) and state.phase is not Phase.IDLE:
            continue
        if LIFECYCLE.allows(state, rune):
            state = LIFECYCLE.apply(state, rune)
            past.append(rune)
    return past


histories = st.lists(st.sampled_from(SAMPLES), max_size=40).map(walk)


def answer(effect: Effect) -> Command | None:
    """Return the command that an effect leads to, if it leads to one."""
    match effect:
        case Prepare():
            return BecomeReady()
        case Cancel():
            return effect
        case EnsureChild():
            return None


@given(histories)
def test_what_is_due_is_allowed(past: list[Rune]) -> None:
    """An effect is never due whose outcome the law would then refuse."""
    agent = Given(LIFECYCLE, *past)

    for effect in agent.due:
        command = answer(effect)
        assert command is None or agent.when(command)
    if LIFECYCLE.is_over(agent.state):
        assert agent.due == []


@given(histories, st.sampled_from(COMMANDS))
def test_a_command_is_carried_out_or_refused_and_never_illegal(
    past: list[Rune], command: Command
) -> None:
    """Whatever happened, an answer can be folded, and asking again adds nothing."""
    agent = Given(LIFECYCLE, *past)
    try:
        after = agent.after(command)
    except Refused:
        return

    assert after.when(command) == []
    assert after.state.turn_id is None or after.state.phase is not Phase.IDLE


def test_the_state_does_not_grow_with_its_turns() -> None:
    """A thousand turns leave as much behind as one."""
    turn = (STARTED, turns.Completed(final_output="x" * 100, usage=Amounts(tokens=1)))
    one, many = fold(LIFECYCLE, [*IDLE, *turn]), fold(LIFECYCLE, [*IDLE, *(turn * 1000)])

    assert abs(len(repr(many)) - len(repr(one))) < 20
