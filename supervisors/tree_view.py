"""A view of the supervision tree: which actors run under which supervisor, as of now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from actors.errors import Dead, Overloaded
from actors.units import SECOND
from supervisors.child_spec import ChildType
from supervisors.messages import Look

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ports import Clock, Scheduler
    from actors.process.process import Answer, Ref
    from supervisors.messages import ChildView

PATIENCE: Final = 1.0
"""How many seconds a view may take; a supervisor that has not answered by then is `silent`."""
SILENT: Final = "silent"
"""A supervisor that did not list its children in time."""
GONE: Final = "gone"
"""A supervisor that ended while the tree was read."""


class Node(NamedTuple):
    """One actor in the tree."""

    id: str
    type: str
    state: str
    """As its supervisor says, or `silent`, or `gone`."""
    restarts: int = 0
    children: tuple[Node, ...] = ()

    def lines(self, indent: str = "") -> list[str]:
        """Show it and what is under it, one actor a line."""
        times = f" ({self.restarts} restarts)" if self.restarts else ""
        mine = f"{indent}{self.id}: {self.type}, {self.state}{times}"
        return [mine, *(line for child in self.children for line in child.lines(indent + "  "))]


def view_tree(top: Ref, scheduler: Scheduler, clock: Clock, patience: float = PATIENCE) -> Node:
    """Return a supervisor and all that is under it; those of a level are asked at once."""
    until = clock.now() + round(patience * SECOND)
    said: dict[Ref, list[ChildView] | str] = {}
    level = [top]
    while level:
        asked = [(ref, _ask(ref)) for ref in level]
        for ref, answer in asked:
            left = max(0, until - clock.now()) / SECOND
            said[ref] = _heard(answer, scheduler, left)
        level = [
            view.ref
            for ref in level
            for view in _views(said[ref])
            if view.ref is not None and view.asks
        ]
    return _node(top.name, ChildType.SUPERVISOR, "running", 0, top, said)


def _ask(ref: Ref) -> Answer | None:
    try:
        return ref.ask_later(Look())
    except Overloaded:
        return None


def _heard(answer: Answer | None, scheduler: Scheduler, seconds: float) -> list[ChildView] | str:
    if answer is None or not scheduler.wait(answer, seconds):
        return SILENT
    try:
        views: list[ChildView] = answer.result()
    except Dead:
        return GONE
    return views


def _views(said: list[ChildView] | str) -> Sequence[ChildView]:
    return () if isinstance(said, str) else said


def _node(
    id_: str,
    type_: str,
    state: str,
    restarts: int,
    ref: Ref | None,
    said: dict[Ref, list[ChildView] | str],
) -> Node:
    mine = said.get(ref, []) if ref is not None else []
    children = tuple(
        _node(view.id, view.type, view.state, view.restarts, view.ref, said)
        for view in _views(mine)
    )
    return Node(
        id_, str(type_), str(state if not isinstance(mine, str) else mine), restarts, children
    )
