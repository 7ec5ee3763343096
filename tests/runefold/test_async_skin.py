"""The methods for event loops are those for threads: the same names, parameters and docstrings."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from runefold.async_runtime import AsyncMonitor, AsyncRuntime
from runefold.async_sessions import AsyncSession, AsyncTurn
from runefold.observe.monitoring import Monitor
from runefold.runtime import Runtime
from runefold.sessions import Session
from runefold.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS: Final = [
    (Runtime, AsyncRuntime),
    (Session, AsyncSession),
    (Turn, AsyncTurn),
    (Monitor, AsyncMonitor),
]
NOT_AWAITED: Final = {"open", "connect", "entity", "monitor", "sessions", "runes", "follow"}
"""They give what is opened, asked or iterated over with `await`, `async with` or `async for`."""
ONLY_HERE: Final = {AsyncTurn: {"interrupted_on_cancel"}, Monitor: {"take"}}
"""What one of the two has no use for."""
SAME: Final = {
    "Session": "AsyncSession",
    "Turn": "AsyncTurn",
    "list[Turn]": "list[AsyncTurn]",
    "Monitor": "AsyncMonitor",
    "Iterator[Session]": "AsyncIterator[AsyncSession]",
    "Iterator[Envelope]": "AsyncIterator[Envelope]",
    "TurnRunes": "AsyncIterable[Envelope]",
    "Following": "AsyncIterator[Envelope | Gap]",
}
"""What is returned here where that is returned there; all else is the same."""
OPENED: Final = {"open": ["Opening[Self]"], "connect": ["Opening[Self]"]}


def methods(cls: type) -> dict[str, Any]:
    """Return what a class offers: methods and properties, its own and those it derives."""
    found = {name: inspect.getattr_static(cls, name) for name in dir(cls) if name[0] != "_"}
    kinds = property, classmethod
    return {
        name: each
        for name, each in found.items()
        if (inspect.isfunction(each) or isinstance(each, kinds))
        and name not in ONLY_HERE.get(cls, ())
    }


def function(found: Any) -> Callable[..., Any]:  # noqa: ANN401 -- a method, or a property
    """Return the function behind a method or a property."""
    if isinstance(found, property):
        assert found.fget is not None
        return found.fget
    does: Callable[..., Any] = inspect.unwrap(getattr(found, "__func__", found))
    return does


EACH: Final = [
    pytest.param(sync, other, name, id=f"{other.__name__}.{name}")
    for sync, other in PAIRS
    for name in methods(sync)
]


@pytest.mark.parametrize(("sync", "other"), PAIRS)
def test_neither_has_a_method_that_the_other_has_not(sync: type, other: type) -> None:
    """Who knows the one knows the other."""
    assert methods(sync).keys() == methods(other).keys()


@pytest.mark.parametrize(("sync", "other", "name"), EACH)
def test_it_takes_the_same_and_says_the_same(sync: type, other: type, name: str) -> None:
    """Parameters with their defaults and types, the docstring, and what is returned."""
    ours, theirs = methods(other)[name], methods(sync)[name]
    here, there = inspect.signature(function(ours)), inspect.signature(function(theirs))
    said = re.sub(r"`for` or (?=`async for`)", "", inspect.getdoc(theirs) or "")
    wanted = there.return_annotation

    assert type(ours) is type(theirs)
    assert [*here.parameters.values()] == [*there.parameters.values()]
    assert inspect.getdoc(ours) == said
    assert here.return_annotation in {
        wanted,
        SAME.get(wanted),
        f"Opening[{wanted}]",
        "Opening[Self]",
    }


@pytest.mark.parametrize(("sync", "other", "name"), EACH)
def test_what_may_wait_is_awaited(sync: type, other: type, name: str) -> None:
    """Every method and property, but for those that only begin something."""
    del sync

    assert inspect.iscoroutinefunction(function(methods(other)[name])) == (name not in NOT_AWAITED)
