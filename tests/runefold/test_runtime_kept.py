"""What was said is kept where a model was to be asked again, and cannot be."""

from __future__ import annotations

from actors.model.providers.scripted import fail, pause
from runefold.spec import Budget
from tests.runefold.talks import talk


def test_if_the_budget_has_no_retry_left_what_was_said_is_kept() -> None:
    """The attempt that was refused said nothing; the one before it did."""
    there = talk([["so ", fail("busy", "later", retryable=True)]] * 4, budget=Budget(retries=1))
    result = there.session.send("hi").result(1_000)

    assert (result.status, result.reason) == ("error", "budget_exhausted")
    assert result.output == "so "


def test_if_the_model_is_gone_after_a_crash_what_was_said_is_kept() -> None:
    """It is told as an error, and what there was of the answer is not lost."""
    there = talk([["so ", pause(50), "so"]])
    there.session.send("hi", message_id="m1")
    there.stage.run_until(lambda: "turn.assistant_delta" in there.kinds())
    session = there.reopen(providers={})
    result = session.send("hi", message_id="m1").result(1_000)

    assert (result.status, result.reason) == ("error", "unknown_model")
    assert result.output == "so "
