"""Budgets: each reservation settles once, at what it costs, and none goes past a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.audit import Audit, Found
from actors.budget import runes as budget
from actors.model import runes as model
from actors.tool import runes as tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope


def _found(at: int, message: str) -> Found:
    return Found("INV-AGENT-BUDGET", at, message, "warn")


class _Account:
    """What one scope may spend and has spent, by the names of `Amounts`."""

    def __init__(self, rune: budget.Opened) -> None:
        self.parent = rune.parent
        self.limits: dict[str, int | None] = {
            what: getattr(rune.limits, what) for what in budget.WHATS
        }
        self.spent: dict[str, int] = dict.fromkeys(budget.WHATS, 0)
        """Used and reserved, together."""


class _Reserved(NamedTuple):
    scope: str
    amounts: budget.Amounts
    turn: str


class Money(Audit):
    """Each reservation settles once, and none goes past a limit."""

    holds = ("INV-AGENT-BUDGET",)

    def __init__(self) -> None:
        """Begin without a budget."""
        self._accounts: dict[str, _Account] = {}
        self._open: dict[str, _Reserved] = {}
        self._keys: dict[str, str] = {}
        """The turn of each model call and tool call."""
        self._settled: set[str] = set()
        self._whole: set[str] = set()
        """What settles at all that was reserved: a tool call, a model call that a crash cut off."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong about an entry."""
        at = envelope.event_id
        match rune := envelope.payload:
            case model.Called(model_call_id=name, caller=of) | tool.Called(call_id=name, caller=of):
                self._keys[name] = of
                if isinstance(rune, tool.Called):
                    self._whole.add(name)
            case model.Failed(model_call_id=name, error_type=kind) if kind == model.CRASH:
                self._whole.add(name)
            case budget.Opened(scope=scope):
                self._accounts[scope] = _Account(rune)
            case budget.Replenished(scope=scope, amounts=amounts) if scope in self._accounts:
                limits = self._accounts[scope].limits
                for what, limit in limits.items():
                    limits[what] = None if limit is None else limit + getattr(amounts, what)
            case budget.Closed(scope=scope) if scope in self._accounts:
                self._close(scope)
            case budget.Reserved():
                yield from self._reserve(at, rune)
            case budget.Settled():
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

    def _reserve(self, at: int, rune: budget.Reserved) -> Iterator[Found]:
        if rune.key in self._open or rune.key in self._settled:
            yield _found(at, f"{rune.key} has a second reservation")
        # Of time, the key begins with the turn's own id.
        of = self._keys.get(rune.key, "") if rune.until is None else rune.key.rpartition("-")[0]
        self._open[rune.key] = _Reserved(rune.scope, rune.amounts, of)
        yield from self._spend(at, rune.scope, rune.key, rune.amounts, budget.Amounts())

    def _settle(self, at: int, rune: budget.Settled) -> Iterator[Found]:
        open_ = self._open.pop(rune.key, None)
        if open_ is None:
            again = "again" if rune.key in self._settled else "and was never reserved"
            yield _found(at, f"{rune.key} is settled {again}")
            return
        self._settled.add(rune.key)
        if rune.key in self._whole and rune.used != open_.amounts:
            message = f"{rune.key} is settled at {rune.used}, with {open_.amounts} reserved"
            yield _found(at, message)
        yield from self._spend(at, open_.scope, rune.key, rune.used, open_.amounts)

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
        for key in [key for key, open_ in self._open.items() if open_.turn == entity]:
            yield _found(at, f"{entity} ended and {key} was not settled")

    def rest(self, at: int) -> Iterator[Found]:
        """Yield what is still reserved."""
        for key in self._open:
            yield _found(at, f"{key} was reserved and never settled")
