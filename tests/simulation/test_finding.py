"""Rules about what a simulation finds: planted bugs, and how their stories are told."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import pytest
from msgspec.structs import replace

from runefold.testing.simulation import Outcome, Plan, Shrinker, Wrong, decode, draw, play
from runefold.testing.simulation.__main__ import main
from runefold.testing.simulation.plan.plans import Act, Line, Round, Word, World
from tests.simulation import plants
from tests.simulation.seeds import likely_first

if TYPE_CHECKING:
    from runefold.testing.simulation.plan.plans import Trouble
    from tests.simulation.plants import Plant

SEEDS: Final = 400
"""Within so many seeds a bug must be found."""
DOUBLE: Final = decode(
    """{"world": {"agents": [{"tools": [0]}], "tools": [{"kind": "blind"}],
                  "words": [{"rounds": [{"lines": [{"kind": "call"}]}]}]},
        "acts": [{"kind": "send"}, {"kind": "cut_in_tool", "how": 1}]}"""
)
"""A power cut right after the effect of a tool that cannot be asked whether it happened."""

FAMILY: Final = decode(
    """{"acts": [{"kind": "send"}, {"kind": "wait"}, {"kind": "spawn", "after": 60},
                 {"kind": "spawn", "after": 60, "who": 1}, {"kind": "dismiss", "after": 60}]}"""
)
"""An agent that began another one is dismissed."""
DISPUTE: Final = decode(
    """{"world": {"agents": [{"tools": [0]}], "tools": [{"kind": "blind", "approval": true}],
                  "words": [{"rounds": [{"lines": [{"kind": "call"}]}]}]},
        "acts": [{"kind": "send"}, {"kind": "wait"}, {"kind": "approve", "after": 60},
                 {"kind": "answer_again", "after": 60, "how": 1}]}"""
)
"""A call is approved, and then denied."""
STOPPED: Final = decode(
    """{"world": {"agents": [{"tools": [0]}],
                  "tools": [{"kind": "blind", "grace": 5, "deaf": true, "runs": ["slow"]}],
                  "words": [{"rounds": [{"lines": [{"kind": "call"}]}]}]},
        "acts": [{"kind": "send"}, {"kind": "interrupt", "after": 30}]}"""
)
"""A turn is interrupted while its tool, which can be stopped, is past the point where it would."""


def found(plant: str = "") -> Outcome:
    """Return a run in which something is wrong, the likeliest seeds for a plant tried first."""
    for seed in likely_first(plant, SEEDS):
        outcome = play(draw(seed))
        if outcome.wrong:
            return outcome
    pytest.fail(f"nothing was found within {SEEDS} seeds")


@pytest.mark.parametrize("plant", plants.COMMON, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    """A careless change in one place breaks a rule before long."""
    plant(monkeypatch)

    assert found(plant.__name__).wrong


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", plants.RARE, ids=lambda plant: plant.__name__)
def test_a_planted_bug_that_seldom_shows_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    """It takes longer, and is found all the same."""
    plant(monkeypatch)

    assert found(plant.__name__).wrong


def test_a_double_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool that nobody can ask, run again after a power cut between effect and result."""
    plants.blind_rerun(monkeypatch)
    wrong = play(DOUBLE).wrong

    assert [rule for rule, _ in wrong] == ["effect once"]


def test_an_agent_left_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was begun by an agent goes with it."""
    assert not play(FAMILY).wrong
    plants.left_behind(monkeypatch)

    assert [rule for rule, _ in play(FAMILY).wrong] == ["no orphans"]


def test_an_answer_that_does_not_count_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever says the contrary of what was said is told that it does not count."""
    assert not play(DISPUTE).wrong
    plants.contradicted_in_silence(monkeypatch)

    assert [rule for rule, _ in play(DISPUTE).wrong] == ["never lost"]


@pytest.mark.parametrize("plant", [plants.done_and_cancelled, plants.cancelled_while_it_runs])
def test_a_tool_that_was_not_cancelled_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    """A call that can be stopped is cancelled only if its run has ended and returned nothing."""
    assert not play(STOPPED).wrong
    plant(monkeypatch)

    assert [rule for rule, _ in play(STOPPED).wrong] == ["as returned"]


def test_what_is_found_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes wrong goes wrong again in the same way, at the same step."""
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
    plan = replace(DOUBLE, acts=(*DOUBLE.acts, Act("suspend"), Act("jump", what=2), Act("send")))
    first = play(plan)
    short = Shrinker(first, tries=300).shrink()

    assert (first.wrong[0].rule, short.wrong[0].rule) == ("effect once", "effect once")
    assert sorted(act.kind for act in short.plan.acts) == ["cut_in_tool", "send"]
    assert play(short.plan).wrong == short.wrong


def test_what_was_made_plainer_stays_so() -> None:
    """One thing after the other becomes as plain as it can be, and none gets worse again."""

    def picky(plan: Plan) -> Outcome:
        broken = any(act.who >= 1 and act.what >= 2 for act in plan.acts)
        rounds = [each for word in plan.world.words for each in word.rounds]
        said = any(line.n >= 3 for each in rounds for line in each.lines)
        wrong = (Wrong("a rule", "it is broken"),) if broken and said else ()
        return Outcome(plan, wrong, 1, 0, "", ())

    act = Act("send", after=9, session=1, who=5, what=8, how=4)
    lines = (Line("call", 4), Line("say", 3), Line("pause", 1))
    troubles: tuple[tuple[Trouble, int], ...] = (("busy", 1), ("down", 2))
    word = Word(rounds=(Round(lines=lines, troubles=troubles),))
    plan = Plan(world=World(words=(word, word)), acts=(act, Act("cut"), act))
    short = Shrinker(picky(plan), run=picky).shrink().plan

    (left,) = short.world.words
    (line,) = left.rounds[0].lines
    assert short.acts == (Act("send", who=1, what=2),)
    assert left == Word(rounds=(Round(lines=(line,)),))


def test_to_look_for_a_shorter_plan_comes_to_an_end() -> None:
    """However long each plan takes that is tried: all of them together take so many steps."""
    wrong = (Wrong("comes to rest", "there is no end"),)
    played: list[Plan] = []

    def endless(plan: Plan) -> Outcome:
        played.append(plan)
        return Outcome(replace(plan, order=(1,) * 500), (), 30_000, 0, "", ())

    found = Outcome(replace(draw(7), order=(1,) * 500), wrong, 30_000, 0, "", ())
    short = Shrinker(found, run=endless, steps=100_000).shrink()

    assert short is found
    assert len(played) == 4


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
