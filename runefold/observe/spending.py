"""What a session and its agents have spent, what is set aside for them, and what is left.

It is read from the log: no session is woken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from actors.budget import lifecycle as ledger
from actors.budget.kind import KIND as BUDGET
from actors.budget.runes import WHATS, Amounts, Limits, What
from actors.session.kind import KIND as SESSION
from actors.shell.snapshot_policy import replayed
from actors.units import COST, SECOND

if TYPE_CHECKING:
    from runelog.log import Log


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """So much of each thing that a budget counts, in the units in which a `Budget` is given.

    >>> Spent.of(Amounts(tokens=12, wall=1_500_000_000, cost=250_000))
    Spent(tokens=12, tool_calls=0, wall_seconds=1.5, retries=0, sub_calls=0, cost=0.25)
    """

    tokens: int = 0
    tool_calls: int = 0
    wall_seconds: float = 0.0
    """Time of running turns, counted where a budget limits it."""
    retries: int = 0
    sub_calls: int = 0
    """Calls of other agents."""
    cost: float = 0.0

    @classmethod
    def of(cls, amounts: Amounts) -> Spent:
        """Return what is counted in runes, in units of users."""
        return cls(
            tokens=amounts.tokens,
            tool_calls=amounts.tool_calls,
            wall_seconds=amounts.wall / SECOND,
            retries=amounts.retries,
            sub_calls=amounts.sub_calls,
            cost=amounts.cost / COST,
        )


class Left(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """So much of each thing may still be spent; None where there is no limit."""

    tokens: int | None = None
    tool_calls: int | None = None
    wall_seconds: float | None = None
    retries: int | None = None
    sub_calls: int | None = None
    cost: float | None = None


class Spending(msgspec.Struct, frozen=True):
    """What a session or an agent has spent, children included."""

    spent: Spent
    """What was charged, whatever became of the calls and of their turns."""
    reserved: Spent
    """What is set aside for calls that are under way."""
    left: Left
    """What may still be reserved, by its own limits and by those of whoever pays for it."""
    agents: dict[str, Spending] = {}
    """Of a session: each agent that lives, by its name; one that is gone is in the sum."""


def spending(log: Log, conversation: str) -> Spending:
    """Return what a session and its agents have spent, as far as it is on disk."""
    members = replayed(log, conversation, SESSION, SESSION.name).state.members
    account: ledger.State = replayed(log, conversation, BUDGET, BUDGET.name).state
    agents = {
        member.name: found
        for member in members
        if (found := _of(account, member.agent_id)) is not None
    }
    whole = _of(account, SESSION.name)
    assert whole is not None, f"{conversation} has no budget"
    return Spending(whole.spent, whole.reserved, whole.left, agents)


def _of(account: ledger.State, scope: str) -> Spending | None:
    found = ledger.find(account, scope)
    if found is None:
        return None
    payers = ledger.lineage(account, scope)
    left = Limits(*[_left(payers, what) for what in WHATS])
    wall = None if left.wall is None else left.wall / SECOND
    cost = None if left.cost is None else left.cost / COST
    may = Left(
        tokens=left.tokens,
        tool_calls=left.tool_calls,
        wall_seconds=wall,
        retries=left.retries,
        sub_calls=left.sub_calls,
        cost=cost,
    )
    return Spending(Spent.of(found.used), Spent.of(found.reserved), may)


def _left(payers: list[ledger.Scope], what: What) -> int | None:
    """Return how much of a thing may still be reserved, by the narrowest limit."""
    found = [(getattr(at.limits, what), ledger.spoken_for(at, what)) for at in payers]
    return min((max(limit - taken, 0) for limit, taken in found if limit is not None), default=None)
