"""Rules about the pauses between restarts: how long they are, and when they begin anew."""

from __future__ import annotations

from actors.clock import SECOND
from supervisors.child_spec import Backoff, Flags
from supervisors.messages import Look, State
from tests.supervisors.cast import Fails, Fixed, Hand, Worker


def test_restarts_can_be_made_to_pause() -> None:
    """Each pause is longer, up to a limit; chance has its part of it; a calm time begins anew."""
    hand = Hand()
    chance = Fixed(0.5)
    backoff = Backoff(first=1, factor=3, most=5, jitter=0.5, calm=60)
    flags = Flags(intensity=100)
    spec = hand.spec("a", backoff=backoff)
    top = hand.supervisor(spec, flags=flags, chance=chance).launch()

    for longest in (1, 3, 5, 5):
        hand.tell("a", "crash")
        assert [view.state for view in hand.ask(top, Look())] == [State.RESTARTING]
        assert chance.asked[-1] == (longest / 2, longest)
        before = len(hand.made["a"])
        hand.clock.move_to(hand.clock.now() + round(longest * 0.75 * SECOND) - 1)
        hand.scheduler.run()
        assert len(hand.made["a"]) == before
        hand.clock.move_to(hand.clock.now() + 1)
        hand.scheduler.run()
        assert len(hand.made["a"]) == before + 1
    hand.clock.advance(60)
    hand.tell("a", "crash")
    assert chance.asked[-1] == (0.5, 1)


def test_only_a_child_that_lives_is_calm() -> None:
    """However long it takes in vain to start one again, the pauses go on getting longer."""
    hand = Hand()
    chance = Fixed(0)
    backoff = Backoff(first=1, factor=2, most=100, jitter=0, calm=5)
    spec = hand.spec("a", Worker, Fails, backoff=backoff)
    hand.supervisor(spec, flags=Flags(intensity=100), chance=chance).launch()
    hand.tell("a", "crash")
    for longest in (1, 2, 4, 8, 16):
        assert chance.asked[-1] == (longest, longest)
        hand.clock.advance(longest)
        hand.scheduler.run()

    assert len(hand.made["a"]) == 6
    assert chance.asked[-1] == (32, 32)
