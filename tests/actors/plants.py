"""Runes to plant in logs, right and wrong ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from actors.agent import runes as agents
from actors.budget import runes as budget
from actors.budget.runes import Amounts
from actors.catalogue import CODEC
from actors.invariants import violations
from actors.model import runes as model
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.memory import MemoryLog
from runelog.rune import Change

if TYPE_CHECKING:
    from runelog.rune import Envelope, Rune

CONV: Final = "conv_a"
Step: TypeAlias = "tuple[str, Rune]"

RULE: Final = tool.Rule("allow")
ASK: Final = tool.Rule("ask")
ONE: Final = Amounts(tool_calls=1)
NONE: Final = Amounts()


def written(*steps: Step) -> list[Envelope]:
    """Return runes as a log gives them out."""
    log = MemoryLog(CODEC)
    plant(log, *steps)
    return list(log.read(CONV))


def plant(log: MemoryLog, *steps: Step) -> None:
    """Append runes, one after the other."""
    for owner, rune in steps:
        agent = getattr(rune, "agent_id", None)
        log.append(CONV, [Change(owner, None, [rune], agent=agent)])


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
        caller=of,
        agent_id="agt_1",
        rule=rule,
        at=0,
    )
    return name, rune


def started(name: str = "call_1", account: str = "session", reserved: Amounts = NONE) -> Step:
    """Hand a call to its tool."""
    return name, tool.Started(call_id=name, deadline=1, account=account, reserved=reserved)


def result(name: str = "call_1", status: tool.Status = "success", charged: Amounts = NONE) -> Step:
    """Have a call's result."""
    estimated = status == "unknown"
    return name, tool.Result(call_id=name, status=status, charged=charged, estimated=estimated)


def created() -> Step:
    """Begin a session."""
    return "session", session.Created(CONV)


def spawned(name: str = "agt_1", parent: str | None = None) -> Step:
    """Bring an agent into it."""
    return name, agents.Spawning(agent_id=name, role="x", model="m", parent_id=parent)


def gone(name: str = "agt_1", reason: str = "killed") -> Step:
    """Have an agent go that was ready."""
    return name, agents.Terminated(agent_id=name, reason=reason)


def asked(
    name: str = "turn_1-r0-a0",
    of: str = "turn_1",
    agent: str = "agt_1",
    reserved: Amounts = NONE,
) -> Step:
    """Ask a model."""
    return name, model.Called(name, of, "demo", 0, "", reserved, 0, agent, "session")


def funds(**limits: int) -> Step:
    """Open the budget of a session."""
    return "budget", budget.Opened(scope="session", limits=budget.Limits(**limits))


def reserved(key: str = "call_1", scope: str = "session") -> Step:
    """Set one tool call aside, for whatever it is."""
    return "budget", turn.TimeReserved(key, 0, scope, ONE)


def settled(key: str = "call_1", charged: int = 1) -> Step:
    """Charge so many tool calls, for whatever it is."""
    return "budget", turn.TimeSettled(key, Amounts(tool_calls=charged))
