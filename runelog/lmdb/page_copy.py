"""Copying an LMDB file while another process writes to it.

A read transaction keeps LMDB from reusing any page that was in use at its commit or at the one
before. So the pages up to the last one of that commit, behind the two meta pages as they were when
it was the newest, are a file as a crash right after that commit would have left it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO, Final

from runelog.errors import Busy, Corrupt
from runelog.lmdb.pages import PAGE_SIZES, Meta

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.lmdb.environment import Batch, Environment

_LOOKS: Final = 1_000
_BLOCK: Final = 1 << 20


class PinnedPages:
    """The pages of a file as of one commit."""

    def __init__(self, name: str, descriptor: int, view: Batch, start: bytes, size: int) -> None:
        """Read from `descriptor`, but the meta pages from `start`."""
        self.view = view
        """The transaction that pins them."""
        self.commit = view.commit
        """The number of the commit."""
        self.size = size
        """How long the file is without what is only reserved."""
        self._name = name
        self._descriptor = descriptor
        self._start = start

    def copy_to(self, file: BinaryIO) -> tuple[str, int]:
        """Write all pages to a file; return their SHA-256 and length."""
        found = hashlib.sha256(self._start)
        file.write(self._start)
        at = len(self._start)
        while at < self.size:
            block = os.pread(self._descriptor, min(_BLOCK, self.size - at), at)
            if not block:
                msg = f"{self._name} is cut short: it ends at {at:,} of {self.size:,} bytes"
                raise Corrupt(msg)
            file.write(block)
            found.update(block)
            at += len(block)
        return found.hexdigest(), at


@contextlib.contextmanager
def pinned(env: Environment) -> Iterator[PinnedPages]:
    """Give the pages of an environment as of its newest commit, as long as the block lasts."""
    descriptor = os.open(env.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(_LOOKS):
            with env.view() as view:
                found = _newest(descriptor, env.path.name, view)
                if found is not None:
                    yield found
                    return
    finally:
        os.close(descriptor)
    msg = f"{env.path.name} is being written to without a pause: try again later"
    raise Busy(msg)


def _newest(descriptor: int, name: str, view: Batch) -> PinnedPages | None:
    """Return the pages as of the commit that is pinned; None if another one followed already."""
    commit = view.commit
    start = os.pread(descriptor, 2 * PAGE_SIZES[-1], 0)
    first = Meta.parse(start, 0)
    if first.fault:
        return None
    page = first.page_size
    metas = (first, Meta.parse(start[page : 2 * page], 1))
    if metas[1].fault or {meta.commit for meta in metas} != {commit, commit - 1}:
        return None
    last = metas[commit % 2].last_page
    return PinnedPages(name, descriptor, view, start[: 2 * page], (last + 1) * page)
