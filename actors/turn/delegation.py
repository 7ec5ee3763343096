"""Delegated turns: one that another agent asks for, from a turn of its own.

While the delegated turn waits for nothing but a human it says so, and the turn that asked takes
note, as there is nothing that it could do either. So its clock stands too, and it says so itself if
it was delegated.
"""

from __future__ import annotations

import msgspec

from actors.turn.runes import HeldUp, WentOn


class HoldUp(msgspec.Struct, frozen=True):
    """Only a human is waited for: the turn that delegated this one has to know."""


class GoOn(msgspec.Struct, frozen=True):
    """A human is waited for no longer: the turn that delegated this one has to know."""


class Delegation(msgspec.Struct, frozen=True):
    """Where a turn was asked for, and what the turn that asks was told last."""

    asked_in: str
    """The turn in which another agent asks it."""
    asked_by: str
    """The call of that turn."""
    held_up: bool = False
    """Whether that turn was told last that only a human is waited for here."""

    def due(self, *, works: bool) -> list[HoldUp | GoOn]:
        """Return what the turn that asks has to be told, given whether this one works."""
        if works is not self.held_up:
            return []
        return [GoOn() if self.held_up else HoldUp()]

    def told(self, turn_id: str, command: HoldUp | GoOn) -> HeldUp | WentOn:
        """Return the rune by which the turn that asks is told."""
        kind = HeldUp if isinstance(command, HoldUp) else WentOn
        return kind(turn_id=turn_id, call_id=self.asked_by, asked_in=self.asked_in)
