"""What a supervisor knows of one child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisors.child_spec import ChildType
from supervisors.messages import ChildView, Counts, State
from supervisors.strategy import Restart

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.ports import Timer
    from actors.process.process import Exit, Ref
    from supervisors.child_spec import ChildSpec


class Child:
    """One child; its place among the others is kept while it does not run."""

    __slots__ = (
        "args",
        "asks",
        "dynamic",
        "id",
        "in_a_row",
        "last",
        "pause",
        "ref",
        "restarts",
        "since",
        "spec",
        "state",
    )

    def __init__(
        self, id_: str, spec: ChildSpec, args: tuple[Any, ...] = (), *, dynamic: bool = False
    ) -> None:
        """Begin before the first start."""
        self.id = id_
        self.spec = spec
        self.args = args
        self.dynamic = dynamic
        self.state = State.STOPPED
        self.ref: Ref | None = None
        """The one that runs; the last one while it is being restarted."""
        self.asks = False
        self.last: Exit | None = None
        """How it ended, or failed to start, the last time."""
        self.restarts = 0
        self.in_a_row = 0
        """Restarts without a calm time between them."""
        self.since = 0
        """When it was started."""
        self.pause: Timer | None = None

    @property
    def is_kept(self) -> bool:
        """Whether it is remembered when it does not run."""
        return not self.dynamic and self.spec.restart != Restart.TEMPORARY

    @property
    def counts(self) -> bool:
        """Whether it runs, or is about to."""
        return self.state is not State.STOPPED

    def end_pause(self) -> None:
        """Wait no longer for the next restart."""
        if self.pause is not None:
            self.pause.cancel()
            self.pause = None

    def view(self) -> ChildView:
        """Show it to others."""
        ref = None if self.state in (State.STOPPED, State.RESTARTING) else self.ref
        return ChildView(self.id, self.state, ref, self.spec.type, self.restarts, self.asks)


def count(children: Iterable[Child], *, dynamic: bool) -> Counts:
    """Count children as OTP does: dynamic ones have one spec."""
    all_ = list(children)
    supervisors = sum(child.spec.type == ChildType.SUPERVISOR for child in all_)
    active = sum(
        child.state is State.RUNNING and child.ref is not None and child.ref.is_alive()
        for child in all_
    )
    return Counts(1 if dynamic else len(all_), active, supervisors, len(all_) - supervisors)
