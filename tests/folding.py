"""Folding what a law decides, with what follows from it internally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    after, placed, _ = kind.fold_and_decide(me, state, runes, read=read)
    return after, [rune for _, rune in placed]
