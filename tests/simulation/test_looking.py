"""Rules about when something wrong is seen: at the very step at which it happens, or at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.invariants import Auditor
from actors.session.runes import Paused
from runefold.testing.simulation import draw
from runefold.testing.simulation.checks.ending import Ending
from runefold.testing.simulation.simulation import Simulation
from runelog.rune import Change, State
from tests.simulation import plants
from tests.simulation.seeds import likely_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.shell.conversation import ConversationContext
    from runefold.testing.simulation import Plan
    from runelog.repair.verify import Problem
    from runelog.rune import Envelope

SEEDS = (3, 11, 58, 102)
EVERY = 17
"""At every so many steps something is planted, each time in a run of its own."""


class Struck(Simulation):
    """A run in which something happens at one step that must not."""

    def __init__(self, plan: Plan, step: int, strike: Callable[[Simulation], bool]) -> None:
        """Strike at this step, or at the first one after it at which that is possible."""
        super().__init__(plan)
        self._step = step
        self._strike = strike
        self.struck = 0
        """At which step it happened."""
        self.seen = 0
        """At which step it was seen. One that began before it may still come to its end."""

    def after_step(self) -> None:
        """Do it, if it is time, before anybody looks."""
        if not self.struck and self._steps + 1 >= self._step and self._strike(self):
            self.struck = self._steps + 1
        super().after_step()
        if self.truth.wrong and not self.seen:
            self.seen = self._steps


def change_an_actor(simulation: Simulation) -> bool:
    """Have the last actor that can be asked believe that it is new; tell whether there is any."""
    return _change_one(
        simulation,
        lambda ctx: [
            (entity, shell)
            for entity, shell in ctx._members.items()
            if not getattr(shell, "_fragments", ())
        ],
    )


def change_a_passive_entity(simulation: Simulation) -> bool:
    """Change what is believed of an entity that has no actor."""
    return _change_one(simulation, lambda ctx: [*ctx._passive.items()])


def _change_one(
    simulation: Simulation, folded_entities: Callable[[ConversationContext], list[Any]]
) -> bool:
    disk, folds = simulation.disk, simulation.checker.folds
    if simulation.is_over() or disk.has_failed or simulation.is_waking():
        return False
    tree = simulation.runtime._core.tree
    contexts = [running.ctx for name in tree.awake() if (running := tree.running(name)) is not None]
    able = [
        (live, folds[ctx.conversation, entity])
        for ctx in contexts
        if ctx.broken is None and disk.has_all_of(ctx.conversation)
        for entity, live in folded_entities(ctx)
        if (ctx.conversation, entity) in folds and entity not in ctx.buffer.touched
        if live.version == folds[ctx.conversation, entity].version
    ]
    if able:
        live, fold = able[-1]
        live.state = fold.kind.lifecycle.initial
    return bool(able)


def write_out_of_turn(simulation: Simulation) -> bool:
    """Have something on disk that no law allows: a session is paused while it is paused."""
    name = "conv_0"
    if simulation.is_over() or simulation.disk.has_failed or simulation.is_waking():
        return False
    if simulation.checker.session(name) is None:
        return False
    if simulation.disk.conversation(name).state is not State.LIVE:
        return False
    simulation.disk.append(name, [Change("session", None, [Paused(), Paused()])])
    return True


def strikes(seed: int, strike: Callable[[Simulation], bool]) -> Iterator[Struck]:
    """Yield every run of a seed in which something was planted, each time somewhere else."""
    step = 1
    while True:
        struck = Struck(draw(seed), step, strike)
        struck.run()
        if not struck.struck:
            return
        yield struck
        step = struck.struck + EVERY


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("strike", [change_an_actor, change_a_passive_entity])
def test_a_wrong_belief_is_seen_at_once(seed: int, strike: Callable[[Simulation], bool]) -> None:
    """Whenever somebody believes what the log does not say, that is seen before the next step."""
    found = [*strikes(seed, strike)]

    assert found
    assert {struck.truth.wrong[0].rule for struck in found} == {"live as replayed"}
    assert [struck.seen for struck in found] == [struck.struck for struck in found]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_wrong_rune_is_seen_at_once(seed: int) -> None:
    """Whatever gets to disk and ought not to be there is seen before the next step."""
    found = [*strikes(seed, write_out_of_turn)]

    assert found
    assert {struck.truth.wrong[0].rule for struck in found} == {"folds"}
    assert [struck.seen for struck in found] == [struck.struck for struck in found]


class Asleep(Auditor):
    """An auditor who sees nothing as runes are written, nor at their end."""

    def take(self, _envelope: Envelope) -> Iterator[Problem]:
        """See nothing."""
        yield from ()

    def end(self, *, at_rest: bool = False) -> Iterator[Problem]:  # noqa: ARG002 -- as its base
        """See nothing."""
        yield from ()


def wrong_at(seed: int) -> bool:
    """Return True if a seed finds a call wrong that was denied, and runs."""
    wrong = Simulation(draw(seed)).run().wrong
    return bool(wrong) and wrong[0].rule == "INV-TOOL-APPROVAL-BEFORE-EXEC"


def test_what_is_overlooked_step_by_step_is_seen_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the end of every run the whole log is judged again, from its first rune on."""
    plants.denied_and_run(monkeypatch)
    seed = next(
        seed for seed in likely_first(plants.denied_and_run.__name__, 400) if wrong_at(seed)
    )
    awake, asleep = Simulation(draw(seed)), Simulation(draw(seed))
    asleep.auditor = Asleep()
    at_once, late = awake.run(), asleep.run()

    assert at_once.wrong[0].rule == "INV-TOOL-APPROVAL-BEFORE-EXEC"
    assert late.wrong[0] == at_once.wrong[0]
    assert late.steps > at_once.steps


@pytest.mark.parametrize("what", ["state", "version", "nobody"])
def test_what_was_folded_step_by_step_is_folded_again_at_the_end(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What actors are compared with is itself compared with the log, read anew."""
    simulation = Simulation(draw(3))
    opened_again = Ending._opened_again

    def and_then(self: Ending) -> None:
        opened_again(self)
        folds = simulation.checker.folds
        last = [*folds][-1]
        match what:
            case "state":
                folds[last].state = folds[last].kind.lifecycle.initial
            case "version":
                folds[last].version += 1
            case _:
                del folds[last]

    monkeypatch.setattr(Ending, "_opened_again", and_then)

    assert [rule for rule, _ in simulation.run().wrong] == ["folds"]
