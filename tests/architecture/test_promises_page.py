"""The pages of promises and of planted bugs: whatever they name is a test that there is.

On the page of promises it also runs when the page says so.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "PROMISES.md").read_text(encoding="utf-8")
BUGS = (ROOT / "docs" / "planted-bugs.md").read_text(encoding="utf-8")


def named(page: str = PAGE) -> list[tuple[bool, str, str]]:
    """Return every test that a page names: whether it is a long one, its file and its name."""
    found = re.findall(r"(⏳ )?`([\w/]+\.py)::(\w+)`", page)
    return [(bool(long), file, name) for long, file, name in found]


def marks(file: str) -> dict[str, set[str]]:
    """Return the tests of a file, each with the names of its marks."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name: {each.attr for each in node.decorator_list if isinstance(each, ast.Attribute)}
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize(("page", "least"), [(PAGE, 40), (BUGS, 35)])
def test_every_test_that_is_named_is_there(page: str, least: int) -> None:
    """A test that was renamed is renamed on the page."""
    found = named(page)
    missing = [f"{file}::{name}" for _, file, name in found if name not in marks(file)]

    assert len(found) > least
    assert missing == []


def test_the_long_ones_are_said_to_be_long() -> None:
    """What only runs with `make crash` is marked so, and nothing else is."""
    wrong = [name for long, file, name in named() if ("crash" in marks(file)[name]) != long]

    assert wrong == []


def test_every_promise_has_its_row() -> None:
    """All twelve, in order."""
    assert [int(number) for number in re.findall(r"^\| \*\*(\d+)\.", PAGE, re.MULTILINE)] == [
        *range(1, 13)
    ]
