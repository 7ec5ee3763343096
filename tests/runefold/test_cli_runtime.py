"""Rules about commands to a runtime in another process, and to a log that nobody runs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from actors.catalogue import CODEC, KINDS
from actors.session.public_commands import Pause
from actors.tool.policy import Clause, Policy
from runefold.cli.commands.deliver import deliver
from runefold.control.client import Remote
from runefold.runtime import Runtime
from runelog import manifest
from runelog.errors import Held
from runelog.rune import Envelope
from runelog.store import Runelog
from tests.runefold.cli_scenes import ESCAPES, ROOT, environment, make_log, run
from tests.runefold.control_app import SESSION, charges, options, running, spec

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.handles import Commander


def told(*arguments: str | Path, feed: str = "") -> tuple[int, str, str]:
    """Run a command as a process of its own; return its exit code and its words."""
    done = subprocess.run(
        [sys.executable, "-m", "runefold", *map(str, arguments)],
        input=feed,
        capture_output=True,
        check=False,
        timeout=60,
        cwd=ROOT,
        env=environment(),
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def kinds(directory: Path) -> list[str]:
    """Return the kinds of all runes of the session, as they are on disk."""
    with Runelog.open(directory, CODEC, readonly=True) as log:
        return [envelope.kind for envelope in log.read(SESSION)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return where the log is to be."""
    return tmp_path / "data"


def waiting(directory: Path, policy: Policy | None = None) -> str:
    """Leave a log that nobody runs, with a call that waits for a human; return the call."""
    with Runtime.open(directory, policy=policy, **options(directory, "asks")) as runtime:
        session = runtime.create_session(spec(), conversation_id=SESSION)
        session.send("Go.", message_id="first")
        asked = next(iter(session.follow(kinds={"tool.approval_requested"})))
        assert isinstance(asked, Envelope)
        return str(asked.payload.call_id)  # type: ignore[attr-defined]  # as its kind says


# -- somebody runs it --------------------------------------------------------------------------


