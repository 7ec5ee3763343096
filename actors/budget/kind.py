"""A budget, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.budget import lifecycle as law
from actors.budget import runes
from actors.budget.audits import Money
from actors.budget.lifecycle import spoken_for
from actors.budget.runes import WHATS, in_units
from actors.kind import Kind, in_a_line, never_open

if TYPE_CHECKING:
    from actors.budget.lifecycle import Scope, State


def root(state: State) -> Scope | None:
    """Return the account that all others spend from."""
    return next((each for each in state.scopes if each.parent is None), None)


def summary(state: State) -> str:
    """Return what is spoken for of each limit, or all that is where there is no limit."""
    account = root(state)
    if account is None:
        return "closed" if not state.scopes else "open"
    shown = []
    for what in WHATS:
        spent, limit = spoken_for(account, what), getattr(account.limits, what)
        if spent or limit is not None:
            of = "" if limit is None else f" of {in_units(what, limit)}"
            shown.append(f"{what} {in_units(what, spent)}{of}")
    return in_a_line(*shown) or "nothing spent"


def outcome(state: State) -> dict[str, Any]:
    """Return limits and calls: how many tokens, retries and seconds it took depends on the kill."""
    account = root(state)
    return {
        "accounts": len(state.scopes),
        "limits": None if account is None else account.limits,
        "tool_calls": None if account is None else account.used.tool_calls,
        "sub_calls": None if account is None else account.used.sub_calls,
        "reservations": len(state.reservations),
    }


KIND: Final = Kind(
    lifecycle=law.LIFECYCLE,
    route=law.route,
    is_open=never_open,
    internal=frozenset({law.Warn}),
    prefix="budget",
    single=True,
    parents=("session",),
    in_table=False,  # the session's law knows it
    runes=(
        runes.Opened,
        runes.Warning,
        runes.Exhausted,
        runes.Replenished,
        runes.Limited,
        runes.Closed,
    ),
    invariants=(Money,),
    summary=summary,
    outcome=outcome,
)
