"""Rules about pauses, suspensions and what leads to them, told as small stories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from actors import children
from actors.agent.lifecycle import BecomeReady
from actors.agent.public_commands import Terminate
from actors.agent.runes import AgentConfig
from actors.budget import runes as budgets
from actors.budget.runes import Amounts
from actors.children import EnsureChild
from actors.common_commands import Abandon
from actors.public_command import Numbered
from actors.session import lifecycle as ask
from actors.session import members, queue, runes
from actors.session import public_commands as orders
from actors.session.lifecycle import Phase, State, is_at_work, is_open
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.lifecycle import fold
from runelog.rune import kind_of
from tests.actors.session.scenes import CHILD, inputs, ready, send, spawn
from tests.actors.session.world import ROOT, World

if TYPE_CHECKING:
    from runelog.rune import Rune


def test_a_pause_lets_turns_finish_or_interrupts_them() -> None:
    """The caller chooses; in neither case does another turn begin."""
    for finish in (True, False):
        world = ready()
        send(world, "m1")
        send(world, "s1", "steer")
        world.tell("session", orders.Pause(finish=finish))

        assert world.due == [
            *([] if finish else [queue.InterruptTurn("turn_1", "pause")]),
            EnsureChild(ROOT, "agent"),
        ]
        world.settle()
        assert inputs(world) == ["m1"]


def test_a_pause_that_waits_cannot_be_made_a_hard_one() -> None:
    """The table has no way for it; whoever wants it is told to interrupt the turn."""
    world = ready()
    send(world, "m1")
    world.tell("session", orders.Pause())

    with pytest.raises(Refused) as refused:
        world.tell("session", orders.Pause(finish=False))
    assert str(refused.value) == (
        "session is paused: it cannot take Pause(finish=False) now, as the pause lets turn_1 "
        "finish; stop what runs with interrupt() (runefold interrupt), and it stays paused"
    )


def test_where_nothing_runs_one_pause_is_as_hard_as_the_other() -> None:
    """There is nothing to stop, and nothing begins: that is so already."""
    world = ready()
    world.tell("session", orders.Pause())
    before = len(world.log)
    world.tell("session", orders.Pause(finish=False))

    assert len(world.log) == before


def test_five_failed_turns_in_a_row_suspend_the_session() -> None:
    """A turn that completes begins the count anew; one that is interrupted says nothing."""
    world = ready()
    ends = [turns.Error] * 4 + [turns.Completed] + [turns.Error] * 3 + [turns.Interrupted]
    for number, end in enumerate((*ends, turns.Error)):
        send(world, f"m{number}")
        world.end(world.session.running[0], end)

    assert world.is_in(Phase.ACTIVE)
    send(world, "last")
    world.end(world.session.running[0], turns.Error)
    assert world.is_in(Phase.SUSPENDED)
    assert world.session.suspension == "error_threshold"
    world.tell("session", orders.Unsuspend())
    assert world.session.failures == 0


def test_three_unclean_opens_without_an_outcome_suspend_the_session() -> None:
    """From then on the session is left alone: what crashed three times is not tried again."""
    world = ready()
    send(world, "m1")
    world.tell("session", children.Reopen(1))
    world.tell("session", children.Reopen(2))
    counted = world.tell("session", children.Reopen(2))

    assert counted == []
    assert world.due == [EnsureChild(ROOT, "agent")]
    assert [kind_of(rune) for rune in world.tell("session", children.Reopen(3))] == [
        "session.reopened",
        "session.suspended",
    ]
    assert world.due == []
    assert not is_open(world.session)
    world.tell("session", orders.Unsuspend())
    assert world.due == [EnsureChild(ROOT, "agent")]


def test_an_outcome_begins_the_count_of_opens_anew() -> None:
    """A turn's end, a finished round, or a result that only the log has."""
    world = ready()
    send(world, "m1")
    for epoch in (1, 2):
        world.tell("session", children.Reopen(epoch))
    [again] = world.tell("session", children.Reopen(3, outcome=True))
    lifecycle = world.law("session").lifecycle
    after_round = lifecycle.apply(world.session, turns.ToolsFinished(results=()))
    world.end(world.session.running[0])

    assert again == runes.Reopened(unclean=1, epoch=3)
    assert after_round.unclean == 0
    assert world.session.unclean == 0


