"""Rules about `runefold verify`: damage and broken rules are found, named, and told by the code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from actors.agent import runes as agents
from actors.budget import runes as budget
from actors.catalogue import CODEC
from actors.session import runes as session
from actors.tool import runes as tool
from actors.turn import runes as turn
from runefold.runtime import Runtime
from runelog.codec import Codec
from runelog.rune import Change, Rune
from runelog.store import Runelog
from tests.runefold.cli_scenes import SMALL, flip, run, sealed
from tests.runefold.control_app import SESSION, options, running, spec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGUN = turn.Started(turn_id="turn_1", agent_id="agt_1", input="marmalade")
AGAIN = turn.Started(turn_id="turn_2", agent_id="agt_1", input="hi")
CREATED = session.Created("conv_a")
SPAWNED = agents.Spawning(agent_id="agt_1", role="x", model="m")


class Noted(Rune, frozen=True, tag="note.noted"):
    """A rune of some other app."""

    text: str


def written(directory: Path, *runes: Rune, conversation: str = "conv_a") -> Path:
    """Write a log with these runes, each by its own entity."""
    with Runelog.open(directory, CODEC, segment_size=SMALL) as log:
        for rune in runes:
            log.append(conversation, [Change(owner(rune), None, [rune])])
    return directory


def owner(rune: Rune) -> str:
    """Return the entity whose rune it is."""
    names = ("turn_id", "call_id", "agent_id")
    if isinstance(rune, budget.Opened | budget.Reserves | budget.Settles):
        return "budget"
    return next((getattr(rune, name) for name in names if hasattr(rune, name)), "session")


def verified(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Run it for a script."""
    result = run("verify", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def broken(*arguments: str | Path) -> list[str]:
    """Return which invariants it says are broken."""
    return [each["invariant"] for each in verified(*arguments)[1]["problems"]]


def test_what_a_runtime_leaves_is_sound(tmp_path: Path) -> None:
    """After a turn with a call, in words and for scripts: nothing wrong, exit code 0."""
    with Runtime.open(tmp_path, **options(tmp_path, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION).send("Hi").result(30)
    words = run("verify", tmp_path)
    code, report = verified(tmp_path, "--at-rest")

    assert (words.exit_code, code) == (0, 0)
    assert words.stdout.startswith("sound: ")
    assert report["ok"] is True
    assert (report["conversations"], report["segments"]) == (1, 1)
    assert report["runes"] > 10
    assert report["problems"] == []


def test_it_works_beside_a_live_runtime(tmp_path: Path) -> None:
    """What is under way is no problem; to look does not disturb whoever writes."""
    with running(tmp_path / "data", "asks"):
        code, report = verified(tmp_path / "data")

    assert (code, report["problems"]) == (0, [])


@pytest.mark.parametrize(
    ("invariant", "runes"),
    [
        ("INV-TURN-SEQUENTIAL", [BEGUN, AGAIN]),
        ("INV-TURN-ORDER", [AGAIN, turn.Error("x", turn_id="turn_2"), BEGUN]),
        ("INV-TURN-TERMINAL", [turn.Error("x", turn_id="turn_1")]),
        ("INV-TOOL-CALL-BEFORE-RESULT", [tool.Result("call_1", "success")]),
        ("INV-AGENT-SUPERVISED", [CREATED, BEGUN]),
        ("INV-REPLAY-DETERMINISTIC", [CREATED, session.Resumed()]),
    ],
)
def test_a_broken_rule_is_told_by_its_name(
    tmp_path: Path, invariant: str, runes: Sequence[Rune]
) -> None:
    """Exit code 1, the rule, how bad it is, and where."""
    directory = written(tmp_path / "log", *runes)
    code, report = verified(directory)
    words = run("verify", directory)
    found = next(each for each in report["problems"] if each["invariant"] == invariant)

    assert (code, words.exit_code) == (1, 1)
    assert report["ok"] is False
    assert found["severity"] == "error"
    assert found["where"].startswith("conv_a event ")
    assert invariant in words.stdout


def test_a_warning_alone_is_no_failure(tmp_path: Path) -> None:
    """A budget that was passed is told, and the exit code is 0."""
    used = budget.Amounts(tool_calls=5)
    directory = written(
        tmp_path / "log",
        budget.Opened(scope="session", limits=budget.Limits(tool_calls=1)),
        turn.TimeReserved("turn_1-w0", 1, "session", used),
        turn.TimeSettled("turn_1-w0", used),
    )
    code, report = verified(directory)

    assert (code, report["ok"]) == (0, True)
    assert [each["severity"] for each in report["problems"]] == ["warn"]


def test_what_has_not_ended_is_a_problem_only_where_all_is_to_be_at_rest(tmp_path: Path) -> None:
    """A turn under way goes on with the next open; with --at-rest it should have ended."""
    directory = written(tmp_path / "log", CREATED, SPAWNED, BEGUN)

    assert broken(directory) == []
    assert broken(directory, "--at-rest") == ["INV-TURN-TERMINAL"]


def test_archived_conversations_are_read_too_and_erased_ones_are_left(tmp_path: Path) -> None:
    """Wherever a conversation rests, the rules hold for it."""
    directory = written(tmp_path / "log", BEGUN, AGAIN)
    written(directory, BEGUN, AGAIN, conversation="conv_b")
    run("log", "archive", directory, "conv_a")
    run("log", "erase", directory, "conv_b", "--yes")
    _, report = verified(directory)

    assert [each["where"] for each in report["problems"]] == ["conv_a event 2"]


def test_damage_is_told_once_and_the_rest_is_still_looked_at(tmp_path: Path) -> None:
    """What cannot be read is named; other conversations are held to the rules all the same."""
    directory = written(tmp_path / "log", CREATED, SPAWNED, BEGUN)
    with Runelog.open(directory, CODEC) as log:
        log.roll()
    flip(sealed(directory), b"marmalade")
    written(directory, BEGUN, AGAIN, conversation="conv_z")
    code, report = verified(directory)
    found = [each["invariant"] for each in report["problems"]]
    messages = [each["message"] for each in report["problems"]]

    assert code == 1
    assert "INV-CRC-VALID" in found
    assert "INV-TURN-SEQUENTIAL" in found
    assert len(messages) == len(set(messages))
    assert "runefold log repair" in run("verify", directory).stderr


def test_a_log_of_other_runes_is_no_conversation_of_ours(tmp_path: Path) -> None:
    """Kinds that are not known are kept and skipped: nothing is said against them."""
    with Runelog.open(tmp_path / "log", Codec([Noted]), segment_size=SMALL) as log:
        log.append("conv_a", [Change("note", 0, [Noted("one"), Noted("two")])])

    assert verified(tmp_path / "log") == (
        0,
        {"ok": True, "runes": 2, "conversations": 1, "segments": 1, "problems": []},
    )


def test_no_log_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    """A directory that holds no log is left as it is."""
    result = run("verify", tmp_path)

    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == []
