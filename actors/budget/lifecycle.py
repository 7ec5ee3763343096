"""The law of a budget: an exact ledger of what was reserved and what was used.

    opened ──> reserved ──> settled          a limit is reached: exhausted, nothing is reserved
                  │             │            80 % are reached:   warning
                  └── counts against the scope and all its ancestors ──┘

One budget per conversation, without an actor of its own: whoever makes a call asks `reserve` before
it and `settle` after it, and appends what they return together with its own runes. There is one
phase. What is compared with a limit, for a refusal and for a warning alike, is everything that is
spoken for: used and reserved together. So both are about the same number.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from actors.budget.commands import (
    Close,
    Command,
    Open,
    Replenish,
    Reserve,
    Settle,
    Warn,
)
from actors.budget.runes import (
    WHATS,
    Amounts,
    Closed,
    Exhausted,
    Limits,
    Opened,
    Replenished,
    Reserved,
    Settled,
    Warning,  # noqa: A004 -- named as its kind
    What,
)
from actors.budget.sums import check_amounts, check_limits, minus, plus
from actors.entity import Actor, Entity, Routing
from runelog.errors import Refused
from runelog.lifecycle import Lifecycle, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runelog.rune import Rune

NAME: Final = "budget"
WARN_AT: Final = 80
"""Per cent of a limit."""


class Phase(StrEnum):
    """What a budget can be."""

    OPEN = "open"


TABLE: Table[Phase] = {
    Phase.OPEN: dict.fromkeys(
        (Opened, Reserved, Settled, Warning, Exhausted, Replenished, Closed), Phase.OPEN
    )
}


class Scope(msgspec.Struct, frozen=True):
    """One account: what it may spend and what is spoken for, its children's spending included."""

    scope: str
    parent: str | None = None
    limits: Limits = Limits()
    used: Amounts = Amounts()
    reserved: Amounts = Amounts()
    warned: tuple[What, ...] = ()
    """What was warned of since the limits were last raised."""


class Reservation(msgspec.Struct, frozen=True):
    """What is set aside for a call that is under way."""

    key: str
    scope: str
    amounts: Amounts


class State(msgspec.Struct, frozen=True):
    """What a budget's runes add up to: the accounts of who is there, the calls under way."""

    phase: Phase = Phase.OPEN
    scopes: tuple[Scope, ...] = ()
    reservations: tuple[Reservation, ...] = ()


# -- sums --------------------------------------------------------------------------------------


def limited(scope: Scope) -> tuple[What, ...]:
    """Name what an account may not spend without end; mostly that is nothing."""
    if scope.limits == _WITHOUT:
        return ()
    return tuple(what for what in WHATS if getattr(scope.limits, what) is not None)


_WITHOUT: Final = Limits()


def is_limited(accounts: Sequence[Scope]) -> bool:
    """Say whether any of them may not spend something without end."""
    for account in accounts:  # noqa: SIM110 -- all calls come here, and mostly nothing is limited
        if account.limits != _WITHOUT:
            return True
    return False


def spoken_for(scope: Scope, what: What) -> int:
    """Return how much of a thing is used or reserved in a scope."""
    return int(getattr(scope.used, what) + getattr(scope.reserved, what))


def is_near(scope: Scope, what: What) -> bool:
    """Say whether a limit has to be warned of."""
    limit: int | None = getattr(scope.limits, what)
    if not limit or what in scope.warned:
        return False
    return spoken_for(scope, what) * 100 >= limit * WARN_AT


def _warning(scope: Scope, what: What) -> Warning:
    limit = getattr(scope.limits, what)
    return Warning(scope=scope.scope, what=what, used=spoken_for(scope, what), limit=limit)


# -- the law -----------------------------------------------------------------------------------


def find(state: State, scope: str) -> Scope | None:
    """Return the account of that name."""
    for found in state.scopes:
        if found.scope == scope:
            return found
    return None


