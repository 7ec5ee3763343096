"""What an audit finds."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """Something that does not hold, and at which event."""

    invariant: str
    event_id: int
    message: str
