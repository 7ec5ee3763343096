"""What nobody waits for gets to disk by itself, by hand as on threads."""

from __future__ import annotations

import pytest

from actors.errors import Unanswered
from actors.session.runes import Reopened, Rested
from runefold.testing.stage import Stage
from runelog.rune import Change

NAME = "conv_scene"


def rested() -> Stage:
    """Return a stage whose log has taken something that nobody waited for."""
    stage = Stage()
    stage.log.append(NAME, [Change("session", None, [Reopened(unclean=0)])])
    stage.log.append(NAME, [Change("session", None, [Rested()])], durable=False)
    return stage


def test_whoever_waits_for_a_rune_need_not_flush() -> None:
    """A log writes by itself within milliseconds: no alarm has to ring for that."""
    stage = rested()
    before = stage.clock.now()
    stage.runtime.wait_for(NAME, "session.rested", 1)

    assert stage.clock.now() == before


def test_after_a_power_cut_nothing_gets_to_disk() -> None:
    """What was not written when the power failed is gone."""
    stage = rested()
    stage.crash()
    with pytest.raises(Unanswered):
        stage.runtime.wait_for(NAME, "session.rested", 1)
    stage.log.mend()

    assert [rune.kind for rune in stage.log.read(NAME)] == ["session.reopened"]
