"""Rules about the commands that change a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from runefold import AgentSpec, Runtime
from runefold.cli.terminal.exit_codes import Exit
from runefold.providers import Scripted
from runelog.rune import Change
from tests.crash.story import compacting
from tests.runefold.cli_scenes import Said, make_log, opened, real, run, sealed

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Make a log to change."""
    return make_log(tmp_path / "log")


def states(log: Path) -> dict[str, str]:
    """Return the state of every conversation."""
    listed = json.loads(run("log", "list", log, "--json").stdout)
    return {entry["id"]: entry["state"] for entry in listed}


def test_several_conversations_go_to_cold_storage_and_back(log: Path) -> None:
    """`archive` and `restore` take any number of ids and tell what they did."""
    before = run("log", "show", log, "conv_a", "--json").stdout
    archived = run("log", "archive", log, "conv_a", "conv_hostile", "conv_a")
    between = states(log)
    restored = run("log", "restore", log, "conv_a", "conv_hostile")

    assert (archived.exit_code, restored.exit_code) == (0, 0)
    assert archived.stdout == "archived conv_a, 11 runes\narchived conv_hostile, 3 runes\n"
    assert between == {"conv_a": "archived", "conv_hostile": "archived", "conv_work": "live"}
    assert restored.stdout == "restored conv_a, 11 runes\nrestored conv_hostile, 3 runes\n"
    assert set(states(log).values()) == {"live"}
    events = [json.loads(line)["payload"] for line in before.splitlines()]
    after = run("log", "show", log, "conv_a", "--json").stdout
    assert [json.loads(line)["payload"] for line in after.splitlines()] == events
    assert run("log", "verify", log).exit_code == 0


def test_what_is_done_already_is_not_done_again(log: Path) -> None:
    """Asking twice is no mistake."""
    for name in ("archive", "restore"):
        run("log", name, log, "conv_a")
        again = run("log", name, log, "conv_a")

        assert again.exit_code == 0
        assert "already" in again.stdout


def test_a_script_is_told_what_was_done(log: Path) -> None:
    """Each of the three commands has JSON: state and head of each id, and whether it changed."""
    entry = {"id": "conv_a", "head": 11}
    for name, state, options in (
        ("archive", "archived", []),
        ("restore", "live", []),
        ("erase", "erased", ["--yes"]),
    ):
        done = run("log", name, log, "conv_a", "--json", *options)
        again = run("log", name, log, "conv_a", "--json", *options)

        assert json.loads(done.stdout) == [{**entry, "state": state, "changed": True}]
        assert [each["changed"] for each in json.loads(again.stdout)] == [False]
        assert states(log)["conv_a"] == state


def test_open_work_is_not_archived(log: Path) -> None:
    """Refused by name, and none of the others is archived either."""
    result = run("log", "archive", log, "conv_a", "conv_work")

    assert result.exit_code == Exit.REFUSED
    assert "conv_work has open work" in result.stderr
    assert states(log)["conv_a"] == "live"


def test_a_session_that_has_not_ended_is_not_archived(tmp_path: Path) -> None:
    """It would be neither alive nor closed: nothing could be said to it, and nothing awaited."""
    spec = AgentSpec(role="helper", model="demo")
    with Runtime.open(tmp_path / "log", providers={"demo": Scripted(["Hello!"])}) as runtime:
        runtime.create_session(spec, conversation_id="conv_b").send("Hi").result(10)
        runtime.create_session(spec, conversation_id="conv_c").close()
    refused = run("log", "archive", tmp_path / "log", "conv_c", "conv_b")
    between = states(tmp_path / "log")
    archived = run("log", "archive", tmp_path / "log", "conv_c")

    assert refused.exit_code == Exit.REFUSED
    assert (
        "conv_b is active: close it before it is archived, with `runefold close" in refused.stderr
    )
    assert between == {"conv_b": "live", "conv_c": "live"}
    assert archived.stdout.startswith("archived conv_c, ")


def test_a_session_that_is_closing_is_completed_by_its_app(tmp_path: Path) -> None:
    """Closed while no runtime ran, it is not told to be closed again: what is left is its app's."""
    spec = AgentSpec(role="helper", model="demo")
    with Runtime.open(tmp_path / "log", providers={"demo": Scripted(["Hello!"])}) as runtime:
        runtime.create_session(spec, conversation_id="conv_a").send("Hi").result(10)
    run("close", tmp_path / "log", "conv_a")
    refused = run("log", "archive", tmp_path / "log", "conv_a")
    with Runtime.open(tmp_path / "log", providers={"demo": Scripted(["Hello!"])}) as runtime:
        runtime.session("conv_a").close()  # until it is closed
        runtime.session("conv_a").archive()

    assert refused.exit_code == Exit.REFUSED
    assert "runefold close" not in refused.stderr
    assert "its app completes that when it runs, with `runefold serve`" in refused.stderr
    assert states(tmp_path / "log") == {"conv_a": "archived"}


