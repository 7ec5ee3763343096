"""What a conversation decided goes to the log together, numbered as the log numbers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.shell.write_buffer import LONGEST, WriteBuffer
from runelog.codec import Codec
from runelog.errors import LogFailed, LogFull, Refused, WrongVersion
from runelog.memory import MemoryLog
from runelog.rune import Appended, Change, Rune

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Noted(Rune, frozen=True, tag="buffer.noted"):
    """Something happened."""

    text: str


def change(entity: str, *texts: str, expected: int | None = None) -> Change:
    """Return what an entity adds."""
    return Change(entity, expected, [Noted(text) for text in texts], ("parent",))


class CountedLog(MemoryLog):
    """A log that counts the appends it takes, and refuses on demand."""

    def __init__(self, *, hold: bool) -> None:
        """Begin willing."""
        super().__init__(Codec([Noted]), hold=hold)
        self.sizes: list[int] = []
        self.refuses: Exception | None = None

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, unless told not to."""
        if self.refuses is not None:
            raise self.refuses
        self.sizes.append(len(changes))
        return super().append(conversation, changes, durable=durable, timeout=timeout)


class BufferOnLog:
    """A buffer on a log."""

    def __init__(self, *, hold: bool = False) -> None:
        """Begin with one rune in the log, so that its numbers are known."""
        self.log = CountedLog(hold=hold)
        self.failures = 0
        self.buffer = WriteBuffer(self.log, "conv_1", self._failed)
        self.buffer.write([change("a", "first")], ())

    def _failed(self) -> None:
        self.failures += 1

    def texts(self) -> list[tuple[int, str]]:
        """Return what the log has."""
        found = []
        for envelope in self.log.read("conv_1"):
            assert isinstance(envelope.payload, Noted)
            found.append((envelope.event_id, envelope.payload.text))
        return found


def test_what_is_written_is_numbered_as_the_log_will_number_it() -> None:
    """Each write is told its first event, though the log has heard of none of them yet."""
    desk = BufferOnLog()
    runes = ("x", "y"), ("z",)
    firsts = [desk.buffer.write([change("a", *each)], ()) for each in runes]
    desk.buffer.sync()

    assert firsts == [2, 4]
    assert desk.texts() == [(1, "first"), (2, "x"), (3, "y"), (4, "z")]


def test_a_page_is_one_append() -> None:
    """What was gathered is in the log as a whole or not at all."""
    desk = BufferOnLog()
    for text in "abc":
        desk.buffer.write([change(text, text)], ())
    desk.buffer.flush()

    assert desk.log.sizes == [1, 3]


def test_a_page_does_not_grow_without_end() -> None:
    """A conversation that decides and decides hands in now and then."""
    desk = BufferOnLog()
    for number in range(2 * LONGEST):
        desk.buffer.write([change(f"e{number}", "x")], ())

    assert max(desk.log.sizes) == LONGEST


def test_it_knows_whose_streams_it_makes_longer() -> None:
    """Owners and observers both; none once the buffer is in the log."""
    desk = BufferOnLog()
    desk.buffer.write([change("b", "x")], {"b", "parent"})
    touched = set(desk.buffer.touched)
    desk.buffer.flush()

    assert touched == {"b", "parent"}
    assert desk.buffer.touched == set()


def test_what_goes_to_the_log_at_once_goes_behind_what_was_written() -> None:
    """A fragment does not overtake the decisions before it."""
    desk = BufferOnLog()
    desk.buffer.write([change("a", "decided")], ())
    desk.buffer.write([change("b", "heard")], (), at_once=True)
    desk.buffer.sync()

    assert desk.texts() == [(1, "first"), (2, "decided"), (3, "heard")]


def test_what_is_refused_at_once_changes_nothing() -> None:
    """Whoever asked is told, and the buffer goes on from where it was."""
    desk = BufferOnLog()
    with pytest.raises(WrongVersion):
        desk.buffer.write([change("a", "late", expected=0)], (), at_once=True)
    first = desk.buffer.write([change("a", "next")], ())
    desk.buffer.sync()

    assert desk.failures == 0
    assert first == 2
    assert desk.texts() == [(1, "first"), (2, "next")]


@pytest.mark.parametrize("error", [LogFull("no room"), Refused("no"), LogFailed("gone")])
def test_a_page_that_is_lost_is_told_of_once(error: Exception) -> None:
    """Whoever believes in what was on it has to begin anew."""
    desk = BufferOnLog()
    desk.buffer.write([change("a", "lost")], ())
    desk.log.refuses = error
    with pytest.raises(type(error)):
        desk.buffer.sync()
    desk.buffer.fail(RuntimeError("again"))

    assert desk.failures == 1
    assert desk.buffer.failed is error


def test_somebody_else_who_writes_is_noticed() -> None:
    """Numbers that were told already would be wrong: that is a failure, and not passed over."""
    desk = BufferOnLog()
    desk.buffer.write([change("b", "mine")], ())
    desk.log.append("conv_1", [change("c", "theirs")])
    with pytest.raises(LogFailed, match="another writer appended"):
        desk.buffer.sync()

    assert desk.failures == 1


@pytest.mark.parametrize(
    "go_on",
    [WriteBuffer.sync, lambda buffer: buffer.write([change("b", "next")], (), at_once=True)],
)
def test_what_the_log_lost_is_noticed_whoever_was_told(
    go_on: Callable[[WriteBuffer], object],
) -> None:
    """A log tells of a loss but once, and not always us: nothing counts as kept that is not."""
    desk = BufferOnLog(hold=True)
    desk.buffer.sync()
    desk.buffer.write([change("a", "lost")], (), at_once=True)
    desk.log.lose_pending()
    with pytest.raises(LogFull, match="no room for what was decided in conv_1 after event 1"):
        go_on(desk.buffer)

    assert desk.failures == 1
    assert desk.buffer.kept == 1


def test_without_room_for_more_it_knows_what_was_kept() -> None:
    """That what came before is on disk is no less true, and whoever asked for it may be told."""
    desk = BufferOnLog()
    desk.buffer.write([change("a", "kept")], (), at_once=True)
    desk.log.refuses = LogFull("no room")
    with pytest.raises(LogFull):
        desk.buffer.write([change("a", "lost")], (), at_once=True)
    desk.log.append = super(CountedLog, desk.log).append  # type: ignore[method-assign]  # room again
    desk.log.append("conv_1", [change("b", "of whoever began anew")])

    assert desk.buffer.kept == 2


def test_a_conversation_whose_beginning_was_lost_is_noticed() -> None:
    """There is nothing to be found of it then, and that is no reason to believe in it."""
    desk = BufferOnLog(hold=True)
    desk.log.lose_pending()
    with pytest.raises(LogFull, match="after event 0"):
        desk.buffer.sync()

    assert desk.failures == 1
