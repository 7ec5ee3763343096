"""The law of a session: what is accepted, which agent takes it up, and when nothing may begin.

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
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

from actors import children
from actors.agent import lifecycle as agent
from actors.agent import runes as agents
from actors.approval import pending
from actors.approval import runes as approvals
from actors.approval.pending import Pending
from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
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
from actors.common_commands import Abandon
from actors.entity import Routing
from actors.public_command import Numbered
from actors.session.approvals import seen_to, worked
from actors.session.hand_over import TakeOver, handed_over, passed_on, took_over
from actors.session.members import (
    Member,
    Spawn,
    Update,
    changed_by,
    check_same,
    find,
    member,
    named,
    orphans,
    parent_of_new,
    spawned,
    updated,
    with_member,
    with_new,
    without,
)
from actors.session.public_commands import (
    Archive,
    Close,
    Pause,
    Replenish,
    Resume,
    Suspend,
    Unsuspend,
)
from actors.session.queue import (
    Accept,
    Begin,
    BeginTurn,
    InterruptTurn,
    Running,
    Waiting,
    Withdraw,
    accepted,
    beginnings,
    begun,
    is_sent_again,
    message_entity,
    steers,
    stops,
    taken_up,
    turn_of,
    withdrawn,
)
from actors.session.runes import (
    NAME,
    PARENT_CLOSED,
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
    Paused,
    Reopened,
    Rested,
    Resumed,
    SessionConfig,
    Stats,
    Suspended,
    Unsuspended,
)
from actors.session.spending import funded, replenished
from actors.session.suspension import (
    BUDGET_REPLENISHED,
    ERROR_THRESHOLD,
    Activate,
    AutoSuspend,
    AutoUnsuspend,
    activation,
    has_root,
    is_stuck,
    recovery,
    suspension,
)
from actors.tool import runes as tools
from actors.turn import runes as turns
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Table, refusal

if TYPE_CHECKING:
    from runelog.rune import Rune

SESSION_CLOSED: Final = "session closed"
SESSION_PAUSED: Final = "session paused"


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


class State(msgspec.Struct, frozen=True):
    """What a session's runes add up to."""

    phase: Phase = Phase.CREATED
    conversation_id: str = ""
    config: SessionConfig = SessionConfig()
    root: str = ""
    """The agent from which all others descend."""
    root_end: str = ""
    """How the root came to its end: `failed` or `terminated`; empty while it lives."""
    default_agent: str = ""
    """The agent that takes messages which name none."""
    members: tuple[Member, ...] = ()
    gone: tuple[str, ...] = ()
    """Agents that came to their end and whose budgets are still open."""
    waiting: tuple[Waiting, ...] = ()
    """In the order in which they were accepted."""
    running: tuple[Running, ...] = ()
    lets_turns_finish: bool = True
    """Whether turns may finish while the session is paused."""
    suspension: str = ""
    """Why the session is suspended."""
    out_of_budget: bool = False
    """Whether a budget was exhausted: once it is raised, the session goes on by itself."""
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
    """The calls that ended with an unknown outcome, the newest at the end."""
    children: tuple[children.Child, ...] = ()
    """Entities of other kinds that were born here and live."""
    stats: Stats = Stats()


def why_in_vain(state: State, asked_in: str) -> str:
    """Return why a question asked by another turn cannot be answered now, or "" if it can.

    The asking turn has ended, or the session is halted and not stuck. (In one that is stuck the
    asking turn does not go on either, so that its question may wait.)
    """
    if not asked_in:
        return ""
    if state.phase in {Phase.PAUSED, Phase.SUSPENDED} and not is_stuck(state):
        return f"the session is {state.phase.value}, and answers nothing before it goes on"
    if all(each.turn_id != asked_in for each in state.running):
        return "the turn that asks has ended"
    return ""


def refusable(state: State) -> dict[str, str]:
    """Return the waiting messages that can never become a turn, each with the reason."""
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


class Create(msgspec.Struct, frozen=True):
    """Begin a conversation with its root agent, and with others that the root brings."""

    conversation_id: str
    root: Spawn
    config: SessionConfig = SessionConfig()
    team: tuple[Spawn, ...] = ()


