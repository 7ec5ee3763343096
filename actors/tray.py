"""What the actors of one conversation lay out for each other. A crash takes it, not the log."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Tray(Generic[T]):
    """One kind of thing that is laid out, each under the id of whoever it is of."""

    __slots__ = ()


class Trays:
    """All that is laid out in one conversation."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._trays: dict[Tray[Any], dict[str, Any]] = {}

    def __getitem__(self, tray: Tray[T]) -> dict[str, T]:
        """Return what is laid out of one kind."""
        found = self._trays.get(tray)
        if found is None:
            found = self._trays[tray] = {}
        return cast("dict[str, T]", found)
