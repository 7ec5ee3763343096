"""What ours does beyond OTP's, and what OTP's traces do not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.errors import Crashed, Dead, Overloaded, StartFailed
from actors.process import KILLED, SHUTDOWN, Exit, Reason
from runelog.errors import Refused
from supervisors.child_spec import Backoff, ChildSpec, Flags, Kind
from supervisors.errors import BadSpec, ChildNotStarted, NameTaken, NotDone, Why
from supervisors.messages import (
    CountChildren,
    Look,
    RestartChild,
    StartChild,
    StartDynamic,
    State,
    TerminateChild,
    WhichChildren,
)
from supervisors.registry import Registry
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.cast import Boom, Fails, Fixed, Hand, Stubborn, Worker

if TYPE_CHECKING:
    from actors.process import Process
    from supervisors.keeper import Plan

SIMPLE = Flags(Strategy.SIMPLE_ONE_FOR_ONE)


@pytest.fixture
def hand() -> Hand:
    """One lane, one thread, a clock that stands still."""
    return Hand()


def exits(hand: Hand, id_: str) -> list[Exit | None]:
    """How each incarnation of a child ended."""
    return [process.exit for process in hand.made[id_]]


# -- starting that fails ----------------------------------------------------------------------


def test_if_a_child_cannot_start_its_elders_are_stopped(hand: Hand) -> None:
    """They are asked to, in reverse; the supervisor's own start has failed by then."""
    top = hand.supervisor(hand.spec("a"), hand.spec("b"), hand.spec("c", Fails), hand.spec("d"))

    with pytest.raises(StartFailed, match="its child c could not start") as failed:
        top.launch()
    assert isinstance(failed.value.__cause__, ChildNotStarted)
    assert failed.value.__cause__.child == "c"
    assert exits(hand, "a") == [None]
    hand.scheduler.run()

    assert exits(hand, "a") == exits(hand, "b") == [SHUTDOWN]
    assert "d" not in hand.made
    assert top.exit == Exit(Reason.SHUTDOWN, failed.value.__cause__)


def test_a_subtree_that_failed_to_start_is_gone_before_it_is_tried_again(hand: Hand) -> None:
    """Its parent waits until the children that did start have ended: no two live under a name."""
    registry = Registry()
    broken = [False]

    def inner() -> Process:
        second = hand.spec("y", Fails if broken[0] else Worker)
        return hand.supervisor(hand.spec("x"), second, name="s", registry=registry)

    flags = Flags(intensity=2)
    top = hand.supervisor(ChildSpec("s", inner, type=Kind.SUPERVISOR), flags=flags).launch()
    broken[0] = True
    hand.ask(top, Look())[0].ref.kill()
    hand.scheduler.run()

    assert exits(hand, "x") == [KILLED, SHUTDOWN, SHUTDOWN]
    assert not top.is_alive()
    assert len(registry) == 0


def test_whatever_a_factory_raises_is_a_failed_start(hand: Hand) -> None:
    """The supervisor answers it like any other; it does not fall over it."""

    def broken() -> Process:
        raise Boom

    top = hand.supervisor().launch()

    with pytest.raises(NotDone) as refused:
        hand.ask(top, StartChild(ChildSpec("a", broken)))
    assert refused.value.why == Why.START_FAILED
    assert isinstance(refused.value.__cause__, Boom)
    assert hand.ask(top, WhichChildren()) == []


# -- ending -----------------------------------------------------------------------------------


def test_a_supervisor_that_is_killed_takes_all_below_with_it(hand: Hand) -> None:
    """Nobody is left to look after them, so they end at once, subtrees included."""
    nest = ChildSpec("s", lambda: hand.supervisor(hand.spec("x", Stubborn), name="s"))
    top = hand.supervisor(hand.spec("a"), nest).launch()

    top.kill()

    assert exits(hand, "a") == exits(hand, "x") == [KILLED]


def test_a_supervisor_that_fails_takes_all_below_with_it(hand: Hand) -> None:
    """A mistake of its own is one of the ways to end."""

    class Broken(Supervisor):
        def _serve(self, request: object) -> Plan[object]:  # noqa: ARG002 -- it does not get to it
            raise Boom

    top = Broken("top", hand.lane, hand.clock, [hand.spec("a")]).launch()

    with pytest.raises(Crashed):
        hand.ask(top, CountChildren())
    assert exits(hand, "a") == [KILLED]


def test_a_supervisor_that_is_killed_leaves_nobody_waiting(hand: Hand) -> None:
    """What it was doing for somebody and what others asked meanwhile fails with `Dead`."""
    top = hand.supervisor(hand.spec("a", Stubborn)).launch()
    questions = [top.ask_later(TerminateChild("a")), top.ask_later(WhichChildren())]
    hand.scheduler.run()
    assert not any(question.is_there() for question in questions)

    top.kill()

    for question in questions:
        with pytest.raises(Dead, match="top ended before it answered"):
            question.result()


