"""Who opens a runtime: the runtime itself, unless somebody around it has said otherwise.

A test kit that wants to see every append and every effect of an app has to be there when the app
opens its runtime, and the app's code must not know of it. So `Runtime.open` asks here first.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runefold.runtime import Runtime


class Opener(Protocol):
    """Opens runtimes in another way."""

    def __call__(self, kind: type[Runtime], directory: Path, options: dict[str, Any]) -> Runtime:
        """Open a runtime of this kind, or of one derived from it, with the app's options."""
        ...


_opener: ContextVar[Opener | None] = ContextVar("runefold_opener", default=None)


def current() -> Opener | None:
    """Return whoever opens runtimes here and now, None if nobody has to be asked."""
    return _opener.get()


@contextlib.contextmanager
def through(opener: Opener) -> Iterator[None]:
    """Have every `Runtime.open` in the block go through `opener`."""
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)
