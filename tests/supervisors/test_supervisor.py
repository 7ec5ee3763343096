"""What ours does beyond OTP's, and what OTP's traces do not show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.errors import Crashed, Dead, Overloaded, StartFailed
from actors.process.process import KILLED, SHUTDOWN, Exit, Reason
from runelog.errors import Refused
from supervisors.child_spec import Backoff, ChildSpec, ChildType, Flags
from supervisors.errors import BadSpec, ChildNotStarted, NotDone, Why
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
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.supervisors.cast import Boom, Fails, Fixed, Manual, Stubborn, Worker

if TYPE_CHECKING:
    from actors.process.process import Process
    from supervisors.child_manager import Plan

SIMPLE = Flags(Strategy.SIMPLE_ONE_FOR_ONE)


@pytest.fixture
def manual() -> Manual:
    """One lane, one thread, a clock that stands still."""
    return Manual()


def exits(manual: Manual, id_: str) -> list[Exit | None]:
    """How each incarnation of a child ended."""
    return [process.exit for process in manual.made[id_]]


# -- starting that fails ----------------------------------------------------------------------


def test_if_a_child_cannot_start_its_elders_are_stopped(manual: Manual) -> None:
    """They are asked to, in reverse; the supervisor's own start has failed by then."""
    top = manual.supervisor(
        manual.spec("a"), manual.spec("b"), manual.spec("c", Fails), manual.spec("d")
    )

    with pytest.raises(StartFailed, match="its child c could not start") as failed:
        top.launch()
    assert isinstance(failed.value.__cause__, ChildNotStarted)
    assert failed.value.__cause__.child == "c"
    assert exits(manual, "a") == [None]
    manual.scheduler.run()

    assert exits(manual, "a") == exits(manual, "b") == [SHUTDOWN]
    assert "d" not in manual.made
    assert top.exit == Exit(Reason.SHUTDOWN, failed.value.__cause__)


def test_a_subtree_that_failed_to_start_is_gone_before_it_is_tried_again(manual: Manual) -> None:
    """Its parent waits until the children that did start have ended: no two live under a name."""
    broken = [False]

    def inner() -> Process:
        second = manual.spec("y", Fails if broken[0] else Worker)
        return manual.supervisor(manual.spec("x"), second, name="s")

    flags = Flags(intensity=2)
    top = manual.supervisor(ChildSpec("s", inner, type=ChildType.SUPERVISOR), flags=flags).launch()
    broken[0] = True
    manual.ask(top, Look())[0].ref.kill()
    manual.scheduler.run()

    assert exits(manual, "x") == [KILLED, SHUTDOWN, SHUTDOWN]
    assert not top.is_alive()


def test_whatever_a_factory_raises_is_a_failed_start(manual: Manual) -> None:
    """The supervisor answers it like any other; it does not fall over it."""

    def broken() -> Process:
        raise Boom

    top = manual.supervisor().launch()

    with pytest.raises(NotDone) as refused:
        manual.ask(top, StartChild(ChildSpec("a", broken)))
    assert refused.value.why == Why.START_FAILED
    assert isinstance(refused.value.__cause__, Boom)
    assert manual.ask(top, WhichChildren()) == []


# -- ending -----------------------------------------------------------------------------------


def test_a_supervisor_that_is_killed_takes_all_below_with_it(manual: Manual) -> None:
    """Nobody is left to look after them, so they end at once, subtrees included."""
    nest = ChildSpec("s", lambda: manual.supervisor(manual.spec("x", Stubborn), name="s"))
    top = manual.supervisor(manual.spec("a"), nest).launch()

    top.kill()

    assert exits(manual, "a") == exits(manual, "x") == [KILLED]


def test_a_supervisor_that_fails_takes_all_below_with_it(manual: Manual) -> None:
    """A mistake of its own is one of the ways to end."""

    class Broken(Supervisor):
        def _serve(self, request: object) -> Plan[object]:  # noqa: ARG002 -- it does not get to it
            raise Boom

    top = Broken("top", manual.lane, manual.clock, [manual.spec("a")]).launch()

    with pytest.raises(Crashed):
        manual.ask(top, CountChildren())
    assert exits(manual, "a") == [KILLED]


def test_a_supervisor_that_is_killed_leaves_nobody_waiting(manual: Manual) -> None:
    """What it was doing for somebody and what others asked meanwhile fails with `Dead`."""
    top = manual.supervisor(manual.spec("a", Stubborn)).launch()
    questions = [top.ask_later(TerminateChild("a")), top.ask_later(WhichChildren())]
    manual.scheduler.run()
    assert not any(question.is_there() for question in questions)

    top.kill()

    for question in questions:
        with pytest.raises(Dead, match="top ended before it answered"):
            question.result()