# -- internal effects: commands decided in the append that made them due -----------------------


class RefuseInputs(msgspec.Struct, frozen=True):
    """Messages wait that can never become a turn: refuse each."""


class CloseBudget(msgspec.Struct, frozen=True):
    """An agent and its last turn have ended: its account is not needed any more."""

    agent_id: str


class Finish(msgspec.Struct, frozen=True):
    """All agents and children have ended: close the session."""


Internal: TypeAlias = Activate | AutoSuspend | AutoUnsuspend | RefuseInputs | CloseBudget | Finish
Command: TypeAlias = (
    Adopt
    | Spawn
    | Update
    | Create
    | Accept
    | Withdraw
    | Begin
    | Pause
    | Resume
    | Suspend
    | Unsuspend
    | Numbered
    | Close
    | Archive
    | TakeOver
    | Reopen
    | Rest
    | NoteRestart
    | NoteReport
    | Abandon
    | Internal
)


# -- effects -----------------------------------------------------------------------------------


Action: TypeAlias = BeginTurn | InterruptTurn | ReportEnd
"""What the actor of a session does."""
Effect: TypeAlias = Action | children.Effect | Internal


# -- decide ------------------------------------------------------------------------------------


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match command:
        case Accept():
            return _accept(state, command)
        case Withdraw():
            return [*withdrawn(state, command)]
        case Begin(message_id, now):
            return [*begun(state, message_id, now)] if state.phase is Phase.ACTIVE else []
        case RefuseInputs():
            refused = refusable(state).items()
            return [InputRefused(message_id=each, reason=reason) for each, reason in refused]
        case Create():
            return _create(state, command)
        case Spawn():
            return _spawn(state, command)
        case Update():
            return _update(state, command)
        case TakeOver():
            _check_live(state, command)
            return [*handed_over(state, command)]
        case Adopt():
            started = children.adopted(state.children, command)
            if started and (state.phase not in LIVE or not state.conversation_id):
                how = state.phase.value if state.conversation_id else "not there"
                msg = f"session is {how}: no {command.started.machine} begins in it"
                raise Refused(msg)
            return started
        case NoteReport():
            return children.reported(state.children, command)
        case CloseBudget(agent_id):
            return [budgets.Closed(scope=agent_id)] if agent_id in state.gone else []
        case Numbered(Replenish() as more, request_id):
            _check_live(state, more)
            return replenished(state, more, request_id)
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
        case Phase.PAUSED, Pause(finish=finish) if finish or not state.lets_turns_finish:
            return []
        case Phase.PAUSED, Pause():
            return _pause_harder(state)
        case Phase.PAUSED, Resume():
            return [Resumed(actor="user")]
        case Phase.ACTIVE, Suspend(reason):
            return [Suspended(reason=reason, actor="user")]
        case Phase.ACTIVE, AutoSuspend(reason, budget_info):
            return [Suspended(reason=reason, budget_info=budget_info)]
        case Phase.ACTIVE, Abandon(reason):
            return [Suspended(reason=f"{ERROR_THRESHOLD}: {reason}")]
        case Phase.SUSPENDED, AutoUnsuspend():
            return [Unsuspended(reason=BUDGET_REPLENISHED)]
        case Phase.SUSPENDED, Unsuspend(reason) if has_root(state):
            return [Unsuspended(reason=reason, actor="user")]
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
            (Phase.ACTIVE, Activate() | Resume() | Unsuspend() | AutoUnsuspend())
            | (Phase.SUSPENDED, Suspend() | AutoSuspend() | Abandon())
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


def _refusal(state: State, command: object) -> Refused:
    """Return the answer to what the phase does not allow, with the way out of it."""
    if isinstance(command, Archive):
        way_out = "close it first" if state.phase in LIVE else "wait until it is closed"
    else:
        way_out = _WAY_OUT.get(state.phase, "create another one")
    return Refused(f"{refusal(NAME, state.phase, command)}; {way_out}")


