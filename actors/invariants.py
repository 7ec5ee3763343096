"""What must hold of everything that actors wrote, checked over the runes alone.

Each check has its own small book-keeping and asks no law how things ought to be; that the laws
themselves still agree with what was written is one check of its own. So a law that is wrong in the
same way when it writes and when it reads is found out all the same.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from actors.budget import runes as budget
from actors.catalogue import BIRTHS
from actors.model import runes as model
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from runelog.lifecycle import state_hash
from runelog.rune import SYSTEM, Rune, Tombstone, Unknown, kind_of
from runelog.verify import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.entity import Entity
    from runelog.rune import Envelope
    from runelog.verify import Severity

SEVERITIES: Final[Mapping[str, Severity]] = {
    "INV-EVENTID-MONOTONIC": "fatal",
    "INV-TURN-SEQUENTIAL": "error",
    "INV-TURN-TERMINAL": "error",
    "INV-TURN-ORDER": "error",
    "INV-TOOL-TERMINAL": "error",
    "INV-TOOL-CALL-BEFORE-RESULT": "error",
    "INV-TOOL-APPROVAL-BEFORE-EXEC": "error",
    "INV-AGENT-BUDGET": "warn",
    "INV-REPLAY-DETERMINISTIC": "error",
}
"""What is checked here, and how bad it is where it does not hold."""

TURN_ENDS: Final = (turn.Completed, turn.Interrupted, turn.Error)


def violations(
    envelopes: Iterable[Envelope],
    *,
    at_rest: bool = False,
    births: Mapping[type[Rune], Entity] = BIRTHS,
) -> Iterator[Problem]:
    """Yield everything that is wrong with the runes of a log, or of some of its conversations.

    Each conversation is given from its beginning and in order; several may be mixed. What has to
    come to an end must have done so where the session is closed; with `at_rest`, everywhere.
    """
    books: dict[str, _Book] = {}
    for envelope in envelopes:
        name = envelope.conversation
        if name == SYSTEM:
            continue
        book = books.get(name)
        if book is None:
            book = books[name] = _Book(births)
        for found in book.take(envelope):
            yield _problem(name, found)
    for name, book in books.items():
        for found in book.end(at_rest=at_rest):
            yield _problem(name, found)


class _Found(NamedTuple):
    """Something that does not hold, and at which event."""

    invariant: str
    event_id: int
    message: str


def _problem(conversation: str, found: _Found) -> Problem:
    where = f"{conversation} event {found.event_id}"
    return Problem(found.invariant, SEVERITIES[found.invariant], where, found.message)


class _Book:
    """All checks of one conversation."""

    def __init__(self, births: Mapping[type[Rune], Entity]) -> None:
        self._turns = _Turns()
        self._tools = _Tools()
        self._money = _Money()
        self._laws = _Laws(births)
        self._last = 0
        self._closed = False

    def take(self, envelope: Envelope) -> Iterator[_Found]:
        at = envelope.event_id
        if at != self._last + 1:
            yield _Found("INV-EVENTID-MONOTONIC", at, f"it follows on event {self._last}")
        self._last = at
        rune = envelope.payload
        if isinstance(rune, Unknown | Tombstone):
            return
        self._closed = self._closed or isinstance(rune, session.Closed)
        yield from self._turns.take(at, rune, envelope.owner)
        yield from self._tools.take(at, rune)
        yield from self._money.take(at, rune)
        if isinstance(rune, TURN_ENDS):
            yield from self._tools.turn_ended(at, envelope.owner)
            yield from self._money.turn_ended(at, envelope.owner)
        yield from self._laws.take(envelope)

    def end(self, *, at_rest: bool) -> Iterator[_Found]:
        yield from self._laws.end(self._last)
        if at_rest or self._closed:
            parts = (self._turns, self._tools, self._money)
            yield from chain.from_iterable(part.rest(self._last) for part in parts)


class _Turns:
    """One turn at a time for each agent, in order, and each comes to its end."""

    def __init__(self) -> None:
        self._running: dict[str, str] = {}
        """The agent of each turn that runs."""
        self._number = 0

    def take(self, at: int, rune: Rune, owner: str) -> Iterator[_Found]:
        match rune:
            case turn.Started(turn_id=name, agent_id=agent):
                for other, theirs in self._running.items():
                    if theirs == agent:
                        message = f"{agent} begins {name} while it runs {other}"
                        yield _Found("INV-TURN-SEQUENTIAL", at, message)
                number = name.rpartition("_")[2]
                if not number.isdecimal() or int(number) <= self._number:
                    message = f"{name} begins after turn {self._number}"
                    yield _Found("INV-TURN-ORDER", at, message)
                self._number = int(number) if number.isdecimal() else self._number
                self._running[name] = agent
            case turn.Completed() | turn.Interrupted() | turn.Error():
                if self._running.pop(owner, None) is None:
                    message = f"{owner} ends with {kind_of(rune)} and was not running"
                    yield _Found("INV-TURN-TERMINAL", at, message)
            case _:
                pass

    def rest(self, at: int) -> Iterator[_Found]:
        for name in self._running:
            yield _Found("INV-TURN-TERMINAL", at, f"{name} began and never ended")


class _Call:
    """What is known of one tool call."""

    __slots__ = ("done", "forbidden", "turn", "waits")

    def __init__(self, rune: tool.Called) -> None:
        self.turn = rune.turn_id
        self.waits = rune.rule.verdict == "ask"
        """For a human."""
        self.forbidden = rune.rule.verdict not in {"allow", "ask"}
        self.done = False


class _Tools:
    """Every call comes to one result, and none begins that may not."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}
        self._open: dict[str, dict[str, _Call]] = {}
        """The calls without a result, by their turn."""

    def take(self, at: int, rune: Rune) -> Iterator[_Found]:
        match rune:
            case tool.Called(call_id=name):
                if name in self._calls:
                    yield _Found("INV-TOOL-TERMINAL", at, f"{name} is called a second time")
                call = self._calls[name] = _Call(rune)
                self._open.setdefault(call.turn, {})[name] = call
            case tool.Result(call_id=name):
                yield from self._result(at, name)
            case tool.Started(call_id=name) | tool.Retried(call_id=name):
                yield from self._begins(at, name, kind_of(rune))
            case tool.ApprovalRequested(call_id=name) if name in self._calls:
                self._calls[name].waits = True
            case tool.Approved(call_id=name) if name in self._calls:
                self._calls[name].waits = False
            case tool.Denied(call_id=name) if name in self._calls:
                self._calls[name].forbidden = True
            case _:
                pass

    def _result(self, at: int, name: str) -> Iterator[_Found]:
        call = self._calls.get(name)
        if call is None:
            yield _Found("INV-TOOL-CALL-BEFORE-RESULT", at, f"{name} has a result and no call")
            return
        if call.done:
            yield _Found("INV-TOOL-TERMINAL", at, f"{name} has a second result")
        call.done = True
        self._open.get(call.turn, {}).pop(name, None)

    def _begins(self, at: int, name: str, kind: str) -> Iterator[_Found]:
        call = self._calls.get(name)
        if call is None:
            yield _Found("INV-TOOL-CALL-BEFORE-RESULT", at, f"{name} has {kind} and no call")
        elif call.forbidden or call.waits:
            why = "it may not run" if call.forbidden else "nobody approved it"
            yield _Found("INV-TOOL-APPROVAL-BEFORE-EXEC", at, f"{name} has {kind} and {why}")

    def turn_ended(self, at: int, name: str) -> Iterator[_Found]:
        for call in self._open.pop(name, ()):
            yield _Found("INV-TOOL-TERMINAL", at, f"{name} ended and {call} has no result")

    def rest(self, at: int) -> Iterator[_Found]:
        for calls in self._open.values():
            for call in calls:
                yield _Found("INV-TOOL-TERMINAL", at, f"{call} has no result")


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


