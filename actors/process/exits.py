"""How actors end."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from actors.process.process import Ref


class Reason(StrEnum):
    """How an actor ended."""

    NORMAL = "normal"
    """It was done."""
    SHUTDOWN = "shutdown"
    """It was asked to stop."""
    KILLED = "killed"
    """It was ended without being asked."""
    CRASH = "crash"
    """It failed."""


class Exit(NamedTuple):
    """How an actor ended, and of what."""

    reason: Reason
    error: BaseException | None = None

    def __str__(self) -> str:
        """Say it in a few words."""
        return f"{self.reason}: {_shown(self.error)}" if self.error is not None else self.reason


NORMAL: Final = Exit(Reason.NORMAL)
SHUTDOWN: Final = Exit(Reason.SHUTDOWN)
KILLED: Final = Exit(Reason.KILLED)


class Down(NamedTuple):
    """An actor that was watched has ended."""

    name: str
    ref: Ref
    exit: Exit


class Exiting(Exception):
    """Raised within an actor to end it."""

    def __init__(self, how: Exit) -> None:
        """Say how it ends."""
        super().__init__(str(how))
        self.exit = how


def _shown(error: BaseException) -> str:
    """Describe an error; one that cannot even be shown is still an error."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 -- whatever its own code does
        return type(error).__name__
