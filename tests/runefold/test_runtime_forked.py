"""Rules about forked children: whatever they do with a parent's runtime or log is refused at once.

The parent's threads are not there in a child, and what they held is never let go of. So all locks
are held by another thread here when a child is forked.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import pytest

from actors.scheduling.edge import run
from actors.session.public_commands import Send
from runefold import AgentSpec, Runtime, Session, Turn, Visibility
from runefold.errors import Forked
from runefold.providers import Scripted
from runelog import Change, Rune, Runelog
from tests.crash.guard import survived

if TYPE_CHECKING:
    from pathlib import Path

Uses = dict[str, Callable[[], Any]]

NAME = "conv_a"
SPEC = AgentSpec(role="helper", model="demo")
PATIENCE = 20.0
"""Less than an answer is waited for, and more than all refusals take together."""
HARMLESS = {
    "Runtime": {"open", "connect", "close"},
    "Session": set[str](),
    "Turn": set[str](),
    "Runelog": {"open", "close", "notices"},
}
"""What a child may do: begin its own, let go of its copy, and be told what is in memory."""


class Noted(Rune, frozen=True, tag="forked.noted"):
    """Something to append."""


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Run a session that has had a turn."""
    with Runtime.open(tmp_path / "data", providers={"demo": Scripted(["One", "Two"])}) as runtime:
        runtime.create_session(SPEC, conversation_id=NAME).send("Hi").result(timeout=30)
        yield runtime


@contextlib.contextmanager
def all_locks_held() -> Iterator[None]:
    """Hold every lock of our own objects that is free, on another thread."""
    ours = ("runelog.", "actors.", "supervisors.", "runefold.")
    kinds = (type(threading.Lock()), type(threading.RLock()))
    found = [
        lock
        for each in gc.get_objects()
        if str(type(each).__module__).startswith(ours)
        for name in [*getattr(each, "__dict__", ()), *getattr(type(each), "__slots__", ())]
        if name.endswith("lock") and isinstance(lock := getattr(each, name, None), kinds)
    ]
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in found:
                if lock.acquire(blocking=False):
                    stack.callback(lock.release)
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def in_a_child(uses: Uses, times: int = 2) -> str:
    """Have a child use something in every way, so often each; return what was not refused."""

    def child() -> None:
        for name, use in uses.items():
            for _ in range(times):
                with pytest.raises(Forked, match="before a fork"):
                    pytest.fail(f"{name} gave {use()!r}")

    with all_locks_held(), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return survived(child, PATIENCE)


def public(cls: type) -> set[str]:
    """Return the names of what a class can be asked."""
    return {
        name
        for each in cls.__mro__[:-1]
        for name, found in vars(each).items()
        if not name.startswith("_") and (isfunction(found) or isinstance(found, property))
    } | {name for name, found in vars(cls).items() if isinstance(found, classmethod)}


def test_every_use_of_a_runtime_is_refused(runtime: Runtime) -> None:
    """The first use, the second, and whichever comes first."""
    uses: Uses = {
        "create_session": lambda: runtime.create_session(SPEC),
        "check": lambda: runtime.check(SPEC),
        "session": lambda: runtime.session(NAME),
        "sessions": lambda: [*runtime.sessions()],
        "follow": lambda: next(runtime.follow(wait=0)),
        "monitor": lambda: runtime.monitor().alerts(),
        "tree": runtime.tree,
        "wait_for": lambda: runtime.wait_for(NAME, "session.closed", 1),
        "archive": lambda: runtime.archive(NAME),
        "do": lambda: runtime.do(NAME, Send("Hi")),
        "entity": lambda: runtime.entity("session", NAME).pause(),
    }

    inside: Uses = {
        "new_id": lambda: runtime._core.new_id("msg"),
        "ask": lambda: run(runtime._core.ask(NAME, "anything")),
    }

    assert public(Runtime) - HARMLESS["Runtime"] == {*uses}
    assert in_a_child(uses | inside) == ""
    assert runtime.session(NAME).send("Hi").result(timeout=30).output == "Two"


