"""Rules about commands that decide a session's course, with and without somebody who runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.catalogue import CODEC
from actors.model.providers.scripted import Scripted, call
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.rune import Envelope
from runelog.store import Runelog
from tests.runefold.cli_scenes import ROOT, environment, run
from tests.runefold.control_app import SESSION, options, running, spec

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.sessions import Session


def last(directory: Path, kind: str) -> Any:  # noqa: ANN401 -- a rune of whichever kind
    """Return the last rune of a kind, as it is on disk."""
    with Runelog.open(directory, CODEC, readonly=True) as log:
        return [each.payload for each in log.read(SESSION, kinds={kind})][-1]


def kinds(directory: Path) -> list[str]:
    """Return the kinds of all runes of the session."""
    with Runelog.open(directory, CODEC, readonly=True) as log:
        return [each.kind for each in log.read(SESSION)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return where the log is to be."""
    return tmp_path / "data"


def left(directory: Path) -> Path:
    """Leave a session that nobody runs, with nothing to do."""
    with Runtime.open(directory, **options(directory, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION).send("Hi").result(30)
    return directory


def later(directory: Path) -> str:
    """Return what is said if nobody runs it."""
    return f"recorded; no runtime has {directory} open. It takes effect when one opens it\n"


# -- pause and resume ------------------------------------------------------------------------------


def test_a_session_is_paused_and_resumed_where_it_runs(place: Path) -> None:
    """No turn begins in between; saying it twice is harmless."""
    with running(place, "plain"):
        paused = [run("pause", place, SESSION, "--reason", "lunch") for _ in range(2)]
        run("send", place, SESSION, "Hi", "--message-id", "m1")
        waiting = "turn.started" not in kinds(place)
        resumed = [run("resume", place, SESSION) for _ in range(2)]
        answer = run("send", place, SESSION, "Hi", "--message-id", "m1", "--wait")

    assert [(each.exit_code, each.stdout, each.stderr) for each in paused] == [
        (0, f"paused {SESSION}\n", "")
    ] * 2
    assert waiting
    assert [(each.exit_code, each.stdout) for each in resumed] == [(0, f"resumed {SESSION}\n")] * 2
    assert answer.exit_code == 0
    assert (last(place, "session.paused").reason, last(place, "session.paused").actor) == (
        "lunch",
        "user",
    )
    assert kinds(place).count("session.paused") == kinds(place).count("session.resumed") == 1


def test_a_pause_can_stop_what_runs(place: Path) -> None:
    """With --interrupt the running turn is interrupted, and keeps its words."""
    with running(place, "slow"):
        code = run("pause", place, SESSION, "--interrupt").exit_code
        waited = run("send", place, SESSION, "Go.", "--message-id", "first", "--wait")

    assert code == 0
    assert waited.exit_code == 1
    assert last(place, "turn.interrupted").reason == "pause"


def test_a_pause_is_kept_for_whoever_opens_the_log_next(place: Path) -> None:
    """Written down, it holds: no turn begins in the next process, until somebody resumes it."""
    left(place)
    paused = run("pause", place, SESSION)
    run("send", place, SESSION, "Hi", "--message-id", "m2")
    with Runtime.open(place, **options(place, "plain")) as runtime:
        phase = runtime.session(SESSION).state.phase
    resumed = run("resume", place, SESSION)
    with Runtime.open(place, **options(place, "plain")) as runtime:
        result = runtime.session(SESSION).send("Hi", message_id="m2").result(30)

    assert (paused.exit_code, paused.stdout, paused.stderr) == (
        0,
        f"paused {SESSION}\n",
        later(place),
    )
    assert resumed.exit_code == 0
    assert phase is Phase.PAUSED
    assert result


# -- suspended -------------------------------------------------------------------------------------


def poor(directory: Path, scope: str) -> None:
    """Leave a session that has spent its budget, with a message that waits."""
    budget = Budget(tokens=4_100)
    mine, whole = (budget, Budget()) if scope == "agent" else (Budget(), budget)
    agent = AgentSpec(role="helper", model="demo", budget=mine)
    with Runtime.open(directory, **options(directory, "plain")) as runtime:
        session = runtime.create_session(agent, conversation_id=SESSION, budget=whole)
        while session.state.phase is not Phase.SUSPENDED:
            session.send("Hi there, how are you doing?").result(30)
        session.send("Hi", message_id="more")


@pytest.mark.parametrize("scope", ["session", "agent"])
def test_a_budget_is_raised_where_nobody_runs_it(place: Path, scope: str) -> None:
    """What waits is taken up by whoever opens the log next."""
    poor(place, scope)
    with Runtime.open(place, **options(place, "plain")) as runtime:
        root = runtime.session(SESSION).state.root
    whose = ["--agent", root] if scope == "agent" else []
    result = run("replenish", place, SESSION, "--tokens", "9000", *whose)
    with Runtime.open(place, **options(place, "plain")) as runtime:
        done = runtime.session(SESSION).send("Hi", message_id="more").result(30)

    assert (result.exit_code, result.stderr) == (0, later(place))
    assert result.stdout == f"replenished {root if scope == 'agent' else SESSION}\n"
    assert last(place, "budget.replenished").amounts.tokens == 9_000
    assert done


def test_a_budget_is_raised_where_it_runs(place: Path) -> None:
    """Fractions of seconds and of cost are taken as they are."""
    with running(place, "plain"):
        result = run("replenish", place, SESSION, "--wall-seconds", "1.5", "--cost", "0.25")

    assert (result.exit_code, result.stderr) == (0, "")
    assert last(place, "budget.replenished").amounts.wall == 1_500_000_000
    assert last(place, "budget.replenished").amounts.cost == 250_000


def test_a_suspended_session_goes_on_when_somebody_says_so(place: Path) -> None:
    """Where it runs, and where nobody does."""
    with Runtime.open(place, **options(place, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION).suspend("look at this")
    first = run("unsuspend", place, SESSION, "--reason", "looked")
    with Runtime.open(place, **options(place, "plain")) as runtime:
        runtime.session(SESSION).suspend("again")
        second = run("unsuspend", place, SESSION)
        phase = runtime.session(SESSION).state.phase

    assert (first.exit_code, first.stdout, first.stderr) == (
        0,
        f"unsuspended {SESSION}\n",
        later(place),
    )
    assert (second.exit_code, second.stderr) == (0, "")
    assert phase is Phase.ACTIVE


# -- close -----------------------------------------------------------------------------------------


def test_a_session_is_closed_where_it_runs(place: Path) -> None:
    """What runs is stopped, everything comes to its end, and nothing more is accepted."""
    with running(place, "slow"):
        closed = [run("close", place, SESSION, "--reason", "done") for _ in range(2)]
        refused = run("send", place, SESSION, "Hi")

    assert [(each.exit_code, each.stdout) for each in closed] == [(0, f"closed {SESSION}\n")] * 2
    assert refused.exit_code == 2
    assert last(place, "session.closing").reason == "done"
    assert kinds(place)[-1] == "session.closed"
    assert "turn.interrupted" in kinds(place)


def test_a_close_is_kept_for_whoever_opens_the_log_next(place: Path) -> None:
    """Nothing more is accepted from then on; the next open brings it to its end by itself."""
    left(place)
    closed = run("close", place, SESSION)
    refused = run("send", place, SESSION, "Hi")
    with Runtime.open(place, **options(place, "plain")) as runtime:
        runtime.wait_for(SESSION, "session.closed", 30)

    assert (closed.exit_code, closed.stdout, closed.stderr) == (
        0,
        f"closing {SESSION}\n",
        later(place),
    )
    assert refused.exit_code == 2
    assert run("verify", place, "--at-rest").exit_code == 0


# -- answer ----------------------------------------------------------------------------------------

DIES: Final = """
import os, sys
from pathlib import Path
from tests.runefold.test_cli_course import opened
with opened(Path(sys.argv[1]), lambda: os._exit(9)) as runtime:
    runtime.session("conv_00000000000000aa").send("Go.", message_id="first").result(30)
"""


def opened(directory: Path, mishap: Any = lambda: None) -> Runtime:  # noqa: ANN401 -- a function
    """Open a runtime whose tool asks a human when it is in doubt; `mishap` befalls it."""

    @tool(on_doubt="ask")
    def charge() -> str:
        """Charge a customer."""
        mishap()
        return "charged"

    model = Scripted([[call("charge")], DONE])
    runtime = Runtime.open(directory, tools=[charge], providers={"demo": model})
    if not any(each.id == SESSION for each in runtime.sessions()):
        agent = AgentSpec(role="helper", model="demo", tools=["charge"])
        runtime.create_session(agent, conversation_id=SESSION)
    return runtime


DONE: Final = "It is done."


def doubtful(directory: Path) -> str:
    """Leave a log with a call in doubt about which a human was asked; return the call."""
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(directory)],
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": os.fspath(ROOT)},
        check=False,
        timeout=60,
    )
    assert done.returncode == 9
    with opened(directory) as runtime:
        return asked(runtime.session(SESSION))


