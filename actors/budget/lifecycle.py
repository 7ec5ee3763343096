"""The law of a budget: an exact ledger of what was reserved and what was charged.

    opened ──> a call begins ──> it ends     a limit is reached: exhausted, no call begins
                  │ reserved       │ charged       80 % are reached:   warning
                  └── counts against the scope and all its ancestors ──┘

There is one budget per conversation, with one phase and no actor of its own. It is a fold of the
runes that begin and end what is paid for (`Reserves`, `Settles`), whichever entity owns them: so no
crash can part a call from its charge, and none is charged twice. A law that begins what is paid for
reads the budget (`Lifecycle.reads`) and asks `afford` before it decides such a rune. A session
opens, raises and closes accounts. The budget itself decides only its warnings, in the append that
makes them due.
What is compared with a limit, for a refusal and for a warning alike, is used and reserved together.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from actors.budget.runes import (
    WHATS,
    Amounts,
    Closed,
    Exhausted,
    Limited,
    Limits,
    Opened,
    Replenished,
    Reserves,
    Settles,
    Warning,  # noqa: A004 -- named as its kind
    What,
    in_units,
)
from actors.entity import ROOT, Routing
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import Lifecycle, Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.rune import Rune

NAME: Final = "budget"
WARN_AT: Final = 80
"""Per cent of a limit."""
_UNLIMITED: Final = Limits()
_NOTHING: Final = Amounts()


class Phase(StrEnum):
    """What a budget can be."""

    OPEN = "open"


TABLE: Table[Phase] = {
    Phase.OPEN: dict.fromkeys(
        (Opened, Warning, Exhausted, Replenished, Limited, Closed), Phase.OPEN
    )
}


# -- state -------------------------------------------------------------------------------------


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
    """What a budget's runes add up to: the open accounts, and the calls under way."""

    phase: Phase = Phase.OPEN
    scopes: tuple[Scope, ...] = ()
    reservations: tuple[Reservation, ...] = ()


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
    # A parent was opened before its children. So no account is its own ancestor either.
    for account in reversed(state.scopes):
        if account.scope == name:
            found.append(account)
            name = account.parent
    return found


def spoken_for(scope: Scope, what: What) -> int:
    """Return how much of a thing is used or reserved in a scope."""
    return int(getattr(scope.used, what) + getattr(scope.reserved, what))


def _limited(scope: Scope) -> tuple[What, ...]:
    """Return what an account has a limit for."""
    return tuple(what for what in WHATS if getattr(scope.limits, what) is not None)


# -- what other laws ask -----------------------------------------------------------------------


def afford(state: State, rune: Reserves) -> Exhausted | None:
    """Return None if there is room for what a rune reserves, else the limit that stands in the way.

    Raises `Refused` for an account that is not open, and for amounts that cannot be counted.
    """
    amounts, key = check_amounts(rune.reserved), rune.key
    accounts = lineage(state, rune.account)
    if not accounts:
        msg = f"there is no budget for {rune.account}: it is not open, or was closed with its agent"
        raise Refused(msg)
    for account in accounts:
        for what in () if account.limits == _UNLIMITED else _limited(account):
            asked, limit = getattr(amounts, what), getattr(account.limits, what)
            taken = spoken_for(account, what)
            if asked and taken + asked > limit:
                return Exhausted(scope=account.scope, what=what, used=taken, limit=limit, key=key)
    return None


def in_words(spent: Exhausted) -> str:
    """Say which limit stands in the way, and how much of it is left."""
    what, used, limit = spent.what, spent.used, spent.limit
    taken = f"{in_units(what, used)} of {in_units(what, limit)} are spoken for"
    return f"{what} of {spent.scope}: {taken}"


def is_limited(state: State, scope: str, what: What) -> bool:
    """Return True if an account or one of its ancestors has a limit for a thing."""
    return any(getattr(at.limits, what) is not None for at in lineage(state, scope))


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


# -- commands and effects ----------------------------------------------------------------------


class Warn(msgspec.Struct, frozen=True):
    """Warn that a limit is near: an internal effect, due whichever entity spent."""

    scope: str
    what: What


# -- decide ------------------------------------------------------------------------------------


