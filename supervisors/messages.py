"""What a supervisor can be asked, and what it answers.

Each is sent with `Ref.ask` or `Ref.ask_later`. What cannot be done is raised there: `NotDone`,
`BadSpec`, or `Dead` if the supervisor has ended.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from actors.process.process import Ref
    from supervisors.child_spec import ChildSpec, ChildType


class StartChild(NamedTuple):
    """Start one more child, behind all others. Answered with its ref, None if nothing runs."""

    spec: ChildSpec


class StartDynamic(NamedTuple):
    """Start a child from the template, under a key of its own. Answered like `StartChild`."""

    key: str
    args: tuple[Any, ...] = ()
    """Handed to the template's `start`, behind the key; at each restart too."""


class TerminateChild(NamedTuple):
    """Stop a child, or end its restarts. Answered with None once it has ended.

    Its spec stays, unless it is temporary or dynamic. A dynamic child is named by its key, or by
    its ref.
    """

    child: str | Ref


class RestartChild(NamedTuple):
    """Start a child again that does not run. Answered like `StartChild`."""

    child: str | Ref


class DeleteChild(NamedTuple):
    """Forget a child that does not run. Answered with None."""

    child: str | Ref


class WhichChildren(NamedTuple):
    """List the children, last started first. Answered with a list of `ChildView`."""


class CountChildren(NamedTuple):
    """Count the children. Answered with `Counts`."""


class Look(NamedTuple):
    """List the children as they are now, first started first, even in the middle of something.

    Answered with a list of `ChildView`.
    """


class State(StrEnum):
    """How a child is."""

    RUNNING = "running"
    STOPPING = "stopping"
    """It was asked to end."""
    STOPPED = "stopped"
    RESTARTING = "restarting"
    """It ended, could not be started again yet, and that will be tried again."""


class ChildView(NamedTuple):
    """One child, as seen from outside."""

    id: str
    """Its id; of a dynamic child, the key."""
    state: State
    ref: Ref | None
    type: ChildType
    restarts: int
    """How often it was restarted because it ended."""
    asks: bool
    """Whether it is a supervisor that can be asked in its turn."""


class Counts(NamedTuple):
    """How many children there are."""

    specs: int
    active: int
    supervisors: int
    workers: int
