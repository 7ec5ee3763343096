"""The page of runes is what the classes, the tables and the logs say."""

from __future__ import annotations

from pathlib import Path

from actors.catalogue import KINDS
from runelog.rune import kind_of
from tests.laws.runes_page import observers, page

PAGE = Path(__file__).parents[2] / "docs" / "RUNES.md"


def test_the_page_of_runes_is_current() -> None:
    """It is made from them: `python -m tests.laws.runes_page > docs/RUNES.md`."""
    assert PAGE.read_text(encoding="utf-8") == page(KINDS)


def test_every_rune_is_on_the_page() -> None:
    """With a word on what it is; who observes it is seen in logs, so that each is in one."""
    told = PAGE.read_text(encoding="utf-8")
    seen = observers()

    for kind in KINDS:
        for rune in kind.runes:
            assert f"\n### `{kind_of(rune)}`\n\n{(rune.__doc__ or '').splitlines()[0]}" in told
            assert rune in seen, f"no log that is played has a {kind_of(rune)}"
