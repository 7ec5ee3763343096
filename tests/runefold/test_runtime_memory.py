"""What a runtime that lives long holds in memory: what is awake, and nothing of what went."""

from __future__ import annotations

import contextlib
import gc
import weakref
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from actors.agent.history import HISTORIES
from actors.catalogue import CODEC
from runefold import AgentSpec, Runtime, tool
from runefold.providers import Scripted, call
from runefold.testing.stage import Stage
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from actors.shell.conversation import ConversationContext
    from runefold.sessions import Session


@tool(idempotent=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def reply(request: Request) -> Reply:
    """Call the tool, then say that it was called."""
    return [call("add", a=1, b=2)] if request.messages[-1].role == "user" else ["Done."]


SPEC: Final = AgentSpec(role="helper", model="demo", tools=["add"])
IDLE_AFTER: Final = 60.0


def staged() -> Stage:
    """Return a runtime that is driven by hand."""
    return Stage(providers={"demo": Scripted(reply)}, tools=[add], idle_after=IDLE_AFTER)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Keep the garbage collector from finding what holds itself."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def turns(stage: Stage, session: Session, count: int) -> None:
    """Have turns, one after the other."""
    for _ in range(count):
        turn = session.send("Add.")
        stage.run()
        assert turn.result(timeout=0)


def context_of(stage: Stage, session: Session) -> ConversationContext:
    """Return what the actors of a session that is awake share."""
    running = stage.runtime._core.tree.running(session.id)
    assert running is not None
    return running.ctx


def entries(stage: Stage, session: Session) -> dict[str, int]:
    """Count the entries of every table that a session which is awake has, and of what it shares."""
    running = stage.runtime._core.tree.running(session.id)
    assert running is not None
    ctx = running.ctx
    tables: dict[str, Any] = {
        **{f"running {name}": table for name, table in vars(running).items()},
        **{f"context {name}": table for name, table in vars(ctx).items()},
        **{f"cache {id(cache)}": table for cache, table in ctx.caches.items()},
    }
    return {name: len(table) for name, table in tables.items() if isinstance(table, dict | set)}


def sizes(stage: Stage, session: Session) -> dict[str, int]:
    """Return how long the states of a session that is awake are, encoded."""
    found = context_of(stage, session)._entity_states()
    return {each.name: len(msgspec.msgpack.encode(each.state)) for each in found}


@pytest.mark.parametrize("how", ["idle", "told"])
def test_nothing_is_left_of_a_session_that_went(how: str) -> None:
    """Its actors and what they shared go at once, not when the garbage collector gets to it.

    Nor do they stay until it would have been looked at whether it can go to sleep.
    """
    stage = staged()
    with uncollected():
        session = stage.runtime.create_session(SPEC)
        turns(stage, session, 3)
        ctx = weakref.ref(context_of(stage, session))
        buffer = weakref.ref(context_of(stage, session).buffer)
        if how == "idle":
            stage.advance(2 * IDLE_AFTER)
        else:
            stage.runtime._core.tree.put_to_sleep(session.id)
            stage.run()

        assert stage.runtime._core.tree.awake() == []
        assert ctx() is None
        assert buffer() is None


def test_sessions_that_went_leave_no_entry_behind() -> None:
    """No table of the runtime grows with the sessions that fell asleep or were closed."""
    stage = staged()
    tree = stage.runtime._core.tree
    for number in range(20):
        session = stage.runtime.create_session(SPEC)
        turns(stage, session, 1)
        if number % 2:
            session.close()
    stage.advance(2 * IDLE_AFTER)
    passivator = tree._passivator
    tables = {
        "all_running": tree._running,
        "first messages": tree._first_messages,
        "alarms": passivator._alarms,
        "woken for": passivator._woken_for,
        "sessions": tree._sessions._children,
        "living": tree._sessions._living,
        "links": tree._sessions._links,
        "runs": stage.runtime._services.running_calls._runs,
    }

    assert {name: len(table) for name, table in tables.items()} == dict.fromkeys(tables, 0)
    assert stage.clock.next_alarm is None


def test_a_long_conversation_holds_its_messages_and_nothing_else() -> None:
    """No table and no state of a session that is awake grows with its turns."""
    stage = staged()
    session = stage.runtime.create_session(SPEC)
    turns(stage, session, 10)
    before = entries(stage, session), sizes(stage, session)
    turns(stage, session, 40)
    after = entries(stage, session), sizes(stage, session)
    (history,) = context_of(stage, session).caches[HISTORIES].values()

    assert after[0] == before[0]
    # Numbers get longer, such as that of the last turn.
    assert all(after[1][name] - size < 16 for name, size in before[1].items())
    assert len(history.messages) == 4 * 50


def test_agents_that_ended_leave_nothing_in_their_conversation() -> None:
    """Neither what their models were shown, nor a supervisor; the others go on."""
    stage = staged()
    session = stage.runtime.create_session(SPEC)
    turns(stage, session, 1)
    found = []
    for _ in range(10):
        agent = session.spawn(SPEC)
        turn = session.send("Add.", to=agent)
        stage.run()
        assert turn.result(timeout=0)
        session.terminate(agent)
        stage.run()
        found.append(entries(stage, session))
    (node,) = stage.runtime.tree().children[0].children
    turns(stage, session, 1)

    assert found == [found[0]] * 10
    assert [child.id for child in node.children] == ["session", session.state.root]
    assert session.state.phase.value == "active"


def test_the_log_has_nothing_of_sleeping_sessions_in_mind(tmp_path: Path) -> None:
    """A session that sleeps has no stream in the writer's caches; it goes on where it was."""
    log = Runelog.open(tmp_path, CODEC)
    with Runtime(log, providers={"demo": Scripted(reply)}, tools=[add]) as runtime:
        sessions = [runtime.create_session(SPEC) for _ in range(5)]
        for session in sessions:
            assert session.send("Add.").result(timeout=30)
            runtime._core.tree.put_to_sleep(session.id)
        writer = log._writer
        assert writer is not None
        desks = [writer._cache._cache[session.id] for session in sessions]
        streams = sum(len(desk.versions) + len(desk.older) + len(desk.here) for desk in desks)
        again = [session.send("Add.").result(timeout=30).status for session in sessions]

    assert streams == 0
    assert again == ["completed"] * 5


def test_a_message_id_counts_once_however_long_ago_it_was_used() -> None:
    """The log knows it, also when many turns and a sleep have passed since."""
    stage = staged()
    session = stage.runtime.create_session(SPEC)
    first = session.send("Add.", message_id="order-1")
    stage.run()
    turns(stage, session, 30)
    awake = session.send("Add.", message_id="order-1")
    stage.advance(2 * IDLE_AFTER)
    asleep = session.send("Add.", message_id="order-1")
    stage.run()

    assert first.id == awake.id == asleep.id == "turn_1"
    assert session.state.stats.turns == 31
