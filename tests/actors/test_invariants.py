"""Whatever is wrong in a log is found: each kind of violation is planted, and told."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from actors.agent import runes as agents
from actors.budget import runes as budget
from actors.catalogue import BIRTHS, CODEC
from actors.entity import Entity, Place
from actors.invariants import SEVERITIES, violations
from actors.model import runes as model
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.lifecycle import Lifecycle
from runelog.memory import MemoryLog
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Envelope, Rune

CONV: Final = "conv_a"
Step = tuple[str, "Rune"] | tuple[str, "Rune", tuple[str, ...]]

RULE: Final = tool.Rule("allow")
ASK: Final = tool.Rule("ask")
ONE: Final = budget.Amounts(tool_calls=1)


def written(*steps: Step) -> list[Envelope]:
    """Return runes as a log gives them out."""
    log = MemoryLog(CODEC)
    for owner, rune, *observers in steps:
        seen = observers[0] if observers else ()
        log.append(CONV, [Change(owner, None, [rune], seen)])
    return list(log.read(CONV))


def broken(*steps: Step, at_rest: bool = False) -> list[str]:
    """Return what of these runes is wrong, by the names of the invariants."""
    return [each.invariant for each in violations(written(*steps), at_rest=at_rest)]


def begun(name: str = "turn_1", agent: str = "agt_1") -> Step:
    """Begin a turn."""
    return name, turn.Started(turn_id=name, agent_id=agent, input="hi")


def over(name: str = "turn_1") -> Step:
    """End a turn."""
    return name, turn.Error("stuck", turn_id=name)


def called(name: str = "call_1", rule: tool.Rule = RULE, of: str = "turn_1") -> Step:
    """Call a tool."""
    rune = tool.Called(
        call_id=name,
        tool_name="charge",
        arguments={},
        turn_id=of,
        agent_id="agt_1",
        rule=rule,
        at=0,
    )
    return name, rune


def started(name: str = "call_1") -> Step:
    """Hand a call to its tool."""
    return name, tool.Started(call_id=name, deadline=1)


def result(name: str = "call_1", status: tool.Status = "success") -> Step:
    """Have a call's result."""
    return name, tool.Result(call_id=name, status=status)


def funds(**limits: int) -> Step:
    """Open the budget of a session."""
    return "budget", budget.Opened(scope="session", limits=budget.Limits(**limits))


def reserved(key: str = "call_1", scope: str = "session") -> Step:
    """Set one tool call aside."""
    return "budget", budget.Reserved(key=key, scope=scope, amounts=ONE)


def settled(key: str = "call_1", used: int = 1) -> Step:
    """Count what a call used."""
    return "budget", budget.Settled(key=key, used=budget.Amounts(tool_calls=used))


def test_what_is_right_is_left_alone() -> None:
    """Turns in order, calls with their results, reservations that settle: nothing to say."""
    steps = (
        funds(tool_calls=2),
        begun("turn_1"),
        begun("turn_2", "agt_2"),
        called(),
        reserved(),
        started(),
        result(),
        settled(),
        over("turn_2"),
        over("turn_1"),
        begun("turn_3"),
        over("turn_3"),
    )

    assert broken(*steps, at_rest=True) == []


def test_a_gap_in_the_numbers_is_found() -> None:
    """Event ids of a conversation are 1, 2, 3: one that is missing or comes twice is told."""
    runes = written(funds(), begun(), over())
    gap = [each.invariant for each in violations([runes[0], runes[2]])]
    twice = [each.invariant for each in violations([runes[0], *runes])]

    assert gap[0] == "INV-EVENTID-MONOTONIC"
    assert twice[0] == "INV-EVENTID-MONOTONIC"


