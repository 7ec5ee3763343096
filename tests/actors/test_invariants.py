"""Whatever is wrong in a log is found: each kind of violation is planted, and told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from actors import children
from actors.agent import runes as agents
from actors.budget import runes as budget
from actors.invariants import held, violations
from actors.model import runes as model
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from tests.actors.plants import (
    ASK,
    CONV,
    ONE,
    Step,
    asked,
    begun,
    broken,
    called,
    created,
    funds,
    gone,
    over,
    reserved,
    result,
    settled,
    spawned,
    started,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_what_is_right_is_left_alone() -> None:
    """Turns in order, calls with their results, reservations that settle: nothing to say."""
    steps = (
        funds(tool_calls=2),
        begun("turn_1"),
        begun("turn_2", "agt_2"),
        called(),
        started(reserved=ONE),
        result(charged=ONE),
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
        [funds(tool_calls=1), reserved(), settled(charged=2)],
    ),
    "a reservation made twice": ("INV-AGENT-BUDGET", [funds(), reserved(), reserved()]),
    "a reservation settled twice": (
        "INV-AGENT-BUDGET",
        [funds(), reserved(), settled(), settled()],
    ),
    "a settlement of nothing": ("INV-AGENT-BUDGET", [funds(), settled()]),
    "a call that costs nothing": (
        "INV-AGENT-BUDGET",
        [funds(), begun(), called(), started(reserved=ONE), result()],
    ),
    "a crash that costs nothing": (
        "INV-AGENT-BUDGET",
        [
            funds(),
            begun(),
            asked(reserved=ONE),
            ("turn_1-r0-a0", model.Failed("turn_1-r0-a0", "crash", estimated=True)),
        ],
    ),
    "a crash whose charge is said to be known": (
        "INV-AGENT-BUDGET",
        [
            funds(),
            begun(),
            asked(reserved=ONE),
            ("turn_1-r0-a0", model.Failed("turn_1-r0-a0", "crash", charged=ONE)),
        ],
    ),
    "a doubt whose charge is said to be known": (
        "INV-AGENT-BUDGET",
        [
            *(funds(), begun(), called(), started(reserved=ONE)),
            ("call_1", tool.Result("call_1", "unknown", charged=ONE)),
        ],
    ),
    "a charge for what never began": (
        "INV-AGENT-BUDGET",
        [funds(), begun(), called(), result(status="denied", charged=ONE)],
    ),
    "a reservation that outlives its turn": (
        "INV-AGENT-BUDGET",
        [funds(), begun(), called(), started(reserved=ONE), over()],
    ),
    "time that outlives its turn": (
        "INV-AGENT-BUDGET",
        [
            funds(),
            begun(),
            ("turn_1", turn.TimeReserved("turn_1-w0", 9, "session", budget.Amounts(wall=5))),
            over(),
        ],
    ),
    "a program that may use the network and must not": (
        "INV-TOOL-SANDBOX",
        [
            called(rule=tool.Rule("allow", network=False)),
            started(),
            ("call_1", tool.Progress("call_1", "sandbox", "network access is not blocked")),
        ],
    ),
    "an agent of nobody": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), spawned("agt_2", "agt_9")],
    ),
    "a second root": ("INV-AGENT-SUPERVISED", [created(), spawned(), spawned("agt_2")]),
    "an agent that is spawned twice": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), spawned("agt_1", "agt_1")],
    ),
    "an agent that goes and was not there": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), gone("agt_2")],
    ),
    "a crash that reaches a child of somebody else": (
        "INV-AGENT-SUPERVISED",
        [
            *(created(), spawned(), spawned("agt_2", "agt_1"), spawned("agt_3", "agt_1")),
            *(gone("agt_2", "crashed"), gone("agt_3", "parent_closed")),
        ],
    ),
    "a turn of an agent that is gone": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), gone(), begun()],
    ),
    "a model that is asked when the turn is over": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), begun(), over(), asked()],
    ),
    "a call in the turn of somebody else": (
        "INV-AGENT-SUPERVISED",
        [created(), spawned(), spawned("agt_2", "agt_1"), begun("turn_1", "agt_2"), called()],
    ),
    "a child that ends and was never born": (
        "INV-NO-ORPHANS",
        [created(), ("session", children.Ended("leg_1", "there"))],
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
    steps = (funds(), begun(), called(), started(reserved=ONE))

    assert broken(*steps) == []
    assert broken(*steps, at_rest=True) == [
        "INV-TURN-TERMINAL",
        "INV-TOOL-TERMINAL",
        "INV-AGENT-BUDGET",
    ]


def test_a_closed_session_is_at_rest() -> None:
    """Where a session is closed, everything in it has come to its end."""
    closed = [
        created(),
        spawned(),
        begun(),
        ("session", session.Closing()),
        ("session", session.Closed()),
    ]

    assert broken(*closed) == ["INV-TURN-TERMINAL"]


def test_whoever_has_somebody_above_is_left_alone() -> None:
    """Agents under agents, turns under agents, calls under turns, and new roots for old ones."""
    steps = (
        *(created(), spawned(), spawned("agt_2", "agt_1")),
        *(begun(), asked(), over(), gone(), gone("agt_2", "parent_closed")),
        *(spawned("agt_3"), begun("turn_2", "agt_3"), over("turn_2")),
    )

    assert "INV-AGENT-SUPERVISED" not in broken(*steps)


def test_an_orphans_child_may_go_before_the_orphan() -> None:
    """All below an agent that is gone go because of it; one that still has a turn goes last."""
    family = (created(), spawned(), spawned("agt_2", "agt_1"), spawned("agt_3", "agt_2"))

    assert "INV-AGENT-SUPERVISED" not in broken(*family, gone(), gone("agt_3", "parent_closed"))
    assert "INV-AGENT-SUPERVISED" in broken(*family, gone("agt_3", "parent_closed"))


def test_a_program_that_may_use_the_network_says_so_in_vain() -> None:
    """Where no bound was declared, none was passed; and any tool may have a stream of that name."""
    said = ("call_1", tool.Progress("call_1", "sandbox", "network access is not blocked"))

    assert broken(begun(), called(), started(), said, result()) == []


def test_every_invariant_that_is_checked_is_in_the_specification() -> None:
    """Each has its severity, and each has a log in these tests that breaks it."""
    planted = {invariant for invariant, _ in PLANTED.values()}
    beside = {
        "INV-CAUSE-ROOTED",
        "INV-EVENTID-MONOTONIC",
        "INV-MEMORY-PRIVACY",
        "INV-REPLAY-IDEMPOTENT",
        "INV-RESUME-NO-DUPLICATES",
        "INV-RESUME-NO-GAPS",
    }

    assert planted | beside == held() | {"INV-RESUME-NO-DUPLICATES", "INV-RESUME-NO-GAPS"}


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
    assert problem.severity == "error"
    assert "turn_1" in problem.message
