"""A log that is only looked at says what is in it, without being told how."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from actors.model.providers.scripted import Scripted
from actors.turn.runes import Completed
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.codec import Codec
from runelog.memory import MemoryLog
from runelog.rune import MAX_SHOWN, Change, Envelope, Rune, Unknown, Visibility
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def talked(tmp_path: Path) -> Path:
    """Leave the log of a runtime behind in which one turn was taken."""
    with Runtime.open(tmp_path, providers={"demo": Scripted(["Hello!"])}) as runtime:
        session = runtime.create_session(
            AgentSpec(role="helper", model="demo"), conversation_id="conv_ada"
        )
        session.send("Hi", message_id="first").result(10)
    return tmp_path


def test_a_log_that_is_only_read_knows_the_runes_of_what_is_installed(talked: Path) -> None:
    """No codec need be given; one that is given holds, and so does that of a log to write to."""
    with Runelog.open(talked, readonly=True) as log:
        found = [each.payload for each in log.read("conv_ada")]
    with Runelog.open(talked) as log:
        bare = [each.payload for each in log.read("conv_ada")]

    assert any(isinstance(each, Completed) for each in found)
    assert not any(isinstance(each, Unknown) for each in found)
    assert all(isinstance(each, Unknown) for each in bare)


def test_a_rune_that_is_printed_says_what_happened(talked: Path) -> None:
    """Its kind, its event, its conversation and its payload; cut, if that is long."""
    with Runelog.open(talked, readonly=True) as log:
        (first,) = log.read("conv_ada", kinds={"session.input_accepted"})
        long = [repr(each) for each in log.read("conv_ada")]

    assert repr(first).startswith(
        f"<Envelope session.input_accepted {first.event_id} of conv_ada: "
        "InputAccepted(message_id='first', content='Hi', "
    )
    assert all(len(each) < MAX_SHOWN + 20 for each in long)


def test_a_rune_that_cannot_be_read_is_shown_all_the_same(talked: Path) -> None:
    """What is printed in a traceback must not raise one more."""
    with Runelog.open(talked, readonly=True) as log:
        first = next(log.read("conv_ada"))
        torn = msgspec.structs.replace(first, body=msgspec.Raw(b"\xc1"))
        loose = Envelope("turn_1", (), None, None, 0, Visibility.PUBLIC, (), 1, msgspec.Raw(b""))

        assert repr(torn).startswith("<Envelope 1 of conv_ada, which cannot be read: ")
        assert repr(loose) == "<Envelope of turn_1, that no log gave out>"


def test_a_long_rune_is_cut() -> None:
    """A megabyte of text is no use in a terminal."""

    class Said(Rune, frozen=True, tag="note.said"):
        """Somebody said something."""

        text: str

    log = MemoryLog(Codec([Said]))
    log.append("conv_a", [Change("note_1", 0, [Said("x" * 100_000)])])
    shown = repr(next(log.read("conv_a")))

    assert len(shown) < MAX_SHOWN + 20
    assert shown.endswith("x…>")