def test_an_end_in_order_makes_the_next_open_no_mishap() -> None:
    """It is recorded once; opened again, nothing is counted, and what was counted stays."""
    world = ready()
    send(world, "m1")
    world.tell("session", children.Reopen(1))
    rested = world.tell("session", children.Rest())
    again = world.tell("session", children.Rest())
    [clean] = world.tell("session", children.Reopen(2))
    [crashed] = world.tell("session", children.Reopen(3))

    assert (rested, again) == ([runes.Rested()], [])
    assert clean == runes.Reopened(unclean=1, epoch=2)
    assert crashed == runes.Reopened(unclean=2, epoch=3)


def test_whatever_happens_after_an_end_in_order_makes_it_none() -> None:
    """Somebody runs it again: if that one crashes, it counts."""
    world = ready()
    send(world, "m1")
    world.tell("session", children.Rest())
    send(world, "m2")

    assert world.tell("session", children.Reopen(1)) == [runes.Reopened(unclean=1, epoch=1)]


def test_an_end_in_order_is_recorded_only_while_there_is_a_session() -> None:
    """Before it is created and after it is closed there is nothing that could be left."""
    world = ready()
    world.tell("session", orders.Close())
    world.settle()

    assert world.tell("session", children.Rest()) == []
    assert world.law("session").lifecycle.decide(State(), children.Rest()) == []


def test_a_session_that_cannot_be_kept_alive_is_suspended_for_that() -> None:
    """Whichever process gives it up has its law decide; a second one adds nothing."""
    world = ready()
    [suspended] = world.tell("session", Abandon("RuntimeError('boom')"))

    assert suspended == runes.Suspended(reason="error_threshold: RuntimeError('boom')")
    assert world.tell("session", Abandon("again")) == []


def test_five_restarts_since_a_turn_last_completed_suspend_the_session() -> None:
    """A turn that completes begins the count anew; one that ends in another way does not."""
    world = ready()
    others: list[type[Rune]] = [turns.Interrupted, turns.Error] * 2
    ends: list[type[Rune]] = [turns.Completed, *others]
    for number, end in enumerate(ends):
        send(world, f"m{number}")
        world.tell("session", children.NoteRestart("turn_1", "crash", 1, at=number))
        world.end(world.session.running[0], end)
    send(world, "last")

    assert world.session.restarts == 4
    assert world.is_in(Phase.ACTIVE)
    assert [kind_of(rune) for rune in _restarted(world, 9)] == [
        "session.child_restarted",
        "session.suspended",
    ]
    assert world.session.suspension == "error_threshold: 5 restarts, the last of turn_6"
    assert world.due == []
    assert not is_open(world.session)
    world.tell("session", orders.Unsuspend())
    assert world.session.restarts == 0
    assert world.due == [EnsureChild(ROOT, "agent")]


def _restarted(world: World, at: int) -> list[Rune]:
    return world.tell("session", children.NoteRestart("turn_6", "crash", 1, at=at))


def test_restarts_that_were_noted_before_they_were_told_apart_count_too() -> None:
    """A log from before has no times in its notes; it is read as it is."""
    old = {"kind": "session.child_restarted", "child": "turn_1", "reason": "crash"}
    note = msgspec.convert(old, runes.ChildRestarted)
    world = ready()
    law = world.law("session").lifecycle
    state = fold(law, [note, note], world.session)

    assert (state.restarts, state.restarted) == (2, note)
    assert law.due(state) == world.due
    assert len(law.decide(state, children.NoteRestart("turn_1", "crash", 1, at=7))) == 1


def test_what_is_queued_is_left_to_do_and_no_work_of_the_session() -> None:
    """It waits behind a turn; once that has ended, to take it up is."""
    world = ready()
    send(world, "m1")
    send(world, "m2")
    queued = world.session
    law = world.law("session").lifecycle
    free = law.apply(queued, turns.Completed(final_output="", turn_id="turn_1"))
    send(world, "s1", "steer")

    assert (is_open(queued), is_at_work(queued)) == (True, False)
    assert is_at_work(free)
    assert is_at_work(world.session)


def test_a_session_that_cannot_even_begin_is_suspended() -> None:
    """Three unclean opens while the root was spawning lead through active to suspended."""
    world = World()
    for epoch in (1, 2, 3):
        world.tell("session", children.Reopen(epoch))

    assert world.is_in(Phase.SUSPENDED)
    assert world.due == []


def test_a_paused_session_that_keeps_crashing_is_left_alone() -> None:
    """It cannot be suspended from there; resumed, it is."""
    world = ready()
    send(world, "m1")
    world.tell("session", orders.Pause())
    for epoch in (1, 2, 3):
        world.tell("session", children.Reopen(epoch))

    assert world.is_in(Phase.PAUSED)
    assert world.due == []
    world.tell("session", orders.Resume())
    assert world.is_in(Phase.SUSPENDED)


