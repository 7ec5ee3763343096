"""What a supervisor refuses, by name. The words for the reasons are OTP's."""

from __future__ import annotations

from enum import StrEnum

from actors.errors import StartFailed
from runelog.errors import Refused


class BadSpec(Refused):
    """A child or a supervisor was described in a way that makes no sense; no actor was started."""

    def __init__(self, whose: str, field: str, detail: str, why: str) -> None:
        """Name whose description it is and which field of it, OTP's word for it, and why."""
        super().__init__(f"{whose}: {field} {why}")
        self.whose = whose
        self.field = field
        self.detail = detail

    @classmethod
    def of_child(cls, child: str, field: str, detail: str, why: str) -> BadSpec:
        """Name the child."""
        return cls(f"child {child}", field, detail, why)

    @classmethod
    def of_supervisor(cls, field: str, detail: str, why: str) -> BadSpec:
        """Name the supervisor itself."""
        return cls("supervisor", field, detail, why)


class Why(StrEnum):
    """Why a supervisor did not do what it was asked."""

    NOT_FOUND = "not_found"
    RUNNING = "running"
    RESTARTING = "restarting"
    ALREADY_STARTED = "already_started"
    ALREADY_PRESENT = "already_present"
    START_FAILED = "start_failed"
    SIMPLE_ONE_FOR_ONE = "simple_one_for_one"


_WORDS = {
    Why.NOT_FOUND: "has no such child",
    Why.RUNNING: "has it running: terminate it first",
    Why.RESTARTING: "is restarting it: wait, or terminate it first",
    Why.ALREADY_STARTED: "has one of that name running",
    Why.ALREADY_PRESENT: "has one of that name that is not running: restart it, or delete it first",
    Why.START_FAILED: "could not start it",
    Why.SIMPLE_ONE_FOR_ONE: "makes its children from one template: they have keys, no specs",
}


class NotDone(Refused):
    """A supervisor did not do what it was asked; its children are as they were."""

    def __init__(self, supervisor: str, child: str, why: Why, about: str = "") -> None:
        """Name supervisor and child, and say why."""
        super().__init__(f"{child}: {supervisor} {_WORDS[why]}{about and ': '}{about}")
        self.child = child
        self.why = why


class ChildNotStarted(StartFailed):
    """A supervisor could not start because a child of it could not."""

    def __init__(self, child: str, error: BaseException) -> None:
        """Name the child."""
        super().__init__(f"its child {child} could not start: {error}")
        self.child = child
