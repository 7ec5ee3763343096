"""The law of a session: what is accepted, who takes it up, and when nothing may begin.

    created ── activated ──> active ── paused ─────> paused ── resumed ─────────> active
       │                       │ └──── suspended ──> suspended ── unsuspended ──> active
       │ closing               │ closing (from paused and suspended too)
       └───────> closing <─────┘
                    └── closed ──> closed ── archived ──> archived

Accepting is separate from running. A message that was accepted waits until its agent is free and
then becomes a turn; one that steers goes first and has the running turn stopped; one whose agent is
gone is refused with a rune. So each has exactly one answer.
The time comes with commands: that a message can be taken up is due (`BeginTurn`), and the answer
(`Begin`) says what time it is; an accepted message brings its own, and so needs no second append.
"""

from __future__ import annotations

import functools
import hashlib
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from actors import children
from actors.agent import lifecycle as agent
from actors.agent import runes as agents
from actors.agent.runes import AgentConfig
from actors.approval import runes as approvals
from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from actors.budget.runes import BUDGET_EXHAUSTED, Amounts
from actors.children import (
    Adopt,
    EnsureChild,
    NoteReport,
    NoteRestart,
    Reopen,
    ReportEnd,
    Rest,
    StopChild,
)
from actors.entity import Actor, Routing
from actors.session.commands import Archive, Close, HandOver, Pause, Resume
from actors.session.members import (
    Member,
    changed,
    check_config,
    has_limited_time,
    is_orphan,
    member,
    orphans,
)
from actors.session.queue import Running, Waiting, next_for, turn_of
from actors.session.runes import (
    Activated,
    Archived,
    BudgetInfo,
    ChildRestarted,
    Closed,
    Closing,
    Created,
    HandedOver,
    InputAccepted,
    InputRefused,
    Mode,
    Paused,
    Reopened,
    Rested,
    Resumed,
    SessionConfig,
    Stats,
    Suspended,
    Unsuspended,
)
from actors.tool import runes as tools
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Table, refusal
from runelog.rune import check_id

if TYPE_CHECKING:
    from runelog.rune import Rune

NAME: Final = "session"
ERRORS: Final = "error_threshold"
"""A reason for which a session is suspended; others are an exhausted budget, the root's end."""
MOST_WAITING: Final = 1_000
"""So many messages may wait; more are refused until some were taken up."""
DOUBTS: Final = 100
"""So many calls whose outcome is not known are listed, the newest."""
REQUESTS: Final = 32
"""So many requests that were carried out are remembered, the newest."""


class Phase(StrEnum):
    """What a session can be."""

    CREATED = "created"
    ACTIVE = "active"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    CLOSING = "closing"
    CLOSED = "closed"
    ARCHIVED = "archived"


