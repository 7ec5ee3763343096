"""What the actors of one conversation keep in memory for each other; a crash loses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")


class SharedCache(Generic[T]):
    """The key of one cache, and the type of its values, which are kept by entity id."""

    __slots__ = ()


class SharedCaches(dict[SharedCache[Any], dict[str, Any]]):
    """The caches of one conversation: `caches[TOOLSETS]["agt_1"]`."""

    if TYPE_CHECKING:

        def __getitem__(self, cache: SharedCache[T], /) -> dict[str, T]:
            """Return one cache."""

    def __missing__(self, cache: SharedCache[T]) -> dict[str, T]:
        """Begin a cache, empty."""
        found: dict[str, T] = {}
        self[cache] = found
        return found

    def drop(self, entity: str) -> None:
        """Remove an entity from every cache."""
        for cache in self.values():
            cache.pop(entity, None)
