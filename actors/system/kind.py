"""The system's root, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.kind import Kind
from actors.shell.root import Root
from actors.system.lifecycle import LIFECYCLE, route
from actors.system.runes import Opened
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from actors.system.lifecycle import State


def is_open(_state: State) -> bool:
    """Say that nothing is left to do: children with work left are open by themselves."""
    return False


KIND: Final = Kind(
    lifecycle=LIFECYCLE,
    prefix="system",
    single=True,
    conversation=SYSTEM,
    runes=(Opened,),
    route=route,
    is_open=is_open,
    actor=Root,
    printed=False,
)
