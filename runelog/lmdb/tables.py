"""The `Tables` protocol: reading the tables of an environment.

`environment` implements it with LMDB, `salvage` by reading a damaged file page by page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Tables(Protocol):
    """A consistent state of the tables, to read from."""

    def get(self, table: str, key: bytes) -> bytes | None:
        """Return the value under `key`, None if there is none."""
        ...

    def floor(self, table: str, key: bytes) -> tuple[bytes, bytes] | None:
        """Return the entry with the greatest key that is not above `key`."""
        ...

    def scan(
        self, table: str, start: bytes = b"", stop: bytes | None = None, limit: int | None = None
    ) -> list[tuple[bytes, bytes]]:
        """Return entries with `start` <= key < `stop`, in order.

        At most `limit`, and about a MiB of them.
        """
        ...

    def cover(
        self, table: str, ranges: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield, for each (start, stop), the entries that cover it.

        That is the one with the greatest key not above `start`, and all behind it below `stop`.
        """
        ...
