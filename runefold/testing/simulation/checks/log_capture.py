"""Listens to what an operator would be told: whatever crashes must have been told to."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.testing.simulation.checks.ground_truth import GroundTruth

CRASHES: Final = frozenset(
    {
        "actor_crashed",
        "alarm_failed",
        "crash_handler_failed",
        "failed_after_its_end",
        "job_failed",
        "restart_not_noted",
        "watcher_failed",
    }
)
"""What is logged of errors that are not expected."""
EXPECTED: Final = (
    "Closed",
    "Hang",
    "Injected",
    "LogFailed",
    "LogFull",
    "Overloaded",
    "PowerCut",
)
"""Errors that were caused on purpose, by the last part of their names."""


class LogCapture(logging.Handler):
    """Hears of every crash."""

    def __init__(self, truth: GroundTruth) -> None:
        """Write what is wrong into these truth."""
        super().__init__(logging.WARNING)
        self._truth = truth

    def emit(self, record: logging.LogRecord) -> None:
        """Take notice of what an operator is told."""
        event = getattr(record, "event", record.getMessage())
        if event not in CRASHES:
            return
        text = str(getattr(record, "exception", "")).strip()
        last = text.splitlines()[-1] if text else ""
        if last.partition(":")[0].rpartition(".")[2] in EXPECTED:
            return
        about = getattr(record, "actor", "") or getattr(record, "of", "")
        where = [line.strip() for line in text.splitlines() if line.startswith("  File ")][-1:]
        self._truth.complain("no crash", f"{event} {about}: {last} {' '.join(where)}")

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Take everything that is logged meanwhile, and pass it to no other handler."""
        logger = logging.getLogger("runefold")
        before = logger.propagate, logger.level, logger.handlers[:]
        logger.propagate, logger.handlers = False, [self]
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.propagate, level, logger.handlers = before
            logger.setLevel(level)
