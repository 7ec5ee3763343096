"""Rules about the session's table: where each rune leads, and what each phase answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors import children, entity
from actors.agent import runes as agents
from actors.agent.runes import AgentConfig
from actors.approval import runes as approvals
from actors.budget import runes as budgets
from actors.budget.runes import Amounts, Limits
from actors.common_commands import Abandon
from actors.entity import Routing
from actors.public_command import Numbered
from actors.session import lifecycle as ask
from actors.session import members, queue, runes
from actors.session import public_commands as orders
from actors.session.approvals import DOUBTS, in_doubt
from actors.session.hand_over import TakeOver
from actors.session.kind import KIND
from actors.session.lifecycle import (
    LIFECYCLE,
    Phase,
    State,
)
from actors.session.queue import message_entity
from actors.session.runes import SessionConfig
from actors.session.suspension import Activate, AutoSuspend, AutoUnsuspend
from actors.tool import runes as tools
from actors.turn import runes as turns
from runefold.testing.spec import Given
from runelog.errors import BadId, Refused
from runelog.lifecycle import describe
from tests.actors.session.world import CONVERSATION, ROOT

if TYPE_CHECKING:
    from actors.session.lifecycle import Command
    from runelog.rune import Rune

BORN: tuple[Rune, ...] = (
    runes.Created(conversation_id=CONVERSATION),
    agents.Spawning(agent_id=ROOT, role="root", model="echo"),
)
ACTIVE = (*BORN, agents.Ready(agent_id=ROOT), runes.Activated(root_agent_id=ROOT))
CLOSING = (*ACTIVE, runes.Closing())
CLOSED = (*CLOSING, agents.Terminated(agent_id=ROOT, reason="x"), runes.Closed())

PAST: dict[Phase, tuple[Rune, ...]] = {
    Phase.CREATED: BORN,
    Phase.ACTIVE: ACTIVE,
    Phase.PAUSED: (*ACTIVE, runes.Paused()),
    Phase.SUSPENDED: (*ACTIVE, runes.Suspended(reason="look")),
    Phase.CLOSING: CLOSING,
    Phase.CLOSED: CLOSED,
    Phase.ARCHIVED: (*CLOSED, runes.Archived()),
}
"""One way into each phase."""

ROWS = {
    ("created", "active", "session.activated"),
    ("active", "active", "turn.started"),
    ("active", "active", "turn.completed"),
    ("active", "active", "turn.interrupted"),
    ("active", "active", "turn.error"),
    ("active", "paused", "session.paused"),
    ("active", "suspended", "session.suspended"),
    ("active", "closing", "session.closing"),
    ("paused", "active", "session.resumed"),
    ("paused", "closing", "session.closing"),
    ("suspended", "active", "session.unsuspended"),
    ("suspended", "closing", "session.closing"),
    ("closing", "closed", "session.closed"),
    ("closed", "archived", "session.archived"),
    ("created", "closing", "session.closing"),
}
"""The session's table, written down a second time and by hand."""

OTHERS: tuple[Rune, ...] = (
    BORN[0],
    runes.InputAccepted(message_id="m", content="hello", to=ROOT),
    runes.InputRefused(message_id="m", reason="gone"),
    runes.Rested(),
    runes.Reopened(unclean=1),
    runes.ChildRestarted(child="turn_1", reason="crash"),
    runes.HandedOver(sender=ROOT, to=ROOT),
    turns.Started(turn_id="turn_1", agent_id=ROOT, input="hello"),
    turns.Completed(final_output="", turn_id="turn_1"),
    turns.Interrupted(reason="user", turn_id="turn_1"),
    turns.Error(error_type="x", turn_id="turn_1"),
    turns.ToolsFinished(results=()),
    tools.Result(call_id="call_1", status="unknown"),
    agents.Ready(agent_id=ROOT),
    agents.Failed(agent_id=ROOT, error="x"),
    agents.Terminated(agent_id=ROOT, reason="x"),
    budgets.Exhausted(scope="session", what="cost", used=1, limit=1),
    budgets.Replenished(scope="session", amounts=Amounts(cost=1)),
    budgets.Closed(scope=ROOT),
)
"""What happens in any phase, and moves it only where the table says."""

