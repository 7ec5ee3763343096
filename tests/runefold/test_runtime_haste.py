"""Rules about time that runs short: operators are warned when 80 % of a limit have passed, once."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from actors.model.providers.scripted import Scripted, call, pause
from actors.tool.adapters.function import tool
from runefold.agents import AgentTool
from runefold.spec import AgentSpec, Budget
from runelog.errors import Corrupt, IllegalTransition, LogFailed
from supervisors import passivation
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

LIMITS: Final[dict[str, Any]] = {
    "turn_timeout": 1_000,
    "first_byte_timeout": 100,
    "silence_timeout": 200,
}


@tool(requires_approval=True, approval_timeout=500)
def pay() -> str:
    """Pay, if a human agrees."""
    return "paid"


def slow(request: Request) -> Reply:
    """Take so long for the first word, and so long for the next; or pay."""
    first, _, then = request.messages[-1].text.partition(" ")
    if first == "pay":
        return [call("pay")]
    return ["done"] if not first.isdigit() else [pause(int(first)), "so ", pause(int(then)), "so"]


class TimeWarnings:
    """What an operator hears of time that runs short."""

    def __init__(self, there: Talk, caplog: pytest.LogCaptureFixture) -> None:
        """Begin with nothing heard."""
        self._there = there
        self._begun = there.stage.clock.now()
        self._log = caplog

    def after(self, seconds: float) -> list[tuple[str, str, float, float]]:
        """Move on to that time; return who was warned of what, when, and by when it has to be."""
        clock = self._there.stage.clock
        self._there.stage.advance(seconds - (clock.now() - self._begun) / 1e9)
        found = [each for each in self._log.records if vars(each)["event"] == "time_runs_short"]
        assert all(each.levelno == logging.WARNING for each in found)
        return [
            (self.told(each, "lifecycle"), self.told(each, "of"), *self.times(each))
            for each in found
        ]

    def told(self, record: logging.LogRecord, field: str) -> Any:  # noqa: ANN401 -- of any type
        """Return what a record says."""
        return getattr(record, field)

    def times(self, record: logging.LogRecord) -> tuple[float, float]:
        """Return when it was said and by when it has to be, in seconds from the beginning."""
        moments = (datetime.fromisoformat(self.told(record, each)) for each in ("time", "by"))
        found = [round(each.timestamp() - self._begun / 1e9, 3) for each in moments]
        return found[0], found[1]


def ask(word: str, caplog: pytest.LogCaptureFixture, **agent: Any) -> tuple[Talk, TimeWarnings]:  # noqa: ANN401 -- those of AgentSpec
    """Send a message to an agent with such limits."""
    there = talk(slow, pay, **{**LIMITS, "retries": 0, **agent})
    there.stage.run()
    ears = TimeWarnings(there, caplog)
    there.session.send(word)
    return there, ears


def test_a_first_byte_that_takes_long_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """At 80 % of its time, and not again."""
    _, ears = ask("99 1", caplog)

    assert ears.after(79.9) == []
    assert ears.after(90) == [("model", "calling", 80, 100)]
    assert ears.after(101) == [("model", "calling", 80, 100)]


def test_a_stream_that_falls_silent_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """From the last that came; and what is late in the end has failed when it says so."""
    there, ears = ask("10 300", caplog)
    silence = ("model", "silence", 170, 210)

    assert ears.after(169.9) == []
    assert ears.after(209.9) == [silence]
    assert there.runes("model.failed") == []
    assert ears.after(210) == [silence]
    assert len(there.runes("model.failed")) == 1


def test_a_turn_that_takes_long_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """And ends when it should."""
    there, ears = ask("10 5000", caplog, silence_timeout=9_000)
    turn = ("turn", "streaming", 800, 1_000)

    assert ears.after(799) == []
    assert ears.after(999) == [turn]
    assert there.runes("turn.error") == []
    assert ears.after(1_001) == [turn]
    assert len(there.runes("turn.error")) == 1


def test_a_turn_whose_time_is_counted_is_warned_of_as_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once, and not for each stretch that is set aside of it."""
    budget = Budget(wall_seconds=50_000)
    _, ears = ask("10 5000", caplog, silence_timeout=9_000, turn_timeout=4_000, budget=budget)

    assert ears.after(3_199) == []
    assert ears.after(3_999) == [("turn", "streaming", 3_200, 4_000)]


