"""Checks of what an app passes in: a wrong type would stay in the log for ever."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from actors.public_command import MOST
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.kind import Kind, Kinds

LARGEST: Final = 10**9
"""No number of seconds is larger: it is stored in billionths."""


def text(value: object, what: str) -> str:
    r"""Return a text, or refuse what is none or cannot be stored.

    >>> text("hello", "a message")
    'hello'
    >>> text(5, "a message")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: a message is a text, not a int
    """
    if not isinstance(value, str):
        msg = f"{what} is a text, not a {type(value).__name__}"
        raise Refused(msg)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = value[error.start]
        msg = f"{what} holds {half!r}, half of a character: send whole ones"
        raise Refused(msg) from None
    return value


def count(value: object, what: str, least: int = 0) -> int:
    """Return a whole number, or refuse what is none or is out of bounds.

    >>> count(-1, "retries")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: retries is -1: give a whole number, 0 or more
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST:
        msg = f"{what} is {shown(value)}: give a whole number, {least} or more"
        raise Refused(msg)
    return value


def number(value: object, what: str, *, zero: bool = False) -> float:
    """Return a number, or refuse what is none, is not positive or has no end.

    >>> number(float("inf"), "turn_timeout")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: turn_timeout is inf: give a positive number
    """
    match value:
        case bool():
            pass
        case Decimal() if not value.is_finite():
            pass
        case int() | float() | Decimal() if 0 < value <= LARGEST or (zero and value == 0):
            return float(value) if isinstance(value, Decimal) else value
    msg = f"{what} is {shown(value)}: give a positive number"
    raise Refused(msg)


def choice(value: Any, what: str, choices: Collection[str]) -> str:  # noqa: ANN401 -- anything
    """Return one of a few words, or refuse any other.

    >>> choice("later", "on_crash", ("retry", "interrupt"))
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: on_crash is 'later': give 'retry' or 'interrupt'
    """
    if not isinstance(value, str) or value not in choices:
        msg = f"{what} is {shown(value)}: give {' or '.join(map(repr, choices))}"
        raise Refused(msg)
    return value


def labels(value: object) -> dict[str, str]:
    """Return labels, each by its name, or refuse what are none.

    >>> labels(["urgent"])
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: labels is ['urgent']: give each by its name, in a dict
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        msg = f"labels is {shown(value)}: give each by its name, in a dict"
        raise Refused(msg)
    return {text(key, "a label's name"): text(each, "a label") for key, each in value.items()}


def timeouts(value: object, kinds: Kinds) -> dict[str, float]:
    """Return seconds by `kind.phase`, or refuse what the shell would not enforce.

    >>> from actors.catalogue import KINDS
    >>> timeouts({"order.checking": 600}, KINDS)
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: timeouts names 'order.checking': there is no kind 'order' here
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        msg = f"timeouts is {shown(value)}: give seconds by 'kind.phase', in a dict"
        raise Refused(msg)
    found: dict[str, float] = {}
    for key, seconds_ in value.items():
        name, _, phase = text(key, "a time-out's name").partition(".")
        if why := _no_timeout(kinds.by_name.get(name), name, phase):
            msg = f"timeouts names {shown(key)}: {why}"
            raise Refused(msg)
        found[key] = number(seconds_, f"timeouts[{shown(key)}]")
    return found


def _no_timeout(kind: Kind | None, name: str, phase: str) -> str:
    """Return why no time-out can be given for a phase; nothing if it can."""
    if kind is None:
        return f"there is no kind {shown(name)} here"
    law = kind.lifecycle
    if phase not in {each.value for each in law.table}:
        return f"{name} has no phase {shown(phase)}"
    limited = [each.phase.value for each in law.timeouts] if law.enforced else []
    if phase not in limited:
        known = ", ".join(f"{name}.{each}" for each in limited)
        return f"that phase has no time-out that can be set; give {known or 'another kind'}"
    return ""


def several(value: Any, what: str, of: str) -> Iterable[Any]:  # noqa: ANN401 -- anything
    """Return a list or another iterable, or refuse a single value.

    >>> several("acct-1", "redact", "patterns")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: redact is 'acct-1': give a list of patterns
    """
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        msg = f"{what} is {shown(value)}: give a list of {of}"
        raise Refused(msg)
    found: Iterable[Any] = value
    return found


def seconds(value: object, what: str) -> float | None:
    """Return how long to wait at most, None being for ever, or refuse what is no time.

    >>> seconds("5", "timeout")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: timeout is '5': give a number of seconds, or None to wait for ever
    """
    match value:
        case None:
            return None
        case bool():
            pass
        case int() | float() if not math.isnan(value):
            return None if value == math.inf else value
    msg = f"{what} is {shown(value)}: give a number of seconds, or None to wait for ever"
    raise Refused(msg)


def cursor(value: object) -> int:
    """Return a cursor, or refuse what is none.

    >>> cursor("last")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: after is 'last': give the number of the last rune you have seen, or 0
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"after is {shown(value)}: give the number of the last rune you have seen, or 0"
        raise Refused(msg)
    return value


def shown(value: object) -> str:
    """Return a value as a refusal shows it, however large it is."""
    return f"{value!r:.80}"
