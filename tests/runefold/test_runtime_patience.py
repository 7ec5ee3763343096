"""Rules about how long one waits, and from where on one reads."""

from __future__ import annotations

import math
from typing import Any

import pytest

from actors.errors import Unanswered
from actors.model.providers.scripted import pause
from runelog.errors import Refused
from tests.runefold.talks import NAME, talk


@pytest.mark.parametrize("odd", ["5", math.nan, True, (1,)])
def test_nobody_waits_for_what_is_no_time(odd: Any) -> None:  # noqa: ANN401 -- anything
    """Before anything is asked for: what was to be stopped still runs."""
    there = talk([["a", pause(50), "b"], ["c"]])
    session, runtime = there.session, there.stage.runtime
    turn = session.send("go")
    there.until("turn.assistant_delta")

    for refused in (
        lambda: turn.result(odd),
        lambda: session.interrupt(timeout=odd),
        lambda: session.close(timeout=odd),
        lambda: session.follow(wait=odd),
        lambda: runtime.follow(wait=odd),
        lambda: runtime.wait_for(NAME, "turn.started", odd),
    ):
        with pytest.raises(Refused, match="give a number of seconds, or None to wait for ever"):
            refused()

    assert turn.result(math.inf).output == "ab"


def test_a_turn_that_takes_longer_than_somebody_waits_says_so() -> None:
    """It is named, and that it goes on."""
    there = talk([["a", pause(50), "b"]])
    turn = there.session.send("go", message_id="m1")

    with pytest.raises(
        Unanswered, match=r"<Turn of m1 of conv_a> has not ended within 5 s: it goe"
    ):
        turn.result(5)

    assert turn.result(100).output == "ab"


@pytest.mark.parametrize("odd", ["turn_1", -1, 1.5, None, True])
def test_a_place_to_go_on_from_that_is_none_is_refused(odd: Any) -> None:  # noqa: ANN401 -- anything
    """Whoever reads on from nowhere would miss something, or see it twice."""
    there = talk(["hi"])

    for refused in (
        lambda: there.session.runes(odd),
        lambda: there.session.follow(odd),
        lambda: there.stage.runtime.follow(odd),
    ):
        with pytest.raises(Refused, match="give the number of the last rune you have seen"):
            refused()