PLANTED: Final[dict[str, tuple[str, Sequence[Step]]]] = {
    "two turns of an agent at once": ("INV-TURN-SEQUENTIAL", [begun(), begun("turn_2")]),
    "a turn that ends twice": ("INV-TURN-TERMINAL", [begun(), over(), over()]),
    "a number that was there": ("INV-TURN-ORDER", [begun("turn_2"), over("turn_2"), begun()]),
    "a turn without a number": ("INV-TURN-ORDER", [begun("turn_x")]),
    "a call that is made twice": ("INV-TOOL-TERMINAL", [begun(), called(), called()]),
    "two results": ("INV-TOOL-TERMINAL", [called(), started(), result(), result()]),
    "a call left open": ("INV-TOOL-TERMINAL", [begun(), called(), started(), over()]),
    "a result without a call": ("INV-TOOL-CALL-BEFORE-RESULT", [result()]),
    "a start without a call": ("INV-TOOL-CALL-BEFORE-RESULT", [started()]),
    "a start without asking": ("INV-TOOL-APPROVAL-BEFORE-EXEC", [called(rule=ASK), started()]),
    "a start while a human is asked": (
        "INV-TOOL-APPROVAL-BEFORE-EXEC",
        [
            called(),
            ("call_1", tool.ApprovalRequested("call_1", "", 1, "apr_1")),
            ("call_1", tool.Retried("call_1", "", 1, 1)),
        ],
    ),
    "a start of what the policy denies": (
        "INV-TOOL-APPROVAL-BEFORE-EXEC",
        [called(rule=tool.Rule("deny")), started()],
    ),
    "a start of what was denied": (
        "INV-TOOL-APPROVAL-BEFORE-EXEC",
        [called(), ("call_1", tool.Denied("call_1", "no")), started()],
    ),
    "a limit that is passed": (
        "INV-AGENT-BUDGET",
        [funds(tool_calls=1), reserved(), reserved("call_2")],
    ),
    "more used than set aside": (
        "INV-AGENT-BUDGET",
        [funds(tool_calls=1), reserved(), settled(used=2)],
    ),
    "a reservation made twice": ("INV-AGENT-BUDGET", [funds(), reserved(), reserved()]),
    "a reservation settled twice": (
        "INV-AGENT-BUDGET",
        [funds(), reserved(), settled(), settled()],
    ),
    "a settlement of nothing": ("INV-AGENT-BUDGET", [funds(), settled()]),
    "a reservation that outlives its turn": (
        "INV-AGENT-BUDGET",
        [funds(), begun(), called(), reserved(), result(), over()],
    ),
    "spending from no budget": ("INV-AGENT-BUDGET", [funds(), reserved(scope="agt_9")]),
    "a rune of nobody": ("INV-REPLAY-DETERMINISTIC", [("agt_1", agents.Ready("agt_1"))]),
    "a rune that its law forbids": (
        "INV-REPLAY-DETERMINISTIC",
        [
            ("session", session.Created(CONV)),
            ("session", session.Resumed()),
        ],
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_violation_is_found(what: str) -> None:
    """What breaks a rule is told by the rule's name, while the log is still going on."""
    invariant, steps = PLANTED[what]

    assert invariant in broken(*steps)


def test_a_child_spends_from_its_parent() -> None:
    """The limit of a parent holds for what all its children spend, also once one is gone."""
    kid = ("budget", budget.Opened(scope="agt_2", parent="session"))
    gone = ("budget", budget.Closed("agt_2"))
    within = (funds(tool_calls=2), kid, reserved(scope="agt_2"), gone, settled(), reserved("two"))

    assert broken(*within) == []
    assert broken(*within, reserved("three")) == ["INV-AGENT-BUDGET"]


def test_what_is_raised_may_be_spent() -> None:
    """A limit is what it was opened with, and what was added since."""
    more = ("budget", budget.Replenished(scope="session", amounts=ONE))

    assert broken(funds(tool_calls=1), reserved(), more, reserved("call_2")) == []


def test_what_has_no_end_is_found_once_all_is_at_rest() -> None:
    """Turns, calls and reservations under way are no violation, unless everything is to be over."""
    steps = (funds(), begun(), called(), reserved(), started())

    assert broken(*steps) == []
    assert broken(*steps, at_rest=True) == [
        "INV-TURN-TERMINAL",
        "INV-TOOL-TERMINAL",
        "INV-AGENT-BUDGET",
    ]


def test_a_closed_session_is_at_rest() -> None:
    """Where a session is closed, everything in it has come to its end."""
    closed = [
        ("session", session.Created(CONV)),
        begun(),
        ("session", session.Closing()),
        ("session", session.Closed()),
    ]

    assert broken(*closed) == ["INV-TURN-TERMINAL"]


def test_an_approved_call_may_start() -> None:
    """What waits for a human starts once the human has agreed."""
    steps = (
        called(rule=ASK),
        ("call_1", tool.ApprovalRequested("call_1", "", 1, "apr_1")),
        ("call_1", tool.Approved("call_1", "ada")),
        started(),
        result(),
    )

    assert broken(*steps) == []


def test_each_problem_says_where_it_is() -> None:
    """A problem names its conversation and event, and is as bad as the specification says."""
    (problem,) = violations(written(begun(), begun("turn_2")))

    assert problem.where == "conv_a event 2"
    assert problem.severity == SEVERITIES["INV-TURN-SEQUENTIAL"] == "error"
    assert "turn_1" in problem.message


class _Phase(StrEnum):
    THERE = "there"


class _Counted(msgspec.Struct, frozen=True):
    phase: _Phase = _Phase.THERE
    count: int = 0


def test_a_law_that_folds_differently_each_time_is_found() -> None:
    """Folded twice from the same runes, a state has the same hash, or that is told."""
    ticks = itertools.count()
    moody = Lifecycle[_Phase, _Counted, object, object](
        name="moody",
        table={_Phase.THERE: {model.Called: _Phase.THERE}},
        initial=_Counted(),
        decide=lambda _state, _command: [],
        evolve=lambda state, _rune: msgspec.structs.replace(state, count=next(ticks)),
        due=lambda _state: [],
    )
    entity = Entity(
        lifecycle=moody,
        place=lambda _state, _rune: Place("m"),
        births=(model.Called,),
        is_open=lambda _state: False,
    )
    rune = model.Called("m", "turn_1", "agt_1", "demo", 0, 0, 0, "", budget.Amounts(), 0)
    found = violations(written(("m", rune)), births={**BIRTHS, model.Called: entity})

    assert [each.invariant for each in found] == ["INV-REPLAY-DETERMINISTIC"]