COMMANDS: tuple[Command, ...] = (
    ask.Create(CONVERSATION, members.Spawn(ROOT, "root", "echo")),
    queue.Accept("m1", "hello", 1),
    queue.Withdraw("enough", message_id="m1"),
    queue.Begin("m1", 1),
    ask.RefuseInputs(),
    members.Spawn("agt_child", "clerk", "echo"),
    TakeOver(ROOT),
    Abandon("crash"),
    ask.CloseBudget(ROOT),
    orders.Pause(),
    orders.Resume(),
    orders.Suspend("look"),
    orders.Unsuspend(),
    AutoSuspend("look"),
    AutoUnsuspend(),
    Numbered(orders.Replenish(cost=1), "r1"),
    Activate("agent_ready"),
    orders.Close(),
    ask.Finish(),
    orders.Archive(),
    children.Reopen(7),
    children.NoteRestart("turn_1", "crash"),
)

ALWAYS: set[type[Command]] = {ask.Create, queue.Begin, ask.RefuseInputs, ask.CloseBudget}
ALWAYS |= {queue.Withdraw}
ALWAYS |= {children.Reopen, children.NoteRestart, orders.Close}
ALIVE: set[type[Command]] = {queue.Accept, members.Spawn, TakeOver, Numbered}
ALLOWED: dict[Phase, set[type[Command]]] = {
    Phase.CREATED: {*ALIVE, Activate},
    Phase.ACTIVE: {
        *ALIVE,
        orders.Pause,
        orders.Resume,
        orders.Suspend,
        orders.Unsuspend,
        AutoSuspend,
        AutoUnsuspend,
        Abandon,
        Activate,
    },
    Phase.PAUSED: {*ALIVE, orders.Pause, orders.Resume},
    Phase.SUSPENDED: {
        *ALIVE,
        orders.Suspend,
        orders.Unsuspend,
        AutoSuspend,
        AutoUnsuspend,
        Abandon,
    },
    Phase.CLOSING: {ask.Finish},
    Phase.CLOSED: {ask.Finish, orders.Archive},
    Phase.ARCHIVED: {ask.Finish, orders.Archive},
}
"""Which commands each phase answers, were it by saying that it is done; others are refused."""


def test_the_printed_table_is_the_one_on_paper() -> None:
    """Row for row; that a turn starts or ends is a row for each way it does."""
    found = describe(LIFECYCLE)

    assert {(row.origin, row.to, row.on) for row in found.transitions} == ROWS
    assert len(found.transitions) == len(ROWS)
    assert found.initial == "created"
    assert found.terminal == ("archived",)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_each_phase_answers_or_refuses_each_command(phase: Phase, command: Command) -> None:
    """A command is carried out or refused; carried out, it leads to nothing when it is repeated."""
    session = Given(LIFECYCLE, *PAST[phase])

    if type(command) in ALLOWED[phase] | ALWAYS:
        assert session.after(command).when(command) == []
    else:
        with pytest.raises(Refused, match=f"^session is {phase.value}: it "):
            session.when(command)


def test_before_it_is_created_nothing_else_can_be_asked() -> None:
    """There is no session without its first rune, and nothing is due for it."""
    nothing = Given(LIFECYCLE)

    assert nothing.due == []
    with pytest.raises(Refused):
        nothing.when(queue.Accept("m1", "hello", 1))
    with pytest.raises(Refused):
        nothing.when(members.Spawn("agt_child", "clerk", "echo"))


def test_creating_begins_session_root_and_budgets_at_once() -> None:
    """The conversation, its root agent and what they may spend are one append."""
    config = SessionConfig(budget=Limits(tokens=9))
    spawn = members.Spawn(ROOT, "root", "echo", config=AgentConfig(budget=Limits(cost=5)))

    assert Given(LIFECYCLE).when(ask.Create(CONVERSATION, spawn, config)) == [
        runes.Created(conversation_id=CONVERSATION, config=config),
        budgets.Opened(scope="session", limits=Limits(tokens=9)),
        agents.Spawning(agent_id=ROOT, role="root", model="echo", config=spawn.config, name="root"),
        budgets.Opened(scope=ROOT, limits=Limits(cost=5), parent="session"),
    ]


def test_a_session_is_created_once() -> None:
    """Under another id it is another session, and not this one."""
    with pytest.raises(Refused):
        Given(LIFECYCLE, *BORN).when(ask.Create("conv_other", members.Spawn(ROOT, "root", "echo")))


@pytest.mark.parametrize(
    "config",
    [
        AgentConfig(turn_timeout=0),
        AgentConfig(first_byte_timeout=-1),
        AgentConfig(silence_timeout=0),
        AgentConfig(max_output_tokens=0),
        AgentConfig(retries=-1),
        AgentConfig(budget=Limits(tokens=-1)),
    ],
)
def test_an_agent_that_could_never_work_is_refused(config: AgentConfig) -> None:
    """A span of time or a limit that leaves nothing is a mistake, and said so at once."""
    with pytest.raises(Refused, match="give"):
        Given(LIFECYCLE, *ACTIVE).when(members.Spawn("agt_child", "clerk", "echo", config=config))


