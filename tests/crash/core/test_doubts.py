"""A charge that nobody can ask about and that a crash caught: told to everybody, made by nobody."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import pytest

from actors.agent.history import History
from tests.crash.core.cuts import CUT_OFF, Cut, Rig
from tests.scenarios.judge import UNKNOWN
from tests.scenarios.plays import ALL, NAME, folded

if TYPE_CHECKING:
    from runefold.sessions import Session

BLIND: Final = ALL["blind charges"]


def caught(*, after: bool) -> tuple[Rig, Session]:
    """Return a conversation whose second charge was caught by a power cut, played to its end."""
    rig = Rig(None)
    with pytest.raises(CUT_OFF):
        BLIND.play(rig.again(Cut(2, after, "tool")), rig.till)
    BLIND.play(rig.again(None), rig.till)
    return rig, rig.runtime.session(NAME)


@pytest.mark.parametrize(("after", "made"), [(False, 2), (True, 3)])
def test_a_charge_in_doubt_is_not_made_again(*, after: bool, made: int) -> None:
    """Whether it was made or not, nobody makes it again, and the others are made once."""
    rig, _ = caught(after=after)

    assert len(rig.till.entries()) == len(set(rig.till.entries())) == made


def test_the_app_is_told_of_a_doubt() -> None:
    """The session lists the calls whose outcome nobody knows, and none else."""
    rig, session = caught(after=True)

    assert session.in_doubt() == [rig.till.entries()[1]]


def test_the_model_is_told_of_a_doubt() -> None:
    """In the history that the model is shown, the call has a result that says nobody knows."""
    rig, _ = caught(after=True)
    head = rig.log.conversation(NAME).head
    history = History.read(rig.log, NAME, folded(rig.log).root, head)
    results = [message for message in history.messages if message.role == "tool"]

    assert [message.status for message in results] == ["success", "unknown", "success"]
    assert results[1].text.startswith(UNKNOWN)


def test_the_operator_is_told_of_a_doubt(caplog: pytest.LogCaptureFixture) -> None:
    """A warning names the call: whoever runs the process need not ask for it."""
    caplog.set_level(logging.WARNING, "runefold")
    rig, _ = caught(after=True)
    told = [vars(record) for record in caplog.records if record.msg == "outcome_unknown"]

    assert [each["call"] for each in told] == [rig.till.entries()[1]]
    assert [each["conversation"] for each in told] == [NAME]
