"""Changing how all actors of a kind do something, for tests that break it on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def everywhere(cls: type, name: str) -> list[type]:
    """Return where a method of a class has to be changed: also where it was set apart.

    A class that says by itself how it does it is left out, as it would be with inheritance.
    """
    meant = vars(cls)[name].__qualname__
    return [each for each in (cls, *_below(cls)) if _says(each, name) == meant]


def _says(cls: type, name: str) -> str:
    return str(getattr(vars(cls).get(name), "__qualname__", ""))


def _below(cls: type) -> Iterator[type]:
    below: list[type] = cls.__subclasses__()
    for each in below:
        yield each
        yield from _below(each)
