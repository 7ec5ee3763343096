"""How a child is started, restarted and stopped; how a supervisor goes about it. All defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from supervisors.errors import BadSpec
from supervisors.strategy import AutoShutdown, Restart, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.process.process import Process

INTENSITY: Final = 3
"""How many restarts are allowed within the period, all children together."""
PERIOD: Final = 5.0
"""In seconds."""
SHUTDOWN: Final = 5.0
"""How many seconds a worker has to end once it was asked to."""

E = TypeVar("E", bound=StrEnum)


class Shutdown(StrEnum):
    """How a child is stopped, if not with a number of seconds."""

    BRUTAL_KILL = "brutal_kill"
    """It is not asked."""
    INFINITY = "infinity"
    """It takes the time it needs: right for supervisors, whose children have times of their own."""


class ChildType(StrEnum):
    """What a child is."""

    WORKER = "worker"
    SUPERVISOR = "supervisor"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between restarts: each longer than the one before, none quite as expected.

    >>> Backoff(first=1, factor=2, most=5).pause(3)
    4
    >>> Backoff(first=1, factor=2, most=5).pause(1_000_000)
    5
    """

    first: float = 0.1
    factor: float = 2.0
    most: float = 10.0
    jitter: float = 0.5
    """Which part of a pause is left to chance, from 0 to 1."""
    calm: float = 60.0
    """After how many seconds alive a child begins again with the first pause."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        limits = {
            "first": (self.first, 0, math.inf),
            "factor": (self.factor, 1, math.inf),
            "most": (self.most, 0, math.inf),
            "jitter": (self.jitter, 0, 1),
            "calm": (self.calm, 0, math.inf),
        }
        for field, (value, least, most) in limits.items():
            if not (math.isfinite(value) and least <= value <= most):
                whose, why = "back-off", f"is {value!r}: give a number from {least} to {most}"
                raise BadSpec(whose, field, "invalid_backoff", why)

    def pause(self, restart: int) -> float:
        """Return how many seconds to wait at most before this restart in a row, from 1."""
        try:
            return min(self.most, self.first * self.factor ** (restart - 1))
        except OverflowError:
            return self.most


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child of a supervisor."""

    id: str
    start: Callable[..., Process | None]
    """Makes the actor; the supervisor launches it. None: there is nothing to run, which is fine.

    A template of dynamic children is given the key and whatever was sent along with it.
    """
    restart: Restart = Restart.PERMANENT
    shutdown: float | Shutdown | None = None
    """None: the usual seconds for a worker, no limit for a supervisor."""
    type: ChildType = ChildType.WORKER
    significant: bool = False
    backoff: Backoff | None = None
    """None: restarted at once, as often as the supervisor's limit allows."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense by itself."""
        if not isinstance(self.id, str) or not self.id:
            raise BadSpec.of_child(repr(self.id), "id", "missing_id", "is not a name")
        whose = f"child {self.id}"
        if not callable(self.start):
            raise BadSpec(whose, "start", "missing_start", "is nothing that can be called")
        _one_of(Restart, whose, "restart", self.restart, "invalid_restart_type")
        _one_of(ChildType, whose, "type", self.type, "invalid_child_type")
        if not isinstance(self.significant, bool):
            raise BadSpec(whose, "significant", "invalid_significant", "is neither true nor false")
        if isinstance(self.shutdown, str):
            _one_of(Shutdown, whose, "shutdown", self.shutdown, "invalid_shutdown")
        elif self.shutdown is not None and not _is_time(self.shutdown):
            why = f"is {self.shutdown!r}: give seconds, more than 0, or `brutal_kill` or `infinity`"
            raise BadSpec(whose, "shutdown", "invalid_shutdown", why)
        if self.significant and self.restart == Restart.PERMANENT:
            why = "makes no sense for a child that is always restarted"
            raise BadSpec(whose, "significant", "bad_combination", why)

    @property
    def patience(self) -> float | Shutdown:
        """How long it may take to end."""
        if self.shutdown is None:
            return SHUTDOWN if self.type == ChildType.WORKER else Shutdown.INFINITY
        return self.shutdown


@dataclass(frozen=True, slots=True)
class Flags:
    """How a supervisor goes about its business."""

    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = INTENSITY
    period: float = PERIOD
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER

    def __post_init__(self) -> None:
        """Refuse what makes no sense by itself."""
        whose = "supervisor"
        _one_of(Strategy, whose, "strategy", self.strategy, "invalid_strategy")
        if type(self.intensity) is not int or self.intensity < 0:
            why = f"is {self.intensity!r}: give a whole number, 0 or more"
            raise BadSpec(whose, "intensity", "invalid_intensity", why)
        if not _is_time(self.period):
            why = f"is {self.period!r}: give seconds, more than 0"
            raise BadSpec(whose, "period", "invalid_period", why)
        _one_of(AutoShutdown, whose, "auto_shutdown", self.auto_shutdown, "invalid_auto_shutdown")


def check_child(spec: ChildSpec, flags: Flags) -> None:
    """Refuse a child that does not go with its supervisor."""
    if spec.significant and flags.auto_shutdown == AutoShutdown.NEVER:
        why = "makes no sense under a supervisor that never ends by itself: set its auto_shutdown"
        raise BadSpec.of_child(spec.id, "significant", "bad_combination", why)


def check_children(specs: Iterable[ChildSpec], flags: Flags) -> None:
    """Refuse children that do not go with each other, or with their supervisor."""
    seen: set[str] = set()
    for spec in specs:
        check_child(spec, flags)
        if spec.id in seen:
            why = "is used by another child of the same supervisor"
            raise BadSpec.of_child(spec.id, "id", "duplicate_child_name", why)
        seen.add(spec.id)
    if flags.strategy == Strategy.SIMPLE_ONE_FOR_ONE and len(seen) != 1:
        why = f"are {len(seen)}: a simple_one_for_one supervisor has exactly one, its template"
        field = "children"
        raise BadSpec.of_supervisor(field, "bad_start_spec", why)


def _one_of(
    words: type[E],
    whose: str,
    field: str,
    value: Any,  # noqa: ANN401 -- whatever was given
    detail: str,
) -> None:
    if value not in list(words):
        raise BadSpec(whose, field, detail, f"is {value!r}: give one of {', '.join(words)}")


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )
