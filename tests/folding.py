"""Folding what a law decides, with what follows from it internally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.shell.decision import MAX_INTERNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.entity import Placed
    from actors.kind import Kind
    from runelog.rune import Rune


def _nothing(entity: str) -> None:
    """Give nothing to read: the test says what the law reads, if that matters to it."""
    del entity


def cascade(
    kind: Kind,
    me: str,
    state: Any,  # noqa: ANN401 -- of whichever law
    runes: Sequence[Rune],
    read: Callable[[str], object] = _nothing,
) -> tuple[Any, list[Rune]]:
    """Fold `runes` and everything internal that is then due; return the state and all runes."""
    placed: list[Placed] = []
    for _ in range(MAX_INTERNAL):
        state = kind.fold_and_route(me, state, runes, placed)
        at_once = [each for each in kind.lifecycle.due(state) if type(each) in kind.internal]
        if not at_once:
            return state, [rune for _, rune in placed]
        runes = kind.lifecycle.decided(state, at_once[0], read)
        assert runes, f"{at_once[0]} is due and decides nothing"
    msg = "what is due internally does not come to an end"
    raise AssertionError(msg)
