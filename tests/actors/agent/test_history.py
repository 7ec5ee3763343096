"""Rules about how long a history is: that is what the tokens of the next call are guessed from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agent.history import History
from actors.model.runes import AskedCall, Completed
from actors.turn.runes import Started, ToolCallsReceived


def asked_for(*calls: AskedCall) -> History:
    """Return a history in which a model said nothing and asked for these."""
    history = History()
    history.take(Completed(model_call_id="turn_1-r0-a0", calls=calls), lambda _: "")
    history.take(ToolCallsReceived(tuple(call.call_id for call in calls), 0), lambda _: "")
    return history


@given(st.dictionaries(st.text("abc", min_size=1), st.text(max_size=300) | st.integers(0, 10**9)))
def test_arguments_are_as_long_as_they_are_shown(arguments: dict[str, Any]) -> None:
    """A file that a model wrote into an argument is sent back to it whole, and so counted whole."""
    history = asked_for(AskedCall("a", "save", arguments), AskedCall("b", "save", arguments))

    assert history.characters == 2 * (len("save") + len(msgspec.json.encode(arguments)))


def test_arguments_that_could_not_be_read_count_as_they_are() -> None:
    """The model is shown what it wrote."""
    assert asked_for(AskedCall("a", "save", raw="{" * 1_000)).characters == len("save") + 1_000


@pytest.mark.parametrize(("text", "length"), [("", 0), ("four", 4), ("é", 2), ("漢字", 6)])
def test_a_letter_that_takes_more_room_counts_for_more(text: str, length: int) -> None:
    """A model makes more tokens of it, too."""
    history = History()
    history.take(Started(turn_id="turn_1", agent_id="agt_1", input=text), lambda _: "")

    assert history.characters == length
