"""Rules about a machine that stops a call of its own: the call ends, and then the machine does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import Scripted, pause
from actors.model.runes import Cancelled, Failed
from actors.tool.adapters.function import tool
from runefold import AgentSpec
from runefold.machines import AskedCall, CallModel, CallTool, NotAnswered, StopCall, tools
from runefold.testing.spec import Given
from runefold.testing.stage import Stage
from runelog.rune import SYSTEM, kind_of
from tests.laws.errands import (
    ADVISER,
    ERRAND,
    Advised,
    Begun,
    CallBack,
    Done,
    Recalled,
    Send,
    Settle,
    advise,
    send,
)

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply, Script

NAME = "errand_1"
OUT = Given(ERRAND.lifecycle, Begun("bread"))
TOLD = OUT.having(Advised("go", (AskedCall("call_1", "fetch", {"what": "bread"}),)))


@tool(requires_approval=True)
def fetch(what: str) -> str:
    """Fetch something, once a human agrees."""
    return what


def stage(script: Script) -> Stage:
    """Have an errand under way."""
    on = Stage(kinds=[ERRAND], tools=[fetch], providers={ADVISER: Scripted(script)})
    send(on.runtime, NAME, "bread")
    return on


def found(on: Stage) -> list[str]:
    """Return the kinds of the runes in the system's conversation."""
    return [kind_of(type(each.payload)) for each in on.log.read(SYSTEM)]


# -- the law ---------------------------------------------------------------------------------------


def test_a_call_of_a_model_and_its_stop_are_due_together() -> None:
    """Until the law has taken how the call ended; only then does the machine end."""
    recalled = OUT.having(*OUT.when(CallBack("rain")))
    call, stop = recalled.due

    assert isinstance(call, CallModel)
    assert stop == StopCall(call.key, "rain")
    assert recalled.when(NotAnswered(call.key, "cancelled")) == [Done("cancelled")]


def test_a_call_of_a_tool_and_its_stop_are_due_together() -> None:
    """Until its result is observed; then the machine settles."""
    recalled = TOLD.having(Recalled("rain"))
    call, stop = recalled.due

    assert isinstance(call, CallTool)
    assert stop == StopCall("fetch", "rain")
    assert recalled.having(tools.Result("call_1", "cancelled")).due == [Settle()]


# -- stories ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_a_model_that_speaks_is_cut_off(*, crash: bool) -> None:
    """Also after a crash: what is in doubt then is not asked again."""
    on = stage([["Fetch ", pause(3600), "it."]])
    on.run()
    assert "model.called" in found(on)

    on.runtime.do(SYSTEM, CallBack("rain"), NAME)
    if crash:
        on.crash()
        on.reopen()
    on.run()
    ends = [each.payload for each in on.log.read(SYSTEM)]

    assert [type(each) for each in ends if isinstance(each, Cancelled | Failed)] != []
    assert found(on).count("model.called") == 1
    assert found(on)[-2:] == ["errand.done", "child.ended"]


@pytest.mark.parametrize("crash", [False, True])
def test_a_tool_that_waits_for_a_human_is_not_waited_for(*, crash: bool) -> None:
    """Its question is withdrawn, and nothing was run."""
    on = stage(advise)
    on.run()
    assert "tool.approval_requested" in found(on)

    on.runtime.do(SYSTEM, CallBack("rain"), NAME)
    if crash:
        on.crash()
        on.reopen()
    on.run()
    results = [
        each.payload for each in on.log.read(SYSTEM) if isinstance(each.payload, tools.Result)
    ]

    assert [each.status for each in results] == ["cancelled"]
    assert "tool.started" not in found(on)
    assert found(on)[-1] == "child.ended"


def test_what_is_stopped_before_it_began_never_begins() -> None:
    """Held by a pause and then called back, it ends during the pause; no model was asked."""
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return ["Fetch it."]

    models = {ADVISER: Scripted(answer), "demo": Scripted([["Hello."]])}
    on = Stage(kinds=[ERRAND], tools=[fetch], providers=models)
    session = on.runtime.create_session(AgentSpec(role="clerk", model="demo"))
    session.pause()
    session.do(Send("bread"), NAME)
    on.advance(60)

    assert session.history(NAME).phase == "out"

    session.do(CallBack("rain"), NAME)
    on.advance(60)

    assert session.history(NAME).phase == "back"
    assert asked == []
    assert session.state.phase == "paused"
