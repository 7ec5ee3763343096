"""A plan and a run, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from runefold.testing.simulation.plan.plans import Act, AgentPlan, Plan, Round, ToolPlan, World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.testing.simulation.plan.plans import Line
    from runefold.testing.simulation.simulation import Outcome
    from runelog.rune import Envelope

LONGEST: Final = 170
"""How long a line may be."""
LAST: Final = 60
"""How many lines of a run are told at most: the last ones."""


def story(outcome: Outcome) -> list[str]:
    """Tell what was played, what happened, and what is wrong with it."""
    told = [*plan(outcome.plan), "", "what happened (step, time):"]
    if len(outcome.story) > LAST:
        told.append(f"  … {len(outcome.story) - LAST} lines before these")
    told += [line[:LONGEST] for line in outcome.story[-LAST:]]
    return [*told, "", *(f"WRONG ({rule}): {message}" for rule, message in outcome.wrong)]


def plan(of: Plan) -> list[str]:
    """Tell what is played: who and what there is, and what happens."""
    told = ["the world:", *(f"  {line}" for line in _world(of.world)), "what is done in it:"]
    told += [f"  {number}. {_act(act)}" for number, act in enumerate(of.acts, 1)]
    if of.order is not None:
        others = sum(map(bool, of.order))
        told.append(f"  and {others} times another than the first in line takes a step")
    return told


def _world(world: World) -> Iterator[str]:
    for number, agent in enumerate(world.agents):
        role = "the root agent" if number == 0 else f"agent {number}"
        yield f"{role}: {_facts(agent, AgentPlan())}"
    for number, tool in enumerate(world.tools):
        yield f"tool t{number}: {_facts(tool, ToolPlan())}"
    for number, word in enumerate(world.words):
        rounds = "; then ".join(map(_round, word.rounds)) or "at once"
        yield f"to 'w{number}' the model answers: {rounds}"
    rest = _facts(world, World(), without=("agents", "tools", "words"))
    if rest != "as usual":
        yield rest


def _round(of: Round) -> str:
    lines = ", ".join(map(_line, of.lines)) or "nothing"
    for attempt, (trouble, at) in enumerate(of.troubles):
        lines += f" (attempt {attempt}: {trouble.replace('_', ' ')} after {at} lines)"
    return lines


def _line(of: Line) -> str:
    match of.kind:
        case "say":
            return f"{of.n + 1} fragments"
        case "call":
            return f"calls t{of.n}"
        case "pause":
            return f"{of.n / 10} s pass"
        case "used":
            return "says what it used"
        case _:
            return of.kind.replace("_", " ")


def _act(act: Act) -> str:
    when = f"after {act.after} steps, " if act.after else ""
    return f"{when}{act.kind.replace('_', ' ')}: {_facts(act, Act(act.kind), without=('after',))}"


def _facts(of: Any, usual: Any, without: tuple[str, ...] = ()) -> str:  # noqa: ANN401 -- any part
    """Name everything that is not as usual."""
    found = [
        f"{name} {getattr(of, name)}"
        for name in of.__struct_fields__
        if name not in without and getattr(of, name) != getattr(usual, name)
    ]
    return ", ".join(found) or "as usual"


def rune(envelope: Envelope) -> str:
    """Tell of one rune."""
    payload = msgspec.to_builtins(envelope.payload)
    facts = {key: value for key, value in payload.items() if value not in ("", None, [], {})}
    facts.pop("kind", None)
    told = " ".join(f"{key}={value}" for key, value in facts.items())
    head = f"{envelope.conversation} {envelope.event_id:3} {envelope.owner:22} {envelope.kind}"
    return f"    | {head:60} {told}"
