"""What happens to a budget: opened, warned of, exhausted, raised, closed.

What is spent has no runes of its own. The rune that begins what is paid for says how much is set
aside for it, and the one that ends it says what it was charged with. The budget observes both.

Everything is counted in integers, so that sums are exact in any order: wall time in nanoseconds,
cost in millionths of whatever currency the app thinks in.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from actors.units import COST, SECOND
from runelog.rune import Rune

What: TypeAlias = Literal["tokens", "tool_calls", "wall", "retries", "sub_calls", "cost"]
"""What is spent."""


class Amounts(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """So much of each thing that can be spent."""

    tokens: int = 0
    tool_calls: int = 0
    wall: int = 0
    """Nanoseconds of running turns, counted where a budget limits them."""
    retries: int = 0
    sub_calls: int = 0
    """Calls of other agents."""
    cost: int = 0
    """Millionths of the app's currency."""

    # Both spelt out: every call of a model or a tool comes here several times.

    def __add__(self, other: Amounts) -> Amounts:
        """Return the sum, each kind of thing by itself."""
        return Amounts(
            self.tokens + other.tokens,
            self.tool_calls + other.tool_calls,
            self.wall + other.wall,
            self.retries + other.retries,
            self.sub_calls + other.sub_calls,
            self.cost + other.cost,
        )

    def __sub__(self, other: Amounts) -> Amounts:
        """Return the difference, each kind of thing by itself."""
        return Amounts(
            self.tokens - other.tokens,
            self.tool_calls - other.tool_calls,
            self.wall - other.wall,
            self.retries - other.retries,
            self.sub_calls - other.sub_calls,
            self.cost - other.cost,
        )


class Limits(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How much of each may be spent; None is without limit."""

    tokens: int | None = None
    tool_calls: int | None = None
    wall: int | None = None
    retries: int | None = None
    sub_calls: int | None = None
    cost: int | None = None


WHATS: Final[tuple[What, ...]] = ("tokens", "tool_calls", "wall", "retries", "sub_calls", "cost")
"""The fields of `Amounts` and of `Limits`, in their order."""

BUDGET_EXHAUSTED: Final = "budget_exhausted"
"""Why something ends that cannot be afforded, or not any longer."""


class Opened(Rune, frozen=True, gc=False, tag="budget.opened"):
    """A scope may spend so much. What it spends counts against its parent too, and so on up."""

    scope: str
    """`session`, or the id of an agent."""
    limits: Limits = Limits()
    parent: str | None = None


class Reserves(Rune, frozen=True):
    """What runes have that begin what is paid for: so much is set aside for it."""

    @property
    def key(self) -> str:
        """The name of what is paid for; the rune that ends it has the same."""
        raise NotImplementedError

    @property
    def account(self) -> str:
        """The scope that it is charged to."""
        raise NotImplementedError

    @property
    def reserved(self) -> Amounts:
        """How much is set aside."""
        raise NotImplementedError


class Settles(Rune, frozen=True):
    """What runes have that end what is paid for: the charge takes the place of the reservation."""

    @property
    def key(self) -> str:
        """The name of what is paid for."""
        raise NotImplementedError

    @property
    def charged(self) -> Amounts:
        """What it came to: nothing, if it never began."""
        raise NotImplementedError

    @property
    def estimated(self) -> bool:
        """Whether that is not known: all that was set aside, or a guess by the text."""
        raise NotImplementedError


class Warning(Rune, frozen=True, gc=False, tag="budget.warning"):  # noqa: A001 -- named as its kind
    """Little is left: used and reserved together have reached 80 % of the limit."""

    scope: str
    what: What
    used: int
    """Used and reserved, together."""
    limit: int


class Exhausted(Rune, frozen=True, gc=False, tag="budget.exhausted"):
    """A reservation was refused: it would have gone past the limit of this scope."""

    scope: str
    """The scope whose limit stands in the way, which may be an ancestor of the one that asked."""
    what: What
    used: int
    """Used and reserved, together, before the reservation that was refused."""
    limit: int
    key: str = ""
    """The call that was not made."""


class Replenished(Rune, frozen=True, gc=False, tag="budget.replenished"):
    """The limits of a scope were raised by so much; what has no limit still has none."""

    scope: str
    amounts: Amounts
    actor: Literal["user", "system", "timeout"] = "user"
    request_id: str = ""
    """Names what was asked for, so that asking again raises nothing again."""


class Limited(Rune, frozen=True, gc=False, tag="budget.limited"):
    """A scope has other limits than before; what was used of them is used of these."""

    scope: str
    limits: Limits


class Closed(Rune, frozen=True, gc=False, tag="budget.closed"):
    """A scope spends no more: its agent is gone. What it spent still counts against its parent."""

    scope: str


def in_units(what: What, amount: int) -> str:
    """Return so much of what a budget counts, in the units in which it is given.

    >>> in_units("cost", 1_200_000), in_units("wall", 1_500_000_000), in_units("tokens", 12)
    ('1.2', '1.5s', '12')
    """
    size, unit = _UNITS.get(what, (1, ""))
    return f"{amount / size:.10g}{unit}"


_UNITS: Final = {"wall": (SECOND, "s"), "cost": (COST, "")}
"""How many of what is counted make one of what is shown, and its unit."""
