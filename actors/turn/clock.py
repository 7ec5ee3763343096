"""A turn's clock, where somebody limits its time: it runs while the turn works.

Time is set aside a stretch at a time, each before it begins. A stretch that has passed is counted
whole, and the next one begins where it ended; what ends the turn counts what has passed until then.
The clock stands while nothing but a human is waited for. After a crash nobody knows how much of a
stretch had passed: it counts whole, and as estimated. Where no stretch can be set aside any more,
what is under way is cancelled, and the turn ends at the next safe boundary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.budget import runes as budget
from actors.budget.runes import BUDGET_EXHAUSTED
from actors.turn.commands import Halt, Run, StartClock, StopClock, Tick
from actors.turn.state import Phase, State, evolve, under_way

if TYPE_CHECKING:
    from actors.turn.commands import ClockEffect
    from runelog.rune import Rune


def works(state: State) -> bool:
    """Say whether the turn does anything itself, rather than wait for a human."""
    if state.phase is not Phase.TOOL_EXECUTING:
        return state.phase is Phase.STREAMING
    waiting = [call for call in state.calls if call.status is None]
    return not any(call.asked for call in waiting) or not all(
        call.asked or call.hold for call in waiting
    )


def is_over(state: State, now: int) -> bool:
    """Say whether all of the stretch has passed."""
    return state.stretch is not None and now >= state.stretch.until


def next_key(state: State) -> str:
    """Return what the next stretch is called."""
    return f"{state.turn_id}-w{state.stretches}"


def run(state: State, command: Run) -> list[Rune]:
    """Set a stretch aside, unless one passes now or there is nothing to count."""
    stretch, now = state.stretch, command.now
    if not state.timed or state.broke or not works(state):
        return []
    if stretch is not None and now < stretch.until:
        return []
    passed = [] if stretch is None else _counted(stretch.key, stretch.length)
    if command.exhausted is not None:
        return [*passed, command.exhausted]
    begins = now if stretch is None else stretch.until
    return [
        *passed,
        budget.Reserved(
            key=next_key(state),
            scope=state.agent_id,
            amounts=budget.Amounts(wall=command.length),
            until=begins + command.length,
        ),
    ]


def stop(state: State, now: int | None) -> list[Rune]:
    """Count what has passed of the stretch; all of it if nobody says what time it is."""
    stretch = state.stretch
    if stretch is None:
        return []
    if now is None:
        return _counted(stretch.key, stretch.length, estimated=True)
    passed = now - (stretch.until - stretch.length)
    return _counted(stretch.key, min(max(passed, 0), stretch.length))


def _counted(key: str, wall: int, *, estimated: bool = False) -> list[Rune]:
    return [budget.Settled(key=key, used=budget.Amounts(wall=wall), estimated=estimated)]


def spent(state: State, settled: list[Rune]) -> budget.Amounts:
    """Return what the turn has used once its last stretch is settled."""
    for rune in settled:
        state = evolve(state, rune)
    return state.used


def due(state: State, *, ends: bool) -> list[ClockEffect]:
    """Say what has to be done about the clock; a turn that `ends` needs no more time."""
    if not state.timed:
        return []
    if state.stretch is not None:
        key = state.stretch.key
        return [Tick(key)] if works(state) else [StopClock(key)]
    if state.broke:
        return [Halt(BUDGET_EXHAUSTED)] if under_way(state) else []
    return [StartClock(state.stretches)] if works(state) and not ends else []
