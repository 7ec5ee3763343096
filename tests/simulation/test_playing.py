"""Rules about a run: the same plan gives the same run, and everything in it can be drawn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, get_args

import msgspec
import pytest

from runefold.testing.simulation.choices import Choices
from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.plan.plans import (
    Act,
    ActKind,
    LineKind,
    Plan,
    RunKind,
    ToolKind,
    Trouble,
    decode,
    encode,
)
from runefold.testing.simulation.simulation import Simulation, play
from runelog.rune import Gap

if TYPE_CHECKING:
    from collections.abc import Sequence

SEEDS = (3, 11, 24, 58, 102)
PLANS = 400


def runes(plan: Plan) -> list[tuple[str, int, str, str, bytes]]:
    """Return every rune that a plan leads to, in order."""
    simulation = Simulation(plan)
    simulation.run()
    return [
        (each.conversation, each.event_id, each.owner, each.kind, bytes(each.body))
        for each in simulation.disk.read_all()
        if not isinstance(each, Gap)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_seed_gives_the_same_run(seed: int) -> None:
    """Rune by rune and choice by choice."""
    plan = draw(seed)

    assert runes(plan) == runes(plan)
    assert play(plan).trace == play(plan).trace


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_chosen_can_be_played_again(seed: int) -> None:
    """A run leaves a plan with every choice in it, which leads to the very same run."""
    first = play(draw(seed))
    again = play(decode(encode(first.plan)))

    assert first.plan.order is not None
    assert (again.trace, again.steps) == (first.trace, first.steps)


def test_another_process_comes_to_the_same() -> None:
    """Nothing of a run depends on what differs from process to process, such as hashes of texts."""
    # Among them one with two conversations, and messages of both to ask about at the end.
    seeds = (*SEEDS, 82, 124)
    code = "import sys; from runefold.testing.simulation import simulate; "
    code += f"print(*(simulate(seed).trace for seed in {seeds}))"
    found = {_told(code, str(number)) for number in (1, 2)}

    assert found == {" ".join(play(draw(seed)).trace for seed in seeds)}


def _told(code: str, hashes: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_seeds_differ() -> None:
    """Each leads to a run of its own."""
    assert len({play(draw(seed)).trace for seed in SEEDS}) == len(SEEDS)


def test_everything_that_can_happen_is_drawn() -> None:
    """No kind of act, tool, run, line or trouble is left out by all seeds."""
    plans = [draw(seed, "app:APP" if seed % 4 == 0 else "") for seed in range(PLANS)]
    worlds = [plan.world for plan in plans]
    rounds = [each for world in worlds for word in world.words for each in word.rounds]

    assert _missing(ActKind, [act.kind for plan in plans for act in plan.acts]) == set()
    assert _missing(ToolKind, [tool.kind for world in worlds for tool in world.tools]) == set()
    assert (
        _missing(RunKind, [run for w in worlds for tool in w.tools for run in tool.runs]) == set()
    )
    assert _missing(LineKind, [line.kind for each in rounds for line in each.lines]) == set()
    assert _missing(Trouble, [kind for each in rounds for kind, _ in each.troubles]) == set()


def _missing(kinds: object, drawn: Sequence[str]) -> set[str]:
    return set(get_args(kinds)) - set(Counter(drawn))


@pytest.mark.parametrize("kind", get_args(ActKind))
def test_anything_may_happen_in_an_empty_world(kind: ActKind) -> None:
    """A plan from which everything else was taken out is still one."""
    empty = msgspec.json.decode(
        b'{"agents": [], "tools": [], "words": []}', type=type(Plan().world)
    )
    acts = (Act("send"), Act(kind, after=5, who=7, what=7, how=7, session=3))

    assert play(Plan(world=empty, acts=acts)).wrong == ()


def test_many_agents_that_ask_each_other_find_no_thread_rather_than_no_stack() -> None:
    """On one thread each waits within the one before it: there is room for so many, and no more."""
    assert play(draw(101_507)).wrong == ()


def test_a_tape_without_disorder_keeps_the_order() -> None:
    """Whoever is first in line goes first, unless disorder is asked for."""
    choices = Choices(5, disorder=0)

    assert {choices.randrange(9) for _ in range(100)} == {0}


def test_a_tape_takes_what_is_given_modulo_what_there_is() -> None:
    """A list of choices fits any run, also one that has other choices to make."""
    choices = Choices(5, given=[7, 2])

    assert [
        choices.randrange(3),
        choices.randrange(1),
        choices.randrange(3),
        choices.randrange(3),
    ] == [
        1,
        0,
        2,
        0,
    ]