def test_an_exhausted_budget_suspends_until_it_is_replenished() -> None:
    """The rune says which limit it was; raising another one does not help."""
    world = ready()
    spawn(world)
    send(world, "m1")
    send(world, "m2")
    world.end(world.session.running[0], turns.Error, world.exhaust(ROOT))
    info = runes.BudgetInfo(scope=ROOT, what="tokens", used=10, limit=10)

    assert world.log[-1] == runes.Suspended(reason="budget_exhausted", budget_info=info)
    world.tell("session", Numbered(orders.Replenish(CHILD, tokens=5), "r1"))
    assert world.is_in(Phase.SUSPENDED)
    world.tell("session", Numbered(orders.Replenish(ROOT, tokens=5), "r2"))
    assert world.is_in(Phase.ACTIVE)
    assert world.tell("session", Numbered(orders.Replenish(ROOT, tokens=5), "r2")) == []
    world.settle()
    assert inputs(world) == ["m1", "m2"]


def test_replenishing_does_not_wake_a_session_without_a_root() -> None:
    """The budget was seen to, and nobody is there to go on."""
    world = ready()
    send(world, "m1")
    world.end(world.session.running[0], turns.Error, world.exhaust("session"))
    world.tell(ROOT, Terminate("kill"))
    world.tell("session", Numbered(orders.Replenish(tokens=5), "r1"))

    assert world.is_in(Phase.SUSPENDED)


def test_messages_for_who_is_gone_are_refused_during_a_pause_too() -> None:
    """An answer that is certain does not wait."""
    world = ready()
    spawn(world)
    world.tell("session", orders.Pause())
    send(world, "m1", to=CHILD)
    world.tell(CHILD, Terminate("kill"))

    assert world.answers() == {"m1": 1}


def test_replenishing_what_is_not_there_is_refused() -> None:
    """Nor can anything be taken away."""
    world = ready()

    for scope, amount in (("agt_nobody", 1), ("session", -1)):
        with pytest.raises(Refused):
            world.tell("session", Numbered(orders.Replenish(scope, tokens=amount), "r1"))


def test_a_spent_agent_that_terminates_leaves_the_session_going() -> None:
    """As configured for the agent; what waited for it is refused, and no turn begins for it."""
    world = ready()
    spend = AgentConfig(on_exhausted="terminate")
    world.tell("session", members.Spawn(CHILD, "clerk", "echo", ROOT, spend))
    world.tell(CHILD, BecomeReady())
    send(world, "m1", to=CHILD)
    send(world, "m2", to=CHILD)
    world.end(world.session.running[0], turns.Error, world.exhaust(CHILD))

    assert world.is_in(Phase.ACTIVE)
    assert [each.agent_id for each in world.session.members] == [ROOT]
    assert inputs(world) == ["m1"]
    assert world.answers() == {"m1": 1, "m2": 1}


def test_no_turn_begins_for_an_agent_that_is_about_to_terminate() -> None:
    """Between its refusal and its end the session gives it nothing, and wants it to be there."""
    law = World().law("session").lifecycle
    world = ready(root=AgentConfig(on_exhausted="terminate"))
    send(world, "m1")
    alone = law.apply(world.session, world.exhaust(ROOT))
    alone = law.apply(alone, turns.Error(error_type="budget", turn_id="turn_1"))
    send(world, "m2")
    state = law.apply(world.session, world.exhaust(ROOT))
    state = law.apply(state, turns.Error(error_type="budget", turn_id="turn_1"))
    saved = law.apply(state, budgets.Replenished(scope=ROOT, amounts=Amounts(tokens=1)))

    assert law.due(alone) == law.due(state) == [EnsureChild(ROOT, "agent")]
    assert queue.BeginTurn(ROOT, "m2") in law.due(saved)


@pytest.mark.parametrize(
    ("first", "then", "way_out"),
    [
        (orders.Pause(), orders.Suspend("why"), "resume it first"),
        (orders.Pause(), orders.Unsuspend(), "resume it first"),
        (orders.Suspend("why"), orders.Pause(), "unsuspend it first"),
        (orders.Suspend("why"), orders.Resume(), "unsuspend it first"),
        (orders.Pause(), orders.Archive(), "close it first"),
        (orders.Close(), orders.Pause(), "create another one"),
    ],
)
def test_what_a_phase_does_not_allow_is_refused_with_the_way_out(
    first: ask.Command, then: ask.Command, way_out: str
) -> None:
    """Whoever asks reads what to do before they ask again."""
    world = ready()
    world.tell("session", first)

    with pytest.raises(Refused, match=f"it cannot take .* now; {way_out}"):
        world.tell("session", then)
