"""Where an app's code failed: operators are told in full, and the log has it in short."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from actors.model import runes as model
from actors.model.providers.scripted import call
from actors.tool import runes as tools
from actors.tool.adapters.function import tool
from actors.tool.policy import Policy
from tests.runefold.talks import Raw, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


KEY = "sk-proj-" + "Ab1" * 12


@tool(side_effects=False)
def look_up(name: str) -> str:
    """Look something up."""
    return _in_the_book(name)


def _in_the_book(name: str) -> str:
    message = f"no {name} under {KEY}"
    raise LookupError(message)


def told(caplog: pytest.LogCaptureFixture, event: str) -> logging.LogRecord:
    """Return what operators were told of an event, once."""
    (found,) = [record for record in caplog.records if vars(record)["event"] == event]
    return found


def stack(record: logging.LogRecord) -> str:
    """Return the stack that operators were told."""
    found = record.__dict__["exception"]
    assert isinstance(found, str)
    return found


def test_a_tool_that_raises_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """Operators have the whole stack, the rune the app's own frames, the model neither."""
    there = talk([[call("look_up", name="Ada")], "So."], look_up)
    there.session.send("?").result(10)
    (result,) = there.runes("tool.result")
    record = told(caplog, "tool_failed")

    assert isinstance(result, tools.Result)
    assert [each.partition(":")[0] for each in result.frames] == [
        "runefold/test_runtime_app_errors.py"
    ] * 2
    assert [each.rpartition(" ")[2] for each in result.frames] == ["look_up", "_in_the_book"]
    assert result.error.startswith("LookupError: no Ada under ")
    assert "function.py" in stack(record)
    assert record.__dict__["tool"] == "look_up"
    assert record.__dict__["call"] == result.call_id
    assert record.__dict__["conversation"] == there.session.id
    assert "test_runtime_app_errors" not in there.model.results[0][1]


def test_any_formatter_shows_what_failed_where_and_why(caplog: pytest.LogCaptureFixture) -> None:
    """An ordinary format writes the event, its fields and the stack, all without secrets."""
    there = talk([[call("look_up", name="Ada")], "So."], look_up)
    there.session.send("?").result(10)
    (result,) = there.runes("tool.result")
    shown = logging.Formatter(logging.BASIC_FORMAT).format(told(caplog, "tool_failed"))
    first, rest = shown.split("\n", 1)

    assert isinstance(result, tools.Result)
    assert first.startswith(
        f"WARNING:runefold:tool_failed: tool=look_up call={result.call_id} "
        f"conversation={there.session.id} error='LookupError: no Ada under "
    )
    assert rest.startswith("Traceback (most recent call last):")
    assert "in _in_the_book" in rest
    assert "redacted" in first
    assert KEY not in shown


def test_a_stack_has_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """What looks like a key is replaced in the stack as in the message."""
    there = talk([[call("look_up", name="Ada")], "So."], look_up)
    there.session.send("?").result(10)

    assert "redacted" in stack(told(caplog, "tool_failed"))
    assert KEY not in stack(told(caplog, "tool_failed"))


def test_a_provider_that_raises_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The failed call says where it failed in the app's code."""

    def broken(_request: Any) -> Iterator[str]:  # noqa: ANN401 -- of no matter here
        message = "no model"
        raise ConnectionError(message)
        yield ""

    there = talk(Raw(broken), retries=0)
    there.session.send("?").result(10)
    (failed,) = there.runes("model.failed")
    record = told(caplog, "provider_failed")

    assert isinstance(failed, model.Failed)
    assert failed.error_type == "ConnectionError"
    assert failed.frames[-1].endswith(" in broken")
    assert "stream.py" in stack(record)
    assert record.__dict__["model"] == "demo"
    assert record.__dict__["call"] == failed.model_call_id


def test_a_policy_that_raises_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The call that it denied says where the policy failed."""

    def judge(_name: str, arguments: dict[str, Any], _tool: object) -> Any:  # noqa: ANN401 -- never
        return arguments["limit"]

    there = talk(
        [[call("look_up", name="Ada")], "So."], look_up, stage={"policy": Policy(function=judge)}
    )
    there.session.send("?").result(10)
    (called,) = there.runes("tool.call")
    record = told(caplog, "policy_failed")

    assert isinstance(called, tools.Called)
    assert called.rule.reason == "the policy failed: KeyError: 'limit'"
    assert called.rule.frames[-1].endswith(" in judge")
    assert record.__dict__["tool"] == "look_up"
    assert record.__dict__["call"] == called.call_id


def test_a_probe_that_raises_is_told_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """The call stays in doubt, and says where its probe failed."""

    def was_sent(call_id: str, _arguments: dict[str, Any]) -> None:
        raise TimeoutError(call_id)

    @tool(on_doubt="probe", probe=was_sent)
    def send(text: str) -> str:
        """Send it."""
        there.stage.crash()
        return text

    there = talk([[call("send", text="hi")], "So."], send)
    there.session.send("?")
    there.stage.run()
    there.reopen()
    there.stage.run()
    (result,) = there.runes("tool.result")

    assert isinstance(result, tools.Result)
    assert result.status == "unknown"
    assert "the probe failed: TimeoutError" in result.error
    assert result.frames[-1].endswith(" in was_sent")
    assert told(caplog, "probe_failed").__dict__["tool"] == "send"


def test_what_is_kept_of_a_stack_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """An endless recursion is a few frames in the rune, and some pages for operators."""

    @tool(side_effects=False)
    def endless(depth: int) -> str:
        """Never end."""
        return endless(depth + 1)

    there = talk([[call("endless", depth=0)], "So."], endless)
    there.session.send("?").result(10)
    (result,) = there.runes("tool.result")

    assert isinstance(result, tools.Result)
    assert len(result.frames) == 8
    assert len(stack(told(caplog, "tool_failed"))) <= 16 << 10


def test_what_a_tool_refuses_in_order_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    """Arguments that do not fit are the model's mistake: operators are told of no failure."""
    there = talk([[call("look_up", nam="Ada")], "So."], look_up)
    there.session.send("?").result(10)

    assert not [each for each in caplog.records if vars(each)["event"] == "tool_failed"]
