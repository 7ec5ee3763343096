"""Budgets: each reservation settles once, and none goes past a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from actors.audit import Audit, Found
from actors.budget import runes as budget
from actors.model import runes as model
from actors.tool import runes as tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope


_NOTHING: Final = budget.Amounts()


def _is_whole(rune: budget.Settles) -> bool:
    """Return True if all that was reserved is charged: for a tool, and after a crash."""
    return isinstance(rune, tool.Result) or (
        isinstance(rune, model.Failed) and rune.error_type == model.CRASH
    )


def _is_in_doubt(rune: budget.Settles) -> bool:
    """Return True if it is not known what came of it."""
    return _is_whole(rune) and not (isinstance(rune, tool.Result) and rune.status != "unknown")


def _found(at: int, message: str) -> Found:
    return Found("INV-AGENT-BUDGET", at, message, "warn")


class _Account:
    """What one scope may spend and has spent, by the names of `Amounts`."""

    def __init__(self, rune: budget.Opened) -> None:
        self.parent = rune.parent
        self.limits: dict[str, int | None] = msgspec.structs.asdict(rune.limits)
        self.spent: dict[str, int] = dict.fromkeys(budget.WHATS, 0)
        """Used and reserved, together."""


class _Reserved(NamedTuple):
    scope: str
    amounts: budget.Amounts
    caller: str


class Money(Audit):
    """Each reservation settles once, and none goes past a limit."""

    holds = ("INV-AGENT-BUDGET",)

    def __init__(self) -> None:
        """Begin without a budget."""
        self._accounts: dict[str, _Account] = {}
        self._open: dict[str, _Reserved] = {}
        self._callers: dict[str, str] = {}
        """The entity that makes each tool call."""
        self._settled: set[str] = set()

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong about an entry."""
        at = envelope.event_id
        match rune := envelope.payload:
            case tool.Called(call_id=name, caller=of):
                self._callers[name] = of
            case budget.Opened(scope=scope):
                self._accounts[scope] = _Account(rune)
            case budget.Replenished(scope=scope, amounts=amounts) if scope in self._accounts:
                limits = self._accounts[scope].limits
                for what, limit in limits.items():
                    limits[what] = None if limit is None else limit + getattr(amounts, what)
            case budget.Limited(scope=scope) if scope in self._accounts:
                self._accounts[scope].limits = msgspec.structs.asdict(rune.limits)
            case budget.Closed(scope=scope) if scope in self._accounts:
                self._close(scope)
            case budget.Reserves():
                yield from self._reserve(at, rune, envelope.owner)
            case budget.Settles():
                yield from self._settle(at, rune)
            case _:
                pass

    def _close(self, scope: str) -> None:
        heir = self._accounts.pop(scope).parent
        for account in self._accounts.values():
            if account.parent == scope:
                account.parent = heir
        if heir is not None:
            for key, open_ in self._open.items():
                if open_.scope == scope:
                    self._open[key] = open_._replace(scope=heir)

    def _reserve(self, at: int, rune: budget.Reserves, owner: str) -> Iterator[Found]:
        key = rune.key
        if key in self._open or key in self._settled:
            yield _found(at, f"{key} has a second reservation")
        # Of time, the caller is the owner of the rune itself.
        caller = rune.caller if isinstance(rune, model.Called) else self._callers.get(key, owner)
        self._open[key] = _Reserved(rune.account, rune.reserved, caller)
        if rune.reserved != _NOTHING:
            yield from self._spend(at, rune.account, key, rune.reserved, _NOTHING)

    def _settle(self, at: int, rune: budget.Settles) -> Iterator[Found]:
        key, charged = rune.key, rune.charged
        open_ = self._open.pop(key, None)
        if open_ is None:
            if charged != _NOTHING:
                again = "again" if key in self._settled else "and was never reserved"
                yield _found(at, f"{key} is charged {again}")
            return
        self._settled.add(key)
        if _is_whole(rune) and charged != open_.amounts:
            yield _found(at, f"{key} is charged {charged}, with {open_.amounts} reserved")
        if _is_in_doubt(rune) and not rune.estimated:
            yield _found(at, f"{key} is in doubt, and its charge is not said to be an estimate")
        if charged != _NOTHING or open_.amounts != _NOTHING:
            yield from self._spend(at, open_.scope, key, charged, open_.amounts)

    def _spend(
        self, at: int, scope: str, key: str, more: budget.Amounts, less: budget.Amounts
    ) -> Iterator[Found]:
        """Count `more` in place of `less`, up to the topmost account."""
        name: str | None = scope
        while name is not None:
            account = self._accounts.get(name)
            if account is None:
                yield _found(at, f"{key} spends from {name}: no such budget")
                return
            for what in budget.WHATS:
                new = getattr(more, what) - getattr(less, what)
                account.spent[what] += new
                limit, spent = account.limits[what], account.spent[what]
                if new > 0 and limit is not None and spent > limit:
                    message = f"{name} is at {spent} of {limit} {what} with {key}"
                    yield _found(at, message)
            name = account.parent

    def ended(self, at: int, entity: str) -> Iterator[Found]:
        """Yield what a caller has left reserved."""
        for key in [key for key, open_ in self._open.items() if open_.caller == entity]:
            yield _found(at, f"{entity} ended and {key} was not settled")

    def rest(self, at: int) -> Iterator[Found]:
        """Yield what is still reserved."""
        for key in self._open:
            yield _found(at, f"{key} was reserved and never settled")
