"""Rules about runs that outlive whoever waits for them: nothing they say is lost or repeated."""

from __future__ import annotations

from actors.tool.context import Cancellation
from actors.tool.running_calls import RunningCall, RunningCalls


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        """Begin with nothing heard."""
        self.heard: list[object] = []

    def __call__(self, what: object) -> None:
        """Take what is told."""
        self.heard.append(what)


def begun(listener: Listener) -> RunningCall:
    """Return a run that tells somebody."""
    return RunningCall(0, Cancellation(), listener)


def test_whoever_takes_over_hears_what_is_not_on_record() -> None:
    """The first word is kept, the others died with whoever was told: they are told again."""
    run, first, second = begun(Listener()), object(), object()
    run.say(first)
    run.say(second)
    run.recorded(first)
    run.take_over(successor := Listener())

    assert successor.heard == [second]


def test_words_come_before_the_outcome() -> None:
    """Whoever takes over a run that has ended hears all of it in order."""
    run, word, outcome = begun(Listener()), object(), object()
    run.say(word)
    run.over(outcome)
    run.take_over(successor := Listener())

    assert successor.heard == [word, outcome]


def test_what_is_said_after_a_takeover_goes_to_the_successor() -> None:
    """The one before is told nothing more."""
    run = begun(before := Listener())
    run.take_over(successor := Listener())
    run.say("on my way")

    assert (before.heard, successor.heard) == ([], ["on my way"])


def test_a_word_of_another_run_is_not_taken_for_ones_own() -> None:
    """What an earlier run of the same call says late does not count as heard of this one."""
    run, word = begun(Listener()), object()
    run.say(word)
    run.recorded(object())
    run.take_over(successor := Listener())

    assert successor.heard == [word]


def test_of_a_run_that_is_late_nothing_is_kept() -> None:
    """One that talks for ever after its call has a result takes up no room."""
    runs, run = RunningCalls(), begun(Listener())
    runs.begin("conv_1", "call_1", run)
    runs.end("conv_1", "call_1")
    run.say("still here")
    run.take_over(successor := Listener())

    assert successor.heard == []


def test_an_outcome_after_the_end_is_dropped_and_not_told() -> None:
    """How the call came out is recorded: what the run comes to then goes to whoever drops it."""
    listener, dropped, runs = Listener(), Listener(), RunningCalls()
    run = RunningCall(0, Cancellation(), listener, dropped)
    runs.begin("conv_a", "call_1", run)

    assert runs.end("conv_a", "call_1") is None
    run.over("late")
    assert (listener.heard, dropped.heard) == ([], ["late"])


def test_the_end_tells_what_was_on_its_way() -> None:
    """Whoever records how a call came out finds out that its run came to something meanwhile."""
    runs, run = RunningCalls(), begun(Listener())
    runs.begin("conv_a", "call_1", run)
    run.over("done")

    assert runs.end("conv_a", "call_1") == "done"
    assert runs.end("conv_a", "call_1") is None


def test_a_close_drops_all_there_is_and_all_that_comes() -> None:
    """Those who waited are gone: neither what is over nor what is under way is lost in silence."""
    dropped, runs = Listener(), RunningCalls()
    over, under_way = (RunningCall(0, Cancellation(), Listener(), dropped) for _ in range(2))
    runs.begin("conv_a", "call_1", over)
    runs.begin("conv_a", "call_2", under_way)
    over.over("first")
    runs.close()
    under_way.over("second")

    assert dropped.heard == ["first", "second"]
    assert runs.find("conv_a", "call_1") is None
