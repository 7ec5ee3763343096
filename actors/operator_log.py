"""The log for operators: structlog on top of the standard logger `runefold`.

A library does not configure its host's logging: it adds no handler, and silences none. The message
of a record has the event and its fields, and the stack of an error is where any formatter looks for
it; for handlers that write fields, each is in the record's `extra` too. Secrets are redacted here
as they are in the log of runes.
"""

from __future__ import annotations

import functools
import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from actors.redaction.redactor import DEFAULT, Redactor

if TYPE_CHECKING:
    from collections.abc import MutableMapping

LOGGER: Final = "runefold"
_logger: Final = logging.getLogger(LOGGER)
_format: Final = logging.Formatter()
_PLAIN: Final = (str, int, float, dict, list, tuple, set, frozenset)
"""What is looked through piece by piece, and keeps its type."""
_MOST: Final = 400
"""Characters of a field that a message shows."""


class _Redaction:
    """Replaces secrets in what is logged, for all runtimes of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._redactors: tuple[weakref.ref[Redactor], ...] = ()

    def add(self, redactor: Redactor) -> None:
        with self._lock:
            kept = tuple(each for each in self._redactors if each() not in {None, redactor})
            # The default one is always asked; to ask it once more for every runtime that was ever
            # opened would make each line dearer than the one before it.
            new = () if redactor is DEFAULT else (weakref.ref(redactor),)
            self._redactors = (*kept, *new)

    def value(self, value: Any) -> Any:  # noqa: ANN401 -- whatever is logged
        for redactor in (DEFAULT, *(each() for each in self._redactors)):
            if redactor is not None:
                value = redactor.value(value)
        return value

    def redacted(self, value: Any) -> Any:  # noqa: ANN401 -- whatever is logged
        """Return a field without secrets; a value of another type is checked by its text."""
        if value is None or isinstance(value, _PLAIN):
            return self.value(value)
        text = str(value)
        discreet = self.value(text)
        return value if discreet == text else discreet

    def fields(
        self, _logger: object, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        for field, value in event.items():
            event[field] = self.redacted(value)
        return event

    def filter(self, record: logging.LogRecord) -> bool:
        """Look through an error's details too: handlers would write them as they are."""
        if stack := record.__dict__.get("exception"):
            # Half a character, which an error may name, could be written to no file.
            record.exc_text = stack.rstrip("\n").encode(errors="backslashreplace").decode()
        if record.exc_info and record.exc_info[0] is not None:
            text = _format.formatException(record.exc_info)
            discreet = self.value(text)
            if discreet != text:
                record.exc_text, record.exc_info = discreet, None
        if record.stack_info:
            record.stack_info = self.value(record.stack_info)
        return True


_redaction: Final = _Redaction()
_logger.addFilter(_redaction.filter)


def add_redactor(redactor: Redactor) -> None:
    """Apply a redactor to what is logged for operators too, as long as it is in use."""
    _redaction.add(redactor)


def _line(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    """Return what the standard logger is given: a message to read, and the fields themselves."""
    said = [f"{name}={_shown(fields[name])}" for name in fields if name not in _UNSAID]
    message = f"{fields['event']}: {' '.join(said)}" if said else fields["event"]
    return {"msg": message, "extra": dict(fields)}


_UNSAID: Final = frozenset({"event", "exception"})
"""What is not among the fields of a message: it begins with the one, the other follows it."""


def _shown(value: object) -> str:
    """Return a field as it stands in one line, in quotes where its end could not be told.

    >>> _shown("call_1"), _shown("two words")
    ('call_1', "'two words'")
    """
    text = str(value)[:_MOST]
    return text if text.isprintable() and text and " " not in text else repr(text)


@functools.cache
def _bound() -> Any:  # noqa: ANN401 -- what it can do depends on the wrapper
    """Return the logger of structlog; to import that takes a third as long as all of runefold."""
    import structlog  # noqa: PLC0415 -- most processes log nothing

    return structlog.wrap_logger(
        _logger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _redaction.fields,
            _line,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class OperatorLog:
    """The methods of structlog's logger, which is made when the first line is logged."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- as above
        """Return a method; one that does nothing if its level is not logged."""
        level = _LEVELS.get(name)
        if level is not None and not _logger.isEnabledFor(level):
            return _log_nothing
        return getattr(_bound(), name)


_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
}


def _log_nothing(_event: str, **_fields: object) -> None:
    """Take a line that is not logged."""


log: Final = OperatorLog()
"""Every transition, restart and dead letter goes here."""


is_info_enabled: Final = functools.partial(_logger.isEnabledFor, logging.INFO)
"""Returns True if transitions are logged at all: to describe them costs time."""