def test_what_ends_in_time_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Not even later, when the time would have come."""
    _, ears = ask("50 100", caplog)

    assert ears.after(5_000) == []


def test_an_approval_that_nobody_gives_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """By whoever waits for it, as long as that one is awake."""
    there, ears = ask("pay", caplog, stage={"idle_after": 10_000})

    assert ears.after(399) == []
    assert ears.after(499) == [("tool", "awaiting_approval", 400, 500)]
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    assert ears.after(3_000) == [("tool", "awaiting_approval", 400, 500)]


def test_an_approval_is_warned_of_while_its_session_sleeps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is woken for that, once, and sleeps again until the time is up."""
    there, ears = ask("pay", caplog, stage={"idle_after": 5})
    asleep = ears.after(399), there.stage.runtime._core.tree.awake()
    warned = ears.after(402), there.stage.runtime._core.tree.awake()
    again = ears.after(499), there.stage.runtime._core.tree.awake()
    ears.after(501)

    late = ("tool", "awaiting_approval", 400, 500)
    assert asleep == ([], [])
    assert warned == ([late], [NAME])
    assert again == ([late], [])
    assert [rune.status for rune in there.runes("tool.result")] == ["timeout"]  # type: ignore[attr-defined]  # by its kind


@pytest.mark.parametrize("error", [Corrupt, IllegalTransition, LogFailed])
def test_a_call_that_cannot_be_read_as_it_falls_asleep_still_lapses_in_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """Nobody is warned of it then; its deadline is in the index."""
    there, ears = ask("pay", caplog, stage={"idle_after": 5})
    ears.after(1)

    def damaged(*_about: object, **_how: object) -> NoReturn:
        msg = "it cannot be read"
        raise error(msg)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(passivation, "replayed", damaged)
        ears.after(20)

    assert there.stage.runtime._core.tree.awake() == []
    assert ears.after(499) == []
    ears.after(501)
    assert len(there.runes("tool.result")) == 1


def test_whoever_looks_at_a_session_does_not_have_it_warned_of_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often it wakes and sleeps: a deadline is warned of once."""
    there, ears = ask("pay", caplog, stage={"idle_after": 5})
    for moment in (100, 410, 430, 460):
        ears.after(moment)
        assert len(there.session.approvals()) == 1

    assert ears.after(490) == [("tool", "awaiting_approval", 400, 500)]


def test_a_second_question_is_warned_of_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    """What was said of the first does not count for it."""
    there, ears = ask("pay", caplog, stage={"idle_after": 5})
    ears.after(450)
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    ears.after(460)
    there.session.send("pay")

    assert [each[2:] for each in ears.after(900)] == [(400, 500), (860, 960)]


def test_a_warning_comes_in_time_also_after_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    """What has passed before counts: the limit is the one that it was given."""
    there, ears = ask("pay", caplog, stage={"idle_after": 10_000})
    ears.after(300)
    there.reopen()

    assert ears.after(399) == []
    assert ears.after(499) == [("tool", "awaiting_approval", 400, 500)]


@pytest.mark.parametrize("seconds", [30, 300])
def test_a_tool_that_takes_long_is_warned_of(
    caplog: pytest.LogCaptureFixture, seconds: int
) -> None:
    """Before its time is up; one that is quick enough is not."""
    helper = AgentSpec(role="helper", model="slow", **LIMITS)
    asks = AgentTool("ask", helper, "Ask somebody.", timeout=50)
    slow = {"slow": Scripted([["so ", pause(seconds), "so"]])}
    there = talk([[call("ask", question="go")], ["done"]], asks, others=slow, **LIMITS)
    ears = TimeWarnings(there, caplog)
    there.session.send("go")
    late = ("tool", "executing", 40, 50)

    assert ears.after(70) == ([late] if seconds > 50 else [])