@pytest.mark.parametrize("name", ["archive", "restore", "erase"])
def test_an_unknown_conversation_changes_nothing(log: Path, name: str) -> None:
    """Neither the unknown one nor those that were named with it."""
    before = states(log)
    options = ["--yes"] if name == "erase" else []
    unknown = run("log", name, log, "conv_a", "conv_nowhere", *options)
    no_id = run("log", name, log, "../conv_a", *options)
    nothing = run("log", name, log, *options)

    assert (unknown.exit_code, no_id.exit_code, nothing.exit_code) == (2, 2, 2)
    assert "no conversation conv_nowhere" in unknown.stderr
    assert "is not a valid conversation id" in no_id.stderr
    assert states(log) == before


def test_erasing_asks_for_the_id(log: Path) -> None:
    """Only whoever types the id again erases; then nothing of it is left but its name."""
    erased = run("log", "erase", log, "conv_a", feed="conv_a\n")

    assert erased.exit_code == 0
    assert "Type its id" in erased.stderr
    assert erased.stdout == "erased conv_a, 11 runes\n"
    assert states(log)["conv_a"] == "erased"
    assert run("log", "show", log, "conv_a").exit_code == Exit.REFUSED
    assert not any(b"word 7" in path.read_bytes() for path in log.rglob("*") if path.is_file())


@pytest.mark.parametrize("answer", ["", "\n", "y\n", "yes\n", "conv_b\n", "conv_a conv_a\n"])
def test_any_other_answer_erases_nothing(log: Path, answer: str) -> None:
    """A yes is not enough, and neither is the end of the input."""
    result = run("log", "erase", log, "conv_a", feed=answer)

    assert result.exit_code == Exit.REFUSED
    assert "nothing was erased" in result.stderr
    assert states(log)["conv_a"] == "live"


def test_each_of_several_ids_is_asked_for(log: Path) -> None:
    """One wrong answer, and none of them is erased."""
    wrong = run("log", "erase", log, "conv_a", "conv_hostile", feed="conv_a\nno\n")
    right = run("log", "erase", log, "conv_a", "conv_hostile", feed="conv_a\nconv_hostile\n")

    assert wrong.exit_code == Exit.REFUSED
    assert right.exit_code == 0
    assert states(log) == {"conv_a": "erased", "conv_hostile": "erased", "conv_work": "live"}


def test_erasing_twice_does_nothing(log: Path) -> None:
    """What is gone is gone; there is nothing to ask about."""
    run("log", "erase", log, "conv_a", "--yes")
    again = run("log", "erase", log, "conv_a", feed="")

    assert again.exit_code == 0
    assert again.stdout == "conv_a is already erased\n"


def test_erasing_tells_of_copies_that_a_repair_made(log: Path) -> None:
    """A damaged segment is kept as it was found: that it may hold what was erased is said."""
    quiet = run("log", "erase", log, "conv_hostile", "--yes")
    path = sealed(log)
    path.write_bytes(path.read_bytes().replace(b"word 7", b"wOrd 7"))
    assert run("log", "repair", log).exit_code == Exit.PROBLEMS
    told = run("log", "erase", log, "conv_a", "--yes", "--json")

    assert quiet.stderr == ""
    assert f"set {path.name} aside" in told.stderr
    assert "delete it" in told.stderr
    assert json.loads(told.stdout)[0]["state"] == "erased"


def test_a_sound_log_needs_no_repair(log: Path) -> None:
    """`repair` says so and leaves it alone."""
    words = run("log", "repair", log)
    script = run("log", "repair", log, "--json")

    assert words.exit_code == 0
    assert words.stdout == "sound: nothing to repair\n"
    assert json.loads(script.stdout) == {
        "ok": True,
        "set_aside": [],
        "runes_kept": 0,
        "runes_lost": 0,
        "more_lost": False,
        "notes": [],
        "problems": [],
    }


def test_repair_sets_damage_aside_and_says_what_is_lost(log: Path) -> None:
    """Exit code 1 because runes are lost; what can be read is kept, and the log is sound again."""
    # Wherever it is: of one that is damaged in one place, an older copy may be whole.
    sealed(log).write_bytes(sealed(log).read_bytes().replace(b"word 7", b"wOrd 7"))
    assert run("log", "verify", log).exit_code == Exit.PROBLEMS
    done = run("log", "repair", log, "--json")
    told = json.loads(done.stdout)

    assert done.exit_code == Exit.PROBLEMS
    assert told["ok"] is True
    assert told["runes_lost"] >= 1
    assert told["runes_kept"] >= 4
    assert [(log / "damaged" / name).exists() for name in told["set_aside"]] == [True]
    assert run("log", "verify", log).exit_code == 0
    assert run("log", "show", log, "conv_hostile").exit_code == 0
    assert "set aside" in run("log", "stats", log).stdout