def test_an_approval_reaches_the_process_that_runs_the_session(place: Path) -> None:
    """What is approved on the command line runs there, once."""
    with running(place, "asks") as app:
        code, out, _ = told("approve", place, SESSION, app.call, "--as", "ann")
        again = told("approve", place, SESSION, app.call, "--as", "ann")
        second = told("deny", place, SESSION, app.call, "--as", "bob")
        answer = told("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    assert (code, out) == (0, f"approved {app.call}\n")
    assert again[0] == 0
    assert second[0] == 2
    assert "ann has answered" in second[2]
    assert answer == (0, "It is paid.\n", "")
    assert charges(place) == ["3"]


def test_a_denial_reaches_it_with_its_reason(place: Path) -> None:
    """The model is told, and the tool does not run."""
    with running(place, "asks") as app:
        code, out, _ = told("deny", place, SESSION, app.call, "--reason", "too much")
        told("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    with Runelog.open(place, CODEC, readonly=True) as log:
        [result] = [e.payload for e in log.read(SESSION) if e.kind == "tool.result"]

    assert (code, out) == (0, f"denied {app.call}\n")
    assert "too much" in repr(result)
    assert charges(place) == []


def test_a_message_is_answered_on_the_screen(place: Path) -> None:
    """With --wait its answer is shown, and nothing in it can act on a terminal."""
    with running(place, "plain"):
        shown = told("send", place, SESSION, "Hi", "--wait", "--timeout", "30")
        code, out, _ = told("send", place, SESSION, "-", "--wait", "--json", feed="Hi again")
        accepted = told("send", place, SESSION, "Bye", "--message-id", "mine")
        again = told("send", place, SESSION, "Bye", "--message-id", "mine")

    assert shown == (0, "Hello!\n    Two \\x1b[31mlines\\x1b[0m.\n", "")
    assert code == 0
    assert json.loads(out)["status"] == "completed"
    assert json.loads(out)["turn_id"] == "turn_2"
    assert accepted == again == (0, "accepted mine\n", "")
    assert kinds(place).count("session.input_accepted") == 3


def test_an_interrupt_stops_what_runs(place: Path) -> None:
    """What was said until then is kept, and whoever waits is told by the exit code."""
    with running(place, "slow"):
        stopped = told("interrupt", place, SESSION)
        again = told("interrupt", place, SESSION)
        code, out, err = told("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    assert stopped == (0, "interrupted 1 turn\n", "")
    assert again == (0, "nothing was running\n", "")
    assert (code, out) == (1, "Well, \n")
    assert err == "interrupted turn_1: interrupt\n"


def test_an_interrupt_says_why(place: Path) -> None:
    """The reason is kept with the turn that it stopped."""
    with running(place, "slow"):
        code, _, _ = told("interrupt", place, SESSION, "--reason", "wrong order")
        _, _, err = told("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    assert code == 0
    assert err == "interrupted turn_1: wrong order\n"


def test_a_wait_has_an_end(place: Path) -> None:
    """No answer in time is its own exit code; the turn goes on."""
    with running(place, "slow"):
        code, out, err = told(
            "send", place, SESSION, "Go.", "--message-id", "first", "--wait", "--timeout", "0"
        )

    assert (code, out) == (4, "")
    assert "has not been answered within 0 s; its turn goes on" in err


def test_a_message_that_steers_takes_over(place: Path) -> None:
    """The turn that runs is interrupted for it."""
    with running(place, "slow"):
        told("send", place, SESSION, "No, this.", "--mode", "steer")
        code, _, err = told("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    assert code == 1
    assert err == "interrupted turn_1: steer\n"


def test_the_tree_shows_who_lives_under_whom(place: Path) -> None:
    """As lines for people, and as one object for scripts."""
    with running(place, "asks") as app:
        _, out, _ = told("tree", place)
        _, record, _ = told("tree", place, "--json")
    top = json.loads(record)
    [sessions] = top["children"]
    [conversation] = sessions["children"]

    assert (top["id"], sessions["id"], conversation["id"]) == ("runtime", "sessions", SESSION)
    assert out.splitlines()[0] == "runtime  supervisor  running"
    assert f"   └─ {SESSION}  supervisor  running" in out.splitlines()
    assert any(app.call in line for line in out.splitlines())


def test_sessions_are_listed_beside_whoever_runs_them(place: Path) -> None:
    """With the calls that wait for a human, which is what an operator looks for."""
    with running(place, "asks") as app:
        _, out, _ = told("sessions", place)
        _, record, _ = told("sessions", place, "--json")
    [listed] = json.loads(record)

    assert listed["id"] == SESSION
    assert (listed["phase"], listed["turns"], listed["running"]) == ("active", 1, 1)
    assert [asked["call_id"] for asked in listed["approvals"]] == [app.call]
    assert [asked["tool_name"] for asked in listed["approvals"]] == ["charge"]
    assert [asked["arguments"] for asked in listed["approvals"]] == [{"amount": 3}]
    assert f'  asks {app.call}: charge {{"amount": 3}}: charge requires approval, until ' in out


def test_a_second_writer_is_told_who_holds_the_log(place: Path) -> None:
    """By its process, and with a way out."""
    with running(place, "asks") as app:
        with pytest.raises(Held) as refused:
            Runtime.open(place, **options(place, "asks"))
        code, _, err = told("log", "archive", place, SESSION)

    assert f"process {app.told['pid']} (" in str(refused.value)
    assert code == 2
    assert f"process {app.told['pid']} (" in err
    assert " since 20" in err


def test_it_drains_when_it_is_told_to_end(place: Path) -> None:
    """SIGTERM interrupts what does not end by itself, closes the log, and removes the socket."""
    with running(place, "slow") as app:
        app.end()

        assert app.hear() == {"closed": True}
        assert app.process.returncode == 0
    assert kinds(place)[-1] == "turn.interrupted"
    assert not (place / "control").exists()


# -- nobody runs it ----------------------------------------------------------------------------


def test_an_app_that_is_started_waits_for_a_command(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that has the log open for a moment does not make an app fail that starts then."""
    waiting(place)
    monkeypatch.setattr(sys, "argv", ["runefold", "send", str(place)])
    opened: list[Runtime] = []
    app = threading.Thread(
        target=lambda: opened.append(Runtime.open(place, **options(place, "asks")))
    )
    meets = threading.Event()
    sleep = time.sleep

    def wait(seconds: float) -> None:
        meets.set()
        sleep(seconds)

    def word(offline: Commander) -> str:
        if isinstance(offline, Remote):
            offline.tree()
        monkeypatch.setattr(time, "sleep", wait)
        # One that runs no command is waited for half a second at most.
        monkeypatch.setattr(manifest, "_PATIENCE", 0.5)
        app.start()
        assert meets.wait(30)
        sleep(1.0)
        offline.do(SESSION, Pause("a word"))
        return manifest.holder(place)

    told_in_lock, is_run = deliver(place, KINDS, word)
    app.join(30)
    [runtime] = opened
    phase = runtime.session(SESSION).state.phase.value
    runtime.close()

    assert not is_run
    assert "(runefold send)" in told_in_lock
    assert phase == "paused"


def test_an_approval_is_kept_for_whoever_opens_the_log_next(place: Path) -> None:
    """It is written down, nothing is run for it, and the app carries on from there."""
    call = waiting(place)
    before = kinds(place)
    code, out, err = told("approve", place, SESSION, call)
    written = kinds(place)[len(before) :]
    early = charges(place)
    with Runtime.open(place, **options(place, "asks")) as runtime:
        turn = runtime.session(SESSION).send("Go.", message_id="first")
        result = turn.result(timeout=30)

    assert (code, out) == (0, f"approved {call}\n")
    assert err == f"recorded; no runtime has {place} open. It takes effect when one opens it\n"
    assert written == ["tool.approved", "approval.approved", "session.rested"]
    assert early == []
    assert result.output.endswith("It is paid.")
    assert charges(place) == ["3"]


def test_a_killed_process_leaves_a_log_that_can_be_talked_to(place: Path) -> None:
    """The socket that it leaves behind misleads nobody, and is replaced by the next one's."""
    with running(place, "asks") as app:
        app.kill()
    left_behind = (place / "control").exists()
    denied = told("deny", place, SESSION, app.call, "--reason", "no")
    tree = told("tree", place)
    with Runtime.open(place, **options(place, "asks")) as runtime:
        result = runtime.session(SESSION).send("Go.", message_id="first").result(timeout=30)
        alive = told("tree", place)

    assert left_behind
    assert denied[0] == 0
    assert tree == (0, "", f"no runtime has {place} open\n")
    assert result
    assert alive[1].startswith("runtime  supervisor  running")
    assert charges(place) == []


def test_a_message_waits_for_whoever_opens_the_log_next(place: Path) -> None:
    """It is accepted, and no turn begins that nobody would run."""
    with Runtime.open(place, **options(place, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION)
    code, out, _ = told("send", place, SESSION, "Hi", "--message-id", "mine", "--json")
    again = told("send", place, SESSION, "Hi", "--message-id", "mine")
    before = kinds(place)
    with Runtime.open(place, **options(place, "plain")) as runtime:
        result = runtime.session(SESSION).send("Hi", message_id="mine").result(timeout=30)

    assert code == 0
    assert json.loads(out) == {"session": SESSION, "message_id": "mine", "running": False}
    assert again[:2] == (0, "accepted mine\n")
    assert before.count("session.input_accepted") == 1
    assert "turn.started" not in before
    assert result.turn_id == "turn_1"


def test_nobody_is_waited_for_where_nobody_runs(place: Path) -> None:
    """A wait that could not end is refused, and nothing is sent."""
    waiting(place)
    before = kinds(place)
    code, _, err = told("send", place, SESSION, "Hi", "--wait")

    assert code == 2
    assert "so no answer will come: leave out --wait. Nothing was sent" in err
    assert kinds(place) == before


def test_what_nobody_runs_is_not_interrupted(place: Path) -> None:
    """It will go on; that is said, rather than that it was stopped."""
    waiting(place)
    code, _, err = told("interrupt", place, SESSION)

    assert code == 2
    assert f"1 turn of {SESSION} will go on when it is opened" in err


def test_the_tree_of_a_log_that_nobody_runs_is_nothing(place: Path) -> None:
    """A script is told so as well."""
    waiting(place)

    assert told("tree", place, "--json") == (0, "null\n", "")


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("send", SESSION, "Hi"),
        ("approve", SESSION, "call_1"),
        ("deny", SESSION, "call_1"),
        ("interrupt", SESSION),
        ("sessions",),
        ("tree",),
    ],
)
def test_what_is_no_log_is_left_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A mistyped directory is refused, and not made."""
    missing = tmp_path / "nowhere"
    result = run(words[0], missing, *words[1:])

    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert not missing.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("send", "conv_x", "Hi"), "no conversation conv_x"),
        (("send", "../x", "Hi"), "session id"),
        (("send", SESSION, "Hi", "--message-id", "a b"), "message id"),
        (("send", SESSION, "Hi", "--to", "agt_x"), "there is no agent agt_x"),
        (("send", SESSION, "\udce4"), "no text"),
        (("send", SESSION, ""), "the message is empty"),
        (("send", SESSION, " \n"), "the message is empty"),
        (("approve", SESSION, "call_x"), "there is no call call_x"),
        (("approve", SESSION, "a/b"), "call id"),
        (("deny", "conv_x", "call_x"), "no conversation conv_x"),
        (("interrupt", "conv_x"), "no conversation conv_x"),
    ],
)
def test_a_mistake_has_its_sentence(place: Path, words: tuple[str, ...], said: str) -> None:
    """With exit code 2, and the log as it was."""
    with Runtime.open(place, **options(place, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION)
    before = kinds(place)
    result = run(words[0], place, *words[1:])

    assert result.exit_code == 2
    assert said in result.stderr
    assert kinds(place) == before


def test_who_holds_a_log_and_takes_no_commands_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app that only appends, for instance: it cannot be talked to, and that is said."""
    monkeypatch.setattr("runefold.cli.commands.deliver.PATIENCE", -1)
    make_log(place)
    with Runelog.open(place):
        sent = run("send", place, "conv_a", "Hi")
        tree = run("tree", place)

    assert sent.exit_code == tree.exit_code == 2
    for result in (sent, tree):
        assert "is being written by process" in result.stderr
        assert "which takes no commands" in result.stderr


def test_conversations_that_are_no_sessions_are_not_listed(place: Path) -> None:
    """A log may hold more than ours; nothing of it is taken for a session."""
    make_log(place)
    result = run("sessions", place)
    record = run("sessions", place, "--json")

    assert (result.exit_code, result.stderr) == (0, "no sessions\n")
    assert json.loads(record.stdout) == []


def test_a_reason_cannot_act_on_a_terminal(place: Path) -> None:
    """Whatever a policy or a model says is shown as what it is."""
    waiting(place, Policy(rules=[Clause("*", "ask", ESCAPES)]))
    result = run("sessions", place)

    assert "\\x1b]0;owned" in result.stdout
    assert "\x1b" not in result.stdout
    assert "\u202e" not in result.stdout
