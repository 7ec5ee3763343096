"""Rules about policies that are functions: they take their time, and hold nobody else up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from actors.tool.policy import Policy
from actors.tool.runes import Denied
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from tests.runefold.loops import LONG
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

DONE: list[str] = []


@tool
def act() -> str:
    """Do something."""
    DONE.append("act")
    return "done"


def obedient(request: Request) -> Reply:
    """Act if one is told to."""
    last = request.messages[-1]
    return [call("act")] if last.text == "act" else [f"{last.status} {last.text}".strip()]


SPEC = AgentSpec(role="helper", model="demo", tools=["act"])


class Judge:
    """A policy that thinks until it is let go on."""

    def __init__(self) -> None:
        """Begin thinking."""
        self.asked = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, *_about: Any) -> str:  # noqa: ANN401 -- name, arguments, spec
        """Think, and then allow it."""
        self.asked.set()
        assert self.go_on.wait(LONG)
        return "allow"


@pytest.fixture
def judge() -> Iterator[Judge]:
    """Give a judge, and let it go at the end in any case."""
    found = Judge()
    yield found
    found.go_on.set()


def opened(directory: Path, judge: Judge) -> Runtime:
    """Open a runtime in which the judge decides."""
    DONE.clear()
    policy = Policy(mode="full_access", function=judge)  # type: ignore[arg-type]  # says a word
    models = {"demo": Scripted(obedient)}
    return Runtime.open(directory, tools=[act], providers=models, policy=policy)


def test_a_policy_that_thinks_holds_nobody_up(tmp_path: Path, judge: Judge) -> None:
    """Other agents of the conversation work meanwhile, and whoever looks at it is answered."""
    with opened(tmp_path, judge) as runtime:
        session = runtime.create_session(SPEC)
        other = session.spawn(SPEC)
        turn = session.send("act")
        assert judge.asked.wait(LONG)

        assert session.send("hello", to=other).result(LONG).output == "hello"
        assert [each.turn_id for each in session.state.running] == ["turn_1"]
        assert not judge.go_on.is_set()
        judge.go_on.set()
        assert (turn.result(LONG).output, DONE) == ("success done", ["act"])


def test_a_turn_is_stopped_while_its_policy_thinks(tmp_path: Path, judge: Judge) -> None:
    """What the policy says then is too late: nothing runs, and the conversation goes on."""
    with opened(tmp_path, judge) as runtime:
        session = runtime.create_session(SPEC)
        turn = session.send("act")
        assert judge.asked.wait(LONG)
        session.interrupt("enough")
        result = turn.result(LONG)
        judge.go_on.set()

        assert (result.status, result.reason) == ("interrupted", "enough")
        assert session.send("act").result(LONG).output == "success done"
        assert DONE == ["act"]
        assert len([*session.runes(kinds={"tool.call"})]) == 1


def test_a_policy_that_never_says_anything_takes_the_turn_its_time(
    tmp_path: Path, judge: Judge
) -> None:
    """And no more than that."""
    with opened(tmp_path, judge) as runtime:
        hasty = AgentSpec(role="helper", model="demo", tools=["act"], turn_timeout=0.1)
        result = runtime.create_session(hasty).send("act").result(LONG)

        assert (result.status, result.reason, DONE) == ("error", "timeout", [])


def test_a_verdict_that_a_crash_took_is_asked_for_again() -> None:
    """It counts once it is in the log, with the call; and the call is made once."""
    asked: list[str] = []

    def thinks(name: str, *_about: object) -> str:
        asked.append(name)
        if len(asked) == 1:
            there.stage.crash()
        return "allow"

    DONE.clear()
    policy = Policy(mode="full_access", function=thinks)  # type: ignore[arg-type]  # says a word
    there = talk(obedient, act, stage={"policy": policy})
    there.session.send("act")
    there.stage.run()
    running = len(there.reopen().state.running)
    there.stage.advance(60)

    assert (asked, running) == (["act", "act"], 1)
    assert (len(there.runes("tool.call")), DONE) == (1, ["act"])


def test_a_session_does_not_sleep_while_its_policy_thinks(tmp_path: Path, judge: Judge) -> None:
    """What is on its way would find nobody there."""
    with opened(tmp_path, judge) as runtime:
        session = runtime.create_session(SPEC)
        session.send("act")
        assert judge.asked.wait(LONG)
        running = runtime._core.tree.wake(session.id)

        assert not running.ctx.is_idle()


def test_a_policy_that_gives_up_the_process_denies() -> None:
    """Whatever it raises is no yes."""

    def leaves(*_about: object) -> str:
        raise SystemExit

    DONE.clear()
    policy = Policy(mode="full_access", function=leaves)  # type: ignore[arg-type]  # says nothing
    there = talk(obedient, act, stage={"policy": policy})
    result = there.session.send("act").result(10)

    assert result.output.startswith("denied denied by policy: the policy failed: SystemExit")
    assert DONE == []


@pytest.mark.parametrize("reason", ["caf\udce9 is closed", "no " * 100_000])
def test_any_reason_of_a_policy_can_be_kept(reason: str) -> None:
    """Half of a character is written out and what is too long is cut: the call is denied."""
    DONE.clear()
    policy = Policy(mode="full_access", function=lambda *_: ("deny", reason))
    there = talk(obedient, act, stage={"policy": policy})
    result = there.session.send("act").result(10)
    [told] = [rune.reason for rune in there.runes("tool.denied") if isinstance(rune, Denied)]

    assert result.output.startswith(f"denied denied by policy: {reason[:3]}")
    assert told.startswith(reason[:3])
    assert len(told) < 10_000
    assert DONE == []
