"""Folding what a law decides, with what follows from it internally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kind
    from runelog.rune import Rune


def cascade(kind: Kind, me: str, state: Any, runes: Sequence[Rune]) -> tuple[Any, list[Rune]]:  # noqa: ANN401 -- of whichever law
    """Fold `runes` and everything internal that is then due; return the state and all runes."""
    after, placed, _ = kind.fold_and_decide(me, state, runes)
    return after, [rune for _, rune in placed]
