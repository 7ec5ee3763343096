"""What an operator is told: structlog on top of the standard logger `runefold`.

A library does not configure its host's logging. The fields of each event are in the record's
`extra`, whoever formats it.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import structlog

_logger: Final = logging.getLogger("runefold")
_logger.addHandler(logging.NullHandler())

log: Final[Any] = structlog.wrap_logger(
    _logger,
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.processors.format_exc_info,
        structlog.stdlib.render_to_log_kwargs,
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
"""Every transition, restart and dead letter goes here."""


def talkative() -> bool:
    """Tell whether anybody listens to transitions: to describe them costs time."""
    return _logger.isEnabledFor(logging.INFO)
