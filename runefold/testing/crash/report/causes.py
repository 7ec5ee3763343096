"""Failed points by what they failed of: four points with one cause are one story."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, get_args

import msgspec

from runefold.testing.crash.plan.points import Verdict
from runefold.testing.crash.verdict.judge import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from runefold.testing.crash.running.trial import Result

_FIRST: Final[tuple[Verdict, ...]] = (
    # What the app itself says of the damage is understood at once; the rest explains it.
    "check",
    "finished",
    "effect",
    "acknowledged",
    "state",
    "outcome",
    "invariant",
)
_RANK: Final = {each: at for at, each in enumerate(dict.fromkeys((*_FIRST, *get_args(Verdict))))}
_QUOTED: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")
_NUMBER: Final = re.compile(r"_[0-9a-f]{16}\b|0x[0-9a-f]+|\d+")
_LOCAL: Final = " " * 6
"""Lines that say what a variable held begin so."""
UNKNOWN: Final = Finding("died", "it failed, and nothing is known of why")


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause, as the first point that failed of it tells it, and all points that did."""

    verdict: Verdict
    message: str
    points: list[str]

    def __str__(self) -> str:
        """Say it."""
        return f"{self.verdict}: {self.message}"


def worst_first(wrong: Iterable[Finding]) -> list[Finding]:
    """Return what is wrong, the app's own words first.

    >>> [str(each) for each in worst_first([Finding("state", "other"), Finding("check", "twice")])]
    ['check: twice', 'state: other']
    """
    return sorted(wrong, key=lambda each: _RANK[each.verdict])


def told(result: Result) -> Result:
    """Return a result as it is told: what is wrong with it in that order."""
    return msgspec.structs.replace(result, wrong=worst_first(result.wrong))


def causes(failed: Sequence[Result]) -> list[Cause]:
    """Return what points failed of: what the app itself says first, then the most frequent."""
    found: dict[tuple[Verdict, str], tuple[Finding, list[str]]] = {}
    for result in failed:
        first = next(iter(worst_first(result.wrong)), UNKNOWN)
        key = first.verdict, shape(first.message)
        found.setdefault(key, (first, []))[1].append(result.point)
    several = [
        Cause(verdict=first.verdict, message=first.message, points=points)
        for first, points in found.values()
    ]
    return sorted(several, key=lambda each: (_RANK[each.verdict], -len(each.points)))


def shape(message: str) -> str:
    """Return what is the same in all messages of one cause: no ids, numbers, values or variables.

    >>> shape("conv_1: refund (call_0123456789abcdef) took effect 2 times")
    'conv_#: refund (call#) took effect # times'
    """
    lines = [line for line in message.split("\n") if not line.startswith(_LOCAL)]
    # The line of a source file tells two asserts apart: only what is quoted around it goes.
    return "\n".join(
        line if line.startswith("    ") else _NUMBER.sub("#", _QUOTED.sub("…", line))
        for line in lines
    )