def asked(session: Session) -> str:
    """Wait until a human is asked; return about which call."""
    found = next(iter(session.follow(kinds={"tool.approval_requested"})))
    assert isinstance(found, Envelope)
    return str(found.payload.call_id)  # type: ignore[attr-defined]  # by its kind


def outcome(directory: Path) -> tuple[str, Any]:
    """Have the turn end, and return how the call came out."""
    with opened(directory) as runtime:
        runtime.session(SESSION).send("Go.", message_id="first").result(30)
    found = last(directory, "tool.result")
    return found.status, found.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("happened", "--output", '{"cents": 5}'), ("success", {"cents": 5})),
        (("happened", "--output", "paid at noon"), ("success", "paid at noon")),
        (("happened",), ("success", None)),
        (("give-up",), ("unknown", None)),
    ],
)
def test_a_call_in_doubt_is_answered_where_nobody_runs_it(
    place: Path, words: tuple[str, ...], expected: tuple[str, Any]
) -> None:
    """What a human knows is kept, and the model is told by whoever opens the log next."""
    name = doubtful(place)
    result = run("answer", place, SESSION, name, *words, "--as", "ann")

    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        f"answered {name}: {words[0]}\n",
        later(place),
    )
    assert outcome(place) == expected
    assert last(place, "tool.approved").approver == "ann"