def test_a_child_that_ignores_its_stop_is_killed_at_its_time(manual: Manual) -> None:
    """Not before; and whoever asked for it is answered then."""
    top = manual.supervisor(manual.spec("a", Stubborn, shutdown=2)).launch()
    done = top.ask_later(TerminateChild("a"))
    manual.scheduler.run()
    manual.clock.advance(1.99)
    manual.scheduler.run()
    assert exits(manual, "a") == [None]

    manual.clock.advance(0.01)
    manual.scheduler.run()

    assert exits(manual, "a") == [KILLED]
    assert done.result() is None


def test_what_comes_in_meanwhile_waits_its_turn(manual: Manual) -> None:
    """Requests are answered in order once what is under way is done; a look is answered at once."""
    top = manual.supervisor(manual.spec("a", Stubborn), manual.spec("b")).launch()
    top.ask_later(TerminateChild("a"))
    later = [top.ask_later(RestartChild("a")), top.ask_later(CountChildren())]

    seen = manual.ask(top, Look())
    assert [view.state for view in seen] == [State.STOPPING, State.RUNNING]
    assert not any(answer.is_there() for answer in later)
    manual.clock.advance(5)
    manual.scheduler.run()

    assert later[0].result() is manual.now("a")
    assert later[1].result().active == 2


def test_there_is_an_end_to_what_may_wait(manual: Manual) -> None:
    """Beyond it requests are refused, but no end of a child is ever missed."""
    top = manual.supervisor(manual.spec("a", Stubborn), manual.spec("b"), mailbox=2).launch()
    top.ask_later(TerminateChild("a"))
    manual.scheduler.run()
    for _ in range(2):
        top.ask_later(CountChildren())
        manual.scheduler.run()

    with pytest.raises(Overloaded):
        manual.ask(top, CountChildren())
    manual.now("b").kill()
    manual.clock.advance(5)
    manual.scheduler.run()
    assert exits(manual, "b") == [KILLED, None]


# -- restarting -------------------------------------------------------------------------------


def test_somebody_is_told_of_each_restart_that_counts(manual: Manual) -> None:
    """Which child, of what, and how often; if writing it down fails, the restart goes on."""
    told: list[tuple[str, Reason, int]] = []

    def note(child: str, how: Exit, count: int) -> None:
        told.append((child, how.reason, count))
        raise Boom

    flags = Flags(Strategy.ONE_FOR_ALL, intensity=9)
    top = manual.supervisor(
        manual.spec("a"), manual.spec("b"), flags=flags, on_restart=note
    ).launch()
    manual.tell("a", "crash")
    manual.now("b").kill()
    manual.scheduler.run()
    manual.tell("a", "crash")

    assert told == [("a", Reason.CRASH, 1), ("b", Reason.KILLED, 1), ("a", Reason.CRASH, 2)]
    assert [view.restarts for view in manual.ask(top, Look())] == [2, 1]


def test_a_group_waits_for_the_pause_of_the_one_that_failed(manual: Manual) -> None:
    """It is stopped at once and started after the pause, unless somebody ends the restart."""
    flags = Flags(Strategy.REST_FOR_ONE)
    patient = manual.spec("b", backoff=Backoff(first=1, jitter=0))
    family = (manual.spec("a"), patient, manual.spec("c"))
    top = manual.supervisor(*family, flags=flags, chance=Fixed(0)).launch()
    manual.tell("b", "crash")
    assert [view.state for view in manual.ask(top, Look())] == ["running", "restarting", "stopped"]

    manual.clock.advance(1)
    manual.scheduler.run()
    assert [view.state for view in manual.ask(top, Look())] == ["running", "running", "running"]
    manual.tell("b", "crash")
    manual.ask(top, TerminateChild("b"))
    assert manual.clock.next_alarm is None
    manual.clock.advance(60)
    manual.scheduler.run()

    assert [view.state for view in manual.ask(top, Look())] == ["running", "stopped", "stopped"]