def test_repair_does_not_praise_what_it_cannot_mend(log: Path) -> None:
    """What is lost for good, or still wrong afterwards, is exit code 1 and told."""
    content = sealed(log).read_bytes()
    sealed(log).write_bytes(content[:8_192])
    done = run("log", "repair", log)

    assert done.exit_code == Exit.PROBLEMS
    assert "sound: nothing" not in done.stdout
    assert "nothing was lost" not in done.stdout


@pytest.mark.parametrize("closed", [True, False])
def test_repair_does_not_praise_itself_over_a_missing_file(log: Path, *, closed: bool) -> None:
    """Runes that went with a file are lost, whether anything tells how many they were or not."""
    max(log.glob("segments/*.mdb")).unlink()
    if not closed:
        (log / "CLEAN").unlink()
    done = run("log", "repair", log)

    assert done.exit_code == Exit.PROBLEMS
    assert ("1 rune lost" if closed else "an unknown number of runes lost") in done.stdout
    assert "nothing was lost" not in done.stdout


def test_repair_rebuilds_a_missing_manifest(log: Path) -> None:
    """Without MANIFEST a log is damaged, not absent: nothing is made in its place."""
    (log / "MANIFEST").unlink()
    looked = run("log", "list", log)
    taken = real("log", "import", log, "-", "--create", feed=b"")
    done = run("log", "repair", log)

    assert (looked.exit_code, taken.returncode) == (Exit.DAMAGED, Exit.DAMAGED)
    assert "`runefold log repair`" in looked.stderr
    assert done.exit_code == 0
    assert "MANIFEST was rebuilt" in done.stdout
    assert run("log", "verify", log).exit_code == 0
    assert set(states(log)) == {"conv_a", "conv_hostile", "conv_work"}


def test_repair_does_what_is_advised_for_a_damaged_archive(log: Path) -> None:
    """`show` and `verify` send people to `repair`, and that mends it."""
    run("log", "archive", log, "conv_a")
    path = log / "archive" / "conv_a.runes"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    shown, checked = run("log", "show", log, "conv_a"), run("log", "verify", log)
    done = run("log", "repair", log)

    assert (shown.exit_code, checked.exit_code) == (Exit.DAMAGED, Exit.PROBLEMS)
    assert "log repair" in shown.stderr
    assert "log repair" in checked.stderr
    assert done.exit_code == 0
    assert done.stdout.endswith("repaired: 11 runes kept, none lost\n")
    assert run("log", "verify", log).exit_code == 0
    assert run("log", "show", log, "conv_a").exit_code == 0


def test_repair_is_not_advised_where_only_a_backup_helps(log: Path) -> None:
    """What is not there cannot be repaired: every command says so in the same words."""
    with compacting():
        run("log", "archive", log, "conv_a")
    (log / "archive" / "conv_a.runes").unlink()
    shown, checked = run("log", "show", log, "conv_a"), run("log", "verify", log)
    done = run("log", "repair", log)

    assert (shown.exit_code, checked.exit_code, done.exit_code) == (Exit.DAMAGED, 1, 1)
    for result in (shown, checked):
        assert "log repair" not in result.stdout + result.stderr
    for result in (shown, checked, done):
        assert "from a backup" in result.stdout + result.stderr


def test_times_that_nobody_knows_are_not_shown(tmp_path: Path) -> None:
    """Of a conversation whose runes are all lost no time is left: none is made up."""
    log = tmp_path / "log"
    with opened(log) as written:
        written.append("conv_a", [Change("turn_1", 0, [Said(text="needle")])])
    (path,) = log.glob("segments/*.mdb")
    data = path.read_bytes()
    pages = [data[at : at + 4096] for at in range(0, len(data), 4096)]
    path.write_bytes(b"".join(bytes(4096) if b"needle" in page else page for page in pages))
    told = json.loads(run("log", "repair", log, "--json").stdout)
    table, listed = run("log", "list", log), json.loads(run("log", "list", log, "--json").stdout)
    stats = json.loads(run("log", "stats", log, "--json").stdout)

    assert (told["ok"], told["runes_lost"]) == (True, 1)
    assert "1970" not in table.stdout
    assert table.stdout.splitlines()[-1].split()[-2:] == ["-", "-"]
    assert [(each["first_time"], each["last_time"]) for each in listed] == [(None, None)]
    assert (stats["runes"], stats["first_time"], stats["last_time"]) == (1, None, None)
    assert "1970" not in run("log", "stats", log).stdout


def test_repair_leaves_other_directories_alone(tmp_path: Path) -> None:
    """What is no log is refused, and not a file is left in it."""
    (tmp_path / "letter.txt").write_text("dear")
    result = run("log", "repair", tmp_path)

    assert result.exit_code == Exit.REFUSED
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
