"""Rules about programs as tools in whole conversations: nothing runs beside one being stopped."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.command import CommandTool
from actors.tool.runes import Result
from runefold import AgentSpec, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Line
    from runefold.sessions import Session
    from runefold.turns import Turn

LONG = 60.0
"""Seconds after which a test is lost; nothing that works waits for them."""
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("hi", flush=True)
with open("book", "a", buffering=1) as book:
    while True:
        book.write(sys.argv[1] + "\\n")
        time.sleep(0.01)
"""
"""Writes its name again and again, and does not stop when it is asked to."""


def stubborn(root: Path, timeout: float) -> CommandTool:
    """Return that as a tool, not to be run beside others."""
    argv = [sys.executable, "-c", STUBBORN, "{name}"]
    return CommandTool("note", argv, root=root, timeout=timeout, grace=0.3)


def entries(root: Path) -> list[str]:
    """Return who wrote, in order; each as often as it is not the one before."""
    book = root / "book"
    lines = book.read_text(encoding="ascii").split() if book.exists() else []
    return [line for number, line in enumerate(lines) if not number or lines[number - 1] != line]


def results(session: Session) -> list[Result]:
    """Return how the calls came out."""
    found = [rune.payload for rune in session.runes(kinds={"tool.result"})]
    return [rune for rune in found if isinstance(rune, Result)]


def reply(request: Request) -> list[Line]:
    """Ask for what the user names; then be done."""
    last = request.messages[-1]
    if last.role != "user":
        return ["Done."]
    return [call("note", name=name) for name in last.text.split()]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[Session, Path, Turn]]:
    """Give a conversation in which a program runs that has plenty of time."""
    root = tmp_path / "root"
    root.mkdir()
    with Runtime.open(
        tmp_path / "log", tools=[stubborn(root, LONG)], providers={"demo": Scripted(reply)}
    ) as runtime:
        session = runtime.create_session(AgentSpec(role="h", model="demo", tools=["note"]))
        turn = session.send("a")
        _await_progress(session)
        yield session, root, turn


def _await_progress(session: Session, programs: int = 1) -> None:
    """Wait until so many programs have said something."""
    found = session.follow(kinds={"tool.progress"}, wait=LONG)
    assert len([*itertools.islice(found, programs)]) == programs


def test_the_next_one_begins_when_the_one_before_has_really_ended(tmp_path: Path) -> None:
    """Past its deadline a program has time to end; what it said until then is in its result."""
    root = tmp_path / "root"
    root.mkdir()
    with Runtime.open(
        tmp_path / "log", tools=[stubborn(root, 0.5)], providers={"demo": Scripted(reply)}
    ) as runtime:
        session = runtime.create_session(AgentSpec(role="h", model="demo", tools=["note"]))
        assert session.send("a b").result(LONG).output == "Done."
        found = results(session)

    assert entries(root) == ["a", "b"]
    assert [(result.status, result.output) for result in found] == [("timeout", "hi\n")] * 2
    assert [(result.trigger, result.actor) for result in found] == [("deadline", "timeout")] * 2


def test_a_turn_that_is_interrupted_ends_when_its_program_has(
    begun: tuple[Session, Path, Turn],
) -> None:
    """Who sends the next message then has nothing else writing."""
    session, root, turn = begun
    session.interrupt("enough")
    assert turn.result(LONG).status == "interrupted"
    written = (root / "book").read_bytes()
    [result] = results(session)

    assert result.status == "cancelled"
    assert result.error.startswith("cancelled: ")
    assert (result.trigger, result.actor) == ("enough", "user")
    assert "may still" not in result.error
    assert result.output == "hi\n"
    assert (root / "book").read_bytes() == written


def test_whoever_steers_has_the_program_stopped_first(begun: tuple[Session, Path, Turn]) -> None:
    """The turn that goes another way runs its own programs when the old one is gone."""
    session, root, _ = begun
    steered = session.send("b", mode="steer")
    _await_progress(session, 2)
    session.interrupt("enough")
    steered.result(LONG)

    assert entries(root) == ["a", "b"]
