"""How each conversation ends if nobody disturbs it: a crash must not change that, nor a bug.

The crash kit compares runs with each other. What goes wrong in all of them in the same way only
shows here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from actors.agent import runes as agents
from actors.budget import runes as budgets
from actors.session import runes as sessions
from actors.turn import runes as turns
from tests.scenarios.judge import envelopes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from runelog.log import Log
    from tests.scenarios.world import Till

STATIONS: Final = (
    sessions.Paused,
    sessions.Resumed,
    sessions.Suspended,
    sessions.Unsuspended,
    sessions.Closed,
    sessions.Archived,
)


@dataclass(frozen=True)
class Ending:
    """What is left of a conversation."""

    turns: Mapping[str, str]
    """By message: who answered, how that ended, and what was said. Those of agents are `asked`."""
    till: int = 0
    """How often something was charged outside."""
    spent: int = 0
    """How many tool calls were paid for."""
    course: tuple[str, ...] = ()
    """Where the session was on the way."""


def _called(turn: turns.Started, found: Mapping[str, str]) -> str:
    """Return what a message is called here: what agents ask each other has ids of chance."""
    return f"asked {len(found)}" if turn.asked_in else turn.message_id


def ending(log: Log, till: Till) -> Ending:
    """Return how a conversation ended."""
    roles: dict[tuple[str, str], str] = {}
    started: dict[tuple[str, str], turns.Started] = {}
    found: dict[str, str] = {}
    course: list[str] = []
    spent = 0
    for envelope in envelopes(log):
        name, owner = envelope.conversation, envelope.owner
        turn = started.get((name, owner))
        who = "" if turn is None else f"{roles[name, turn.agent_id]}, "
        message = "" if turn is None else _called(turn, found)
        match envelope.payload:
            case agents.Spawning(role=role):
                roles[name, owner] = role
            case turns.Started() as rune:
                started[name, owner] = rune
            case turns.Completed(final_output=said):
                found[message] = f"{who}completed: {said}"
            case turns.Interrupted(reason=why, partial_output=said):
                found[message] = f"{who}interrupted ({why}): {said}"
            case turns.Error(error_type=why, partial_output=said):
                found[message] = f"{who}error ({why}): {said}"
            case sessions.InputRefused(message_id=refused, reason=why):
                found[refused] = f"refused ({why})"
            case budgets.Settles(charged=charged):
                spent += charged.tool_calls
            case rune if isinstance(rune, STATIONS):
                course.append(type(rune).__name__.lower())
            case _:
                pass
    return Ending(found, len(till.entries()), spent, tuple(course))


FINE: Final = "clerk, completed: It is fine."
CHARGED: Final = "clerk, completed: Done: charged"
LOOKED: Final = "completed: Done: charged | charged | customer 1 | customer 3"
THOUGHT: Final = "clerk, completed: Let me think. I thought."
_THREE: Final = Ending({"m1": CHARGED, "m2": CHARGED, "m3": CHARGED}, till=3, spent=3)
_CLOSED: Final = {
    "m1": CHARGED,
    "m2": "clerk, interrupted (closing): Let me think. ",
    "m3": "refused (the session closes)",
}


_HEARD: Final = "Heard: hand over / [clerk] I go. "
_HEARD_SINCE: Final = (
    "Heard: hand over / I go.  / deputy takes over / [deputy] Heard: hand over / [clerk] I go. "
    ' / charge / [deputy] I charge.  / [deputy called charge({"cents":5}): charged]'
    " / [deputy] Done: charged / hand back / [deputy] I go. "
)
_HEARD_ASIDE: Final = (
    "Heard: charge / I charge.  / charged / Done: charged / ask the deputy / [clerk] I ask. "
    ' / [clerk called ask_agent({"agent":"deputy","question":"charge"}): Done: charged]'
    " / [clerk] Done: Done: charged / hand over / [clerk] I go. "
)
"""What the one that takes over was shown: its own words as they were, the others' by name."""


def _ended(how: str) -> dict[str, str]:
    """Return the turns of those in which the first message is cut short and another one is not."""
    return {"m1": f"clerk, interrupted {how}", "m2": FINE}


