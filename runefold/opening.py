"""Who opens a runtime: the runtime itself, unless somebody around it has said otherwise.

A test kit that wants to see every append and every effect of an app has to be there when the app
opens its runtime, and the app's code must not know of it. So `Runtime.open` asks here first.
"""

from __future__ import annotations

import contextlib
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypedDict

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from actors.model.provider import Provider
    from actors.ports import Chance, Clock, Scheduler
    from actors.tool.policy import Policy
    from actors.tool.spec import Tool
    from runefold.runtime import Runtime


class Options(TypedDict, total=False):
    """What a runtime can be opened with: what `Runtime` itself takes beside a log."""

    tools: Iterable[Tool]
    providers: Mapping[str, Provider] | None
    policy: Policy | None
    secret: Callable[[str], str] | None
    redact: Iterable[str | re.Pattern[str]]
    clock: Clock | None
    chance: Chance | None
    scheduler: Scheduler | None
    idle_after: float
    snapshot_every: int


def check_names(kind: type[Runtime], options: Mapping[str, object]) -> None:
    """Refuse an option that this kind of runtime does not have, before anything is opened."""
    takes = inspect.signature(kind)
    try:
        takes.bind(None, **options)
    except TypeError as error:
        known = ", ".join([*takes.parameters][1:])
        msg = f"{kind.__name__}.open {error}; it takes {known}"
        raise TypeError(msg) from None


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
