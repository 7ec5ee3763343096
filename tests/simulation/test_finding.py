"""Rules about what a simulation finds: planted bugs, and how their stories are told."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import pytest

from runefold.testing.simulation import Shrinker, draw, play
from runefold.testing.simulation.__main__ import main
from tests.simulation import plants

if TYPE_CHECKING:
    from runefold.testing.simulation import Outcome
    from tests.simulation.plants import Plant

SEEDS: Final = 400
"""Within so many seeds a bug must be found."""


def found() -> Outcome:
    """Return the first run in which something is wrong."""
    for seed in range(SEEDS):
        outcome = play(draw(seed))
        if outcome.wrong:
            return outcome
    pytest.fail(f"nothing was found within {SEEDS} seeds")


@pytest.mark.parametrize("plant", plants.ALL, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    """A careless change in one place breaks a rule before long."""
    plant(monkeypatch)

    assert found().wrong


def test_what_is_found_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes wrong goes wrong again in the same way, at the same step."""
    plants.dropped_news(monkeypatch)
    monkeypatch.undo()
    plants.resent_and_taken_twice(monkeypatch)
    first = found()
    again = play(first.plan)

    assert (again.wrong, again.trace, again.steps) == (first.wrong, first.trace, first.steps)


def test_what_is_found_becomes_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left that is not needed: here a message, and the same one again."""
    plants.resent_and_taken_twice(monkeypatch)
    first = found()
    short = Shrinker(first).shrink()

    assert short.wrong[0].rule == first.wrong[0].rule
    assert [act.kind for act in short.plan.acts] in (["send", "resend"], ["send", "wait"], ["send"])
    assert not any(short.plan.order or ())
    assert short.steps <= first.steps


def test_a_shorter_plan_breaks_the_same_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else that goes wrong on the way is another story."""
    plants.blind_rerun(monkeypatch)
    first = found()
    short = Shrinker(first, tries=300).shrink()

    assert (first.wrong[0].rule, short.wrong[0].rule) == ("effect once", "effect once")
    assert len(short.plan.acts) <= len(first.plan.acts)
    assert play(short.plan).wrong == short.wrong


def test_nothing_wrong_is_said_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """How many seeds and steps there were, and how fast."""
    assert main(["--seeds", "5", "--jobs", "1"]) == 0

    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("5 seeds, ")
    assert "steps/s" in told[0]
    assert told[1] == "all is well"


def test_a_failure_is_told_and_can_be_run_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seed, the shortest story there is, and one command that plays it again."""
    plants.resent_and_taken_twice(monkeypatch)
    seed = found().plan.seed
    capsys.readouterr()

    assert main(["--first", str(seed), "--seeds", "1", "--jobs", "1"]) == 1

    told = capsys.readouterr().out
    again = next(line for line in told.splitlines() if " --plan " in line)
    assert f"seed {seed}, as short as it gets" in told
    assert "what is done in it:" in told
    assert "WRONG (once): m" in told
    assert main(shlex.split(again)[3:]) == 1
    assert "WRONG (once): m" in capsys.readouterr().out


def test_one_seed_can_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A seed that all is well with is told from beginning to end."""
    assert main(["--seed", "3"]) == 0

    told = capsys.readouterr().out
    assert "what happened (step, time):" in told
    assert "all is well" in told
