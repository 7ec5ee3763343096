"""Rules about what a running call has around it, and about what it says."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.redaction.strands import Strands
from actors.tool.context import Call, Cancellation, cancelled, progress, stop_if_cancelled
from actors.tool.outcome import in_words
from actors.tool.output import Clip, clip
from actors.tool.sandbox.streams import Streams
from actors.tool.secrets import SecretMask
from runelog.errors import Refused


def test_outside_a_call_nothing_is_said_and_nothing_stops() -> None:
    """A tool's function can be tested as the function it is."""
    progress("anyone?")
    stop_if_cancelled()

    assert not cancelled()


def test_a_cancellation_reaches_whoever_waits() -> None:
    """From another thread, once; a second time changes nothing."""
    cancellation, heard = Cancellation(), []
    with cancellation.calling(lambda: heard.append(1)):
        other = threading.Thread(target=cancellation.cancel)
        other.start()
        waited = cancellation.wait()
        other.join()
        cancellation.cancel()

    assert waited
    assert heard == [1]


def test_who_comes_late_is_told_at_once_and_who_left_is_not() -> None:
    """A callback runs while its block does, or never."""
    cancellation, heard = Cancellation(), []
    with cancellation.calling(lambda: heard.append("left")):
        pass
    cancellation.cancel()
    with cancellation.calling(lambda: heard.append("late")):
        pass

    assert heard == ["late"]


def test_no_secret_is_known_unless_it_is_given() -> None:
    """A call without secrets refuses every name, and says where to give one."""
    with pytest.raises(Refused, match="no secret is named 'KEY' here"):
        Call(call_id="c").secret("KEY")


@given(st.lists(st.text(max_size=20)), st.integers(1, 60))
def test_a_clip_does_not_depend_on_how_text_came(pieces: list[str], limit: int) -> None:
    """In pieces or whole, the same is kept; never more than the limit; nothing is uncounted."""
    clipped = Clip(limit)
    for piece in pieces:
        clipped.feed(piece)
    text, dropped = clip("".join(pieces), limit)
    size = len("".join(pieces).encode())

    assert (clipped.text(), clipped.dropped) == (text, dropped)
    assert dropped == max(0, size - limit)
    assert dropped or text == "".join(pieces)


@given(st.lists(st.sampled_from(["hunter2", "hunt", "er2", "hunter22", "x", "2"])), st.data())
def test_no_secret_slips_through_in_pieces(words: list[str], data: st.DataObject) -> None:
    """Wherever the streams of a tool are cut, the value is not in what is shown of them."""
    strands = Strands(SecretMask({"SHORT": "hunter2", "LONG": "hunter22"}))
    rest, shown = "".join(words), list[tuple[str, str]]()
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        shown += strands.feed(data.draw(st.sampled_from(["out", "err"])), rest[:size])
        rest = rest[size:]
    shown += strands.end()

    assert "hunter2" not in "".join(text for _, text in shown)
    for stream in ("out", "err"):
        assert "hunter2" not in "".join(text for name, text in shown if name == stream)


def test_a_program_cannot_say_a_secret_on_two_streams() -> None:
    """Half on one stream and half on the other: neither what is shown nor what is kept has it."""
    said: list[tuple[str, str]] = []
    streams = Streams(1_000, lambda *each: said.append(each), SecretMask({"KEY": "hunter2"}))
    for stream, data in (("stdout", b"it is hun"), ("stderr", b"ter2"), ("stdout", b" ok")):
        streams.feed(stream, data)
    streams.finish()

    assert streams.kept.text() == "it is secret:KEY ok"
    assert {name for name, _ in said} == {"stdout"}
    assert "".join(text for _, text in said) == "it is secret:KEY ok"


def test_errors_are_told_in_words() -> None:
    """Type and message, the members of a group rather than the group, and bounded."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    group = ExceptionGroup("many", [ValueError("a"), ExceptionGroup("more", [KeyError("b")])])

    assert in_words(Mute()) == "Mute"
    assert in_words(KeyboardInterrupt()) == "KeyboardInterrupt"
    assert in_words(group) == "ValueError: a / KeyError: 'b'"
    assert in_words(OSError("\udce9")) == "OSError: \\udce9"
    assert len(in_words(ValueError("x" * 100_000))) < 9_000
