"""Rules about the pauses between restarts: how long they are, and when they begin anew."""

from __future__ import annotations

from actors.units import SECOND
from supervisors.child_spec import Backoff, Flags
from supervisors.messages import Look, State
from tests.supervisors.cast import Fails, Fixed, Manual, Worker


def test_restarts_can_be_made_to_pause() -> None:
    """Each pause is longer, up to a limit; chance has its part of it; a calm time begins anew."""
    manual = Manual()
    chance = Fixed(0.5)
    backoff = Backoff(first=1, factor=3, most=5, jitter=0.5, calm=60)
    flags = Flags(intensity=100)
    spec = manual.spec("a", backoff=backoff)
    top = manual.supervisor(spec, flags=flags, chance=chance).launch()

    for longest in (1, 3, 5, 5):
        manual.tell("a", "crash")
        assert [view.state for view in manual.ask(top, Look())] == [State.RESTARTING]
        assert chance.asked[-1] == (longest / 2, longest)
        before = len(manual.made["a"])
        manual.clock.move_to(manual.clock.now() + round(longest * 0.75 * SECOND) - 1)
        manual.scheduler.run()
        assert len(manual.made["a"]) == before
        manual.clock.move_to(manual.clock.now() + 1)
        manual.scheduler.run()
        assert len(manual.made["a"]) == before + 1
    manual.clock.advance(60)
    manual.tell("a", "crash")
    assert chance.asked[-1] == (0.5, 1)


def test_only_a_child_that_lives_is_calm() -> None:
    """However long it takes in vain to start one again, the pauses go on getting longer."""
    manual = Manual()
    chance = Fixed(0)
    backoff = Backoff(first=1, factor=2, most=100, jitter=0, calm=5)
    spec = manual.spec("a", Worker, Fails, backoff=backoff)
    manual.supervisor(spec, flags=Flags(intensity=100), chance=chance).launch()
    manual.tell("a", "crash")
    for longest in (1, 2, 4, 8, 16):
        assert chance.asked[-1] == (longest, longest)
        manual.clock.advance(longest)
        manual.scheduler.run()

    assert len(manual.made["a"]) == 6
    assert chance.asked[-1] == (32, 32)
