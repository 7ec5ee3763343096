"""Simulate: `python -m runefold.testing.simulation [--seeds COUNT | --seed SEED | --plan PLAN]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runefold.testing.simulation.batch import SimulationRate, Tally, play_all
from runefold.testing.simulation.plan import description
from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.plan.plans import decode, encode
from runefold.testing.simulation.shrinking import Shrinker
from runefold.testing.simulation.simulation import play

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runefold.testing.simulation.plan.plans import Plan
    from runefold.testing.simulation.simulation import Outcome

AGAIN: Final = "python -m runefold.testing.simulation"
BAR: Final = 30
TOLD: Final = 3
"""Of how many different kinds of failures a story is told."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate; return 1 if anything is wrong."""
    options = _options(arguments)
    if options.plan is not None:
        text = sys.stdin.read() if options.plan == "-" else options.plan
        return _one(decode(Path(text[1:]).read_bytes() if text[:1] == "@" else text), shrink=False)
    if options.seed is not None:
        return _one(draw(options.seed, options.app), shrink=not options.as_it_is)
    return _many(options, shrink=not options.as_it_is)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=AGAIN, description=__doc__)
    parser.add_argument("--seeds", type=_count, default=2_000, help="how many seeds are played")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument(
        "--jobs", type=_count, help="how many processes; as many as there are cores"
    )
    parser.add_argument("--seed", type=int, help="play this one alone, and tell what happens")
    parser.add_argument(
        "--app", default="", metavar="MODULE:APP", help="play the machines of this App too"
    )
    parser.add_argument("--plan", help="play this plan, @FILE, or - for what comes in")
    parser.add_argument("--as-it-is", action="store_true", help="do not look for a shorter plan")
    return parser.parse_args(arguments)


def _count(text: str) -> int:
    """Read a number of things of which there has to be one at least."""
    number = int(text)
    if number < 1:
        msg = f"{number} is none at all: give 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return number


def say(line: str = "") -> None:
    """Write a line."""
    sys.stdout.write(f"{line}\n")


# -- one ----------------------------------------------------------------------------------------


def _one(plan: Plan, *, shrink: bool) -> int:
    outcome = play(plan)
    if not outcome.wrong:
        for line in description.story(play(outcome.plan, tell=True)):
            say(line)
        say(f"all is well: {outcome.steps:,} steps, {outcome.runes:,} runes, {outcome.trace}")
        return 0
    _tell(_shorter(outcome) if shrink else outcome)
    return 1


def _shorter(outcome: Outcome) -> Outcome:
    shrinker = Shrinker(outcome)
    sys.stderr.write("looking for the shortest plan that shows it …\n")
    return shrinker.shrink()


def _tell(outcome: Outcome) -> None:
    for line in description.story(play(outcome.plan, tell=True)):
        say(line)
    say()
    say("this very run again:")
    say(f"  {AGAIN} --plan '{encode(outcome.plan)}'")


# -- many ---------------------------------------------------------------------------------------


def _many(options: argparse.Namespace, *, shrink: bool) -> int:
    pace, tally, count, app = SimulationRate(), Tally(), options.seeds, options.app
    for tally in play_all(options.first, count, options.jobs, app):
        _progress(tally, count, pace)
    sys.stderr.write("\n")
    say(f"{tally.seeds:,} seeds, {tally.steps:,} steps, {tally.runes:,} runes: {pace.shown(tally)}")
    if not tally.failed:
        say("all is well")
        return 0
    kinds = {failed.rule: failed for failed in reversed(tally.failed)}
    for rule, failed in kinds.items():
        seeds = [str(each.seed) for each in tally.failed if each.rule == rule]
        say(f"WRONG ({rule}): {len(seeds)} seeds: {', '.join(seeds[:10])}")
        say(f"  {failed.message}"[: description.LONGEST])
    for failed in [*kinds.values()][:TOLD]:
        say()
        say(f"seed {failed.seed}, as short as it gets:" if shrink else f"seed {failed.seed}:")
        _one(draw(failed.seed, app), shrink=shrink)
        named = f" --app {app}" if app else ""
        say(f"  {AGAIN} --seed {failed.seed}{named}   # from the seed on")
    return 1


def _progress(tally: Tally, count: int, pace: SimulationRate) -> None:
    """Show how far it is: as a bar that moves, or as a line now and then."""
    done = tally.seeds * BAR // max(count, 1)
    bar = "#" * done + "." * (BAR - done)
    wrong = f", {len(tally.failed)} WRONG" if tally.failed else ""
    line = f"[{bar}] {tally.seeds:,} of {count:,}: {pace.shown(tally)}{wrong}"
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{line}")
    elif tally.seeds % (max(count, 10) // 10) < 20:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