def test_a_pause_that_was_overtaken_starts_nobody(manual: Manual) -> None:
    """An elder took the child along, in vain: that is counted, and the next pause begins."""
    flags = Flags(Strategy.REST_FOR_ONE, intensity=9)
    patient = manual.spec("b", Worker, Fails, Worker, backoff=Backoff(first=1, jitter=0))
    top = manual.supervisor(manual.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    manual.tell("b", "crash")
    manual.now("a").kill()
    manual.clock.advance(1)
    manual.scheduler.run()
    assert len(manual.made["b"]) == 2
    assert [view.restarts for view in manual.ask(top, Look())] == [1, 2]

    manual.clock.advance(2)
    manual.scheduler.run()

    assert [view.state for view in manual.ask(top, Look())] == ["running", "running"]


def test_an_attempt_that_failed_twice_over_is_counted_once(manual: Manual) -> None:
    """While a child waits for its next restart, no other one is begun."""
    flags = Flags(Strategy.REST_FOR_ONE, intensity=9)
    patient = manual.spec("b", Worker, Fails, Fails, Worker, backoff=Backoff(first=1, jitter=0))
    top = manual.supervisor(manual.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    manual.tell("b", "crash")
    manual.clock.advance(1)
    manual.now("a").kill()
    manual.scheduler.run()

    assert len(manual.made["b"]) == 3
    assert [view.restarts for view in manual.ask(top, Look())] == [1, 2]


def test_who_joins_a_group_during_a_pause_is_not_started_twice(manual: Manual) -> None:
    """After the pause those are started that do not run."""
    flags = Flags(Strategy.ONE_FOR_ALL)
    patient = manual.spec("a", backoff=Backoff(first=1, jitter=0))
    top = manual.supervisor(patient, manual.spec("b"), flags=flags, chance=Fixed(0)).launch()
    manual.tell("a", "crash")
    newcomer = manual.ask(top, StartChild(manual.spec("c")))

    manual.clock.advance(1)
    manual.scheduler.run()

    assert [view.state for view in manual.ask(top, Look())] == ["running", "running", "running"]
    assert [len(manual.made[name]) for name in "abc"] == [2, 2, 1]
    assert newcomer.is_alive()


def test_a_pause_is_over_when_an_elder_takes_all_along(manual: Manual) -> None:
    """The younger one is started with the elder, once."""
    flags = Flags(Strategy.REST_FOR_ONE)
    patient = manual.spec("b", backoff=Backoff(first=1, jitter=0))
    top = manual.supervisor(manual.spec("a"), patient, flags=flags, chance=Fixed(0)).launch()
    manual.tell("b", "crash")
    manual.tell("a", "crash")
    assert [view.state for view in manual.ask(top, Look())] == ["running", "running"]

    manual.clock.advance(60)
    manual.scheduler.run()

    assert len(manual.made["b"]) == 2


# -- dynamic children and names ---------------------------------------------------------------


def test_dynamic_children_are_stopped_all_at_once(manual: Manual) -> None:
    """They owe each other nothing: three that ignore it take as long as one."""
    top = manual.supervisor(manual.spec("t", Stubborn, shutdown=2), flags=SIMPLE).launch()
    for key in ("k1", "k2", "k3"):
        manual.ask(top, StartDynamic(key))
    top.stop()
    manual.scheduler.run()

    manual.clock.advance(2)
    manual.scheduler.run()

    assert not top.is_alive()


def test_dynamic_children_go_by_their_keys(manual: Manual) -> None:
    """A key is used once at a time; the template's own name is none."""
    top = manual.supervisor(manual.spec("t"), flags=SIMPLE).launch()
    first = manual.ask(top, StartDynamic("k1"))
    manual.ask(top, StartDynamic("k2"))

    for request, why in [
        (StartDynamic("k1"), Why.ALREADY_STARTED),
        (TerminateChild("t"), Why.SIMPLE_ONE_FOR_ONE),
        (TerminateChild("k3"), Why.NOT_FOUND),
        (TerminateChild(top), Why.NOT_FOUND),
        (StartChild(manual.spec("x")), Why.SIMPLE_ONE_FOR_ONE),
    ]:
        with pytest.raises(NotDone) as refused:
            manual.ask(top, request)
        assert refused.value.why == why
    assert manual.ask(top, TerminateChild("k1")) is None
    assert not first.is_alive()
    assert manual.ask(top, StartDynamic("k1")) is not first


def test_a_child_from_a_template_needs_one(manual: Manual) -> None:
    """Only a simple_one_for_one supervisor has a template; nobody knows what else was meant."""
    top = manual.supervisor(manual.spec("a")).launch()

    with pytest.raises(BadSpec, match="child k"):
        manual.ask(top, StartDynamic("k"))
    with pytest.raises(Refused, match="knows no str"):
        manual.ask(top, "hello")
    with pytest.raises(NotDone, match="has no such child"):
        manual.ask(top, TerminateChild(manual.now("a")))