def test_every_use_of_a_session_is_refused(runtime: Runtime) -> None:
    """Whether it would be waited for, written down or read."""
    session = runtime.session(NAME)
    uses: Uses = {
        "send": lambda: session.send("Hi"),
        "turn": lambda: session.turn("turn_1"),
        "turns": session.turns,
        "messages": session.messages,
        "interrupt": session.interrupt,
        "state": lambda: session.state,
        "agents": lambda: session.agents,
        "pause": session.pause,
        "resume": session.resume,
        "suspend": lambda: session.suspend("why"),
        "unsuspend": session.unsuspend,
        "replenish": lambda: session.replenish(tokens=1),
        "close": session.close,
        "archive": session.archive,
        "spawn": lambda: session.spawn(SPEC),
        "hand_over": lambda: session.hand_over("agt_1"),
        "update_agent": lambda: session.update_agent("helper", SPEC),
        "terminate": lambda: session.terminate("agt_1"),
        "approvals": session.approvals,
        "approve": lambda: session.approve("call_1", approver="ada"),
        "deny": lambda: session.deny("call_1", approver="ada"),
        "answer": lambda: session.answer("call_1", "give_up", approver="ada"),
        "acknowledge": lambda: session.acknowledge("call_1", by="ada"),
        "in_doubt": session.in_doubt,
        "spending": session.spending,
        "history": session.history,
        "runes": lambda: next(session.runes()),
        "follow": lambda: next(session.follow(wait=0)),
        "do": lambda: session.do(Send("Hi")),
        "entity": lambda: session.entity("agent", "agt_1").terminate(),
    }

    assert public(Session) - HARMLESS["Session"] == {*uses}
    assert in_a_child(uses) == ""


async def _first(runes: AsyncIterator[Any]) -> object:
    return await anext(runes)


async def _awaited(turn: Turn) -> object:
    return await turn


def test_every_use_of_a_turn_is_refused(runtime: Runtime) -> None:
    """Waiting for it and following it, by `for` and in an event loop."""
    session = runtime.session(NAME)
    session.pause()
    turn = session.send("Hi")
    uses: Uses = {
        "id": lambda: turn.id,
        "result": turn.result,
        "runes": lambda: next(iter(turn.runes())),
    }
    in_loops: Uses = {
        "await": lambda: asyncio.run(_awaited(turn)),
        "async for": lambda: asyncio.run(_first(aiter(turn.runes()))),
    }

    assert public(Turn) - HARMLESS["Turn"] == {*uses}
    assert in_a_child(uses | in_loops) == ""


def test_what_was_begun_before_the_fork_is_refused_as_well(runtime: Runtime) -> None:
    """Iterators, half read, and what keeps runes in hand."""
    session, log = runtime.session(NAME), runtime.log
    monitor, in_loop = runtime.monitor(), session.follow()
    begun: dict[str, Iterator[Any]] = {
        "session.follow": session.follow(),
        "narrowed": session.follow(visibility=Visibility.PUBLIC),
        "runtime.follow": runtime.follow(),
        "sessions": runtime.sessions(),
        "read_all": log.read_all(),
        "stream": log.stream(NAME, "session"),
        "follow": log.follow(NAME),
        "conversations": log.conversations(),
    }
    for each in begun.values():
        next(each)
    asyncio.run(_first(in_loop))
    uses: Uses = {name: partial(next, each) for name, each in begun.items()}
    uses |= {
        "monitor.alerts": monitor.alerts,
        "monitor.phases": monitor.phases,
        "async for": lambda: asyncio.run(_first(in_loop)),
        "open_work": partial(next, log.open_work()),
    }

    # A generator that has raised is over: it is asked once.
    assert in_a_child(uses, times=1) == ""


def test_every_use_of_a_log_is_refused(tmp_path: Path) -> None:
    """Reading, writing and keeping."""
    with Runelog.open(tmp_path / "log") as log:
        append = partial(log.append, NAME, [Change("a", None, [Noted()])])
        append()
        uses: Uses = {
            "append": append,
            "flush": log.flush,
            "roll": log.roll,
            "rolling": log.rolling,
            "read": lambda: [*log.read(NAME)],
            "stream": lambda: [*log.stream(NAME, "a")],
            "version": lambda: log.version(NAME, "a"),
            "read_all": lambda: [*log.read_all()],
            "follow": lambda: next(log.follow()),
            "conversation": lambda: log.conversation(NAME),
            "conversations": lambda: [*log.conversations()],
            "open_work": lambda: [*log.open_work()],
            "may_hold": lambda: log.may_hold("agt_"),
            "position": lambda: log.position,
            "archive": lambda: log.archive(NAME),
            "restore": lambda: log.restore(NAME),
            "erase": lambda: log.erase(NAME),
            "take_in": lambda: log.take_in([], 0),
            "backup": lambda: log.backup(tmp_path / "backup"),
            "rest": lambda: log.rest(NAME),
        }

        assert public(Runelog) - HARMLESS["Runelog"] == {*uses}
        assert in_a_child(uses) == ""


def test_a_child_lets_go_of_its_copy_and_reaches_its_parent(runtime: Runtime) -> None:
    """Closing stops nothing in the parent; commands of a child go there through the socket."""
    directory = runtime.log.directory  # type: ignore[attr-defined]  # it is a Runelog

    def child() -> None:
        with runtime:
            pass
        with Runtime.connect(directory) as connected:
            session = connected.session(NAME)
            assert session.send("Hi", message_id="from_a_child").result(PATIENCE).output == "Two"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        told = survived(child, PATIENCE)

    assert told == ""
    assert runtime.session(NAME).send("Hi", message_id="from_a_child").result(timeout=30)
