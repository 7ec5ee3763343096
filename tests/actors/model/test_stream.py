"""Rules about an answer as it comes: how fragments are gathered, and that a closed one is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.provider import Done, Request, Text
from actors.model.stream import GATHER, MOST, Stream
from actors.scheduling.clock import ManualClock
from runefold.testing.stage import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.model.provider import Event
    from actors.model.runes import AssistantDelta
    from runelog.rune import Change

REQUEST = Request(model="m", system="", messages=())


class Answering:
    """One answer under way, with what comes of it written down here."""

    def __init__(self) -> None:
        """Begin before anything is said."""
        self.clock = ManualClock()
        self.written: list[str] = []
        self.told: list[object] = []
        self.stream = Stream(
            self._write, "turn_1-r0-a0", self.clock, SeededChance(0), self.told.append, self._hear
        )

    def _write(self, change: Change) -> int:
        self.written += [rune.text for rune in change.runes if hasattr(rune, "text")]
        return len(self.written)

    def _hear(self, event_id: int, rune: AssistantDelta) -> None:
        assert self.written[event_id - 1] == rune.text

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

    def events() -> Iterator[Event]:
        for _ in range(before):
            yield Text("in time. ")
        answering.written.append(answering.stream.close())
        yield Text("too late. ")
        yield Done("stop")

    answering.read(events())
    said = "in time. " * before
    answering.clock.advance(1)

    assert "".join(answering.written) == answering.stream.text == said
    assert answering.stream.length == len(said)
    assert answering.told == []
    assert answering.clock.next_alarm is None


def test_so_many_fragments_at_most_go_into_one_rune() -> None:
    """The first is written at once; those that follow are gathered up to the limit, and no more."""
    answering = Answering()
    answering.read([*[Text("word. ")] * (1 + 2 * MOST), Done("stop")])

    assert [text.count("word") for text in answering.written] == [1, MOST, MOST]


def test_fragments_are_kept_back_no_longer_than_they_may() -> None:
    """What follows the first is written when it is time, with what came until then."""
    answering = Answering()

    def events() -> Iterator[Event]:
        yield Text("one. ")
        yield Text("two. ")
        yield Text("three. ")
        answering.clock.advance(GATHER / 1e9)
        yield Text("four. ")

    answering.read(events())

    assert answering.written == ["one. ", "two. three. four. "]
