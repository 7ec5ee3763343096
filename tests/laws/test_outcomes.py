"""Rules about outcomes: what a kind says must be equal after a kill is, wherever it was killed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from runelog.lifecycle import fold
from tests.laws.logs import PLAYED, played, staged, streams_of
from tests.laws.states import each_kind
from tests.scenarios.plays import ALL

if TYPE_CHECKING:
    from actors.kind import Kind
    from runelog.log import Log

SWEPT: Final = ("parallel", "charges by key", "team", "approval", "closed")
"""Scenarios of which nothing is left to chance by a kill."""
MOST: Final = 40
"""Appends of a scenario."""

_shown = msgspec.json.Encoder(order="deterministic").encode


def outcomes(log: Log) -> dict[str, Counter[str]]:
    """Return what the entities of each kind came to; those that came to nothing do not count."""
    found: dict[str, Counter[str]] = {kind.name: Counter() for kind in PLAYED}
    for stream in streams_of(log):
        outcome = stream.kind.outcome(fold(stream.kind.lifecycle, stream.runes))
        if outcome is not None:
            found[stream.kind.name][_shown(outcome).decode()] += 1
    return found


@pytest.mark.parametrize("name", SWEPT)
def test_a_kill_changes_no_outcome(name: str) -> None:
    """Cut off after any append and played again, a conversation comes to the same."""
    wanted = outcomes(staged(ALL[name]))
    for number in range(1, MOST):
        log = staged(ALL[name], cut_at=number)
        assert outcomes(log) == wanted, f"cut off after append {number}"
        if log.cut_at is not None:
            # There were not so many: it was never cut off.
            break
    else:
        pytest.fail(f"{name} has more than {MOST} appends")


@each_kind
def test_an_outcome_has_no_ids_in_it(kind: Kind) -> None:
    """Ids are new in each run: with one in it no two outcomes would ever be equal."""
    ids = {each.entity for each in played().streams if "_0" in each.entity}
    for stream in played().of(kind):
        outcome = _words(kind.outcome(fold(kind.lifecycle, stream.runes)))
        assert not {each for each in ids for word in outcome if each in word}, str(stream)


def _words(outcome: Any) -> set[str]:  # noqa: ANN401 -- of any kind
    """Return the texts of an outcome."""
    match msgspec.to_builtins(outcome):
        case dict(inner):
            return {word for each in inner.values() for word in _words(each)}
        case list(inner) | tuple(inner):
            return {word for each in inner for word in _words(each)}
        case str(text):
            return {text}
        case _:
            return set()


def test_kinds_tell_different_ends_apart() -> None:
    """An outcome that were the same for every state would compare nothing."""
    for kind in PLAYED:
        laws = kind.lifecycle
        found = {_shown(kind.outcome(fold(laws, each.runes))) for each in played().of(kind)}
        assert len(found) > 1, kind.name
