"""A summary of each session in a log, and of the system's conversation. Only reads the log."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from actors.catalogue import KINDS
from actors.entity import Moved
from actors.session.approvals import in_doubt
from actors.session.kind import KIND
from actors.session.lifecycle import Phase
from actors.session.runes import Created
from actors.tool import runes as tools
from actors.tool.runes import Called, Result, Retried
from actors.units import SECOND
from runelog.errors import Corrupt, Gone, IllegalTransition, Refused
from runelog.replay import replay
from runelog.rune import SYSTEM, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.approval.pending import Pending
    from actors.children import Child
    from actors.kind import Kinds
    from actors.session.lifecycle import State as Session
    from runelog.log import Log
    from runelog.rune import Conversation

DAMAGED: Final = "damaged"
ERASED: Final = "erased"
_ALIVE: Final = frozenset({*Phase} - {Phase.CLOSED, Phase.ARCHIVED})


class Approval(msgspec.Struct, frozen=True):
    """A call that waits for a human.

    >>> Approval("call_1", reason="pay requires approval", deadline=1_800_000_000).reason
    'pay requires approval'
    """

    call_id: str
    reason: str
    deadline: float
    """Seconds since 1970, UTC."""
    tool_name: str = ""
    arguments: dict[str, Any] = {}
    """The arguments of the call."""


class InDoubt(msgspec.Struct, frozen=True):
    """A call that began, and of which nobody knows whether it took effect.

    >>> InDoubt("call_1", tool="wire", arguments={"cents": 500}).tool
    'wire'
    """

    call_id: str
    tool: str = ""
    arguments: dict[str, Any] = {}
    since: float = 0
    """When that was noticed, in seconds since 1970, UTC: by the first open after a crash, say."""
    is_asked: bool = False
    """Whether a human is asked about it: `session.answer`. If not, it has ended as unknown."""


class Listed(msgspec.Struct, frozen=True):
    """Summary of a session."""

    id: str
    phase: str
    """As its lifecycle names it; `erased`, or `damaged` if its runes cannot be read."""
    turns: int = 0
    running: int = 0
    waiting: int = 0
    """Messages that wait for their turn."""
    last_time: float | None = None
    """When something last happened, in seconds since 1970, UTC."""
    approvals: tuple[Approval, ...] = ()
    in_doubt: tuple[InDoubt, ...] = ()
    """Calls whose outcome is unknown; some of them may be waiting for a human's verdict."""
    unknown: tuple[str, ...] = ()
    """Entities with work left whose kinds are not known here: they wait for the app's code."""


def sessions(
    log: Log, after: str = "", limit: int | None = None, kinds: Kinds = KINDS
) -> list[Listed]:
    """List sessions in order of id, those whose ids come after `after`.

    The system's conversation is listed too if something in it asks a human or is unknown here.
    """
    return list(itertools.islice(_found(log, after, kinds), limit))


def _found(log: Log, after: str, kinds: Kinds) -> Iterator[Listed]:
    for conversation in log.conversations():
        if conversation.id > after:
            of_system = conversation.id == SYSTEM
            found = (_listed_system if of_system else listed)(log, conversation, kinds)
            if found is not None:
                yield found


def listed(log: Log, conversation: Conversation, kinds: Kinds = KINDS) -> Listed | None:
    """Return the summary of a session; None if the conversation is not one."""
    if conversation.state is State.ERASED:
        return Listed(conversation.id, ERASED)
    last = None if conversation.last_time is None else conversation.last_time / SECOND
    try:
        if not log.version(conversation.id, KIND.name):
            return None
        state, _, _ = replay(log, conversation.id, KIND.lifecycle, entity=KIND.name)
    except (Corrupt, IllegalTransition):
        # One that cannot be read must not keep the others from being listed.
        return Listed(conversation.id, DAMAGED, last_time=last)
    if not state.conversation_id:
        return None
    return Listed(
        id=conversation.id,
        phase=state.phase.value,
        turns=state.stats.turns,
        running=len(state.running),
        waiting=len(state.waiting),
        last_time=last,
        approvals=_approvals(log, conversation.id, state.approvals),
        in_doubt=tuple(doubts(log, conversation.id, state)),
        unknown=_unknown(state.children, kinds),
    )


