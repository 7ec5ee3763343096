"""Several runtimes, each with a directory of its own: the id of a chat says where it is."""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Self

from runefold import Runtime


def place(name: str, places: int) -> int:
    """Return the number of the directory that a chat is in: always the same one."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % places


class Desks:
    """Connections to all of them."""

    def __init__(self, directories: Sequence[str], wait: float = 30) -> None:
        """Connect to each. Their number and order must stay what they are."""
        with ExitStack() as stack:
            self._runtimes = [
                stack.enter_context(Runtime.connect(each, wait=wait)) for each in directories
            ]
            self._open = stack.pop_all()

    def of(self, name: str) -> Runtime:
        """Return the runtime that has a chat, or is to have it."""
        return self._runtimes[place(name, len(self._runtimes))]

    def __enter__(self) -> Self:
        """Return this object; leaving the block closes the connections."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the connections."""
        self._open.close()
