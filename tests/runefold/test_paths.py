"""Rules about paths: any name that a file can have will do, and what can be none is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from actors.session.public_commands import Pause, Resume
from runefold import AgentSpec, CommandTool, Runtime
from runefold.control.client import Remote
from runefold.control.offline import OfflineCommands
from runefold.errors import Refused
from runefold.providers import Scripted, call
from runelog import Runelog
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from tests.runefold.cli_scenes import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAME = b"caf\xe9 \xff"
"""The name of a directory that is no UTF-8: Latin-1, as an old disk may have it."""
SPEC = AgentSpec(role="helper", model="demo", tools=["show"])
DOORS: dict[str, Callable[[Any], object]] = {
    "Runelog": Runelog.open,
    "Runtime": Runtime.open,
    "OfflineCommands": OfflineCommands.open,
    "Remote": Remote,
    "CommandTool.root": lambda given: CommandTool("show", ["true"], root=given),
    "CommandTool.paths": lambda given: CommandTool("show", ["true"], root="/", paths=[given]),
}


def test_a_runtime_works_where_the_name_is_no_utf_8(tmp_path: Path) -> None:
    """A session, a program with its root there, commands through the socket; and after a kill."""
    place = os.fsencode(tmp_path) + b"/" + NAME
    (tmp_path / os.fsdecode(NAME)).mkdir()
    (tmp_path / os.fsdecode(NAME) / "note.txt").write_text("hello", encoding="utf-8")
    show = CommandTool(
        "show", ["cat", "note.txt"], root=os.fsdecode(place), side_effects=False, timeout=30
    )
    directory = place + b"/log"
    model = Scripted([[call("show")], "Done.", "Again."])
    with Runtime.open(directory, tools=[show], providers={"demo": model}) as runtime:
        session = runtime.create_session(SPEC, conversation_id="conv_a")
        first = session.send("Go.").result(timeout=30)
        results = [each.payload for each in session.runes(kinds={"tool.result"})]
        remote = Remote(os.fsdecode(directory))
        remote.do("conv_a", Pause("lunch"))
        assert session.state.phase.value == "paused"
    (tmp_path / os.fsdecode(NAME) / "log" / "CLEAN").unlink()

    assert first.output == "Done."
    assert "hello" in repr(results)
    assert verify(tmp_path / os.fsdecode(NAME) / "log").problems == []
    assert repair(tmp_path / os.fsdecode(NAME) / "log").notes == []
    with OfflineCommands.open(os.fsdecode(directory)) as offline:
        offline.do("conv_a", Resume())
        assert offline.state("conv_a").phase.value == "active"


def test_commands_take_such_a_name(tmp_path: Path) -> None:
    """They name it escaped; what goes through files comes back."""
    place = os.fsencode(tmp_path) + b"/" + NAME
    with Runtime.open(place, providers={"demo": Scripted(["Hello."])}) as runtime:
        spec = AgentSpec(role="helper", model="demo")
        session = runtime.create_session(spec, conversation_id="conv_a")
        session.send("Hi.").result(timeout=30)
    told = {}
    for command in (
        *(["sessions"], ["tree"], ["verify"], ["log", "stats"], ["log", "verify"]),
        *(["log", "list", "--json"], ["log", "repair"]),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "runefold", *command, place],
            capture_output=True,
            check=False,
            timeout=60,
            cwd=ROOT,
            env=environment(),
        )
        told[" ".join(command)] = (done.returncode, b"Traceback" in done.stderr)

    assert {*told.values()} == {(0, False)}


@pytest.mark.parametrize("given", [5, None, "a\0b", b"a\0b", "half \ud800 a character"])
@pytest.mark.parametrize("door", DOORS)
def test_what_can_be_no_path_is_refused(door: str, given: object) -> None:
    """By every door, in words, and with nothing made."""
    with pytest.raises(Refused, match=r"is named by a path, not by|no file has"):
        DOORS[door](given)


def test_following_a_kind_that_cannot_be_is_harmless(tmp_path: Path) -> None:
    """No rune has a kind that cannot be encoded, so nothing comes."""
    with Runelog.open(tmp_path / "log") as log:
        found = [*log.follow(kinds={"half \ud800"}, wait=0)]

    assert found == []