def decide(state: State, command: Warn) -> list[Rune]:
    """Answer a command with the runes it leads to."""
    at, what = find(state, command.scope), command.what
    if at is None or not _is_near(at, what):
        return []
    limit = getattr(at.limits, what)
    return [Warning(scope=at.scope, what=what, used=spoken_for(at, what), limit=limit)]


def _is_near(scope: Scope, what: What) -> bool:
    """Return True if a limit has to be warned of."""
    limit: int | None = getattr(scope.limits, what)
    if not limit or what in scope.warned:
        return False
    return spoken_for(scope, what) * 100 >= limit * WARN_AT


# -- evolve ------------------------------------------------------------------------------------


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Opened(scope, limits, parent):
            opened = Scope(scope=scope, parent=parent, limits=limits)
            return replace(state, scopes=(*state.scopes, opened))
        case Reserves():
            return _reserved(state, rune.key, rune.account, rune.reserved)
        case Settles():
            return _settled(state, rune.key, rune.charged)
        case Warning(scope, what):
            return _at(state, scope, lambda at: replace(at, warned=(*at.warned, what)))
        case Replenished(scope, amounts):
            return _at(state, scope, lambda at: _raised(at, amounts))
        case Limited(scope, limits):
            return _at(state, scope, lambda at: replace(at, limits=limits, warned=()))
        case Closed(scope):
            return _closed(state, scope)
        case _:
            return state


def _at(state: State, scope: str, change: Callable[[Scope], Scope]) -> State:
    scopes = tuple(change(at) if at.scope == scope else at for at in state.scopes)
    return replace(state, scopes=scopes)


def _reserved(state: State, key: str, scope: str, amounts: Amounts) -> State:
    """Return the state with so much set aside in an account, and all the way up."""
    scopes = _counted(state, scope, _NOTHING, _NOTHING, amounts)
    new = Reservation(key=key, scope=scope, amounts=amounts)
    return State(state.phase, scopes, (*state.reservations, new))


def _settled(state: State, key: str, used: Amounts) -> State:
    """Count what was used in an account, and all the way up, for what was set aside."""
    for found in state.reservations:
        if found.key == key:
            break
    else:
        if used == _NOTHING:
            # It was denied, or could not be afforded: it never began.
            return state
        msg = f"{NAME}: {key} is charged, and nothing is reserved for it"
        raise IllegalTransition(msg)
    scopes = _counted(state, found.scope, used, found.amounts, _NOTHING)
    left = tuple([each for each in state.reservations if each is not found])
    return State(state.phase, scopes, left)


def _counted(
    state: State, scope: str, used: Amounts, freed: Amounts, reserved: Amounts
) -> tuple[Scope, ...]:
    """Return all accounts with what was used, freed and set aside in one, and all the way up."""
    found: list[Scope] = []
    name: str | None = scope
    for each in reversed(state.scopes):
        at = each
        if at.scope == name:
            name = at.parent
            # Mostly there is one call at a time.
            left = _NOTHING if at.reserved == freed else at.reserved - freed
            left = reserved if left == _NOTHING else left + reserved
            spent = at.used if used == _NOTHING else at.used + used
            at = Scope(at.scope, at.parent, at.limits, spent, left, at.warned)
        found.append(at)
    found.reverse()
    return tuple(found)


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
    closed = find(state, scope)
    if closed is None:
        msg = f"{NAME}: {scope} is closed, and is no open account"
        raise IllegalTransition(msg)
    heir = closed.parent
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


# -- due ---------------------------------------------------------------------------------------


def due(state: State) -> list[Warn]:
    """Return the warnings that are due; a budget is spent by others."""
    found: list[Warn] = []
    for at in state.scopes:
        if at.limits != _UNLIMITED:
            found += [Warn(at.scope, what) for what in _limited(at) if _is_near(at, what)]
    return found


# -- what the shell must know ------------------------------------------------------------------


def route(_state: State, rune: Rune) -> Routing:
    """Return where a rune of the budget belongs: the root and the agent observe limits."""
    match rune:
        case (
            Warning(scope) | Exhausted(scope) | Replenished(scope) | Limited(scope) | Closed(scope)
        ):
            return Routing(NAME, (ROOT, scope))
        case _:
            return Routing(NAME)


LIFECYCLE: Final = Lifecycle(
    name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due, version=3
)
