"""What happens to a request to another conversation."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from actors.entity import Moved
from runelog.rune import Rune

PREFIX: Final = "req"
"""What the ids of requests begin with."""
Status: TypeAlias = Literal["ended", "refused", "lost"]
"""How a request came out: what it began has ended; it was refused; nothing can be known of it."""


class Sent(Rune, frozen=True, tag="request.sent"):
    """An entity asks for something in another conversation: the birth of the request."""

    request_id: str
    caller: str
    """The entity that asks."""
    key: str
    """What the caller's law calls the request."""
    to: str
    """The conversation that is asked."""
    command: dict[str, Any]
    """The command that begins an entity there, by name (`do`) and fields."""
    machine: str = ""
    """The kind of that entity; empty if no kind that is known here has the command."""
    child: str = ""
    """The id that it has there: asked for again, it is the same one."""


class Withdrawn(Moved, frozen=True, tag="request.withdrawn"):
    """The caller wants it no longer: what it began is told to stop, and its end is the answer."""

    reason: str


class Answered(Moved, frozen=True, tag="request.answered"):
    """What was asked for has ended, or was refused."""

    request_id: str
    key: str
    status: Status
    phase: str = ""
    """The phase in which it ended."""
    answer: Any = None
    """What its kind says of that end."""
    message: str = ""
    """Why it was refused, or is lost."""
    event: int = 0
    """The event of its end, in the conversation that was asked."""
