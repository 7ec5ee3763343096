"""The reference: every public name has an example, and so has every method; each of them works."""

from __future__ import annotations

import doctest
import inspect
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import runefold
import runelog
from actors.tool.adapters.function import FunctionTool
from runefold import errors, providers
from runelog import Runelog
from supervisors.tree_view import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "REFERENCE.md"
OURS = ("runelog", "actors", "supervisors", "runefold")
HANDED_OUT = {"tool": FunctionTool, "Runtime": Node}
"""What is not imported by name and still held in hands, by the section that tells of it."""


@cache
def sections() -> dict[str, str]:
    """Return what the page says of each name."""
    parts = re.split(r"^### `(\w+)`$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def has_example(text: str | None, pattern: str) -> bool:
    """Tell whether there is an example in a text that uses something."""
    examples = doctest.DocTestParser().get_examples(text or "")
    return any(re.search(pattern, example.source) for example in examples)


def public() -> dict[str, object]:
    """Return every public name of the front door, its errors and the log, but for the version."""
    found = {
        name: getattr(module, name)
        for module in (runefold, errors, runelog)
        for name in module.__all__
    }
    del found["__version__"]
    return found


def names() -> list[str]:
    """Return the names that the page has to explain."""
    return [*public()]


def classes() -> Iterator[tuple[str, type]]:
    """Yield every class of which a user holds objects, and the section that tells of it."""
    for name, found in public().items():
        if isinstance(found, type):
            yield name, found
    yield from HANDED_OUT.items()


def members(cls: type) -> Iterator[tuple[str, str | None]]:
    """Yield the public methods and properties of a class, and what their docstrings say."""
    for home in cls.__mro__:
        if home.__module__.partition(".")[0] not in OURS:
            continue
        for name, value in vars(home).items():
            is_member = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if is_member and not name.startswith("_"):
                yield name, inspect.getdoc(value)


MEMBERS = [(section, cls, *member) for section, cls in classes() for member in members(cls)]


def test_the_page_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read from top to bottom, every example gives what it says."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")

    assert failed == 0
    assert tried > 250


@pytest.mark.parametrize("name", names())
def test_every_public_name_has_an_example(name: str) -> None:
    """It has its own part of the page, and an example there uses it."""
    assert has_example(sections().get(name), rf"\b{name}\b")


@pytest.mark.parametrize(
    ("section", "cls", "name", "doc"),
    MEMBERS,
    ids=[f"{cls.__name__}.{name}" for _, cls, name, _ in MEMBERS],
)
def test_every_method_has_an_example(section: str, cls: type, name: str, doc: str | None) -> None:
    """Next to the code or on the page, and a docstring in any case."""
    used = rf"\.{name}\b"
    # Every log is used alike: what is told of the one on disk holds for the one in memory.
    told = [section, *(["Runelog"] if hasattr(Runelog, name) and "Log" in section else [])]
    # And what is awaited is called as what is not: tests/runefold/test_async_skin.py holds that.
    told += [section.removeprefix("Async")]

    assert doc
    assert (
        has_example(doc, used)
        or has_example(inspect.getdoc(cls), used)
        or any(has_example(sections().get(each), used) for each in told)
    )


def test_methods_are_looked_for_where_they_are() -> None:
    """Those of a class itself, of what it derives from, and of what is handed out."""
    found = {f"{cls.__name__}.{name}" for _, cls, name, _ in MEMBERS}

    assert {"Session.send", "Session.state", "Turn.result", "Runtime.open"} <= found
    assert {"HandOver.fit", "FunctionTool.run", "Node.lines", "Envelope.payload"} <= found


@pytest.mark.parametrize("name", providers.__all__)
def test_whoever_writes_a_provider_is_shown_what_it_is_made_of(name: str) -> None:
    """Each name of `runefold.providers` is used in the chapter about models."""
    chapter = PAGE.read_text(encoding="utf-8").partition("\n## Models\n")[2].partition("\n## ")[0]

    assert has_example(chapter, rf"\b{name}\b")


def test_the_page_is_about_public_names_only() -> None:
    """Whatever it explains can be imported from the front door."""
    assert sections().keys() == set(names())
