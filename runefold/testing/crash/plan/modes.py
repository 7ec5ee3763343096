"""Which points are swept: all of them, some by a seed, each twice, actors, faults."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from actors.entity import nameless
from runefold.testing.crash.plan.points import (
    ACTOR_AFTER,
    ACTOR_BEFORE,
    ACTOR_EFFECT,
    AFTER,
    BEFORE,
    CLOCK_BACK,
    EFFECT,
    LOG_FAULTS,
    MODEL_FAULTS,
    MOMENTS,
    SYNC,
    TOOL_FAULTS,
    Aim,
    Point,
    aims,
)
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runefold.testing.crash.plan.points import Boundary, Message

MODES: Final = ("every", "random", "double", "actor", "faults", "all")
"""What can be asked for."""

SOME: Final = 25
"""How many points are taken at random unless a number is given."""
_DURING: Final = 12
"""A second kill falls within so many commits of the recovery."""


def plan(
    mode: str,
    boundaries: Sequence[Boundary],
    messages: Sequence[Message],
    seed: int,
    sample: int | None = None,
    *,
    in_process: bool = False,
) -> list[Point]:
    """Return the points of a sweep, in order; of more than `sample`, so many by the seed.

    Staged, there is no machine whose clock could be set back.
    """
    dice = random.Random(seed)  # noqa: S311 -- to be had again, not to be kept secret
    match mode:
        case "every":
            found = every(boundaries)
        case "random":
            found = [*every(boundaries), *_double(boundaries, dice)]
            sample = sample or SOME
        case "double":
            found = _double(boundaries, dice)
        case "actor":
            found = _actors(boundaries, messages)
        case "faults":
            found = _faults(boundaries, in_process=in_process)
        case "all":
            found = [
                *every(boundaries),
                *_double(boundaries, dice),
                *_actors(boundaries, messages),
                *_faults(boundaries, in_process=in_process),
            ]
        case _:
            msg = f"there is no mode {mode!r}: use one of {', '.join(MODES)}"
            raise Refused(msg)
    if sample is None or sample >= len(found):
        return found
    chosen = set(dice.sample(range(len(found)), sample))
    return [point for number, point in enumerate(found) if number in chosen]


def every(boundaries: Sequence[Boundary]) -> list[Point]:
    """Return every moment of every commit that there is."""
    return [
        point
        for at in boundaries
        for point in (
            Point(at.number, BEFORE),
            *([Point(at.number, SYNC)] if at.synced else []),
            Point(at.number, AFTER),
            *(Point(at.number, EFFECT, n) for n, each in enumerate(at.effects, 1) if each.over),
        )
    ]


def _double(boundaries: Sequence[Boundary], dice: random.Random) -> list[Point]:
    """Return each point with another one that falls while it is being recovered from."""
    return [
        Point(first.number, first.kind, first.which, _second(dice)) for first in every(boundaries)
    ]


def _second(dice: random.Random) -> Point:
    return Point(dice.randint(1, _DURING), dice.choice(MOMENTS))


def second(left: Sequence[Boundary], dice: random.Random) -> tuple[Point, Aim]:
    """Return where to hit a recovery that committed this, and what that is told by.

    The next one may have one commit more before it, or one less: that is a matter of time.
    """
    then = dice.choice(every(left))
    (aim,) = aims(then, left)
    if nameless(aim.mark) != aim.mark:
        # An id that was made up before the hit is another one if that is run from the top.
        aim = Aim(then.kind, then.which, number=then.number)
    return then, aim


def _actors(boundaries: Sequence[Boundary], messages: Sequence[Message]) -> list[Point]:
    """Return each message of an actor, and each effect that one is about to begin."""
    return [
        *(Point(at.number, kind) for at in messages for kind in (ACTOR_BEFORE, ACTOR_AFTER)),
        *(
            Point(at.number, ACTOR_EFFECT, which)
            for at in boundaries
            for which, _ in enumerate(at.effects, 1)
        ),
    ]


def _faults(boundaries: Sequence[Boundary], *, in_process: bool) -> list[Point]:
    of_logs = [kind for kind in LOG_FAULTS if not (in_process and kind == CLOCK_BACK)]
    found: list[Point] = []
    for at in boundaries:
        for which, effect in enumerate(at.effects, 1):
            kinds = MODEL_FAULTS if effect.what == "model" else TOOL_FAULTS
            found += [Point(at.number, kind, which) for kind in kinds]
        found += [Point(at.number, kind) for kind in of_logs]
    return found
