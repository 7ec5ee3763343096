"""A deliberate bug for each kind, which only a comparison of what entities came to can find.

In a process that found work under way, states are folded otherwise than before the kill. Texts,
calls, effects and invariants are as ever, and only the kind's own `outcome` tells.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from msgspec.structs import replace
from order import ORDER
from order_runes import Paid

from actors import children
from actors.agent.runes import Ready
from actors.approval.runes import Approved
from actors.catalogue import KINDS
from actors.model import runes as models
from actors.request import runes as requests
from actors.session.runes import Created
from actors.tool.runes import Result
from actors.turn import runes as turns
from runefold.runtime import Runtime
from tests.laws.errands import ERRAND

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kind
    from runelog.rune import Rune

_found: list[bool] = [False]
"""Whether the log that was opened last had work under way."""


def _misfold(kind: Kind, rune: type[Rune], wrong: Callable[[Any], Any]) -> None:
    """Fold a kind of rune wrong in a process that found work under way."""
    law, opened = kind.lifecycle, Runtime.__init__
    right = law.evolve

    def init(runtime: Runtime, log: Any, **options: Any) -> None:  # noqa: ANN401 -- as given
        _found[0] = any(True for _ in log.open_work())
        opened(runtime, log, **options)

    def evolve(state: Any, each: Rune) -> Any:  # noqa: ANN401 -- of any law
        after = right(state, each)
        return wrong(after) if _found[0] and isinstance(each, rune) else after

    patch.object(Runtime, "__init__", init).start()
    object.__setattr__(law, "evolve", evolve)


def _uncounted(state: Any) -> Any:  # noqa: ANN401 -- a budget's state
    scopes = [
        replace(each, used=replace(each.used, sub_calls=each.used.sub_calls + 1))
        for each in state.scopes
    ]
    return replace(state, scopes=tuple(scopes))


def _without_limit(state: Any) -> Any:  # noqa: ANN401 -- a session's state
    return replace(state, config=replace(state.config, unclean_opens=99))


def _with_retries(state: Any) -> Any:  # noqa: ANN401 -- an agent's state
    return replace(state, config=replace(state.config, retries=99))


def _unasked(state: Any) -> Any:  # noqa: ANN401 -- a call's state
    return replace(state, call=replace(state.call, arguments={}))


def _in_another_round(state: Any) -> Any:  # noqa: ANN401 -- a model call's state
    return replace(state, call=replace(state.call, round=9))


class OutcomeMutant(NamedTuple):
    """A bug of one kind, the scenario in which it shows, and where it is hit."""

    kind: Kind
    rune: type[Rune]
    wrong: Callable[[Any], Any]
    scenario: str

    def plant(self) -> None:
        """Switch it on."""
        _misfold(self.kind, self.rune, self.wrong)


OUTCOME_MUTANTS: Final = {
    "session reopened with another config": OutcomeMutant(
        KINDS["session"], Created, _without_limit, "charges by key"
    ),
    "agent replayed with more retries": OutcomeMutant(
        KINDS["agent"], Ready, _with_retries, "charges by key"
    ),
    "turn replayed with a round more": OutcomeMutant(
        KINDS["turn"],
        turns.Completed,
        lambda state: replace(state, round=state.round + 1),
        "charges by key",
    ),
    "model call replayed as another round": OutcomeMutant(
        KINDS["model"], models.Completed, _in_another_round, "charges by key"
    ),
    "tool call replayed without arguments": OutcomeMutant(
        KINDS["tool"], Result, _unasked, "charges by key"
    ),
    "approval replayed without its approver": OutcomeMutant(
        KINDS["approval"], Approved, partial(replace, approver=""), "approval"
    ),
    "budget replayed with a call too many": OutcomeMutant(
        KINDS["budget"], Result, _uncounted, "charges by key"
    ),
    "system replayed with a child too many": OutcomeMutant(
        KINDS["system"],
        children.Ended,
        lambda state: replace(
            state, children=(*state.children, children.Child("errand_9", ERRAND.name))
        ),
        "errands",
    ),
    "errand replayed as another one": OutcomeMutant(
        ERRAND, ERRAND.births[0], partial(replace, what="a walk"), "errands"
    ),
    "request replayed as lost": OutcomeMutant(
        KINDS["request"], requests.Answered, partial(replace, status="lost"), "purchases"
    ),
    "order replayed without its item": OutcomeMutant(
        ORDER, Paid, partial(replace, item=""), "orders"
    ),
}
"""By what is wrong."""
