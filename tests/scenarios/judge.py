"""What a conversation came to, told from the log and the till alone, and what may differ.

After a crash everything is as without it, except what recovery is allowed: a turn that was stopped
may have said less, and a call that nobody can ask about may be unknown. Then that must be told, to
the model, to the app and to the operator, and the call must not have happened twice.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.agent.history import History
from actors.budget import lifecycle as ledger
from actors.invariants import violations
from actors.session import runes as sessions
from actors.session.fold import Phase
from actors.turn import runes as turns
from runelog.replay import replay
from tests.scenarios.plays import NAME, folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.session.fold import Member
    from runelog.log import Log
    from tests.scenarios.plays import Scenario
    from tests.scenarios.world import Till

UNKNOWN: Final = "It is not known"
"""How the model is told of a call whose outcome nobody knows."""


class End(NamedTuple):
    """How the turn of a message ended."""

    kind: str
    text: str
    reason: str = ""


class Upshot(NamedTuple):
    """What a conversation came to."""

    ends: dict[str, End]
    session: dict[str, Any]
    spent: int
    """Tool calls, as the budget has them."""
    histories: list[list[tuple[str, str]]]
    """What the models of the agents are shown, in the order in which the agents came."""
    results: dict[str, str]
    """How each call came out."""
    effects: list[str]
    doubts: list[str]
    """The calls that the app is told nobody knows the outcome of."""
    problems: list[str]


def upshot(log: Log, till: Till) -> Upshot:
    """Tell what a conversation came to."""
    state = folded(log)
    budget, _, _ = replay(log, NAME, ledger.LIFECYCLE, entity="budget")
    root = ledger.find(budget, "session")
    agents = [e.payload for e in log.read(NAME, kinds={"agent.spawning"})]
    head = log.conversation(NAME).head
    histories = [History.read(log, NAME, agent.agent_id, head) for agent in agents]  # type: ignore[attr-defined]  # by its kind
    return Upshot(
        ends=_ends(log),
        session={
            "phase": state.phase.value,
            "members": sorted(map(_member, state.members)),
            "waiting": state.waiting,
            "running": state.running,
            "turns": state.turns,
            "suspension": state.suspension,
            "exhausted": state.exhausted and state.exhausted.what,
            "failures": state.failures,
            # One that ended meanwhile has no outcome more to come that would reset the count.
            "unclean": 0 if state.phase is Phase.CLOSED else state.unclean,
            "approvals": state.approvals,
            "messages": state.stats.messages,
            "refused": state.stats.refused,
            "agents": state.stats.agents,
            "ends": (state.stats.completed, state.stats.interrupted, state.stats.failed),
        },
        spent=0 if root is None else root.used.tool_calls,
        histories=[_shown(history) for history in histories],
        results={
            e.payload.call_id: e.payload.status  # type: ignore[attr-defined]  # by its kind
            for e in log.read(NAME, kinds={"tool.result"})
        },
        effects=till.entries(),
        doubts=list(state.in_doubt),
        problems=[
            f"{problem.invariant} at {problem.where}: {problem.message}"
            for problem in violations(log.read(NAME), at_rest=True)
        ],
    )


def _shown(history: History) -> list[tuple[str, str]]:
    """Return what is shown, but for ids, and for the order in which tools came back."""
    found: list[tuple[str, str]] = []
    for role, group in itertools.groupby(history.messages, lambda message: message.role):
        texts = [(role, nameless(message.text)) for message in group]
        found += sorted(texts) if role == "tool" else texts
    return found


def nameless(text: str) -> str:
    """Return a text without the ids in it: those of a run that was cut off are others."""
    return re.sub(r"\b(agt|call)_[0-9a-f]{16}", r"\1", text)


def _member(member: Member) -> tuple[bool, bool, bool, tuple[int, ...]]:
    stats = member.stats
    ends = (stats.turns, stats.completed, stats.interrupted, stats.failed)
    return member.parent_id is None, member.ready, member.spent, ends


def _ends(log: Log) -> dict[str, End]:
    messages: dict[str, str] = {}
    found: dict[str, End] = {}
    for envelope in log.read(NAME):
        match envelope.payload:
            case turns.Started(turn_id=turn, message_id=message):
                messages[turn] = message
            case turns.Completed(final_output=text):
                found[messages[envelope.owner]] = End("completed", nameless(text))
            case turns.Interrupted(reason=reason, partial_output=text):
                found[messages[envelope.owner]] = End("interrupted", text, reason)
            case turns.Error(error_type=reason, partial_output=text):
                found[messages[envelope.owner]] = End("error", text, reason)
            case sessions.InputRefused(message_id=message, reason=reason):
                found[message] = End("refused", "", reason)
            case _:
                pass
    return found


def differences(scenario: Scenario, want: Upshot, got: Upshot) -> Iterator[str]:
    """Say everything in which a conversation that was cut off came to something else."""
    yield from got.problems
    twice = {each for each in got.effects if got.effects.count(each) > 1}
    if twice:
        yield f"took effect more than once: {sorted(twice)}"
    strangers = set(got.effects) - set(got.results)
    if strangers:
        yield f"took effect and is not in the log: {sorted(strangers)}"
    unknown = [call for call, status in got.results.items() if status == "unknown"]
    if unknown != got.doubts:
        yield f"unknown are {unknown}, and the app is told {got.doubts}"
    if unknown and not scenario.blind:
        yield f"left unknown although there is a probe: {unknown}"
    if not len(want.effects) - len(unknown) <= len(got.effects) <= len(want.effects):
        yield f"took effect: {got.effects}, which are not {len(want.effects)}"
    yield from _ended_differently(want, got, in_doubt=bool(unknown))
    if got.session != want.session:
        for what, old in want.session.items():
            if got.session[what] != old:
                yield f"the session's {what}: {got.session[what]}, not {old}"
    if got.spent != want.spent:
        yield f"{got.spent} tool calls are spent, not {want.spent}"


def _ended_differently(want: Upshot, got: Upshot, *, in_doubt: bool) -> Iterator[str]:
    if got.ends.keys() != want.ends.keys():
        yield f"ended: {sorted(got.ends)}, not {sorted(want.ends)}"
        return
    for message, end in got.ends.items():
        wanted = want.ends[message]
        less = end.kind == "interrupted" and wanted.text.startswith(end.text)
        doubted = in_doubt and end.text.startswith(f"Done: {UNKNOWN}")
        same = end.text == wanted.text or less or doubted
        if (end.kind, end.reason) != (wanted.kind, wanted.reason) or not same:
            yield f"{message} ended as {end}, not as {wanted}"
    if in_doubt:
        shown = sum(text.startswith(UNKNOWN) for history in got.histories for _, text in history)
        if shown != len(got.doubts):
            yield f"the model was told of {shown} doubts, and there are {len(got.doubts)}"
    elif got.histories != want.histories and not _was_stopped(want):
        yield f"the models are shown {got.histories}, not {want.histories}"


def _was_stopped(upshot: Upshot) -> bool:
    return any(end.kind == "interrupted" for end in upshot.ends.values())


def broken_promises(log: Log, till: Till) -> Iterator[str]:
    """Say what an app was told and the log does not know any more."""
    if not till.promises():
        return
    ends = _ends(log)
    accepted = {
        rune.message_id
        for envelope in log.read(NAME)
        if isinstance(rune := envelope.payload, sessions.InputAccepted)
    }
    for promise in till.promises():
        what, _, message = promise.partition(" ")
        end = ends.get(message)
        kept = message in accepted if what == "accepted" else end is not None and end.kind == what
        if not kept:
            yield f"the app was told that {message} is {what}, and the log has lost it"