def lineage(state: State, scope: str) -> list[Scope]:
    """Return the account and all its ancestors, the nearest first."""
    found: list[Scope] = []
    name: str | None = scope
    while name is not None:
        for account in state.scopes:
            if account.scope == name:
                found.append(account)
                name = account.parent
                break
        else:
            break
    return found


def check(state: State, scope: str, amounts: Amounts, key: str = "") -> Exhausted | None:
    """Return what stands in the way of reserving so much, None if nothing does."""
    return _against(lineage(state, scope), amounts, key)


def _against(accounts: list[Scope], amounts: Amounts, key: str) -> Exhausted | None:
    for account in accounts:
        for what in limited(account):
            asked, limit = getattr(amounts, what), getattr(account.limits, what)
            taken = spoken_for(account, what)
            if asked and limit is not None and taken + asked > limit:
                return Exhausted(scope=account.scope, what=what, used=taken, limit=limit, key=key)
    return None


def reserve(state: State, key: str, scope: str, amounts: Amounts) -> list[Rune] | Exhausted:
    """Return the runes that set so much aside, none if that was done, or what stands in the way."""
    check_amounts(amounts)
    accounts = lineage(state, scope)
    if not accounts:
        raise _not_open(scope)
    for each in state.reservations:
        if each.key == key:
            return []
    rune = Reserved(key=key, scope=scope, amounts=amounts)
    if not is_limited(accounts):
        return [rune]
    if (exhausted := _against(accounts, amounts, key)) is not None:
        return exhausted
    return _with_warnings(state, rune, scope, amounts)


def settle(state: State, key: str, used: Amounts | None = None) -> list[Rune]:
    """Return the runes that count what a call used; none if nothing is set aside for it.

    What was used is told as it is, also if it is more than was set aside. None means that nobody
    knows, as after a crash: then all that was set aside counts.
    """
    found = next((each for each in state.reservations if each.key == key), None)
    if found is None:
        return []
    rune = Settled(
        key=key,
        used=found.amounts if used is None else check_amounts(used),
        estimated=used is None,
    )
    return _with_warnings(state, rune, found.scope, rune.used)


def replenish(state: State, scope: str, amounts: Amounts, actor: Actor = "user") -> list[Rune]:
    """Return the rune that raises the limits of a scope."""
    check_amounts(amounts)
    if find(state, scope) is None:
        raise _not_open(scope)
    return [Replenished(scope=scope, amounts=amounts, actor=actor)]


def _not_open(scope: str) -> Refused:
    return Refused(f"there is no budget for {scope}: it is not open, or was closed with its agent")


def _with_warnings(state: State, rune: Rune, scope: str, spent: Amounts) -> list[Rune]:
    """Follow `rune` with a warning for each limit that it brings near for the first time."""
    near = (
        _warning(account, what)
        for account in lineage(evolve(state, rune), scope)
        for what in limited(account)
        if getattr(spent, what) and is_near(account, what)
    )
    return [rune, *near]


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    match command:
        case Open(scope, limits, parent):
            return _open(state, scope, limits, parent)
        case Reserve(key, scope, amounts):
            answer = reserve(state, key, scope, amounts)
            return [answer] if isinstance(answer, Exhausted) else answer
        case Settle(key, used):
            return settle(state, key, used)
        case Replenish(scope, amounts, actor):
            return replenish(state, scope, amounts, actor)
        case Close(scope):
            return [] if find(state, scope) is None else [Closed(scope=scope)]
        case Warn():
            at, what = find(state, command.scope), command.what
            return [_warning(at, what)] if at is not None and is_near(at, what) else []