TABLE: Table[Phase] = {
    Phase.CREATED: {Activated: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.ACTIVE: {
        turns.Started: Phase.ACTIVE,
        turns.Completed: Phase.ACTIVE,
        turns.Interrupted: Phase.ACTIVE,
        turns.Error: Phase.ACTIVE,
        Paused: Phase.PAUSED,
        Suspended: Phase.SUSPENDED,
        Closing: Phase.CLOSING,
    },
    Phase.PAUSED: {Resumed: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.SUSPENDED: {Unsuspended: Phase.ACTIVE, Closing: Phase.CLOSING},
    Phase.CLOSING: {Closed: Phase.CLOSED},
    Phase.CLOSED: {Archived: Phase.ARCHIVED},
    Phase.ARCHIVED: {},
}

LIVE: Final = frozenset({Phase.CREATED, Phase.ACTIVE, Phase.PAUSED, Phase.SUSPENDED})
"""The phases in which a session takes messages and agents."""
_TAKES_UP: Final = frozenset({Phase.CREATED, Phase.ACTIVE})
"""Those in which a message may become a turn at once."""
_OVER: Final = frozenset({Phase.CLOSED, Phase.ARCHIVED})


# -- state -------------------------------------------------------------------------------------


class Pending(msgspec.Struct, frozen=True):
    """An approval that waits for a human."""

    approval_id: str
    call_id: str
    reason: str
    deadline: int
    in_doubt: bool = False
    """Whether it is about a call of which nobody knows what became of it."""


class State(msgspec.Struct, frozen=True):
    """What a session's runes add up to."""

    phase: Phase = Phase.CREATED
    conversation_id: str = ""
    config: SessionConfig = SessionConfig()
    root: str = ""
    """The agent from which all others descend."""
    root_end: str = ""
    """How the root came to its end: `failed` or `terminated`; empty while it lives."""
    front: str = ""
    """The agent that takes messages which name none."""
    members: tuple[Member, ...] = ()
    gone: tuple[str, ...] = ()
    """Agents that came to their end and whose budgets are still open."""
    waiting: tuple[Waiting, ...] = ()
    """In the order in which they were accepted."""
    running: tuple[Running, ...] = ()
    turns: int = 0
    """How many turns began, which is also the number of the last one."""
    finish: bool = True
    """Whether turns may finish while the session is paused."""
    suspension: str = ""
    """Why the session is suspended."""
    broke: bool = False
    """Whether it is for want of money that it is: then more of that is all it needs."""
    exhausted: BudgetInfo | None = None
    """The limit that refused a call and was not raised since."""
    failures: int = 0
    """How many turns in a row ended in error."""
    unclean: int = 0
    """How many unclean opens there were since the last outcome."""
    epoch: int = 0
    """The last open that there was work under way for."""
    rested: bool = False
    """Whether the process that ran it last ended in order, and nothing happened since."""
    requests: tuple[str, ...] = ()
    restarted: ChildRestarted | None = None
    """What a supervisor reported last."""
    restarts: int = 0
    """How often actors were restarted since a turn last completed."""
    approvals: tuple[Pending, ...] = ()
    in_doubt: tuple[str, ...] = ()
    """The calls that ended without anybody knowing their outcome, the newest at the end."""
    children: tuple[children.Child, ...] = ()
    """Entities of other kinds that were born here and live."""
    stats: Stats = Stats()


def can_begin(state: State, agent_id: str) -> bool:
    """Return True if an agent is free to take a message up."""
    found = member(state.members, agent_id)
    return (
        found is not None
        and found.ready
        and not found.spent
        and turn_of(state.running, agent_id) is None
        and not is_orphan(state.members, agent_id)
    )


def has_root(state: State) -> bool:
    """Return True if the root agent lives."""
    return member(state.members, state.root) is not None


def is_stuck(state: State) -> bool:
    """Return True if it was opened, or its actors started, again and again, and in vain."""
    return state.unclean >= state.config.unclean_opens or keeps_crashing(state)


def keeps_crashing(state: State) -> bool:
    """Return True if its actors were started again and again."""
    return state.restarts >= state.config.restarts


def why_in_vain(state: State, asked_in: str) -> str:
    """Return why a question need not be asked in a turn now; empty if it need.

    That turn may have ended. Or it is to end although the session is halted, while the question
    would wait until that goes on. In a session that is stuck nothing goes on before, nor ends.
    """
    if not asked_in:
        return ""
    if state.phase in {Phase.PAUSED, Phase.SUSPENDED} and not is_stuck(state):
        return f"the session is {state.phase.value}, and nobody answers before it goes on"
    if all(each.turn_id != asked_in for each in state.running):
        return "the turn that asks has ended"
    return ""


def in_doubt(state: State) -> tuple[str, ...]:
    """Return the calls whose outcome is not known: those that ended so, and those asked about."""
    return *state.in_doubt, *(each.call_id for each in state.approvals if each.in_doubt)


def refusable(state: State) -> dict[str, str]:
    """Return the messages that nobody will ever take up, or in vain, each with the reason."""
    found: dict[str, str] = {}
    for each in state.waiting:
        if state.phase is Phase.CLOSING:
            reason = "the session closes"
        elif member(state.members, each.to) is None:
            reason = f"agent {each.to} is gone"
        else:
            reason = why_in_vain(state, each.asked_in)
        if reason:
            found[each.message_id] = reason
    return found


# -- commands ----------------------------------------------------------------------------------


class Spawn(msgspec.Struct, frozen=True):
    """Bring an agent into the world."""

    agent_id: str
    role: str
    model: str
    parent_id: str | None = None
    """The agent that spawns it; None is the root, or makes it the root if there is none."""
    config: AgentConfig = AgentConfig()
    known: bool = False
    """The log has an agent of this id; unless it lives, it is gone for good."""


class Create(msgspec.Struct, frozen=True):
    """Begin a conversation with its root agent."""

    conversation_id: str
    root: Spawn
    config: SessionConfig = SessionConfig()


class Accept(msgspec.Struct, frozen=True):
    """Keep a message, and take it up at once if its agent is free."""

    message_id: str
    content: str
    now: int
    mode: Mode = "queue"
    to: str = ""
    """The agent it is for; empty for whoever speaks for the session."""
    known: bool = False
    """The log has a message of this id, however old: it is sent again."""
    begin: bool = True
    """Somebody is there to run its turn; if not, it waits even for an agent that is free."""
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


class Withdraw(msgspec.Struct, frozen=True):
    """Take questions back that still wait: all that were asked in a turn, or one."""

    reason: str
    turn_id: str = ""
    message_id: str = ""


class Begin(msgspec.Struct, frozen=True):
    """Make a turn of a message that waits; the answer to `BeginTurn`."""

    message_id: str
    now: int


class Replenish(msgspec.Struct, frozen=True):
    """Raise the limits of the session's budget, or of an agent's."""

    request_id: str
    scope: str
    amounts: Amounts
    actor: Actor = "user"


class AgentGone(msgspec.Struct, frozen=True):
    """A supervisor gave an agent up: its actor cannot write its own end."""

    agent_id: str
    error: str


# -- internal effects: commands decided in the append that made them due -----------------------


class Activate(msgspec.Struct, frozen=True):
    """The root agent is ready, or will never be: turns may begin, or somebody must look."""

    trigger: str


class Suspend(msgspec.Struct, frozen=True):
    """Begin nothing until somebody has seen to the reason. Anybody may ask for it too."""

    reason: str
    budget_info: BudgetInfo | None = None
    actor: Actor = "system"


class Unsuspend(msgspec.Struct, frozen=True):
    """Somebody has seen to it: go on."""

    reason: str = ""
    actor: Actor = "user"


class RefuseInputs(msgspec.Struct, frozen=True):
    """Messages wait that nobody will take up: each is told so."""


class CloseBudget(msgspec.Struct, frozen=True):
    """An agent is gone and its last turn has ended: its account is not needed any more."""

    agent_id: str


class Finish(msgspec.Struct, frozen=True):
    """Nobody is left and nothing is open: the session is closed."""


Command: TypeAlias = (
    Adopt
    | Spawn
    | Create
    | Accept
    | Withdraw
    | Begin
    | Pause
    | Resume
    | Replenish
    | Close
    | Archive
    | HandOver
    | Reopen
    | Rest
    | NoteRestart
    | NoteReport
    | AgentGone
    | Activate
    | Suspend
    | Unsuspend
    | RefuseInputs
    | CloseBudget
    | Finish
)


# -- effects -----------------------------------------------------------------------------------


class EnsureAgent(msgspec.Struct, frozen=True):
    """The agent's actor has to be there."""

    agent_id: str


class BeginTurn(msgspec.Struct, frozen=True):
    """A message can be taken up: ask for `Begin` with the time it is."""

    agent_id: str
    message_id: str


class InterruptTurn(msgspec.Struct, frozen=True):
    """The turn has to stop: also, with reason `steer`, for a message that takes it over.

    Its actor is started first if it is not there.
    """

    turn_id: str
    reason: str
    actor: Actor = "user"


class TerminateAgent(msgspec.Struct, frozen=True):
    """The agent has to terminate. Its actor is started first if it is not there."""

    agent_id: str
    reason: str


Effect: TypeAlias = (
    EnsureAgent
    | EnsureChild
    | StopChild
    | ReportEnd
    | BeginTurn
    | InterruptTurn
    | TerminateAgent
    | Activate
    | Suspend
    | Unsuspend
    | RefuseInputs
    | CloseBudget
    | Finish
)


# -- decide ------------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match command:
        case Accept(message_id=message_id, known=known):
            return [] if known or _is_known(state, message_id) else _accept(state, command)
        case Withdraw(reason, turn_id, message_id):
            return [
                InputRefused(message_id=each.message_id, reason=reason)
                for each in state.waiting
                if each.asked_in and (each.asked_in == turn_id or each.message_id == message_id)
            ]
        case Begin(message_id, now):
            found = next((each for each in state.waiting if each.message_id == message_id), None)
            # What was due a moment ago may have been overtaken, by a pause or by a steer.
            if found is None or state.phase is not Phase.ACTIVE or not _is_next(state, found):
                return []
            return [_begin(state, found, now)]
        case RefuseInputs():
            refused = refusable(state).items()
            return [InputRefused(message_id=each, reason=reason) for each, reason in refused]
        case Create():
            return _create(state, command)
        case Spawn(agent_id):
            known = member(state.members, agent_id) is not None
            return [] if known else _spawn_child(state, command)
        case HandOver(to):
            return _hand_over(state, command, to, state.front)
        case Adopt():
            started = children.adopted(state.children, command)
            if started and (state.phase not in LIVE or not state.conversation_id):
                raise _refusal(state, command)
            return started
        case NoteReport():
            return children.reported(state.children, command)
        case AgentGone(agent_id, error):
            return _bury(state, agent_id, error)
        case CloseBudget(agent_id):
            return [budgets.Closed(scope=agent_id)] if agent_id in state.gone else []
        case Replenish() if state.phase in LIVE:
            return _replenish(state, command)
        case Reopen(epoch, outcome):
            if epoch == state.epoch or state.phase in _OVER:
                return []
            since = 0 if outcome else state.unclean
            return [Reopened(unclean=since if state.rested else since + 1, epoch=epoch)]
        case Rest():
            return [Rested()] if _is_there(state) and not state.rested else []
        case NoteRestart(child, reason, restarts, at):
            note = ChildRestarted(child=child, reason=reason, restarts=restarts, at=at)
            return [note] if _is_there(state) and note != state.restarted else []
        case _:
            return _move(state, command)


def _move(state: State, command: Command) -> list[Rune]:
    """Decide on a command that moves the session from phase to phase."""
    match state.phase, command:
        case Phase.CREATED, Activate(trigger):
            return [Activated(root_agent_id=state.root, trigger=trigger)]
        case Phase.ACTIVE, Pause(reason, finish):
            return [Paused(reason=reason, finish=finish, actor="user")]
        case Phase.PAUSED, Pause(finish=finish) if finish or not state.finish:
            return []
        case Phase.PAUSED, Pause():
            return _pause_harder(state)
        case Phase.PAUSED, Resume():
            return [Resumed(actor="user")]
        case Phase.ACTIVE, Suspend(reason, budget_info, actor):
            return [Suspended(reason=reason, budget_info=budget_info, actor=actor)]
        case Phase.SUSPENDED, Unsuspend(reason, actor) if has_root(state):
            return [Unsuspended(reason=reason, actor=actor)]
        case Phase.SUSPENDED, Unsuspend():
            msg = f"session is suspended: its root agent {state.root} is gone; spawn one first"
            raise Refused(msg)
        case _, Close(reason):
            return [Closing(reason=reason, actor="user")] if state.phase in LIVE else []
        case Phase.CLOSING, Finish():
            return [Closed(final_stats=state.stats)]
        case Phase.CLOSED, Archive():
            return [Archived(actor="user")]
        case (
            (Phase.ACTIVE, Activate() | Resume() | Unsuspend())
            | (Phase.SUSPENDED, Suspend())
            | (Phase.CLOSED | Phase.ARCHIVED, Finish())
            | (Phase.ARCHIVED, Archive())
        ):
            return []
        case _:
            raise _refusal(state, command)


_WAY_OUT: Final = {
    Phase.CREATED: "wait until it is active",
    Phase.PAUSED: "resume it first",
    Phase.SUSPENDED: "unsuspend it first",
}


def _refusal(state: State, command: Command) -> Refused:
    """Return the answer to what the phase does not allow, with the way out of it."""
    if isinstance(command, Archive):
        way_out = "close it first" if state.phase in LIVE else "wait until it is closed"
    else:
        way_out = _WAY_OUT.get(state.phase, "create another one")
    return Refused(f"{refusal(NAME, state.phase, command)}; {way_out}")


def _is_known(state: State, message_id: str) -> bool:
    """Return True if a message is being dealt with; older ones are found by the log's index."""
    return message_id in [each.message_id for each in state.waiting] or (
        message_id in [each.message_id for each in state.running]
    )


def _accept(state: State, command: Accept) -> list[Rune]:
    check_id(command.message_id, "message id")
    to = command.to or state.front
    if state.phase not in LIVE or not state.conversation_id:
        msg = f"session is {state.phase.value}: it takes no more messages; create another one"
        raise Refused(msg)
    if member(state.members, to) is None:
        msg = f"there is no agent {to} any more: spawn one, or send to another"
        raise Refused(msg)
    if vain := why_in_vain(state, command.asked_in):
        raise Refused(vain)
    if len(state.waiting) >= MOST_WAITING:
        msg = f"{MOST_WAITING} messages wait already: send it again once some were taken up"
        raise Refused(msg)
    accepted = InputAccepted(
        message_id=command.message_id,
        content=command.content,
        mode=command.mode,
        to=to,
        asked_in=command.asked_in,
    )
    runes: list[Rune] = [accepted]
    if state.phase is Phase.CREATED:
        runes.insert(0, Activated(root_agent_id=state.root, trigger="first_message"))
    state, was = evolve(state, accepted), state.phase
    new = state.waiting[-1]
    may_begin = command.begin and was in _TAKES_UP
    if may_begin and _is_next(state, new):
        runes.append(_begin(state, new, command.now))
    return runes


def _is_next(state: State, message: Waiting) -> bool:
    return can_begin(state, message.to) and next_for(state.waiting, message.to) == message


def _begin(state: State, message: Waiting, now: int) -> turns.Started:
    found = member(state.members, message.to)
    assert found is not None
    limits_time = state.config.budget.wall is not None
    return turns.Started(
        turn_id=f"turn_{state.turns + 1}",
        agent_id=found.agent_id,
        input=message.content,
        message_id=message.message_id,
        deadline=now + found.config.turn_timeout,
        model=found.model,
        retries=found.config.retries,
        on_crash=found.config.on_crash,
        timed=limits_time or has_limited_time(state.members, found.agent_id),
        asked_in=message.asked_in,
        trigger="steer" if message.steer else "message",
    )


def _create(state: State, command: Create) -> list[Rune]:
    conversation_id, config = command.conversation_id, command.config
    if state.conversation_id == conversation_id:
        return []
    if state.conversation_id:
        raise _refusal(state, command)
    for name in ("failed_turns", "unclean_opens", "restarts"):
        if getattr(config, name) <= 0:
            msg = f"{name} = {getattr(config, name)} would never let it work: give 1 or more"
            raise Refused(msg)
    ledger.check_limits(config.budget)
    limits = budgets.Opened(scope=NAME, limits=config.budget)
    created = Created(conversation_id=conversation_id, config=config)
    return [created, limits, *_spawn(command.root)]


def _spawn_child(state: State, command: Spawn) -> list[Rune]:
    if state.phase not in LIVE or not state.conversation_id:
        raise _refusal(state, command)
    if command.known:
        msg = (
            f"agent {command.agent_id} was here before and is gone: spawn one with an id of its own"
        )
        raise Refused(msg)
    alive = member(state.members, state.root) is not None
    parent = command.parent_id or (state.root if alive else None)
    if parent is not None and not _is_at_home(state, parent):
        msg = f"there is no agent {parent} any more that could spawn {command.agent_id}"
        raise Refused(msg)
    return _spawn(command, parent)


def _spawn(command: Spawn, parent: str | None = None) -> list[Rune]:
    check_id(command.agent_id, "agent id")
    config = command.config
    check_config(config)
    return [
        agents.Spawning(
            agent_id=command.agent_id,
            role=command.role,
            model=command.model,
            parent_id=parent,
            config=config,
        ),
        budgets.Opened(scope=command.agent_id, limits=config.budget, parent=parent or NAME),
    ]


def _is_at_home(state: State, agent_id: str) -> bool:
    """Return True if an agent lives and stays."""
    members = state.members
    return member(members, agent_id) is not None and not is_orphan(members, agent_id)


def _hand_over(state: State, command: HandOver, to: str, sender: str) -> list[Rune]:
    if state.phase not in LIVE:
        raise _refusal(state, command)
    if not _is_at_home(state, to):
        msg = f"there is no agent {to} any more that could take over"
        raise Refused(msg)
    return [] if to == state.front else [HandedOver(sender=sender, to=to)]


def _bury(state: State, agent_id: str, error: str) -> list[Rune]:
    """Write the end of an agent whose actor cannot."""
    found = member(state.members, agent_id)
    if found is None:
        return []
    if not found.ready:
        return [agents.Failed(agent_id=agent_id, error=error)]
    stats = found.stats
    return [agents.Terminated(agent_id=agent_id, reason=f"crashed: {error}", stats=stats)]


def _pause_harder(state: State) -> list[Rune]:
    """Refuse to stop what a pause lets finish: the table has no way from paused to paused."""
    if not state.running:
        return []
    running = ", ".join(each.turn_id for each in state.running)
    msg = (
        f"{NAME} is paused: it cannot take Pause(finish=False) now, as the pause lets {running} "
        "finish; stop what runs with interrupt() (runefold interrupt), and it stays paused"
    )
    raise Refused(msg)


def _replenish(state: State, command: Replenish) -> list[Rune]:
    if command.request_id in state.requests:
        return []
    check_id(command.request_id, "request id")
    if command.scope != NAME and member(state.members, command.scope) is None:
        msg = f"there is no agent {command.scope} any more whose budget could be raised"
        raise Refused(msg)
    amounts = ledger.check_amounts(command.amounts)
    return [
        budgets.Replenished(
            scope=command.scope,
            amounts=amounts,
            actor=command.actor,
            request_id=command.request_id,
        )
    ]


def _is_there(state: State) -> bool:
    """Return True if it was created and is not over: only then is anything noted about it."""
    return bool(state.conversation_id) and state.phase not in _OVER


# -- evolve ------------------------------------------------------------------------------------


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    rests = type(rune) is Rested
    if state.rested is not rests:
        state = replace(state, rested=rests)
    match rune:
        case turns.Started():
            return _begun(state, rune)
        case turns.Completed() | turns.Interrupted() | turns.Error():
            return _ended(state, rune)
        case InputAccepted(message_id, content, mode, to, asked_in):
            new = Waiting(message_id, content, to, mode == "steer", asked_in)
            stats = replace(state.stats, messages=state.stats.messages + 1)
            return replace(state, waiting=(*state.waiting, new), stats=stats)
        case InputRefused(message_id):
            left = tuple(each for each in state.waiting if each.message_id != message_id)
            stats = replace(state.stats, refused=state.stats.refused + 1)
            return replace(state, waiting=left, stats=stats)
        case turns.ToolsFinished() | tools.Result():
            return _worked(state, rune)
        case agents.Spawning():
            return _spawned(state, rune)
        case agents.Ready(agent_id):
            found = member(state.members, agent_id)
            return _with_member(state, found and replace(found, ready=True))
        case agents.Failed(agent_id):
            return _left(state, agent_id, "failed")
        case agents.Terminated(agent_id):
            return _left(state, agent_id, "terminated")
        case budgets.Exhausted() | budgets.Replenished():
            return _funded(state, rune)
        case budgets.Closed(scope):
            return replace(state, gone=tuple(each for each in state.gone if each != scope))
        case approvals.Requested():
            return _asked(state, rune)
        case approvals.Approved(approval_id) | approvals.Rejected(approval_id):
            return _asked_no_more(state, approval_id)
        case approvals.Aborted(approval_id):
            return _asked_no_more(state, approval_id)
        case Created(conversation_id, config):
            return replace(state, conversation_id=conversation_id, config=config)
        case Paused(finish=finish):
            return replace(state, finish=finish)
        case Suspended(reason, budget_info):
            return replace(state, suspension=reason, broke=budget_info is not None)
        case Unsuspended():
            state = replace(state, suspension="", broke=False, exhausted=None)
            return replace(state, failures=0, unclean=0, restarts=0)
        case HandedOver(to=to):
            return replace(state, front=to)
        case children.Started() | children.Ended() | children.Reported():
            return replace(state, children=children.evolve(state.children, rune))
        case Reopened(unclean, epoch):
            return replace(state, unclean=unclean, epoch=epoch)
        case ChildRestarted():
            return replace(state, restarted=rune, restarts=state.restarts + 1)
        case _:
            return state


def _begun(state: State, rune: turns.Started) -> State:
    turn = Running(turn_id=rune.turn_id, agent_id=rune.agent_id, message_id=rune.message_id)
    found = member(state.members, rune.agent_id)
    if found is not None:
        stats = replace(found.stats, turns=found.stats.turns + 1)
        found = replace(found, stats=stats)
    return replace(
        state,
        members=changed(state.members, found),
        waiting=tuple([each for each in state.waiting if each.message_id != rune.message_id]),
        running=(*state.running, turn),
        turns=state.turns + 1,
        stats=replace(state.stats, turns=state.stats.turns + 1),
    )


def _ended(state: State, rune: turns.Completed | turns.Interrupted | turns.Error) -> State:
    ended = next(iter([each for each in state.running if each.turn_id == rune.turn_id]), None)
    if ended is None:
        return state
    failures, restarts = state.failures, state.restarts
    if isinstance(rune, turns.Error):
        failures += 1
    elif isinstance(rune, turns.Completed):
        failures = restarts = 0
    found = member(state.members, ended.agent_id)
    if found is not None:
        found = replace(found, stats=agent.counted(found.stats, rune))
    return replace(
        state,
        members=changed(state.members, found),
        running=tuple([each for each in state.running if each is not ended]),
        unclean=0,
        failures=failures,
        restarts=restarts,
        stats=agent.counted(state.stats, rune),
    )


def _funded(state: State, rune: budgets.Exhausted | budgets.Replenished) -> State:
    match rune:
        case budgets.Exhausted(scope, what, used, limit):
            found = member(state.members, scope)
            if found is not None and found.config.on_exhausted == "terminate":
                return _with_member(state, replace(found, spent=True))
            info = BudgetInfo(scope=scope, what=what, used=used, limit=limit)
            return replace(state, exhausted=info)
        case budgets.Replenished(scope, amounts, request_id=request_id):
            spent = state.exhausted
            # More of something else would only begin a turn that ends for the same want.
            helps = spent is not None and spent.scope == scope and getattr(amounts, spent.what) > 0
            requests = (*state.requests, request_id)[-REQUESTS:] if request_id else state.requests
            exhausted = None if helps else state.exhausted
            state = replace(state, exhausted=exhausted, requests=requests)
            found = member(state.members, scope)
            return _with_member(state, found and replace(found, spent=False))
        case _:
            assert_never(rune)


def _worked(state: State, rune: turns.ToolsFinished | tools.Result) -> State:
    """Take in an outcome: whatever made the session fail before, it has come further now."""
    if isinstance(rune, tools.Result) and rune.status == "unknown":
        state = replace(state, in_doubt=(*state.in_doubt, rune.call_id)[-DOUBTS:])
    return replace(state, unclean=0) if state.unclean else state


def _asked(state: State, rune: approvals.Requested) -> State:
    new = Pending(
        approval_id=rune.approval_id,
        call_id=rune.asker,
        reason=rune.reason,
        deadline=rune.deadline,
        in_doubt=rune.trigger == tools.IN_DOUBT,
    )
    return replace(state, approvals=(*state.approvals, new))


def _asked_no_more(state: State, approval_id: str) -> State:
    left = tuple(each for each in state.approvals if each.approval_id != approval_id)
    return replace(state, approvals=left)


def _with_member(state: State, new: Member | None) -> State:
    return state if new is None else replace(state, members=changed(state.members, new))


def _spawned(state: State, rune: agents.Spawning) -> State:
    new = Member(
        agent_id=rune.agent_id, parent_id=rune.parent_id, model=rune.model, config=rune.config
    )
    stats = replace(state.stats, agents=state.stats.agents + 1)
    state = replace(state, members=(*state.members, new), stats=stats)
    if rune.parent_id is not None:
        return state
    return replace(state, root=rune.agent_id, root_end="", front=rune.agent_id)


def _left(state: State, agent_id: str, end: str) -> State:
    if member(state.members, agent_id) is None:
        return state
    return replace(
        state,
        members=tuple(each for each in state.members if each.agent_id != agent_id),
        gone=(*state.gone, agent_id),
        front=state.root if state.front == agent_id else state.front,
        root_end=end if state.root == agent_id else state.root_end,
    )


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Effect]:
    """Return what has to be done while the state is this one."""
    if not state.conversation_id:
        return []
    at_once = _at_once(state)
    if at_once:
        return at_once
    found = [*_by_itself(state), *children.owed(state.children)]
    if state.phase is Phase.ACTIVE or (state.phase in LIVE and not is_stuck(state)):
        found += _ensures(state)
        found += children.ensured(state.children)
    return found


def _by_itself(state: State) -> list[Effect]:
    """Return what it has to do beside having its agents there."""
    if state.phase is Phase.ACTIVE:
        found = _leaving(state)
        if state.waiting:
            found += _steers(state)
            found += _beginnings(state)
        return found
    match state.phase:
        case Phase.CREATED | Phase.PAUSED | Phase.SUSPENDED:
            if is_stuck(state):
                # What went wrong again and again is left alone until somebody has looked.
                return []
            stops = state.phase is Phase.PAUSED and not state.finish
            return [*_leaving(state), *(_stops(state, "pause") if stops else [])]
        case Phase.CLOSING:
            ending = [
                TerminateAgent(each.agent_id, "session closed")
                for each in state.members
                if turn_of(state.running, each.agent_id) is None
            ]
            left = children.stopped(state.children, "session closed")
            return [*_stops(state, "closing"), *ending, *left]
        case Phase.CLOSED | Phase.ARCHIVED:
            return []
        case _:
            assert_never(state.phase)


def is_at_work(state: State) -> bool:
    """Return True if it has something to do by itself; what waits behind a turn waits with that."""
    return bool(state.conversation_id) and bool(_at_once(state) or _by_itself(state))


def _at_once(state: State) -> list[Effect]:
    """Return what is decided in the append that made it due."""
    if state.phase in _OVER:
        return []
    found: list[Effect] = []
    if state.waiting and refusable(state):
        found.append(RefuseInputs())
    if state.gone:
        found += [CloseBudget(each) for each in state.gone if turn_of(state.running, each) is None]
    if state.phase is Phase.ACTIVE:
        return [*found, *_suspension(state)]
    match state.phase:
        case Phase.CREATED:
            found += _activation(state)
        case Phase.SUSPENDED if state.broke:
            if state.exhausted is None and has_root(state):
                found.append(Unsuspend(reason="budget_replenished", actor="system"))
        case Phase.CLOSING if not (state.members or state.running or state.children or found):
            found.append(Finish())
        case _:
            pass
    return found


def _activation(state: State) -> list[Effect]:
    root = member(state.members, state.root)
    if root is None:
        # There is no way from created to suspended but through active.
        return [Activate(trigger=f"root_agent_{state.root_end}")]
    if root.ready:
        return [Activate(trigger="agent_ready")]
    if is_stuck(state):
        return [Activate(trigger=ERRORS)]
    return []


def _suspension(state: State) -> list[Effect]:
    if not has_root(state):
        return [Suspend(reason=f"root_agent_{state.root_end}")]
    if state.exhausted is not None:
        return [Suspend(reason=BUDGET_EXHAUSTED, budget_info=state.exhausted)]
    if keeps_crashing(state) and state.restarted is not None:
        why = f"{state.restarts} restarts, the last of {state.restarted.child}"
        return [Suspend(reason=f"{ERRORS}: {why}")]
    if state.failures >= state.config.failed_turns or is_stuck(state):
        return [Suspend(reason=ERRORS)]
    return []


def _leaving(state: State) -> list[Effect]:
    """Return what follows from agents that are gone: their turns stop, their children go too."""
    left_behind = orphans(state.members)
    living = {each.agent_id for each in state.members}
    found: list[Effect] = []
    for turn in state.running:
        if turn.agent_id not in living:
            found.append(InterruptTurn(turn.turn_id, "agent_terminated", "system"))
        elif turn.agent_id in left_behind:
            found.append(InterruptTurn(turn.turn_id, "parent_closed", "system"))
    found += [
        TerminateAgent(each.agent_id, "parent closed")
        for each in state.members
        if each.agent_id in left_behind and turn_of(state.running, each.agent_id) is None
    ]
    return found


def _stops(state: State, reason: str) -> list[Effect]:
    return [InterruptTurn(turn.turn_id, reason) for turn in state.running]


def _steers(state: State) -> list[Effect]:
    return [
        InterruptTurn(turn.turn_id, "steer")
        for turn in state.running
        if (message := next_for(state.waiting, turn.agent_id)) is not None and message.steer
    ]


def _beginnings(state: State) -> list[Effect]:
    return [
        BeginTurn(each.agent_id, message.message_id)
        for each in state.members
        if can_begin(state, each.agent_id)
        and (message := next_for(state.waiting, each.agent_id)) is not None
    ]


def _ensures(state: State) -> list[Effect]:
    """Return the agents that have something to do, or have to become ready."""
    needed = {each.agent_id for each in state.running}
    if state.phase is Phase.ACTIVE:
        needed.update([each.to for each in state.waiting])
    return [
        EnsureAgent(each.agent_id)
        for each in state.members
        if each.agent_id in needed or each.spent or not each.ready
    ]


# -- what the shell must know ------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def message_entity(message_id: str) -> str:
    """Return the stream in which the log's index finds a message, whatever its age.

    >>> message_entity("first")
    'msg_a2a8c2514ffc1da3'
    """
    return "msg_" + hashlib.blake2b(message_id.encode(), digest_size=8).hexdigest()


def route(_state: State, rune: Rune) -> Routing:
    """Return where a rune that this session decided belongs."""
    match rune:
        case InputAccepted(message_id) | InputRefused(message_id):
            return Routing(NAME, (message_entity(message_id),))
        case turns.Started(turn_id, agent_id, _, message_id):
            return Routing(turn_id, (agent_id, NAME, message_entity(message_id)))
        case agents.Spawning(agent_id) | agents.Failed(agent_id) | agents.Terminated(agent_id):
            return Routing(agent_id, (NAME,))
        case budgets.Opened() | budgets.Replenished() | budgets.Closed():
            return ledger.route(ledger.State(), rune)
        case _:
            return Routing(NAME)


def is_open(state: State) -> bool:
    """Return True if something is left to do; a session that waits for a human is not open.

    That the actors of its agents have to be there does not count: agents and turns that have work
    left are open by themselves, and say so in the append that makes it so.
    """
    waits = bool(state.waiting) and state.phase in _TAKES_UP
    return waits or is_at_work(state) or children.is_awaited(state.children)


LIFECYCLE: Final = Lifecycle(
    name=NAME,
    table=TABLE,
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
    observed=frozenset({turns.Started, turns.Completed, turns.Interrupted, turns.Error}),
    version=6,
)