def test_a_call_in_doubt_is_listed_while_a_human_is_asked_about_it(place: Path) -> None:
    """Operators see what is asked, and that nobody knows what became of it, until it is said."""
    name = doubtful(place)
    told, records = run("sessions", place), json.loads(run("sessions", place, "--json").stdout)
    run("answer", place, SESSION, name, "happened")
    settled = run("sessions", place)

    assert f"  asks {name}: charge" in told.stdout
    [doubt] = records[0]["in_doubt"]
    assert re.search(rf"  in doubt {name}: charge {{.*}}, since .+\n", told.stdout)
    assert (doubt["call_id"], doubt["tool"], doubt["is_asked"]) == (name, "charge", True)
    assert name not in settled.stdout


def test_to_run_it_again_somebody_must_run_it(place: Path) -> None:
    """Where nobody does, that is refused; where somebody does, it runs, under the same id."""
    name = doubtful(place)
    alone = run("answer", place, SESSION, name, "rerun")
    with opened(place) as runtime:
        together = run("answer", place, SESSION, name, "rerun", "--as", "ann")
        second = run("answer", place, SESSION, name, "happened", "--as", "bob")
        result = runtime.session(SESSION).send("Go.", message_id="first").result(30)

    assert alone.exit_code == 2
    assert "no runtime is open" in alone.stderr
    assert (together.exit_code, together.stdout) == (0, f"answered {name}: rerun\n")
    assert second.exit_code == 2
    assert "ann has answered" in second.stderr
    assert result.output == "It is done."
    assert outcome(place) == ("success", "charged")


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "conv_x"), "no conversation conv_x"),
        (("pause", SESSION, "--reason", "\udce4"), "no text"),
        (("resume", "a/b"), "conversation id"),
        (("unsuspend", "conv_x"), "no conversation conv_x"),
        (("replenish", SESSION), "raises nothing: say by how much"),
        (("replenish", SESSION, "--tokens", "-5"), "tokens is -5: give a whole number, 0 or more"),
        (("replenish", SESSION, "--wall-seconds", "0"), "raises nothing: say by how much"),
        (("replenish", SESSION, "--tokens", "5", "--agent", "agt_x"), "no agent agt_x"),
        (("close", "conv_x"), "no conversation conv_x"),
        (("answer", SESSION, "call_x", "happened"), "call call_x"),
        (("answer", SESSION, "call_x", "rerun", "--output", "5"), "leave the output out"),
    ],
)
@pytest.mark.parametrize("runs", [False, True])
def test_a_mistake_has_its_sentence(
    place: Path, words: tuple[str, ...], said: str, *, runs: bool
) -> None:
    """With exit code 2 and the log as it was, whether somebody runs it or not."""
    left(place)
    before = kinds(place)
    if runs:
        with Runtime.open(place, **options(place, "plain")):
            result = run(words[0], place, *words[1:])
    else:
        result = run(words[0], place, *words[1:])

    assert result.exit_code == 2
    assert said in result.stderr
    assert kinds(place) == before


@pytest.mark.parametrize(
    "words",
    [
        ("pause", SESSION),
        ("resume", SESSION),
        ("unsuspend", SESSION),
        ("replenish", SESSION, "--tokens", "1"),
        ("close", SESSION),
        ("answer", SESSION, "call_1", "rerun"),
    ],
)
def test_what_is_no_log_is_left_alone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A mistyped directory is refused, and not made."""
    missing = tmp_path / "nowhere"
    result = run(words[0], missing, *words[1:])

    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert not missing.exists()