def _check_live(state: State, command: object) -> None:
    """Refuse what a session takes only from its creation until it closes."""
    if state.phase not in LIVE or not state.conversation_id:
        raise _refusal(state, command)


def _accept(state: State, command: Accept) -> list[Rune]:
    if is_sent_again(state, command):
        return []
    if state.phase not in LIVE or not state.conversation_id:
        msg = f"session is {state.phase.value}: it takes no more messages; create another one"
        raise Refused(msg)
    rune = accepted(state, command, command.to or state.default_agent)
    if vain := why_in_vain(state, command.asked_in):
        raise Refused(vain)
    first: list[Rune] = []
    if state.phase is Phase.CREATED:
        first.append(Activated(root_agent_id=state.root, trigger="first_message"))
    may_begin = command.begin and state.phase in _TAKES_UP
    begins = begun(evolve(state, rune), rune.message_id, command.now) if may_begin else []
    return [*first, rune, *begins]


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
    runes = [created, limits, *spawned(command.root, None, NAME)]
    for each in command.team:
        # One after the other: their names differ, and one may be the parent of the next.
        runes += _spawn(functools.reduce(evolve, runes, state), each)
    return runes


def _spawn(state: State, command: Spawn) -> list[Rune]:
    if living := member(state.members, command.agent_id):
        if command.only:
            check_same(living, command)
        return []
    _check_live(state, command)
    parent = parent_of_new(state.members, state.root, command)
    return spawned(command, parent, parent or NAME, state.members)


def _update(state: State, command: Update) -> list[Rune]:
    _check_live(state, command)
    runes: list[Rune] = []
    now = state
    for each in command.agents:
        # One after the other, as in a team.
        name = each.name or each.role
        if command.joins and find(now.members, name) is None:
            runes += _spawn(now, each)
        else:
            runes += updated(named(now.members, name), each)
        now = functools.reduce(evolve, runes, state)
    for each in command.agents:
        for other in (*each.config.asks, *each.config.hands_over_to):
            named(now.members, other)
    return runes


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
            return taken_up(state, rune)
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
            return worked(state, rune)
        case tools.Acknowledged():
            return seen_to(state, rune)
        case agents.Spawning():
            return with_new(state, rune)
        case agents.Updated():
            return changed_by(state, rune)
        case agents.Ready(agent_id):
            found = member(state.members, agent_id)
            return with_member(state, found and replace(found, ready=True))
        case agents.Failed(agent_id):
            return without(state, agent_id, "failed")
        case agents.Terminated(agent_id):
            return without(state, agent_id, "terminated")
        case budgets.Exhausted() | budgets.Replenished() | budgets.Limited():
            return funded(state, rune)
        case budgets.Closed(scope):
            return replace(state, gone=tuple(each for each in state.gone if each != scope))
        case (
            approvals.Requested()
            | approvals.Approved()
            | approvals.Rejected()
            | approvals.Aborted()
        ):
            return replace(state, approvals=pending.evolve(state.approvals, rune))
        case Created(conversation_id, config):
            return replace(state, conversation_id=conversation_id, config=config)
        case Paused(finish=finish):
            return replace(state, lets_turns_finish=finish)
        case Suspended(reason, budget_info):
            return replace(state, suspension=reason, out_of_budget=budget_info is not None)
        case Unsuspended():
            state = replace(state, suspension="", out_of_budget=False, exhausted=None)
            return replace(state, failures=0, unclean=0, restarts=0)
        case HandedOver():
            return took_over(state, rune)
        case children.Started() | children.Ended() | children.Reported():
            return replace(state, children=children.evolve(state.children, rune))
        case Reopened(unclean, epoch):
            return replace(state, unclean=unclean, epoch=epoch)
        case ChildRestarted():
            return replace(state, restarted=rune, restarts=state.restarts + 1)
        case _:
            return state


