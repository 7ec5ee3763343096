"""Manners of an actor: how it starts, hears, answers and ends. The same by hand and on threads."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from actors.errors import Crashed, Dead, Overloaded, StartFailed, Unanswered
from actors.process.process import NORMAL, SHUTDOWN, Answer, Down, Exit, Reason
from runelog.errors import Refused
from tests.actors.players import PATIENCE, RecordingProcess, Unspeakable, Unwilling, raising, rest

if TYPE_CHECKING:
    from actors.ports import Scheduler
    from actors.scheduling.manual_scheduler import ManualScheduler

ERRORS = (
    ValueError("no"),
    asyncio.CancelledError(),
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    Unspeakable(),
    BaseExceptionGroup("several", [SystemExit(), ValueError()]),
)
each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


# -- starting ----------------------------------------------------------------------------------


@each_error
def test_a_failed_start_is_an_error_where_it_was_asked_for(
    scheduler: Scheduler, error: BaseException
) -> None:
    """Whoever launches it hears why; it is dead, cleaned up after, and its watchers are told."""
    lane = scheduler.lane("a")
    actor = Unwilling("a", lane, raising(error))
    downs: list[Down] = []
    actor.watch(downs.append)
    early = actor.ref.ask_later("early")

    with pytest.raises(StartFailed, match="a could not start: crash") as caught:
        actor.launch()
    assert caught.value.__cause__ is error
    assert not actor.ref.is_alive()
    assert actor.hooks == ["start", "failure"]
    assert downs == [Down("a", actor.ref, Exit(Reason.CRASH, error))]
    with pytest.raises(Dead):
        early.result()
    assert actor.waiting == 0
    rest(scheduler, lane)
    assert actor.heard == []


def test_an_actor_may_decline_to_start(scheduler: Scheduler) -> None:
    """One that finishes while it starts has not started, and leaves in order."""
    actor = Unwilling("a", scheduler.lane("a"), Unwilling.finish)
    downs: list[Down] = []
    actor.watch(downs.append)

    with pytest.raises(StartFailed, match="a could not start: normal"):
        actor.launch()
    assert actor.hooks == ["start", "stop"]
    assert [down.exit for down in downs] == [NORMAL]


def test_what_was_killed_before_or_while_it_started_has_not_started(scheduler: Scheduler) -> None:
    """A launch never returns an actor that is dead already."""
    before = RecordingProcess("before", scheduler.lane("a"))
    before.kill()
    during = Unwilling("during", scheduler.lane("b"), Unwilling.kill)

    with pytest.raises(StartFailed, match="killed"):
        before.launch()
    assert before.hooks == []
    with pytest.raises(StartFailed, match="killed"):
        during.launch()
    assert during.hooks == ["start"]


def test_an_actor_is_launched_once(scheduler: Scheduler) -> None:
    """A second launch is a bug in the caller."""
    actor = RecordingProcess("a", scheduler.lane("a"))
    actor.launch()

    with pytest.raises(AssertionError, match="launched before"):
        actor.launch()


def test_messages_wait_for_the_start(scheduler: Scheduler) -> None:
    """What comes before the start is handled after it, in order."""
    lane = scheduler.lane("a")
    actor = Unwilling("a", lane, lambda actor: actor.ref.tell(2))
    actor.ref.tell(1)
    rest(scheduler, lane)
    heard_before = list(actor.heard)
    actor.launch().tell(3)
    rest(scheduler, lane)

    assert heard_before == []
    assert actor.heard == [1, 2, 3]


def test_a_stop_before_the_start_comes_first(scheduler: Scheduler) -> None:
    """It starts, stops, and handles nothing."""
    lane = scheduler.lane("a")
    actor = RecordingProcess("a", lane)
    asked = actor.ref.ask_later("work")
    actor.ref.stop()
    actor.launch()
    rest(scheduler, lane)

    assert actor.hooks == ["start", "stop"]
    assert actor.heard == []
    assert actor.exit == SHUTDOWN
    with pytest.raises(Dead):
        asked.result()


# -- crashing ----------------------------------------------------------------------------------


@each_error
def test_nothing_escapes_one_actor_into_another(scheduler: Scheduler, error: BaseException) -> None:
    """Whatever one raises, the other on the same lane and the lane itself go on."""
    lane = scheduler.lane("a")
    bad, good = RecordingProcess("bad", lane), RecordingProcess("good", lane)
    bad.launch()
    good.launch()
    bad.ref.tell(error)
    bad.ref.tell("more")
    good.ref.tell("hello")
    rest(scheduler, lane)

    assert bad.exit == Exit(Reason.CRASH, error)
    assert bad.heard == [error]
    assert bad.hooks == ["start", "failure"]
    assert good.heard == ["hello"]
    assert good.ref.is_alive()


@each_error
def test_an_error_during_a_question_crashes_the_actor(
    scheduler: Scheduler, error: BaseException
) -> None:
    """Whoever asked hears that it crashed, and of what; it does not live on half changed."""
    ref = RecordingProcess("a", scheduler.lane("a")).launch()

    with pytest.raises(Crashed, match=r"a ended at .*: crash") as caught:
        ref.ask(error, scheduler, PATIENCE)
    assert caught.value.__cause__ is error
    assert not ref.is_alive()


def test_a_hook_that_raises_hurts_nobody_else(scheduler: Scheduler) -> None:
    """A stop that fails is a crash; a crash that fails is the crash it was."""

    class Clumsy(RecordingProcess):
        def on_stop(self) -> None:
            raise SystemExit

        def on_failure(self, *_about: object) -> None:
            raise KeyboardInterrupt

    lane = scheduler.lane("a")
    stopped, crashed = Clumsy("stopped", lane), Clumsy("crashed", lane)
    stopped.launch().stop()
    error = ValueError()
    crashed.launch().tell(error)
    rest(scheduler, lane)

    assert stopped.exit is not None
    assert isinstance(stopped.exit.error, SystemExit)
    assert crashed.exit == Exit(Reason.CRASH, error)


def test_a_refusal_is_an_answer(scheduler: Scheduler) -> None:
    """It is raised where it was asked, and the actor lives on."""
    ref = RecordingProcess("a", scheduler.lane("a")).launch()

    with pytest.raises(Refused, match="not today"):
        ref.ask(lambda: Refused("not today"), scheduler, PATIENCE)
    assert ref.ask("still there", scheduler, PATIENCE) == "still there"


# -- mailboxes ---------------------------------------------------------------------------------


def test_a_full_mailbox_refuses_and_keeps_what_it_took(manual: ManualScheduler) -> None:
    """The sender is told; everything accepted is handled, in order; then there is room again."""
    actor = RecordingProcess("a", manual.lane("a"), mailbox=3)
    ref = actor.launch()
    for number in range(3):
        ref.tell(number)
    with pytest.raises(Overloaded, match="3 messages waiting"):
        ref.tell("too much")
    with pytest.raises(Overloaded):
        ref.ask("too much", manual)
    ref.notify("news")
    waiting = actor.waiting
    manual.run()
    ref.tell("again")
    manual.run()

    assert waiting == 4
    assert actor.heard == [0, 1, 2, "news", "again"]


def test_a_stop_goes_before_queued_work(manual: ManualScheduler) -> None:
    """What was queued is not handled: whoever asked hears that it is dead."""
    actor = RecordingProcess("a", manual.lane("a"))
    ref = actor.launch()
    asked = [ref.ask_later(number) for number in range(3)]
    ref.stop()
    ref.stop(NORMAL)
    late = ref.ask_later("late")
    manual.run()

    assert actor.heard == []
    assert actor.hooks == ["start", "stop"]
    assert actor.exit == SHUTDOWN
    for answer in (*asked, late):
        with pytest.raises(Dead, match="was not handled"):
            answer.result()


def test_letters_to_the_dead_raise_nothing(
    scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """A tell to a dead actor is noted for the operator, a question is answered with `Dead`."""
    actor = RecordingProcess("a", scheduler.lane("a"))
    ref = actor.launch()
    ref.kill()
    with caplog.at_level(logging.DEBUG, "runefold"):
        ref.tell("hello")
        ref.stop()

    assert [vars(record)["event"] for record in caplog.records] == ["dead_letter"]
    with pytest.raises(Dead):
        ref.ask("hello", scheduler, PATIENCE)
    assert actor.waiting == 0


# -- answers -----------------------------------------------------------------------------------


def test_every_question_has_an_end(manual: ManualScheduler) -> None:
    """Without an answer the default time passes, and a late answer is dropped."""
    actor = RecordingProcess("a", manual.lane("a"))
    asked = actor.ref.ask_later("early")
    begun = manual.clock.now()

    with pytest.raises(Unanswered, match=r"a gave no answer to str within 30.0 s"):
        actor.ref.ask("hello", manual)
    assert manual.clock.now() - begun == 30 * 10**9
    actor.launch()
    manual.run()
    assert actor.heard == ["early", "hello"]
    assert asked.result() == "early"


def test_only_the_first_answer_counts() -> None:
    """Whoever gives it, as a value or as an error; later ones are dropped."""
    value, error = Answer(), Answer()
    value.set(1)
    value.set(2)
    value.fail(Dead("late"))
    error.fail(Dead("gone"))
    error.fail(ValueError())
    error.set(1)

    assert value.is_there()
    assert value.wait(0)
    assert value.result() == 1
    for _ in range(2):
        with pytest.raises(Dead, match="gone"):
            error.result()


def test_any_patience_will_do() -> None:
    """A time-out below nothing is none left; one longer than threads can wait is as long."""
    answer = Answer()
    now = [answer.wait(-3.0), answer.wait(0.0)]
    answer.set("x")

    assert now == [False, False]
    assert answer.wait(1e30)
    assert answer.wait(None)


def test_an_actor_that_is_done_answers_once_it_has_left(scheduler: Scheduler) -> None:
    """Whoever asked it to finish finds it gone."""
    actor = RecordingProcess("a", scheduler.lane("a"))
    ref = actor.launch()

    assert ref.ask(actor.finish, scheduler, PATIENCE) is None
    assert not ref.is_alive()
    assert actor.hooks == ["start", "stop"]
    assert actor.exit == NORMAL


def test_an_actor_that_ends_itself_by_a_crash_says_so(scheduler: Scheduler) -> None:
    """To finish with an error is a crash to whoever asked."""
    actor = RecordingProcess("a", scheduler.lane("a"))
    ref = actor.launch()
    error = ValueError("broken")

    with pytest.raises(Crashed) as caught:
        ref.ask(lambda: actor.finish(Exit(Reason.CRASH, error)), scheduler, PATIENCE)
    assert caught.value.__cause__ is error
