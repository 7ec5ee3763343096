"""States of each kind, by phase: those that entities had in real logs, and the one before birth."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import pytest

from runelog.lifecycle import state_hash
from tests.laws.logs import PLAYED, played

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kind
    from runelog.rune import Rune

each_kind: Final = pytest.mark.parametrize("kind", PLAYED.all, ids=lambda kind: kind.name)
"""Has a test run once for each kind, ours and those of apps."""
PER_PHASE: Final = 40
"""So many different states of a phase are looked at, evenly spread over all that there were."""


@functools.cache
def all_by_phase(name: str) -> dict[Any, tuple[Any, ...]]:
    """Return every state in which an entity of a kind was, by phase."""
    kind = PLAYED[name]
    law = kind.lifecycle
    found: dict[Any, dict[str, Any]] = {law.initial.phase: {"": law.initial}}
    for stream in played().of(kind):
        state = law.initial
        for rune in stream.runes:
            state = law.apply(state, rune)
            found.setdefault(state.phase, {})[state_hash(state)] = state
    return {phase: tuple(states.values()) for phase, states in found.items()}


@functools.cache
def by_phase(name: str) -> dict[Any, tuple[Any, ...]]:
    """Return some states of a kind for each phase in which one of its entities was."""
    return {phase: _spread(states) for phase, states in all_by_phase(name).items()}


def _spread(states: tuple[Any, ...]) -> tuple[Any, ...]:
    step = max(1, len(states) // PER_PHASE)
    return (*states[::step], states[-1])


def states(kind: Kind) -> list[Any]:
    """Return states of a kind in whatever phase."""
    return [state for each in by_phase(kind.name).values() for state in each]


@functools.cache
def whose(name: str) -> dict[str, str]:
    """Return which entity of a kind was in a state, by the hash of that."""
    law = PLAYED[name].lifecycle
    found: dict[str, str] = {}
    for stream in played().of(PLAYED[name]):
        state = law.initial
        for rune in stream.runes:
            state = law.apply(state, rune)
            found.setdefault(state_hash(state), stream.entity)
    return found


def owner(kind: Kind, state: Any, runes: Sequence[Rune]) -> str | None:  # noqa: ANN401 -- of any law
    """Return who decided some runes in a state; None if no log that is left can tell."""
    found = whose(kind.name).get(state_hash(state))
    if found is None:
        own = [kind.route(state, rune).owner for rune in runes if type(rune) in kind.runes]
        return own[0] if own else None
    return found
