"""Whoever asks a session is answered, whatever else sends it to sleep or wakes it just then."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.catalogue import CODEC
from actors.errors import Overloaded, Unanswered
from actors.session.lifecycle import Phase
from actors.shell.entities import StartingState
from actors.shell.snapshot_policy import SnapshotPolicy
from actors.units import SECOND
from runefold import AgentSpec, Runtime, tool
from runefold.providers import Scripted, call
from runefold.testing.stage import Stage
from runelog.memory import MemoryLog
from supervisors import waking
from supervisors.tree import Tree
from supervisors.waking import Waking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.kind import Kind
    from actors.ports import Edge
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

    async def ringing(tree: Tree, edge: Edge, conversation: str) -> Ref:
        tree._wake_soon(conversation)
        return await start(tree, edge, conversation)

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


def test_a_long_session_is_read_beside_all_actors_before_it_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Others go on meanwhile, what is sent to it waits, and it wakes with what was read."""
    monkeypatch.setattr(waking, "LONG", 0)
    log, readers = MemoryLog(CODEC), list[str]()
    may_go_on, reads = threading.Event(), threading.Event()
    read = Waking._read

    def slowly(self: Waking, conversation: str, kind: Kind, name: str) -> StartingState:
        reads.set()
        may_go_on.wait(LONG)
        return read(self, conversation, kind, name)

    with Runtime(log, providers=PROVIDERS) as runtime:
        asleep, awake = (runtime.create_session(SPEC) for _ in range(2))
        asleep.send("hi").result(LONG)
        runtime._core.tree.put_to_sleep(asleep.id)
        monkeypatch.setattr(Waking, "_read", slowly)
        monkeypatch.setattr(SnapshotPolicy, "replayed", _noted(readers))
        with ThreadPoolExecutor(1) as others:
            try:
                asked = others.submit(asleep.send, "are you there?")
                assert reads.wait(LONG)
                assert awake.send("hi").result(LONG).output == "Hello!"
                assert runtime._core.tree.running(asleep.id) is None
                assert not asked.done()
            finally:
                may_go_on.set()
            answered = asked.result(LONG).result(LONG)

    assert answered.output == "Hello!"
    assert {"session", "budget"}.isdisjoint(readers)


def _noted(readers: list[str]) -> Callable[[SnapshotPolicy, Kind, str], Any]:
    """Return a replay that notes of which entity it is."""
    replay = SnapshotPolicy.replayed

    def replayed(self: SnapshotPolicy, kind: Kind, name: str) -> Any:  # noqa: ANN401 -- any state
        readers.append(name)
        return replay(self, kind, name)

    return replayed


def test_what_was_read_of_a_session_that_went_on_meanwhile_is_not_used() -> None:
    """Its version tells: then it is read again."""
    stage = Stage(providers=PROVIDERS)
    session = stage.runtime.create_session(SPEC)
    running = stage.runtime._core.tree.running(session.id)
    assert running is not None
    ctx = running.ctx
    now = ctx.replayed(ctx.root, "session")

    for version, found in ((now.version, "as read"), (now.version - 1, now.state)):
        ctx.read_ahead["session"] = StartingState("as read", version, 0)
        assert ctx.replayed(ctx.root, "session").state == found
        assert ctx.replayed(ctx.root, "session").state == now.state


def test_a_session_that_cannot_be_read_ahead_wakes_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a thread is missing or a page: its actors read for themselves."""
    monkeypatch.setattr(waking, "LONG", 0)
    stage = Stage(providers=PROVIDERS)
    session = stage.runtime.create_session(SPEC)
    tree = stage.runtime._core.tree

    def no_thread(*_: object, **__: object) -> None:
        msg = "no thread"
        raise Overloaded(msg)

    def no_page(*_: object) -> None:
        msg = "no page"
        raise OSError(msg)

    for broken, name, fails in ((stage.scheduler, "work", no_thread), (Waking, "_read", no_page)):
        tree.put_to_sleep(session.id)
        with monkeypatch.context() as patch:
            patch.setattr(broken, name, fails)
            session.pause("lunch")
        session.resume()

    assert session.state.phase is Phase.ACTIVE