ENDINGS: Final[Mapping[str, Ending]] = {
    "plain": Ending({"m1": FINE}),
    "parallel": Ending({"m1": f"clerk, {LOOKED}"}, till=2, spent=4),
    "budget": Ending(
        {
            "m1": CHARGED,
            "m2": CHARGED,
            "m3": "clerk, error (budget_exhausted): I charge. ",
            "m4": FINE,
            "m5": CHARGED,
        },
        till=3,
        spent=3,
        course=("suspended", "unsuspended"),
    ),
    "timed": Ending({"m0": THOUGHT, "m1": CHARGED, "m2": THOUGHT}, till=1, spent=1),
    "queue": Ending(
        {"m0": FINE, "m1": CHARGED, "m2": f"clerk, {LOOKED}", "m3": FINE}, till=3, spent=5
    ),
    "beside": Ending(dict.fromkeys(("m1", "m2", "b1", "b2"), CHARGED), till=4, spent=4),
    "fault": Ending({"m1": "clerk, completed: I stand.", "m2": CHARGED}, till=1, spent=1),
    "charges by key": _THREE,
    "charges": _THREE,
    "blind charges": _THREE,
    "progress": Ending({"m1": CHARGED, "m2": CHARGED}, till=2, spent=2),
    "program": Ending(
        {"m1": "clerk, completed: Done: done\n | done\n", "m2": CHARGED}, till=1, spent=3
    ),
    "approval": Ending({"m1": CHARGED}, till=1, spent=1),
    "denied": Ending({"m1": "clerk, completed: Done: denied by ada: no money"}),
    "withdrawn": Ending(
        {"m1": "clerk, interrupted (interrupt): I ask. ", "m2": CHARGED}, till=1, spent=1
    ),
    "seen to": Ending({"m1": CHARGED, "m2": FINE}, till=1, spent=1),
    "charges by hand": Ending({"m1": CHARGED, "m2": CHARGED}, till=2, spent=2),
    "steer": Ending(_ended("(steer): Let me think. ")),
    "interrupt": Ending(_ended("(interrupt): Let me think. ")),
    "steer in a tool": Ending(_ended("(steer): I dig. "), spent=1),
    "steer in a program": Ending(_ended("(steer): I churn. "), spent=1),
    "interrupt in a tool": Ending(_ended("(enough): I dig. "), spent=1),
    "interrupt in a program": Ending(_ended("(enough): I churn. "), spent=1),
    "team": Ending(
        {"m1": CHARGED, "m2": f"helper, {LOOKED}", "m3": "helper, completed: Done: charged"},
        till=4,
        spent=6,
    ),
    "dismissed": Ending(
        {"m1": FINE, "m2": "helper, interrupted (agent_terminated): Let me think. ", "m3": FINE}
    ),
    "expert": Ending(
        {
            "asked 0": "expert, completed: Done: charged",
            "m1": "clerk, completed: Done: Done: charged",
            "m2": CHARGED,
            "asked 3": "expert, completed: Done: charged",
            "m3": "clerk, completed: Done: Done: charged",
        },
        till=3,
        spent=5,
    ),
    "lost expert": Ending(
        {
            "asked 0": "expert, interrupted (agent_terminated): I dig. ",
            "m1": "clerk, completed: Done: error: expert was interrupted: agent_terminated I dig.",
            "asked 2": "expert, completed: Done: charged",
            "m2": "clerk, completed: Done: Done: charged",
        },
        till=1,
        spent=4,
    ),
    "lost helper": Ending(
        {"m1": "helper, interrupted (agent_terminated): I dig. ", "m2": CHARGED}, till=1, spent=2
    ),
    "handed over": Ending(
        {
            "m1": f"deputy, completed: {_HEARD}",
            "m2": "deputy, completed: Done: charged",
            "m3": f"clerk, completed: {_HEARD_SINCE}",
            "m4": FINE,
        },
        till=1,
        spent=3,
    ),
    "desk": Ending(
        {
            "asked 0": "deputy, completed: Done: charged",
            "m0": "clerk, completed: Done: Done: charged",
            "m1": f"deputy, completed: {_HEARD_ASIDE}",
            "m2": f"deputy, {LOOKED}",
        },
        till=3,
        spent=7,
    ),
    "closed": Ending(_CLOSED, till=1, spent=1, course=("closed",)),
    "archived": Ending(_CLOSED, till=1, spent=1, course=("closed", "archived")),
    "paused": Ending({"m1": CHARGED, "m2": CHARGED}, till=2, spent=2, course=("paused", "resumed")),
    "held": Ending(
        {
            "m1": "clerk, interrupted (pause): Let me think. ",
            "m2": CHARGED,
            "m3": f"clerk, {LOOKED}",
        },
        till=3,
        spent=5,
        course=("paused", "resumed"),
    ),
    "asleep": Ending(
        {
            "m1": "clerk, completed: Done: No result in time: it was not approved in time",
            "m2": FINE,
            "m3": "helper, completed: Done: charged",
            "m4": CHARGED,
        },
        till=2,
        spent=2,
    ),
}
"""By the name of the scenario."""
