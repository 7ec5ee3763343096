"""Rules about misuse: each is a refusal that says what to do, and harms nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from actors.tool.adapters.function import tool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.errors import BadId, Closed, Held, Refused, TooLarge, UnknownConversation
from tests.runefold.talks import NAME, Strict, talk

if TYPE_CHECKING:
    from pathlib import Path

HALF = "\ud800"
"""Half of a character: it cannot be stored."""


@tool
def put(x: int) -> int:
    """Put."""
    return x


def test_a_session_is_not_begun_with_what_is_not_there() -> None:
    """An unknown model and an unknown tool are named, with those that are registered."""
    runtime = talk(["hi"], put).stage.runtime

    with pytest.raises(
        Refused, match=r"no model 'big': pass providers=\{'big': \.\.\.\} to .*demo"
    ):
        runtime.create_session(AgentSpec(role="r", model="big"))
    with pytest.raises(Refused, match=r"no tool 'get': pass it in tools=\[\.\.\.\] .*put"):
        runtime.create_session(AgentSpec(role="r", model="demo", tools=["get"]))
    with pytest.raises(Refused, match="described by an AgentSpec, not by a str"):
        runtime.create_session("r")  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match=f"runtime.session\\('{NAME}'\\) gives it"):
        runtime.create_session(AgentSpec(role="r", model="demo"), conversation_id=NAME)
    with pytest.raises(UnknownConversation, match="no conversation conv_b"):
        runtime.session("conv_b")


@pytest.mark.parametrize("name", ["../up", "a b", "", "x" * 65, HALF])
def test_an_id_that_is_none_is_refused(name: str) -> None:
    """Whatever it is the id of."""
    there = talk(["hi"])
    spec = AgentSpec(role="r", model="demo")

    for refused in (
        lambda: there.stage.runtime.session(name),
        lambda: there.stage.runtime.create_session(spec, conversation_id=name),
        lambda: there.session.send("x", message_id=name),
        lambda: there.session.approve(name, approver="ada"),
        lambda: there.session.kill(name),
        lambda: there.session.hand_over(name),
    ):
        with pytest.raises(BadId, match="is not a valid"):
            refused()


@pytest.mark.parametrize("odd", [5, None, b"x", HALF])
def test_what_is_no_text_is_refused_before_it_is_in_the_log(odd: Any) -> None:  # noqa: ANN401 -- anything
    """A wrong type in the log would stay there; the session goes on as if nothing was."""
    there = talk(["hi"])
    session = there.session
    before = there.kinds()

    for refused in (
        lambda: session.send(odd),
        lambda: session.interrupt(odd),
        lambda: session.pause(odd),
        lambda: session.suspend(odd),
        lambda: session.unsuspend(odd),
        lambda: session.close(odd),
        lambda: session.approve("call_1", approver=odd),
        lambda: session.deny("call_1", reason=odd),
        lambda: session.spawn(AgentSpec(role=odd, model="demo")),
        lambda: there.stage.runtime.create_session(
            AgentSpec(role="r", model="demo"), labels={"of": odd}
        ),
    ):
        with pytest.raises(Refused):
            refused()
    assert there.kinds() == before
    assert session.send("go").result(10).output == "hi"


def test_a_message_that_is_too_large_is_refused() -> None:
    """Nothing of it is stored, and nothing is harmed."""
    there = talk(["hi"])

    with pytest.raises(TooLarge, match="over the limit"):
        there.session.send("x" * (65 << 20))
    with pytest.raises(Refused, match=r"mode='now': use 'queue' .* 'steer'"):
        there.session.send("x", mode="now")  # type: ignore[arg-type]  # the point
    assert there.session.send("go").result(10).output == "hi"


@pytest.mark.parametrize("odd", [-1, 1.5, "5", True, 10**30, None, math.nan])
def test_amounts_that_cannot_be_counted_are_refused(odd: Any) -> None:  # noqa: ANN401 -- anything
    """Budgets and replenishments are whole numbers, of a size that can be stored."""
    session = talk(["hi"]).session

    with pytest.raises(Refused, match=r"tokens is .*: give a whole number, 0 or more"):
        session.replenish(tokens=odd)
    if odd is not None:
        with pytest.raises(Refused, match=r"a budget of tokens=.* is no budget"):
            Budget(tokens=odd)
    for name in ("retries", "max_output_tokens"):
        with pytest.raises(Refused, match=f"agent r: {name} is .*: give a whole number"):
            AgentSpec(role="r", model="demo", **{name: odd})


@pytest.mark.parametrize("odd", [0, -1.0, math.nan, math.inf, "5", None, 10**30])
def test_limits_of_time_that_are_none_are_refused(odd: Any) -> None:  # noqa: ANN401 -- anything
    """A time-out is a positive number of seconds, with an end."""
    for name in ("turn_timeout", "first_byte_timeout", "silence_timeout"):
        with pytest.raises(Refused, match=f"agent r: {name} is .*: give a positive number"):
            AgentSpec(role="r", model="demo", **{name: odd})


def test_words_that_an_agent_cannot_be_told_are_refused() -> None:
    """Each refusal names what there is to choose from."""
    with pytest.raises(Refused, match="on_crash is 'wait': give 'retry' or 'interrupt'"):
        AgentSpec(role="r", model="demo", on_crash="wait")  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match="on_exhausted is None: give 'suspend' or 'terminate'"):
        AgentSpec(role="r", model="demo", on_exhausted=None)  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match="tools='put' is one string: give a list of names"):
        AgentSpec(role="r", model="demo", tools="put")
    with pytest.raises(Refused, match="give a Budget"):
        AgentSpec(role="r", model="demo", budget=5)  # type: ignore[arg-type]  # the point


def test_a_directory_has_one_runtime_at_a_time(tmp_path: Path) -> None:
    """The second is told so at once, and the first goes on."""
    with Runtime.open(tmp_path / "data", providers={"demo": Strict(["hi"])}) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo"))
        with pytest.raises(Held, match="close it first"):
            Runtime.open(tmp_path / "data")
        output = session.send("go").result(10).output

    assert output == "hi"


def test_a_closed_runtime_says_so() -> None:
    """Whatever is asked of it, and of its sessions; closing it again does nothing."""
    there = talk(["hi"])
    runtime, session = there.stage.runtime, there.session
    turn = session.send("go")
    turn.result(10)
    runtime.close()
    runtime.close()

    for refused in (
        lambda: session.send("more"),
        lambda: session.state,
        session.approvals,
        lambda: list(session.runes()),
        lambda: runtime.session(NAME),
        lambda: list(runtime.sessions()),
        lambda: runtime.create_session(AgentSpec(role="r", model="demo")),
        lambda: turn.result(1),
    ):
        with pytest.raises(Closed, match="has been closed: open it again"):
            refused()