class _Money:
    """Each reservation settles once, and none goes past a limit."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._open: dict[str, _Reserved] = {}
        self._keys: dict[str, str] = {}
        """The turn of each model call and tool call."""
        self._settled: set[str] = set()

    def take(self, at: int, rune: Rune) -> Iterator[_Found]:
        match rune:
            case (
                model.Called(model_call_id=name, turn_id=of) | tool.Called(call_id=name, turn_id=of)
            ):
                self._keys[name] = of
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

    def _reserve(self, at: int, rune: budget.Reserved) -> Iterator[_Found]:
        if rune.key in self._open or rune.key in self._settled:
            yield _Found("INV-AGENT-BUDGET", at, f"{rune.key} has a second reservation")
        of = self._keys.get(rune.key, "")
        self._open[rune.key] = _Reserved(rune.scope, rune.amounts, of)
        yield from self._spend(at, rune.scope, rune.key, rune.amounts, budget.Amounts())

    def _settle(self, at: int, rune: budget.Settled) -> Iterator[_Found]:
        open_ = self._open.pop(rune.key, None)
        if open_ is None:
            again = "again" if rune.key in self._settled else "and was never reserved"
            yield _Found("INV-AGENT-BUDGET", at, f"{rune.key} is settled {again}")
            return
        self._settled.add(rune.key)
        yield from self._spend(at, open_.scope, rune.key, rune.used, open_.amounts)

    def _spend(
        self, at: int, scope: str, key: str, more: budget.Amounts, less: budget.Amounts
    ) -> Iterator[_Found]:
        """Count `more` in place of `less`, up to the topmost account."""
        name: str | None = scope
        while name is not None:
            account = self._accounts.get(name)
            if account is None:
                yield _Found("INV-AGENT-BUDGET", at, f"{key} spends from {name}: no such budget")
                return
            for what in budget.WHATS:
                new = getattr(more, what) - getattr(less, what)
                account.spent[what] += new
                limit, spent = account.limits[what], account.spent[what]
                if new > 0 and limit is not None and spent > limit:
                    message = f"{name} is at {spent} of {limit} {what} with {key}"
                    yield _Found("INV-AGENT-BUDGET", at, message)
            name = account.parent

    def turn_ended(self, at: int, name: str) -> Iterator[_Found]:
        for key in [key for key, open_ in self._open.items() if open_.turn == name]:
            yield _Found("INV-AGENT-BUDGET", at, f"{name} ended and {key} was not settled")

    def rest(self, at: int) -> Iterator[_Found]:
        for key in self._open:
            yield _Found("INV-AGENT-BUDGET", at, f"{key} was reserved and never settled")


class _Fold:
    """One entity, folded twice from runes that were read twice."""

    __slots__ = ("broken", "kind", "one", "two")

    def __init__(self, kind: Entity) -> None:
        self.kind = kind
        self.one: Any = kind.lifecycle.initial
        self.two: Any = kind.lifecycle.initial
        self.broken = False

    def take(self, envelope: Envelope) -> None:
        apply = self.kind.lifecycle.apply
        self.one = apply(self.one, envelope.payload)
        self.two = apply(self.two, envelope.payload)


class _Laws:
    """Every entity's stream can be folded, and always to the same state."""

    def __init__(self, births: Mapping[type[Rune], Entity]) -> None:
        self._births = births
        self._folds: dict[str, _Fold] = {}

    def take(self, envelope: Envelope) -> Iterator[_Found]:
        at, owner = envelope.event_id, envelope.owner
        if owner not in self._folds:
            kind = self._births.get(type(envelope.payload))
            if kind is None:
                message = f"{owner} has {envelope.kind} and was never born"
                yield _Found("INV-REPLAY-DETERMINISTIC", at, message)
                return
            self._folds[owner] = _Fold(kind)
        for name in dict.fromkeys((owner, *envelope.observers)):
            fold = self._folds.get(name)
            if fold is None or fold.broken:
                continue
            try:
                fold.take(envelope)
            except Exception as error:  # noqa: BLE001 -- whatever a law makes of a rune
                fold.broken = True
                message = f"{name} cannot fold {envelope.kind}: {error}"
                yield _Found("INV-REPLAY-DETERMINISTIC", at, message)

    def end(self, at: int) -> Iterator[_Found]:
        for name, fold in self._folds.items():
            if not fold.broken and state_hash(fold.one) != state_hash(fold.two):
                message = f"{name} folds to another state each time"
                yield _Found("INV-REPLAY-DETERMINISTIC", at, message)
