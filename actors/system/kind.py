"""The system's root, as the rest of the system knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors import children
from actors.kind import Kind
from actors.shell.root import Root
from actors.system.lifecycle import LIFECYCLE, route
from actors.system.runes import Opened
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.kind import Waits
    from actors.system.lifecycle import State


def questions(state: State) -> Mapping[str, str]:
    """Return which entity asks for each approval that waits."""
    return {each.approval_id: each.call_id for each in state.approvals}


def outcome(state: State) -> dict[str, Any]:
    """Return its children, and how many questions wait: by when depends on the kill."""
    return {"children": state.children, "approvals": len(state.approvals)}


def is_open(state: State) -> bool:
    """Return True while another conversation waits for a child; others are open by themselves."""
    return children.is_awaited(state.children)


def waits_for_children(_state: State, _waits: Waits) -> bool:
    """Return True: it does nothing by itself, and its children are asked on their own."""
    return True


KIND: Final = Kind(
    lifecycle=LIFECYCLE,
    prefix="system",
    single=True,
    conversation=SYSTEM,
    runes=(Opened,),
    route=route,
    is_open=is_open,
    waits_for_human=waits_for_children,
    actor=Root,
    questions=questions,
    outcome=outcome,
)