def test_a_child_that_ignores_its_stop_is_killed_at_its_time(hand: Hand) -> None:
    """Not before; and whoever asked for it is answered then."""
    top = hand.supervisor(hand.spec("a", Stubborn, shutdown=2)).launch()
    done = top.ask_later(TerminateChild("a"))
    hand.scheduler.run()
    hand.clock.advance(1.99)
    hand.scheduler.run()
    assert exits(hand, "a") == [None]

    hand.clock.advance(0.01)
    hand.scheduler.run()

    assert exits(hand, "a") == [KILLED]
    assert done.result() is None


def test_what_comes_in_meanwhile_waits_its_turn(hand: Hand) -> None:
    """Requests are answered in order once what is under way is done; a look is answered at once."""
    top = hand.supervisor(hand.spec("a", Stubborn), hand.spec("b")).launch()
    top.ask_later(TerminateChild("a"))
    later = [top.ask_later(RestartChild("a")), top.ask_later(CountChildren())]

    seen = hand.ask(top, Look())
    assert [view.state for view in seen] == [State.STOPPING, State.RUNNING]
    assert not any(answer.is_there() for answer in later)
    hand.clock.advance(5)
    hand.scheduler.run()

    assert later[0].result() is hand.now("a")
    assert later[1].result().active == 2


def test_there_is_an_end_to_what_may_wait(hand: Hand) -> None:
    """Beyond it requests are refused, but no end of a child is ever missed."""
    top = hand.supervisor(hand.spec("a", Stubborn), hand.spec("b"), mailbox=2).launch()
    top.ask_later(TerminateChild("a"))
    hand.scheduler.run()
    for _ in range(2):
        top.ask_later(CountChildren())
        hand.scheduler.run()

    with pytest.raises(Overloaded):
        hand.ask(top, CountChildren())
    hand.now("b").kill()
    hand.clock.advance(5)
    hand.scheduler.run()
    assert exits(hand, "b") == [KILLED, None]


# -- restarting -------------------------------------------------------------------------------


def test_somebody_is_told_of_each_restart_that_counts(hand: Hand) -> None:
    """Which child, of what, and how often; if writing it down fails, the restart goes on."""
    told: list[tuple[str, Reason, int]] = []

    def note(child: str, how: Exit, count: int) -> None:
        told.append((child, how.reason, count))
        raise Boom

    flags = Flags(Strategy.ONE_FOR_ALL, intensity=9)
    top = hand.supervisor(hand.spec("a"), hand.spec("b"), flags=flags, on_restart=note).launch()
    hand.tell("a", "crash")
    hand.now("b").kill()
    hand.scheduler.run()
    hand.tell("a", "crash")

    assert told == [("a", Reason.CRASH, 1), ("b", Reason.KILLED, 1), ("a", Reason.CRASH, 2)]
    assert [view.restarts for view in hand.ask(top, Look())] == [2, 1]


def test_a_group_waits_for_the_pause_of_the_one_that_failed(hand: Hand) -> None:
    """It is stopped at once and started after the pause, unless somebody ends the restart."""
    flags = Flags(Strategy.REST_FOR_ONE)
    patient = hand.spec("b", backoff=Backoff(first=1, jitter=0))
    family = (hand.spec("a"), patient, hand.spec("c"))
    top = hand.supervisor(*family, flags=flags, chance=Fixed(0)).launch()
    hand.tell("b", "crash")
    assert [view.state for view in hand.ask(top, Look())] == ["running", "restarting", "stopped"]

    hand.clock.advance(1)
    hand.scheduler.run()
    assert [view.state for view in hand.ask(top, Look())] == ["running", "running", "running"]
    hand.tell("b", "crash")
    hand.ask(top, TerminateChild("b"))
    assert hand.clock.next_alarm is None
    hand.clock.advance(60)
    hand.scheduler.run()

    assert [view.state for view in hand.ask(top, Look())] == ["running", "stopped", "stopped"]


