"""The budgets of a session and its agents: which limit stands in the way, and how one is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from msgspec.structs import replace

from actors.budget import lifecycle as ledger
from actors.budget import runes as budgets
from actors.session.members import member, named, with_member
from actors.session.runes import NAME, BudgetInfo
from runelog.rune import check_id

if TYPE_CHECKING:
    from actors.session.lifecycle import State
    from actors.session.public_commands import Replenish
    from runelog.rune import Rune

REQUESTS: Final = 32
"""So many requests that were carried out are remembered, the newest."""


def replenished(state: State, command: Replenish, request_id: str) -> list[Rune]:
    """Return the rune that raises limits, or refuse it; asked again, it is raised once."""
    if request_id in state.requests:
        return []
    check_id(request_id, "request id")
    scope = named(state.members, command.agent).agent_id if command.agent else NAME
    return [
        budgets.Replenished(
            scope=scope,
            amounts=ledger.check_amounts(command.amounts()),
            actor="user",
            request_id=request_id,
        )
    ]


def funded(state: State, rune: budgets.Exhausted | budgets.Replenished | budgets.Limited) -> State:
    """Take in that a limit refused a call, or was raised."""
    match rune:
        case budgets.Exhausted(scope, what, used, limit):
            found = member(state.members, scope)
            if found is not None and found.config.on_exhausted == "terminate":
                return with_member(state, replace(found, spent=True))
            info = BudgetInfo(scope=scope, what=what, used=used, limit=limit)
            return replace(state, exhausted=info)
        case budgets.Replenished(scope, amounts, request_id=request_id):
            spent = state.exhausted
            # More of something else would only begin a turn that ends for the same want.
            helps = spent is not None and getattr(amounts, spent.what) > 0
            requests = (*state.requests, request_id)[-REQUESTS:] if request_id else state.requests
            return _raised(replace(state, requests=requests), scope, helps=helps)
        case budgets.Limited(scope, limits):
            spent = state.exhausted
            now = None if spent is None else getattr(limits, spent.what)
            helps = spent is not None and (now is None or now > spent.limit)
            return _raised(state, scope, helps=helps)
        case _:
            assert_never(rune)


def _raised(state: State, scope: str, *, helps: bool) -> State:
    """Return the state after the limits of an account changed; `helps` if calls wait for that."""
    if helps and state.exhausted is not None and state.exhausted.scope == scope:
        state = replace(state, exhausted=None)
    found = member(state.members, scope)
    return with_member(state, found and replace(found, spent=False))
