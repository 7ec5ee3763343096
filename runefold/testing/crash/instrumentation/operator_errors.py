"""What a runtime tells its operator as an error: something failed that no app is told of."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from actors.operator_log import LOGGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.testing.crash.instrumentation.watch import Watch


class _ErrorHandler(logging.Handler):
    """Passes on every error that operators are told of."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(logging.ERROR)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        why = getattr(record, "exception", "") or getattr(record, "error", "")
        self._watch.failed(getattr(record, "event", record.getMessage()), why)


@contextlib.contextmanager
def report_errors_to(watch: Watch) -> Iterator[None]:
    """Have a watch told of every error, while the block runs."""
    logger, handler = logging.getLogger(LOGGER), _ErrorHandler(watch)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