def such_sessions(log: Log, labels: Mapping[str, str], phase: str) -> Iterator[str]:
    """Yield the ids of all sessions, or of those with these labels and in this phase."""
    asked_for = bool(labels or phase)
    if asked_for:
        log.flush()
    for each in log.conversations():
        if each.id != SYSTEM and (not asked_for or is_such(log, each, labels, phase)):
            yield each.id


def is_such(
    log: Log, conversation: Conversation, labels: Mapping[str, str], phase: str = ""
) -> bool:
    """Return True if a session has these labels, among others, and is in this phase, if any."""
    try:
        first = next(iter(log.stream(conversation.id, KIND.name)), None)
        created = None if first is None else first.payload
        if not isinstance(created, Created) or not labels.items() <= created.config.labels.items():
            return False
        if not phase:
            return True
        state, _, _ = replay(log, conversation.id, KIND.lifecycle, entity=KIND.name)
    except (Corrupt, IllegalTransition, Gone):
        return False
    return bool(state.phase.value == phase)


def _listed_system(log: Log, conversation: Conversation, kinds: Kinds) -> Listed | None:
    """Return what needs attention in the system's conversation; None if nothing does."""
    last = None if conversation.last_time is None else conversation.last_time / SECOND
    try:
        root = kinds.root(SYSTEM)
        state, _, _ = replay(log, SYSTEM, root.lifecycle, entity=root.prefix)
    except (Corrupt, IllegalTransition):
        return Listed(SYSTEM, DAMAGED, last_time=last)
    approvals = _approvals(log, SYSTEM, state.approvals)
    unknown = _unknown(state.children, kinds)
    if not approvals and not unknown:
        return None
    phase = state.phase.value
    return Listed(SYSTEM, phase, last_time=last, approvals=approvals, unknown=unknown)


def _approvals(log: Log, conversation: str, pending: Iterable[Pending]) -> tuple[Approval, ...]:
    return tuple(asked(log, conversation, each) for each in pending)


def _unknown(children: Iterable[Child], kinds: Kinds) -> tuple[str, ...]:
    return tuple(each.child for each in children if each.kind not in kinds.by_name)


def asked(log: Log, conversation: str, pending: Pending) -> Approval:
    """Return a call that waits for a human with all that one has to know of it."""
    known = Approval(pending.call_id, pending.reason, pending.deadline / SECOND)
    with contextlib.suppress(Corrupt):
        # Its first rune has them; if that cannot be read, the call is shown without.
        for envelope in log.stream(conversation, pending.call_id):
            if isinstance(called := envelope.payload, Called):
                name, arguments = called.tool_name, called.arguments
                return replace(known, tool_name=name, arguments=arguments)
            break
    return known


def doubts(log: Log, conversation: str, state: Session) -> list[InDoubt]:
    """Return the calls of a session whose outcome is unknown, each with all that is known of it."""
    asked = {each.call_id for each in state.approvals}
    if in_doubt(state):
        # What a session knows may be on its way to the disk yet.
        log.flush(conversation)
    found = (InDoubt(call_id, is_asked=call_id in asked) for call_id in in_doubt(state))
    return [_doubted(log, conversation, each) for each in found]


def _doubted(log: Log, conversation: str, known: InDoubt) -> InDoubt:
    with contextlib.suppress(Corrupt):
        for envelope in log.stream(conversation, known.call_id):
            match envelope.payload:
                case Called(tool_name=name, arguments=arguments):
                    known = replace(known, tool=name, arguments=arguments)
                case Retried():
                    # Whatever was in doubt before is not any more.
                    known = replace(known, since=0)
                case Moved(trigger=tools.IN_DOUBT) | Result() if not known.since:
                    known = replace(known, since=envelope.time / SECOND)
    return known


def check_ended(log: Log, conversation: str, how: str) -> None:
    """Refuse a session that has not ended, and say how to end it."""
    found = listed(log, log.conversation(conversation))
    if found is not None and found.phase == Phase.CLOSING:
        msg = (
            f"{conversation} is closing and cannot be archived yet: its app completes that when it "
            "runs, with `runefold serve` or Runtime.open"
        )
        raise Refused(msg)
    if found is not None and found.phase in _ALIVE:
        msg = f"{conversation} is {found.phase}: close it before it is archived, with {how}"
        raise Refused(msg)
