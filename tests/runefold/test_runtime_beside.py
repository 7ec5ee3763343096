"""Rules about a conversation that somebody else wrote to: it begins anew from what is there."""

from __future__ import annotations

from typing import Final, NoReturn

import pytest

from actors.model.providers.scripted import call, pause
from actors.session.runes import Rested
from actors.tool.adapters.function import tool
from actors.units import SECOND
from runelog.errors import LogFailed
from runelog.rune import Change
from tests.runefold.talks import NAME, talk

LONG: Final = 60.0


@tool(side_effects=False)
def look() -> str:
    """Look."""
    return "it rains"


@pytest.mark.parametrize("entity", ["turn_1", "turn_1-r0-a0", "session", "stranger"])
def test_a_turn_goes_on_though_somebody_else_wrote_beside_it(entity: str) -> None:
    """Nobody has to ask for it: what runs comes to its end by itself."""
    there = talk([["so ", pause(20), call("look")], ["done"]], look, silence_timeout=50)
    there.session.send("go", message_id="m1")
    there.stage.advance(5)
    version = there.stage.log.version(NAME, entity)
    there.stage.log.append(NAME, [Change(entity, version, [Rested()])])
    there.stage.advance(LONG)

    assert there.kinds().count("turn.completed") == 1
    assert there.session.send("go", message_id="m1").result(10).output == "done"


def test_whoever_asks_meanwhile_is_not_kept_waiting() -> None:
    """It is woken by that, and does not wait for its time."""
    there = talk([["so ", pause(20), call("look")], ["done"]], look, silence_timeout=50)
    turn = there.session.send("go")
    there.stage.advance(5)
    version = there.stage.log.version(NAME, "turn_1-r0-a0")
    there.stage.log.append(NAME, [Change("turn_1-r0-a0", version, [Rested()])])
    before = there.stage.clock.now()

    assert turn.result(LONG).output == "done"
    assert (there.stage.clock.now() - before) / SECOND < 36


def test_a_log_that_failed_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be written to it any more: nobody is woken again and again to find that out."""
    there = talk([["so ", pause(20), call("look")], ["done"]], look, silence_timeout=50)
    there.session.send("go")
    there.stage.advance(5)
    appends = 0

    def gone(*_args: object, **_options: object) -> NoReturn:
        nonlocal appends
        appends += 1
        msg = "the disk is gone"
        raise LogFailed(msg)

    monkeypatch.setattr(there.stage.log, "append", gone)
    there.stage.advance(LONG)
    tried = appends
    there.stage.advance(LONG)

    assert (tried > 0, appends) == (True, tried)
    assert there.stage.runtime._core.tree.awake() == []
