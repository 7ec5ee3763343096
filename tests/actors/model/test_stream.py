"""Rules about an answer as it comes: what is taken of it, when, and that a closed one is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.lifecycle import Fail, Finish
from actors.model.provider import Done, Request, Text
from actors.model.stream import GATHER, LONGEST_GATHER, MANY, Stream
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.units import SECOND
from runefold.testing.stage import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.model.provider import Event

REQUEST = Request(model="m", system="", messages=())


class Answering:
    """One answer under way; what is told of it is counted, and taken when a test does."""

    def __init__(self) -> None:
        """Begin before anything is said."""
        self.clock = ManualClock()
        self.told = 0
        self.scheduler = ManualScheduler(self.clock)
        self.stream = Stream(self.clock, self.scheduler, SeededChance(0), self._tell)

    def _tell(self, stream: Stream) -> None:
        assert stream is self.stream
        self.told += 1

    def read(self, events: Iterable[Event]) -> None:
        """Read a provider that says this, to its end."""
        steps = self.stream.steps(Saying(events), REQUEST)
        while True:
            try:
                next(steps)
            except StopIteration as over:
                if over.value is not None:
                    over.value()
                return


class Saying:
    """A provider that says what it is given."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Begin before the first word."""
        self._events = events

    def stream(self, request: Request) -> Iterator[Event]:
        """Say it, whatever is asked."""
        assert request is REQUEST
        yield from self._events


@pytest.mark.parametrize("before", [0, 1, 2])
def test_nothing_of_an_answer_is_taken_once_it_is_closed(before: int) -> None:
    """A fragment that was on its way when the stream was closed is dropped, the first one too."""
    answering = Answering()
    stream, closed = answering.stream, []

    def events() -> Iterator[Event]:
        for _ in range(before):
            yield Text("in time. ")
        closed.append(stream.close())
        yield Text("too late. ")
        yield Done("stop")

    answering.read(events())
    said = "in time. " * before
    answering.clock.advance(1)

    assert closed == [said]
    assert stream.text == said
    assert stream.length == len(said)
    assert stream.take() == stream.close() == ""
    assert answering.told == min(before, 1)
    assert answering.clock.next_alarm is None


def test_what_waits_is_told_of_once_and_taken_at_once() -> None:
    """However many fragments come before anybody looks; and the next one is told of again."""
    answering = Answering()

    def events() -> Iterator[Event]:
        for _ in range(100):
            yield Text("word. ")
        assert answering.told == 1
        assert answering.stream.take() == "word. " * 100
        assert answering.stream.take() == ""
        yield Text("more. ")
        yield Text("and more. ")
        assert answering.told == 2
        yield Done("stop")

    answering.read(events())

    assert answering.told == 3
    assert isinstance(answering.stream.outcome, Finish)
    assert answering.stream.close() == "more. and more. "


def test_what_is_held_back_is_told_of_when_it_is_time() -> None:
    """With all that came until then; the end of the answer does not wait."""
    answering = Answering()
    stream, clock = answering.stream, answering.clock
    stream.held_until = clock.now() + 1_000_000_000

    def events() -> Iterator[Event]:
        yield Text("one. ")
        clock.advance(0.5)
        yield Text("two. ")
        assert answering.told == 0
        clock.advance(0.5)
        assert answering.told == 1
        assert stream.take() == "one. two. "
        stream.held_until = clock.now() + 1_000_000_000
        yield Text("three. ")

    answering.read(events())

    assert answering.told == 2
    assert isinstance(stream.outcome, Fail)
    assert stream.close() == "three. "
    assert clock.next_alarm is None


def test_an_answer_is_read_more_slowly_while_actors_are_behind() -> None:
    """It goes on when they have caught up; that nothing was read meanwhile is no silence."""
    answering = Answering()
    clock, stream = answering.clock, answering.stream
    steps = stream.steps(Saying([Text("one. "), Text("two. "), Done("stop")]), REQUEST)
    next(steps)
    answering.scheduler.backlog = MANY + 1
    pauses, heard_at = [], stream.heard_at
    for _ in range(5):
        until = next(steps)
        assert until is not None
        pauses.append(until - clock.now())
        clock.move_to(until)
    behind = stream.length
    answering.scheduler.backlog = MANY
    next(steps)

    assert pauses == [GATHER] * 5
    assert behind == len("one. ")
    assert stream.length == len("one. two. ")
    assert stream.heard_at == clock.now() == heard_at + 5 * GATHER


@pytest.mark.parametrize(
    ("late", "held"), [(0, 0.02), (0.014, 0.02), (0.05, 0.1), (0.1, 0.2), (5, 0.25)]
)
def test_what_comes_is_held_back_for_longer_while_actors_do_not_keep_up(
    late: float, held: float
) -> None:
    """Under 20 ms as a rule; twice as long as actors are late, and at most 250 ms."""
    answering = Answering()
    stream, clock = answering.stream, answering.clock

    def events() -> Iterator[Event]:
        yield Text("first. ")
        clock.advance(late)
        assert stream.take() == "first. "
        stream.hold_back()
        yield Text("second. ")
        yield Text("third. ")

    answering.read(events())
    wait = stream.held_until - clock.now()

    assert 0 < wait <= held * SECOND
    assert wait <= LONGEST_GATHER
    assert (wait == round(held * SECOND)) is (late >= 0.05)
    assert stream.close() == "second. third. "


@pytest.mark.parametrize(
    ("others", "held"), [(0, 1 / 70), (50, 1 / 70), (499, 0.1), (999, 0.2), (5_000, 0.25)]
)
def test_what_comes_is_held_back_for_longer_the_more_streams_speak(
    others: int, held: float
) -> None:
    """Together they are not more than 5,000 runes a second; one that has ended does not count."""
    clock, speaking = ManualClock(), set[Stream]()
    scheduler = ManualScheduler(clock)

    def begun() -> Stream:
        chance = SeededChance(0)
        stream = Stream(clock, scheduler, chance, lambda _: None, speaking=speaking)
        stream._due_at = clock.now()
        stream.hold_back()
        return stream

    ended = [begun() for _ in range(10)]
    for stream in ended:
        stream.close()
    streams = [begun() for _ in range(others + 1)]

    assert abs(streams[-1].held_until - clock.now() - held * SECOND) <= 1
    assert speaking == {*streams}
