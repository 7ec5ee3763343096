"""Whoever asks a session is answered, whatever else sends it to sleep or wakes it just then."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from actors.catalogue import CODEC
from actors.errors import Unanswered
from actors.session.lifecycle import Phase
from actors.units import SECOND
from runefold import AgentSpec, Runtime, tool
from runefold.providers import Scripted, call
from runefold.testing.stage import Stage
from runelog.memory import MemoryLog
from supervisors.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.process.process import Ref
    from runelog.rune import Work

SPEC: Final = AgentSpec(role="helper", model="demo")
PROVIDERS: Final = {"demo": Scripted(["Hello!"])}
LONG: Final = 30.0


class SlowLog(MemoryLog):
    """A log that takes its time to tell what is left to do."""

    def __init__(self) -> None:
        """Begin quick."""
        super().__init__(CODEC)
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.was_asked = threading.Event()

    def open_work(self, conversation: str | None = None) -> Iterator[Work]:
        """Tell it when that is allowed."""
        self.was_asked.set()
        self.may_go_on.wait()
        return super().open_work(conversation)


def test_who_asks_while_a_session_falls_asleep_is_answered() -> None:
    """Its actors are gone and their supervisor has not heard of it yet: that takes a moment."""
    log = SlowLog()
    with Runtime(log, providers=PROVIDERS) as runtime:
        session = runtime.create_session(SPEC)
        log.may_go_on.clear()
        log.was_asked.clear()
        running = runtime._core.tree.running(session.id)
        assert running is not None
        with ThreadPoolExecutor(1) as others:
            try:
                running.stop()
                log.was_asked.wait()
                asked = others.submit(session.pause, "lunch")
            finally:
                log.may_go_on.set()
            asked.result(LONG)

        assert session.state.phase is Phase.PAUSED


def test_who_asks_while_its_alarm_wakes_a_session_is_answered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was asleep when they looked, and is there when they want to start it: that will do."""
    stage = Stage(providers=PROVIDERS)
    session = stage.runtime.create_session(SPEC)
    tree = stage.runtime._core.tree
    tree.put_to_sleep(session.id)
    start = Tree._start

    def ringing(tree: Tree, conversation: str) -> Ref:
        tree._wake_soon(conversation)
        return start(tree, conversation)

    monkeypatch.setattr(Tree, "_start", ringing)
    before = stage.clock.now()
    session.pause("lunch")

    assert session.state.phase is Phase.PAUSED
    assert stage.clock.now() == before


def test_who_waits_for_a_turn_waits_however_often_its_session_sleeps() -> None:
    """A human takes a day; the session sleeps all the while, and is told when it is over."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    stage = Stage(
        providers={"demo": Scripted([[call("pay")], ["It is paid."]])}, tools=[pay], idle_after=1
    )
    session = stage.runtime.create_session(AgentSpec(role="h", model="demo", tools=["pay"]))
    turn = session.send("Pay.")
    tomorrow = stage.clock.now() + 1_000 * SECOND
    stage.clock.at(tomorrow, lambda: session.approve(session.approvals()[0].call_id, approver="a"))
    result = turn.result(2_000)

    assert result.output == "It is paid."
    assert stage.clock.now() >= tomorrow


def test_its_time_is_up_when_it_said_so_however_often_it_slept() -> None:
    """The time it gave is for all of it, and does not begin anew."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    stage = Stage(providers={"demo": Scripted([[call("pay")]])}, tools=[pay], idle_after=1)
    session = stage.runtime.create_session(AgentSpec(role="h", model="demo", tools=["pay"]))
    turn = session.send("Pay.")
    before = stage.clock.now()
    with pytest.raises(Unanswered):
        turn.result(100)

    assert 100 <= (stage.clock.now() - before) / SECOND < 110


def test_a_call_that_was_answered_wakes_nobody_any_more() -> None:
    """However often its session slept while it waited, and each time had its alarm set."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    models = {"demo": Scripted([[call("pay")], "It is paid."]), "idle": Scripted(lambda _: "Hi.")}
    stage = Stage(providers=models, tools=[pay], idle_after=1)
    session = stage.runtime.create_session(AgentSpec(role="h", model="demo", tools=["pay"]))
    helper = session.spawn(AgentSpec(role="helper", model="idle"))
    turn = session.send("Pay.")
    asleep = []
    for _ in range(3):
        stage.advance(10)
        asleep.append(not stage.runtime._core.tree.awake())
        session.send("Hi", to=helper).result(5)
    session.approve(session.approvals()[0].call_id, approver="ada")
    result = turn.result(5)
    stage.advance(10)

    assert asleep == [True] * 3
    assert result.output == "It is paid."
    assert stage.clock.next_alarm is None