@pytest.mark.parametrize(
    "config",
    [
        SessionConfig(failed_turns=0),
        SessionConfig(unclean_opens=0),
        SessionConfig(restarts=0),
        SessionConfig(budget=Limits(cost=-1)),
    ],
)
def test_a_session_that_could_never_work_is_refused(config: SessionConfig) -> None:
    """A threshold of nought would suspend it before it began."""
    with pytest.raises(Refused, match="give"):
        Given(LIFECYCLE).when(ask.Create(CONVERSATION, members.Spawn(ROOT, "root", "echo"), config))


@pytest.mark.parametrize(
    "command",
    [
        queue.Accept("not an id", "hello", 1),
        members.Spawn("not an id", "clerk", "echo"),
        Numbered(orders.Replenish(cost=1), "not an id"),
    ],
    ids=lambda command: type(command).__name__,
)
def test_ids_from_outside_are_checked(command: Command) -> None:
    """What is no id never reaches the log."""
    with pytest.raises(BadId):
        Given(LIFECYCLE, *ACTIVE).when(command)


def test_what_a_session_decides_belongs_where_it_is_folded() -> None:
    """Births go to the newborn, money to the budget, and a message is found by its id."""
    started = turns.Started(turn_id="turn_1", agent_id=ROOT, input="hello", message_id="m")
    key = message_entity("m")
    state = State()

    assert KIND.route(state, BORN[0]) == Routing("session")
    assert KIND.route(state, BORN[1]) == Routing(ROOT, ("session",))
    assert KIND.route(state, OTHERS[1]) == Routing("session", (key,))
    assert KIND.route(state, OTHERS[2]) == Routing("session", (key,))
    assert KIND.route(state, started) == Routing("turn_1", (ROOT, "session", key))
    assert KIND.route(state, budgets.Opened(scope=ROOT)) == Routing("budget")
    assert KIND.route(state, budgets.Closed(scope=ROOT)) == Routing("budget", (entity.ROOT, ROOT))


def test_approvals_are_listed_while_they_wait() -> None:
    """An approval is pending from its request until any kind of answer."""
    ends: tuple[Rune, ...] = (
        approvals.Approved(approval_id="apr_1", approver="ada"),
        approvals.Rejected(approval_id="apr_1", approver="ada"),
        approvals.Aborted(approval_id="apr_1"),
    )
    asked = tuple(
        approvals.Requested(
            approval_id=f"apr_{n}", asker=f"call_{n}", tools_hash="", reason="why", deadline=n
        )
        for n in (1, 2)
    )
    session = Given(LIFECYCLE, *ACTIVE, *asked, approvals.Awaiting(approval_id="apr_1"))

    assert [each.approval_id for each in session.state.approvals] == ["apr_1", "apr_2"]
    for end in ends:
        assert [each.call_id for each in session.having(end).state.approvals] == ["call_2"]


def test_a_call_is_in_doubt_until_a_human_has_said_what_became_of_it() -> None:
    """Said to be unknown it stays so, whoever says it; a plain question is no doubt."""
    asked = tuple(
        approvals.Requested(
            approval_id=f"apr_{name}",
            asker=f"call_{name}",
            tools_hash="",
            reason="why",
            deadline=9,
            trigger=trigger,
        )
        for name, trigger in (("plain", "policy"), ("doubt", tools.IN_DOUBT))
    )
    answer = approvals.Approved(approval_id="apr_doubt", approver="ada")
    unknown = tools.Result(call_id="call_doubt", status="unknown")
    refused = approvals.Rejected(approval_id="apr_doubt", approver="ada")
    lapsed = approvals.Aborted(approval_id="apr_doubt")
    session = Given(LIFECYCLE, *ACTIVE, tools.Result(call_id="call_1", status="unknown"), *asked)

    assert in_doubt(session.state) == ("call_1", "call_doubt")
    assert in_doubt(session.having(answer).state) == ("call_1",)
    assert in_doubt(session.having(unknown, refused, lapsed).state) == ("call_1", "call_doubt")
    assert in_doubt(session.having(unknown, lapsed).state) == ("call_1", "call_doubt")


def test_the_newest_calls_in_doubt_are_listed() -> None:
    """Only those whose outcome nobody knows, and only so many."""
    results = [tools.Result(call_id=f"call_{n}", status="unknown") for n in range(DOUBTS + 5)]
    session = Given(LIFECYCLE, *ACTIVE, *results, tools.Result(call_id="call_x", status="success"))

    assert session.state.in_doubt == tuple(f"call_{n}" for n in range(5, DOUBTS + 5))
