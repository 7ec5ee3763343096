"""Rules about the one thread that all actors of a runtime share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.agent.history import History
from actors.common_commands import Cancel
from actors.errors import Overloaded
from actors.model.provider import Done, Text
from actors.model.providers.scripted import Scripted, call
from actors.process.process import MAILBOX
from actors.scheduling.loop import Loop
from actors.shell.conversation import ConversationContext
from actors.tool.adapters.function import tool
from actors.turn import actor as turns
from runefold import AgentSpec, Runtime
from runefold.testing.stage import Stage
from runelog.errors import LogFailed
from tests.runefold.talks import Strict, talk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Event, Request
    from actors.shell.shell import Shell
    from runefold import Turn

SPEC = AgentSpec(role="helper", model="demo")
TOOLED = AgentSpec(role="helper", model="demo", tools=["look"])


@tool(idempotent=True)
def look() -> str:
    """Look."""
    return "seen"


LONG = 30.0
"""Seconds after which a test is lost; nothing that works waits for them."""


class Meddling:
    """A model that asks the runtime for something while it is read."""

    def __init__(self, *, blocks: bool) -> None:
        """Begin before it knows a runtime."""
        self.blocks = blocks
        self.runtime: Runtime | None = None
        self.thread = ""
        self.sent: list[Turn] = []

    def stream(self, _request: Request) -> Iterator[Event]:
        """Begin a session, and say who it was."""
        assert self.runtime is not None
        self.thread = threading.current_thread().name
        yield Text(self.runtime.create_session(SPEC).id)
        yield Done()


@pytest.mark.parametrize("blocks", [True, False])
def test_who_waits_on_the_thread_of_the_actors_is_told_at_once(
    tmp_path: Path,
    blocks: bool,  # noqa: FBT001 -- a parameter
) -> None:
    """It asked for nothing, so nothing was done; elsewhere it may ask for what it likes."""
    model = Meddling(blocks=blocks)
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        model.runtime = runtime
        session = runtime.create_session(SPEC)
        result = session.send("go").result(LONG)
        sessions = [each.id for each in runtime.sessions()]

    assert (model.thread == "runefold-loop") is not blocks
    assert (result.status == "completed") is blocks
    assert len(sessions) == 1 + blocks
    assert ("to wait here for one of them would be to wait for itself" in result.message) or blocks


def test_a_script_never_blocks_and_a_function_may(tmp_path: Path) -> None:
    """A list is read on the thread of the actors: there is one thread less. So is what says so."""
    models = {
        "list": Scripted(["Hello!"]),
        "function": Scripted(lambda _request: "Hello!"),
        "quick": Scripted(lambda _request: "Hello!", blocks=False),
    }
    threads = {}
    for name, model in models.items():
        with Runtime.open(tmp_path / name, providers={"demo": model}) as runtime:
            assert runtime.create_session(SPEC).send("Hi").result(LONG).output == "Hello!"
            assert isinstance(runtime.scheduler, Loop)
            threads[name] = runtime.scheduler.threads

    assert threads == {"list": 1, "function": 2, "quick": 1}


def test_with_too_much_to_do_new_commands_are_refused_and_results_taken() -> None:
    """Whoever sends is told to come later; what is under way comes to its end meanwhile."""
    there = talk([[call("look")], "one", "two"], look)
    session, scheduler = there.session, there.stage.scheduler
    turn = session.send("go")
    there.until("tool.started")
    scheduler.backlog = MAILBOX + 1
    with pytest.raises(
        Overloaded, match="10,001 messages wait to be handled here: send Send later"
    ):
        session.send("more")
    there.stage.run()
    kinds = there.kinds()
    scheduler.backlog = MAILBOX
    session.pause("enough")
    scheduler.backlog = 0
    session.resume()

    assert "tool.result" in kinds
    assert turn.result(LONG).output == "one"
    assert len(there.runes("session.input_accepted")) == 1


def test_an_interrupt_before_the_commit_comes_before_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was due and had not begun never begins: no model is asked."""
    stage = Stage(providers={"demo": Scripted(["Hello!"])})
    session = stage.runtime.create_session(SPEC)
    waits = ConversationContext.wake_behind_commit

    def and_is_stopped(ctx: ConversationContext, actor: Shell) -> None:
        waits(ctx, actor)
        if actor.kind.name == "turn":
            ctx.tell(actor.me, Cancel("enough"))

    monkeypatch.setattr(ConversationContext, "wake_behind_commit", and_is_stopped)
    result = session.send("go").result(LONG)
    kinds = [rune.kind for rune in session.runes()]

    assert result.status == "interrupted"
    assert "turn.assistant_delta" not in kinds
    assert "model.cancelled" in kinds


def test_a_long_history_is_read_beside_all_actors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others go on meanwhile; the model is shown what it would have been shown."""
    shown: dict[int, list[tuple[str, str]]] = {}
    for name, long in (("long", 0), ("short", 10**9)):
        monkeypatch.setattr(turns, "LONG", long)
        model, readers = Strict([[call("look")], "one", "two", "three"]), set[str]()
        read = History.read

        def noted(*where: Any, readers: set[str] = readers, read: Any = read) -> History:  # noqa: ANN401 -- as given
            readers.add(threading.current_thread().name)
            found: History = read(*where)
            return found

        monkeypatch.setattr(History, "read", noted)
        for _ in range(2):
            with Runtime.open(tmp_path / name, tools=[look], providers={"demo": model}) as runtime:
                sessions = [*runtime.sessions()]
                session = sessions[0] if sessions else runtime.create_session(TOOLED)
                session.send("go").result(LONG)
        monkeypatch.undo()
        shown[long] = model.last
        assert ("runefold-loop" in readers) is (long > 0)

    assert shown[0] == shown[10**9]
    assert len(shown[0]) == 5


def test_a_history_that_cannot_be_read_is_a_fault_of_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its supervisor starts it again, which reads anew."""
    monkeypatch.setattr(turns, "LONG", 0)
    read, tries = History.read, [0]

    def damaged(*where: Any) -> History:  # noqa: ANN401 -- as given
        tries[0] += 1
        if tries[0] == 1:
            msg = "this page is damaged"
            raise LogFailed(msg)
        return read(*where)

    monkeypatch.setattr(History, "read", damaged)
    there = talk(["fine"])

    assert there.session.send("go").result(LONG).output == "fine"
    assert tries == [2]


def test_what_happens_while_a_history_is_read_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in between, the turn asks no model; the next one is shown that it was stopped."""
    monkeypatch.setattr(turns, "LONG", 0)
    there = talk(["one", "two"])
    read, tries = History.read, [0]

    def stopped(*where: Any) -> History:  # noqa: ANN401 -- as given
        tries[0] += 1
        found = read(*where)
        if tries[0] == 1:
            there.session.interrupt("enough")
        return found

    monkeypatch.setattr(History, "read", stopped)
    first = there.session.send("go").result(LONG)
    second = there.session.send("on").result(LONG)

    assert first.status == "interrupted"
    assert there.kinds().count("model.called") == 1
    assert second.output == "one"
    assert [role for role, _ in there.model.last] == ["user", "user"]
