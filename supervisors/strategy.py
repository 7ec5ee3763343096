"""What an end means, and whom it concerns: the rules of OTP's supervisor, without the supervisor.

Pure: children are names in the order in which they were started.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


class Strategy(StrEnum):
    """Who is restarted along with a child."""

    ONE_FOR_ONE = "one_for_one"
    """No other child."""
    ONE_FOR_ALL = "one_for_all"
    """All other children."""
    REST_FOR_ONE = "rest_for_one"
    """Those that were started after it, because they may rely on it."""
    SIMPLE_ONE_FOR_ONE = "simple_one_for_one"
    """No other; and all children are alike, made from one template, each with a key of its own."""


class Restart(StrEnum):
    """When a child is started again."""

    PERMANENT = "permanent"
    """Whenever it ended."""
    TRANSIENT = "transient"
    """When it failed."""
    TEMPORARY = "temporary"
    """Never; once it has ended it is forgotten."""


class AutoShutdown(StrEnum):
    """When a supervisor ends by itself because significant children have ended by themselves."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


class Verdict(StrEnum):
    """What follows from the end of a child."""

    RESTART = "restart"
    KEEP = "keep"
    """It stays ended, and may be started again by hand."""
    FORGET = "forget"


CLEAN: Final = frozenset({"normal", "shutdown"})
"""How a child ends that did not fail."""


def verdict(restart: Restart, reason: str) -> Verdict:
    """Judge an end that was not asked for.

    >>> verdict(Restart.TRANSIENT, "crash"), verdict(Restart.TRANSIENT, "normal")
    (<Verdict.RESTART: 'restart'>, <Verdict.KEEP: 'keep'>)
    """
    match restart:
        case Restart.PERMANENT:
            return Verdict.RESTART
        case Restart.TRANSIENT:
            return Verdict.KEEP if reason in CLEAN else Verdict.RESTART
        case Restart.TEMPORARY:
            return Verdict.FORGET


def concerned(strategy: Strategy, children: Sequence[str], failed: str) -> list[str]:
    """Name those that are started again with the one that failed, in the order of their start.

    They are stopped in the opposite order before.

    >>> concerned(Strategy.REST_FOR_ONE, ["a", "b", "c"], "b")
    ['b', 'c']
    """
    match strategy:
        case Strategy.ONE_FOR_ALL:
            return list(children)
        case Strategy.REST_FOR_ONE:
            return list(children[children.index(failed) :])
        case Strategy.ONE_FOR_ONE | Strategy.SIMPLE_ONE_FOR_ONE:
            return [failed]


def ends_too(rule: AutoShutdown, *, others: bool) -> bool:
    """Return True if a supervisor ends with a significant child that ended and stays ended.

    `others`: whether there are other significant children that run or are being restarted.
    """
    match rule:
        case AutoShutdown.NEVER:
            return False
        case AutoShutdown.ANY_SIGNIFICANT:
            return True
        case AutoShutdown.ALL_SIGNIFICANT:
            return not others
