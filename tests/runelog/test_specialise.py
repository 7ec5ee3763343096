"""Rules about functions that are there once more, for Python to fit to what each is used with."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runelog.specialise import apart, set_apart, set_class_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Root:
    """Where methods come from."""

    def __init_subclass__(cls) -> None:
        """Set every class below apart."""
        set_class_apart(cls, Root)

    def name(self) -> str:
        """Say what it is."""
        return "root"

    def told(self, *, twice: bool = False) -> str:
        """Say it, perhaps twice."""
        return self.name() * (2 if twice else 1)

    @contextmanager
    def open(self) -> Iterator[str]:
        """Give what it is for a while."""
        yield self.name()


class Middle(Root):
    """Says something else."""

    def name(self) -> str:
        """Say what it is, and what it is more than."""
        return f"middle of {super().name()}"


class Leaf(Middle):
    """Has all of it from others."""


def code(method: Callable[..., Any]) -> int:
    """Tell what a function runs from what others do: two that say the same are equal."""
    return id(method.__code__)


def test_each_class_runs_code_of_its_own() -> None:
    """So each is fitted to its own instances; one that a class says itself stays as it is."""
    assert len({code(each.told) for each in (Root, Middle, Leaf)}) == 3
    assert len({code(each.name) for each in (Root, Middle, Leaf)}) == 3


def test_what_they_do_is_what_inheritance_would() -> None:
    """The nearest one counts, with its defaults, what it calls above it, and its wrappings."""
    assert [each().told() for each in (Root, Middle, Leaf)] == [
        "root",
        "middle of root",
        "middle of root",
    ]
    assert Leaf().told(twice=True) == "middle of rootmiddle of root"
    with Leaf().open() as name:
        assert name == "middle of root"


def test_it_looks_the_same_from_outside() -> None:
    """Whoever reads a traceback, the documentation or a signature sees no difference."""
    for twin, first in ((Leaf.told, Root.told), (Leaf.name, Middle.name), (apart(code), code)):
        assert twin.__qualname__ == first.__qualname__
        assert twin.__doc__ == first.__doc__
        assert inspect.signature(twin) == inspect.signature(first)
        assert twin.__code__.co_firstlineno == first.__code__.co_firstlineno


def test_an_instance_can_have_a_method_apart() -> None:
    """It is bound to that instance."""
    one, other = Leaf(), Leaf()
    set_apart(one, ("told",))

    assert one.told() == other.told()
    assert code(one.told) != code(other.told)
