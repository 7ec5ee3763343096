"""A turn that was asked by another one: while it waits for a human, so does whoever asked.

A question to another agent is a turn like any other. When that waits for nothing but a human it
says so, and the turn in which it was asked takes note: there is nothing that one could do either.
So its clock stands as well; and if it was asked by a third one, that is told in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.turn.clock import works
from actors.turn.commands import GoOn, HoldUp
from actors.turn.runes import HeldUp, WentOn
from actors.turn.state import Phase

if TYPE_CHECKING:
    from actors.turn.state import State
    from runelog.rune import Rune


def due(state: State) -> list[HoldUp | GoOn]:
    """Say what whoever asked has to be told."""
    if not state.asked_in or state.phase not in {Phase.STREAMING, Phase.TOOL_EXECUTING}:
        return []
    if works(state):
        return [GoOn()] if state.held_up else []
    return [] if state.held_up else [HoldUp()]


def told(state: State, command: HoldUp | GoOn) -> list[Rune]:
    """Tell whoever asked that the turn waits for a human, or no longer; nothing if that is old."""
    if command not in due(state):
        return []
    kind = HeldUp if isinstance(command, HoldUp) else WentOn
    return [kind(turn_id=state.turn_id, call_id=state.asked_by, asked_in=state.asked_in)]