def _ended(state: State, rune: turns.Completed | turns.Interrupted | turns.Error) -> State:
    ended = next(iter([each for each in state.running if each.turn_id == rune.turn_id]), None)
    if ended is None:
        return state
    failures, restarts = state.failures, state.restarts
    if isinstance(rune, turns.Error):
        failures += 1
    elif isinstance(rune, turns.Completed):
        failures = restarts = 0
    state = replace(
        state,
        running=tuple([each for each in state.running if each is not ended]),
        unclean=0,
        failures=failures,
        restarts=restarts,
        stats=agent.counted(state.stats, rune),
    )
    return passed_on(state, ended, rune) if isinstance(rune, turns.Completed) else state


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
        if state.phase is Phase.PAUSED:
            found += children.paused(state.children, SESSION_PAUSED)
        else:
            found += children.ensured(state.children)
    return found


def _by_itself(state: State) -> list[Effect]:
    """Return what it has to do beside having its agents there."""
    if state.phase is Phase.ACTIVE:
        found = _leaving(state)
        if state.waiting:
            found += steers(state)
            found += beginnings(state)
        return found
    match state.phase:
        case Phase.CREATED | Phase.PAUSED | Phase.SUSPENDED:
            if is_stuck(state):
                # What kept failing is left alone until a human has seen to it.
                return []
            waits = state.phase is not Phase.PAUSED or state.lets_turns_finish
            return [*_leaving(state), *([] if waits else stops(state, "pause"))]
        case Phase.CLOSING:
            ending = [
                StopChild(each.agent_id, agents.NAME, SESSION_CLOSED)
                for each in state.members
                if turn_of(state.running, each.agent_id) is None
            ]
            left = children.stopped(state.children, SESSION_CLOSED)
            return [*stops(state, "closing"), *ending, *left]
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
        return [*found, *suspension(state)]
    match state.phase:
        case Phase.CREATED:
            found += activation(state)
        case Phase.SUSPENDED:
            found += recovery(state)
        case Phase.CLOSING if not (state.members or state.running or state.children or found):
            found.append(Finish())
        case _:
            pass
    return found


def _leaving(state: State) -> list[Effect]:
    """Return what follows from agents that ended: their turns stop, then their children."""
    left_behind = orphans(state.members)
    living = {each.agent_id for each in state.members}
    found: list[Effect] = []
    for turn in state.running:
        if turn.agent_id not in living:
            found.append(InterruptTurn(turn.turn_id, "agent_terminated", "system"))
        elif turn.agent_id in left_behind:
            found.append(InterruptTurn(turn.turn_id, PARENT_CLOSED, "system"))
    found += [
        StopChild(each.agent_id, agents.NAME, PARENT_CLOSED)
        for each in state.members
        if each.agent_id in left_behind and turn_of(state.running, each.agent_id) is None
    ]
    return found


def _ensures(state: State) -> list[Effect]:
    """Return the agents that have something to do, or have to become ready."""
    needed = {each.agent_id for each in state.running}
    if state.phase is Phase.ACTIVE:
        needed.update([each.to for each in state.waiting])
    return [
        EnsureChild(each.agent_id, agents.NAME)
        for each in state.members
        if each.agent_id in needed or each.spent or not each.ready
    ]


# -- what the shell must know ------------------------------------------------------------------


def route(state: State, rune: Rune) -> Routing:
    """Return where a rune that this session decided belongs."""
    match rune:
        case Closing() if state.phase is not Phase.PAUSED:
            return Routing(NAME)
        case Paused() | Resumed() | Closing():
            # Their clocks stand, or go on.
            return Routing(NAME, tuple(sorted(children.halted(state.children))))
        case InputAccepted(message_id) | InputRefused(message_id):
            return Routing(NAME, (message_entity(message_id),))
        case turns.Started(turn_id, agent_id, _, message_id):
            return Routing(turn_id, (agent_id, NAME, message_entity(message_id)))
        case (
            agents.Spawning(agent_id)
            | agents.Updated(agent_id)
            | agents.Failed(agent_id)
            | agents.Terminated(agent_id)
        ):
            return Routing(agent_id, (NAME,))
        case HandedOver(turn_id=turn_id) if turn_id:
            return Routing(NAME, (turn_id,))
        case budgets.Opened() | budgets.Replenished() | budgets.Limited() | budgets.Closed():
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
    version=9,
)