def _open(state: State, scope: str, limits: Limits, parent: str | None) -> list[Rune]:
    if find(state, scope) is not None:
        return []
    if parent is not None and find(state, parent) is None:
        msg = f"{scope} cannot spend from {parent}: that budget is not open"
        raise Refused(msg)
    check_limits(limits)
    return [Opened(scope=scope, limits=limits, parent=parent)]


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Opened(scope, limits, parent):
            opened = Scope(scope=scope, parent=parent, limits=limits)
            return replace(state, scopes=(*state.scopes, opened))
        case Reserved(key, scope, amounts):
            return _reserved(state, key, scope, amounts)
        case Settled(key, used):
            return _settled(state, key, used)
        case Warning(scope, what):
            return _at(state, scope, lambda at: replace(at, warned=(*at.warned, what)))
        case Replenished(scope, amounts):
            return _at(state, scope, lambda at: _raised(at, amounts))
        case Closed(scope):
            return _closed(state, scope)
        case _:
            return state


def _at(state: State, scope: str, change: Callable[[Scope], Scope]) -> State:
    scopes = tuple(change(at) if at.scope == scope else at for at in state.scopes)
    return replace(state, scopes=scopes)


def _reserved(state: State, key: str, scope: str, amounts: Amounts) -> State:
    """Set so much aside in an account, and all the way up."""
    payers = lineage(state, scope)
    scopes = tuple(
        [
            replace(at, reserved=plus(at.reserved, amounts)) if at in payers else at
            for at in state.scopes
        ]
    )
    new = Reservation(key=key, scope=scope, amounts=amounts)
    return State(state.phase, scopes, (*state.reservations, new))


def _settled(state: State, key: str, used: Amounts) -> State:
    """Count what was used in an account, and all the way up, for what was set aside."""
    found = next(iter([each for each in state.reservations if each.key == key]))
    payers, freed = lineage(state, found.scope), found.amounts
    scopes = tuple(
        [
            replace(at, used=plus(at.used, used), reserved=minus(at.reserved, freed))
            if at in payers
            else at
            for at in state.scopes
        ]
    )
    left = tuple([each for each in state.reservations if each.key != key])
    return State(state.phase, scopes, left)


def _raised(at: Scope, amounts: Amounts) -> Scope:
    limits = Limits(
        *(
            None if getattr(at.limits, what) is None else getattr(at.limits, what) + extra
            for what, extra in zip(WHATS, msgspec.structs.astuple(amounts), strict=True)
        )
    )
    warned = tuple(what for what in at.warned if not getattr(amounts, what))
    return replace(at, limits=limits, warned=warned)


def _closed(state: State, scope: str) -> State:
    """Drop an account; who spent from it spends from its parent now, where it was counted too."""
    heir = next(at.parent for at in state.scopes if at.scope == scope)
    return replace(
        state,
        scopes=tuple(
            replace(at, parent=heir) if at.parent == scope else at
            for at in state.scopes
            if at.scope != scope
        ),
        reservations=tuple(
            replace(each, scope=heir) if each.scope == scope and heir is not None else each
            for each in state.reservations
        ),
    )


def due(state: State) -> list[Warn]:
    """Say which limits have to be warned of; a budget is spent by others."""
    if not is_limited(state.scopes):
        return []
    return [
        Warn(at.scope, what) for at in state.scopes for what in limited(at) if is_near(at, what)
    ]


def route(_state: State, rune: Rune) -> Routing:
    """Say where a rune of the budget belongs: the session and the agent hear of limits."""
    match rune:
        case Warning(scope) | Exhausted(scope) | Replenished(scope) | Closed(scope):
            return Routing(NAME, tuple(dict.fromkeys(("session", scope))))
        case _:
            return UNOBSERVED


UNOBSERVED: Final = Routing(NAME)


def is_open(_state: State) -> bool:
    """Say that nothing is left to do: whoever made a reservation settles it."""
    return False


LIFECYCLE: Final = Lifecycle(
    name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
)
INTERNAL: Final[frozenset[type]] = frozenset({Warn})
ENTITY: Final = Entity(
    lifecycle=LIFECYCLE, route=route, births=(Opened,), is_open=is_open, internal=INTERNAL
)
