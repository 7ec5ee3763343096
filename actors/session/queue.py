"""The messages of a session: those that wait, and those that run as turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Waiting(msgspec.Struct, frozen=True):
    """A message that was accepted and has not become a turn yet."""

    message_id: str
    content: str
    to: str
    steer: bool
    asked_in: str = ""
    """The turn in which another agent asks it, if one does."""


class Running(msgspec.Struct, frozen=True):
    """A turn that began and has not ended yet."""

    turn_id: str
    agent_id: str
    message_id: str


def turn_of(running: Sequence[Running], agent_id: str) -> Running | None:
    """Return the turn that an agent is running."""
    for each in running:
        if each.agent_id == agent_id:
            return each
    return None


def next_for(waiting: Sequence[Waiting], agent_id: str) -> Waiting | None:
    """Return the message that an agent takes up next: one that steers, or else the oldest."""
    mine = [each for each in waiting if each.to == agent_id]
    return next((each for each in mine if each.steer), mine[0] if mine else None)
