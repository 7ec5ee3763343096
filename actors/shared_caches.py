"""What the actors of one conversation lay out for each other. A crash takes it, not the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")


class SharedCache(Generic[T]):
    """One kind of thing that is laid out, each under the id of whoever it is of."""

    __slots__ = ()


class SharedCaches(dict[SharedCache[Any], dict[str, Any]]):
    """All that is laid out in one conversation, by kind: `caches[TOOLSETS]["agt_1"]`."""

    if TYPE_CHECKING:

        def __getitem__(self, cache: SharedCache[T], /) -> dict[str, T]:
            """Return what is laid out of one kind."""

    def __missing__(self, cache: SharedCache[T]) -> dict[str, T]:
        """Begin a kind with nothing."""
        found: dict[str, T] = {}
        self[cache] = found
        return found

    def drop(self, entity: str) -> None:
        """Take away whatever is laid out under an id."""
        for laid_out in self.values():
            laid_out.pop(entity, None)
