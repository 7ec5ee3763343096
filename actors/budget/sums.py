"""Adding up what is spent, each kind of thing by itself."""

from __future__ import annotations

from typing import Final

import msgspec

from actors.budget.runes import WHATS, Amounts, Limits
from runelog.errors import Refused

CHARACTERS: Final = 4
"""About so many make a token."""


def tokens_of(characters: int) -> int:
    """Return about how many tokens so many characters are: where there are any, not none.

    >>> tokens_of(4_000), tokens_of(1), tokens_of(0)
    (1000, 1, 0)
    """
    return -(-characters // CHARACTERS)


def length_of(text: str) -> int:
    """Return how long a text is, as an estimate of tokens counts: letters of far alphabets more.

    >>> length_of("cat"), length_of("猫")
    (3, 3)
    """
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def plus(one: Amounts, other: Amounts) -> Amounts:
    """Return the sum of two amounts, each kind of thing by itself."""
    # Spelt out: every call of a model or a tool comes here several times.
    return Amounts(
        one.tokens + other.tokens,
        one.tool_calls + other.tool_calls,
        one.wall + other.wall,
        one.retries + other.retries,
        one.sub_calls + other.sub_calls,
        one.cost + other.cost,
    )


def minus(one: Amounts, other: Amounts) -> Amounts:
    """Return the difference of two amounts, each kind of thing by itself."""
    return Amounts(
        one.tokens - other.tokens,
        one.tool_calls - other.tool_calls,
        one.wall - other.wall,
        one.retries - other.retries,
        one.sub_calls - other.sub_calls,
        one.cost - other.cost,
    )


def check_amounts(amounts: Amounts) -> Amounts:
    """Return the amounts, or refuse negative ones."""
    values = msgspec.structs.astuple(amounts)
    if min(values) < 0:
        what, value = next(pair for pair in zip(WHATS, values, strict=True) if pair[1] < 0)
        msg = f"{what} = {value} cannot be counted: give an amount of 0 or more"
        raise Refused(msg)
    return amounts


def check_limits(limits: Limits) -> Limits:
    """Return the limits, or refuse negative ones."""
    for what in WHATS:
        limit = getattr(limits, what)
        if limit is not None and limit < 0:
            msg = f"a limit of {limit} {what} cannot be kept: give 0 or more, or None for no limit"
            raise Refused(msg)
    return limits
