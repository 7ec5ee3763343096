"""Rules about a history: in what order a model is shown results, and how long all of it is.

From how long it is the tokens of the next call are guessed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.agent.history import History
from actors.model.runes import AskedCall, Completed
from actors.tool.runes import Result
from actors.turn.runes import Error, Interrupted, Started, ToolCallsReceived, ToolsFinished

if TYPE_CHECKING:
    from runelog.rune import Rune


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


@pytest.mark.parametrize(
    "end", [ToolsFinished(()), Interrupted("enough", ""), Error("timeout", "too late")]
)
@pytest.mark.parametrize("came", [*itertools.permutations("abc")])
def test_results_are_shown_as_they_were_asked_for(came: tuple[str, ...], end: Rune) -> None:
    """Which of several tools is first is chance, and a crash makes another one the first."""
    history = asked_for(*(AskedCall(call, "look", {}) for call in "abc"))
    for call in came:
        history.take(Result(call_id=call, status="success", output=call), lambda _: "")
    history.take(end, lambda _: "")

    assert [each.call_id for each in history.messages if each.role == "tool"] == ["a", "b", "c"]