def test_a_pause_that_was_overtaken_starts_nobody(hand: Hand) -> None:
    """An elder took the child along, in vain: that is counted, and the next pause begins."""
    flags = Flags(Strategy.REST_FOR_ONE, intensity=9)
    patient = hand.spec("b", Worker, Fails, Worker, backoff=Backoff(first=1, jitter=0))
    top = hand.supervisor(hand.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    hand.tell("b", "crash")
    hand.now("a").kill()
    hand.clock.advance(1)
    hand.scheduler.run()
    assert len(hand.made["b"]) == 2
    assert [view.restarts for view in hand.ask(top, Look())] == [1, 2]

    hand.clock.advance(2)
    hand.scheduler.run()

    assert [view.state for view in hand.ask(top, Look())] == ["running", "running"]


def test_an_attempt_that_failed_twice_over_is_counted_once(hand: Hand) -> None:
    """While a child waits for its next restart, no other one is begun."""
    flags = Flags(Strategy.REST_FOR_ONE, intensity=9)
    patient = hand.spec("b", Worker, Fails, Fails, Worker, backoff=Backoff(first=1, jitter=0))
    top = hand.supervisor(hand.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    hand.tell("b", "crash")
    hand.clock.advance(1)
    hand.now("a").kill()
    hand.scheduler.run()

    assert len(hand.made["b"]) == 3
    assert [view.restarts for view in hand.ask(top, Look())] == [1, 2]


def test_who_joins_a_group_during_a_pause_is_not_started_twice(hand: Hand) -> None:
    """After the pause those are started that do not run."""
    flags = Flags(Strategy.ONE_FOR_ALL)
    patient = hand.spec("a", backoff=Backoff(first=1, jitter=0))
    top = hand.supervisor(patient, hand.spec("b"), flags=flags, chance=Fixed(0)).launch()
    hand.tell("a", "crash")
    newcomer = hand.ask(top, StartChild(hand.spec("c")))

    hand.clock.advance(1)
    hand.scheduler.run()

    assert [view.state for view in hand.ask(top, Look())] == ["running", "running", "running"]
    assert [len(hand.made[name]) for name in "abc"] == [2, 2, 1]
    assert newcomer.is_alive()


def test_a_pause_is_over_when_an_elder_takes_all_along(hand: Hand) -> None:
    """The younger one is started with the elder, once."""
    flags = Flags(Strategy.REST_FOR_ONE)
    patient = hand.spec("b", backoff=Backoff(first=1, jitter=0))
    top = hand.supervisor(hand.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    hand.tell("b", "crash")
    hand.tell("a", "crash")
    assert [view.state for view in hand.ask(top, Look())] == ["running", "running"]

    hand.clock.advance(60)
    hand.scheduler.run()

    assert len(hand.made["b"]) == 2


# -- dynamic children and names ---------------------------------------------------------------


def test_dynamic_children_are_stopped_all_at_once(hand: Hand) -> None:
    """They owe each other nothing: three that ignore it take as long as one."""
    top = hand.supervisor(hand.spec("t", Stubborn, shutdown=2), flags=SIMPLE).launch()
    for key in ("k1", "k2", "k3"):
        hand.ask(top, StartDynamic(key))
    top.stop()
    hand.scheduler.run()

    hand.clock.advance(2)
    hand.scheduler.run()

    assert not top.is_alive()


def test_dynamic_children_go_by_their_keys(hand: Hand) -> None:
    """A key is used once at a time; the template's own name is none."""
    top = hand.supervisor(hand.spec("t"), flags=SIMPLE).launch()
    first = hand.ask(top, StartDynamic("k1"))
    hand.ask(top, StartDynamic("k2"))

    for request, why in [
        (StartDynamic("k1"), Why.ALREADY_STARTED),
        (TerminateChild("t"), Why.SIMPLE_ONE_FOR_ONE),
        (TerminateChild("k3"), Why.NOT_FOUND),
        (TerminateChild(top), Why.NOT_FOUND),
        (StartChild(hand.spec("x")), Why.SIMPLE_ONE_FOR_ONE),
    ]:
        with pytest.raises(NotDone) as refused:
            hand.ask(top, request)
        assert refused.value.why == why
    assert hand.ask(top, TerminateChild("k1")) is None
    assert not first.is_alive()
    assert hand.ask(top, StartDynamic("k1")) is not first


def test_a_child_from_a_template_needs_one(hand: Hand) -> None:
    """Only a simple_one_for_one supervisor has a template; nobody knows what else was meant."""
    top = hand.supervisor(hand.spec("a")).launch()

    with pytest.raises(BadSpec, match="child k"):
        hand.ask(top, StartDynamic("k"))
    with pytest.raises(Refused, match="knows no str"):
        hand.ask(top, "hello")
    with pytest.raises(NotDone, match="has no such child"):
        hand.ask(top, TerminateChild(hand.now("a")))


def test_a_restarted_child_is_found_under_its_name(hand: Hand) -> None:
    """The registry has the one that lives, and nobody once all have ended."""
    registry = Registry()
    top = hand.supervisor(hand.spec("a"), hand.spec("b"), registry=registry).launch()
    hand.tell("a", "crash")
    assert registry.find("a") is hand.now("a")
    assert registry.ids() == ["a", "b"]

    top.stop()
    hand.scheduler.run()

    assert len(registry) == 0


def test_two_actors_of_one_name_do_not_live_at_once(hand: Hand) -> None:
    """The second one's start fails, and it is not left lying about."""
    registry = Registry()
    hand.supervisor(hand.spec("a"), name="one", registry=registry).launch()
    other = hand.supervisor(name="two", registry=registry).launch()

    with pytest.raises(NotDone) as refused:
        hand.ask(other, StartChild(hand.spec("a")))
    assert isinstance(refused.value.__cause__, NameTaken)
    assert exits(hand, "a") == [None, KILLED]
    assert registry.find("a") is hand.made["a"][0].ref
