"""Rules about verdicts: each of them can be given, and is given for what it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from actors.catalogue import CODEC
from actors.model.runes import Completed
from actors.session.runes import InputAccepted
from actors.tool.runes import Called, Progress, Result, Rule, Started
from runefold.testing import Effects
from runefold.testing.crash.instrumentation.journal import Execution, Memory, Over, Told
from runefold.testing.crash.instrumentation.logs import InProcessLog
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.verdict import judge
from runelog.memory import MemoryLog
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runefold.testing.crash.instrumentation.journal import Line
    from runefold.testing.crash.plan.points import What
    from runelog.rune import Rune

CALL: Final = Called(
    call_id="call_1",
    tool_name="pay",
    arguments={},
    caller="turn_1",
    agent_id="agt_1",
    rule=Rule("allow"),
    at=0,
)
STARTED: Final = Started(call_id="call_1", deadline=1)
PAID: Final = Result(call_id="call_1", status="success", output="paid")


def log_of(*runes: Rune, entity: str = "call_1") -> MemoryLog:
    """Return a log that holds some runes of one entity."""
    log = MemoryLog(CODEC)
    if runes:
        log.append("conv_a", [Change(entity, 0, runes)])
    return log


def said(text: str) -> Progress:
    """Return something that a call says on the way."""
    return Progress(call_id="call_1", stream="stdout", chunk=text)


# -- effects ---------------------------------------------------------------------------------------


def executed(what: What, call: str, times: int) -> Effects:
    """Return a ledger in which one call was executed so often."""
    lines: list[Line] = []
    for number in range(1, times + 1):
        lines.append(Execution(1, what, "pay", call, "conv_a", number=number))
        lines.append(Over(1, number, "success"))
    return Effects(lines)


def misdone(log: MemoryLog, effects: Effects) -> list[str]:
    """Return what is said of effects."""
    found = list(judge.misdone(log, effects))
    assert {finding.verdict for finding in found} <= {"effect"}
    return [finding.message for finding in found]


def test_an_effect_that_never_was_is_found() -> None:
    """The log says that it was done, and the ledger outside knows nothing of it."""
    log = log_of(CALL, STARTED, PAID)

    assert misdone(log, executed("tool", "call_1", 0)) == [
        "pay (call_1) has a result and was never executed"
    ]
    assert misdone(log, executed("tool", "call_1", 1)) == []


def test_an_effect_that_the_log_does_not_know_is_found() -> None:
    """It was executed before anybody had written down that it would be."""
    assert misdone(log_of(), executed("tool", "call_1", 1)) == [
        "pay was executed as call_1, and the log has no such call"
    ]


def test_an_effect_that_was_twice_is_found() -> None:
    """Nobody asked for the second one."""
    (message,) = misdone(log_of(CALL, STARTED, PAID), executed("tool", "call_1", 2))

    assert message == "pay (call_1) took effect 2 times, and the log knows of one"


def test_a_model_that_is_asked_twice_under_one_id_is_found() -> None:
    """To ask again is another attempt, with an id of its own."""
    asked = "conv_a/turn_1-r0-a0"

    assert misdone(log_of(), executed("model", asked, 1)) == []
    assert misdone(log_of(), executed("model", asked, 2)) == [
        f"{asked} (pay) was asked 2 times under one id"
    ]


def test_an_answer_that_no_model_gave_is_found() -> None:
    """The log has one, and the ledger outside knows of nobody who was asked."""
    log = log_of(Completed("turn_1-r0-a0"), entity="turn_1-r0-a0")
    asked = "conv_a/turn_1-r0-a0"

    assert misdone(log, executed("model", asked, 0)) == [
        f"{asked} has an answer, and no model was asked"
    ]
    assert misdone(log, executed("model", asked, 1)) == []


# -- what was acknowledged -------------------------------------------------------------------------


def appended(*runes: Rune, durable: bool) -> Sequence[Line]:
    """Return what is noted of an append."""
    journal = Memory()
    log = InProcessLog(lambda: 0)
    log.watch = Watch(1, journal)
    log.append("conv_a", [Change("call_1", 0, runes)], durable=durable)
    return journal.lines()


def lost(lines: Sequence[Line], log: MemoryLog) -> list[str]:
    """Return what is said to be lost."""
    found = list(judge.lost(lines, log))
    assert {finding.verdict for finding in found} <= {"acknowledged"}
    return [finding.message for finding in found]


@pytest.mark.parametrize("left", [(), (said("a"),)])
def test_a_rune_that_was_acknowledged_and_is_gone_is_found(left: tuple[Rune, ...]) -> None:
    """With all of its conversation, or from some event on."""
    lines = appended(said("a"), said("b"), durable=True)
    messages = lost(lines, log_of(*left))

    assert messages[-1] == "conv_a: event 2, tool.progress, was acknowledged, and is not in the log"
    assert len(messages) == 2 - len(left)
    assert lost(lines, log_of(said("a"), said("b"))) == []


def test_a_rune_that_was_acknowledged_and_is_another_one_is_found() -> None:
    """What is durable is never replaced, and never changed."""
    lines = appended(said("a"), durable=True)

    assert lost(lines, log_of(said("A"))) == [
        "conv_a: event 1 was acknowledged as tool.progress, and is now tool.progress"
    ]


def test_what_nobody_was_told_of_may_be_lost() -> None:
    """It was appended, and nobody had waited for it."""
    assert lost(appended(said("a"), durable=False), log_of()) == []


ACCEPTED: Final = InputAccepted(message_id="m1", content="hello", to="agt_1")


@pytest.mark.parametrize(
    ("told", "log", "message"),
    [
        (
            Told(1, "conv_b", "created"),
            log_of(ACCEPTED),
            "told that conv_b is there, and it is not",
        ),
        (Told(1, "conv_a", "accepted", "m2"), log_of(ACCEPTED), "the log has lost the message"),
        (Told(1, "conv_a", "completed", "m1"), log_of(ACCEPTED), "the log says otherwise"),
    ],
)
def test_what_an_app_was_told_and_the_log_does_not_know_is_found(
    told: Told, log: MemoryLog, message: str
) -> None:
    """That a conversation is there, that a message was taken, how its turn ended."""
    (finding,) = judge.forgotten([told], log)

    assert finding.verdict == "acknowledged"
    assert message in finding.message


def test_what_an_app_was_told_and_the_log_knows_is_well() -> None:
    """So it is with what was told in time."""
    told = [Told(1, "conv_a", "created"), Told(1, "conv_a", "accepted", "m1")]

    assert list(judge.forgotten(told, log_of(ACCEPTED))) == []
