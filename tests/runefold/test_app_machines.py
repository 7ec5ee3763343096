"""Rules about machines that an app brings, and about logs that are opened without its code."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from bank import Bank
from order import ORDER, Place, Withdraw
from order_runes import Placed

from actors.catalogue import KINDS, RESERVED
from actors.errors import Unanswered
from actors.kind import Kind
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.public_commands import Approve
from runefold.control.client import Remote
from runefold.control.offline import OfflineCommands
from runefold.machines import Audit, Found, Rune
from runefold.observe.monitoring import Rules
from runefold.observe.session_list import sessions
from runefold.observe.verification import verify
from runefold.providers import Scripted, call, pause
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runefold.testing.spec import Given
from runefold.testing.stage import Stage
from runelog.errors import Refused
from runelog.replay import remember, replay
from runelog.rune import SYSTEM, Change, Envelope
from runelog.store import Runelog
from tests.laws.errands import ADVISER, ERRAND, fetch
from tests.laws.errands import Send as SendOut
from tests.runefold.cli_scenes import ROOT, run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runefold.sessions import Session
    from runelog.lifecycle import Lifecycle

DESK: Final = "conv_desk"
PIANO: Final = "order_piano"
APP: Final = ("--app", "app:build")
HOUR: Final = 3600.0
ELSEWHERE: Final = (
    f"{PIANO} is of a kind that is not known here: name its app, with --app MODULE:BUILD"
)


def options(directory: Path) -> dict[str, Any]:
    """Return what a runtime is opened with that has the app's code."""
    bank = Bank(directory / "bank.jsonl")

    @tool(on_doubt="probe", probe=bank.find)
    def pay(item: str, cents: int, key: CallId) -> str:
        """Take the money for an order."""
        return bank.pay(item, cents, key)

    return {**plain(), "kinds": [ORDER], "tools": [pay], "views": directory / "views"}


def plain() -> dict[str, Any]:
    """Return what a runtime is opened with that lacks it."""
    return {"kinds": (), "tools": (), "providers": {"demo": Scripted(["Hi"] * 20)}}


def staged(directory: Path) -> Stage:
    """Return a stage on which a piano waits for a human."""
    stage = Stage(**options(directory))
    session = stage.runtime.create_session(
        AgentSpec(role="clerk", model="demo"), conversation_id=DESK
    )
    session.do(Place("piano", 900_00), PIANO)
    stage.run()
    return stage


def without(stage: Stage) -> Session:
    """Open the stage's log as a process without the app's code does, after a crash."""
    stage.crash()
    stage.change(**plain())
    stage.reopen()
    stage.run()
    return stage.runtime.session(DESK)


def again(stage: Stage, directory: Path) -> Session:
    """Open it with the code again."""
    stage.crash()
    stage.change(**options(directory))
    stage.reopen()
    stage.run()
    return stage.runtime.session(DESK)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Provide a log on disk in which a piano waits for a human, and a pen was paid."""
    directory = tmp_path / "desk"
    with Runtime.open(directory, **options(directory)) as runtime:
        session = runtime.create_session(
            AgentSpec(role="clerk", model="demo"), conversation_id=DESK
        )
        session.do(Place("piano", 900_00), PIANO)
        session.do(Place("pen", 2_50), "order_pen")
        next(iter(session.follow(kinds={"order.paid"}, wait=30)))
        next(iter(session.follow(kinds={"approval.awaiting"}, wait=30)))
    return directory


# -- without the app's code ------------------------------------------------------------------------


def test_opens_without_the_code_are_no_mishaps(tmp_path: Path) -> None:
    """However often that happens, the session is not suspended, and its agents answer."""
    stage = staged(tmp_path)
    session = without(stage)
    for _ in range(4):
        session = without(stage)
    before = stage.log.version(DESK, PIANO)

    assert session.state.phase == "active"
    assert session.state.unclean == 0
    assert session.send("Hello?").result(timeout=10).output == "Hi"
    assert stage.log.version(DESK, PIANO) == before


def test_an_order_that_was_being_paid_counts_as_no_mishap_either(tmp_path: Path) -> None:
    """It has work left that no human holds up; still only its own code may count it."""
    stage = Stage(**options(tmp_path))
    session = stage.runtime.create_session(
        AgentSpec(role="clerk", model="demo"), conversation_id=DESK
    )
    stage.log.append(DESK, [Change("order_pen", 0, [Placed("pen", 2_50)], open=True)])
    for _ in range(5):
        session = without(stage)

    assert [each.entity for each in stage.log.open_work(DESK)] == ["order_pen"]
    assert session.state.unclean == 0


def test_unknown_entities_are_listed_as_such(tmp_path: Path) -> None:
    """By their ids; with the code they are known."""
    stage = staged(tmp_path)

    assert [each.unknown for each in sessions(stage.log)] == [(PIANO,)]
    assert [each.unknown for each in sessions(stage.log, kinds=KINDS.plus([ORDER]))] == [()]


def test_unknown_entities_of_the_system_are_listed_too() -> None:
    """Its conversation is listed only if something in it needs attention."""
    slow = Scripted([[pause(60), "Fetch it."]])
    stage = Stage(kinds=[ERRAND], tools=[fetch], providers={ADVISER: slow})
    stage.runtime.do(SYSTEM, SendOut("bread"), "errand_1")
    stage.run()
    stage.log.flush()
    (found,) = sessions(stage.log)

    assert (found.id, found.phase, found.unknown) == (SYSTEM, "running", ("errand_1",))
    assert sessions(stage.log, kinds=KINDS.plus([ERRAND])) == []


def test_another_process_answers_what_a_machine_of_the_system_asks(tmp_path: Path) -> None:
    """Through the socket of the runtime, with the same command as for a session."""

    @tool(idempotent=True, requires_approval=True)
    def fetch(what: str) -> str:
        """Fetch something, if a human agrees."""
        return what

    model = Scripted([["Fetch it.", call("fetch", what="bread")]])
    with Runtime.open(tmp_path, kinds=[ERRAND], tools=[fetch], providers={ADVISER: model}) as one:
        one.do(SYSTEM, SendOut("bread"), "errand_1")
        one.wait_for(SYSTEM, "approval.awaiting", 30)
        remote = Remote(tmp_path, commands=one.commands)
        (asks,) = sessions(one.log, kinds=one.kinds)
        remote.do(SYSTEM, Approve("ada"), asks.approvals[0].call_id)
        one.wait_for(SYSTEM, "errand.done", 30)

    assert asks.id == SYSTEM
    assert asks.unknown == ()


def test_deadlines_wait_for_the_code(tmp_path: Path) -> None:
    """Nothing happens when one passes without it; with it, what is late happens at once."""
    stage = staged(tmp_path)
    without(stage)
    stage.advance(2 * HOUR)
    before = stage.log.version(DESK, PIANO)
    session = again(stage, tmp_path)

    assert stage.log.version(DESK, PIANO) > before
    assert session.history(PIANO).phase == "cancelled"
    assert session.history(PIANO).moves[-1].actor == "timeout"


def test_a_session_sleeps_without_the_code(tmp_path: Path) -> None:
    """An entity whose actor cannot be started does not keep it awake; a deadline does nothing."""
    stage = staged(tmp_path)
    session = without(stage)
    session.approvals()
    stage.advance(120)
    before = stage.runtime._core.tree.awake(), stage.log.position
    stage.advance(2 * HOUR)

    assert before == ([], stage.log.position)
    assert stage.runtime._core.tree.awake() == []


def test_commands_are_refused_by_name(tmp_path: Path) -> None:
    """Whichever way they are given, with the way out; nothing is appended."""
    stage = staged(tmp_path)
    session = without(stage)
    before = stage.log.position

    with pytest.raises(Refused, match="Withdraw is a command of no kind that is known here"):
        session.do(Withdraw(), PIANO)
    with pytest.raises(AttributeError, match="its kind is not known here"):
        session.entity("order", PIANO).withdraw()
    with pytest.raises(Refused, match=ELSEWHERE):
        session.approve(PIANO, approver="Ada")
    with pytest.raises(Refused, match=ELSEWHERE):
        session.history(PIANO)
    assert stage.log.position == before


def test_a_session_closes_once_the_code_is_back(tmp_path: Path) -> None:
    """It is not closed over the head of an entity; whoever closes it is told what it waits for."""
    stage = staged(tmp_path)
    session = without(stage)
    with pytest.raises(Unanswered, match=f"closing until {PIANO} has ended: {ELSEWHERE}"):
        session.close()
    phase = session.state.phase
    later = again(stage, tmp_path)

    assert phase == "closing"
    assert later.state.phase == "closed"
    assert later.history(PIANO).phase == "cancelled"


def test_the_command_line_lists_and_refuses(log: Path) -> None:
    """`sessions` shows what is unknown; `history` names the way out; `log show` shows each rune."""
    listed = run("sessions", log, "--json")
    refused = run("history", log, DESK, PIANO)
    verb = run("order", "withdraw", log, DESK, PIANO)
    shown = run("log", "show", log, DESK, "--kind", "order.placed", "--json")

    assert json.loads(listed.stdout)[0]["unknown"] == [PIANO]
    assert refused.exit_code == verb.exit_code == 2
    assert "name its app, with --app MODULE:BUILD" in refused.stderr
    assert "need --app MODULE:BUILD" in " ".join(verb.stderr.replace("│", " ").split())
    assert '"piano"' in shown.stdout
    assert run("verify", log).exit_code == 0


def test_a_human_answers_without_the_code(log: Path) -> None:
    """An approval is a machine of ours: what is recorded is done by the code when it is back."""
    first = run("approve", log, DESK, PIANO, "--as", "Ada")
    second = run("approve", log, DESK, PIANO, "--as", "Bob")
    with Runtime.open(log, **options(log)) as runtime:
        session = runtime.session(DESK)
        next(iter(session.follow(kinds={"order.paid"}, entities={PIANO}, wait=30)))

    assert first.exit_code == 0
    assert second.exit_code == 2
    assert f"{PIANO} asks for no approval now" in second.stderr
    assert [each["item"] for each in Bank(log / "bank.jsonl").payments()] == ["pen", "piano"]


# -- with it ---------------------------------------------------------------------------------------


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the command line find the example's modules, as it does from their folder."""
    monkeypatch.chdir(ROOT / "examples" / "order_desk")


@pytest.mark.usefixtures("named")
def test_the_command_line_knows_the_app(log: Path) -> None:
    """History, phases, lifecycles, sessions and verify take its kinds, by either spelling."""
    history = run("history", log, DESK, "order_pen", *APP, "--json")
    phases = run("phases", log, "--app=app:build", "--json")
    lifecycles = run("lifecycles", "order", *APP)
    listed = run("sessions", log, *APP, "--json")

    assert [each["to"] for each in json.loads(history.stdout)["moves"]] == ["paying", "paid"]
    assert {
        each["phase"]: each["here"]
        for each in json.loads(phases.stdout)
        if each["lifecycle"] == "order"
    } == {"new": 0, "checking": 1, "paying": 0, "paid": 1}
    assert "after 3,600 s in checking: cancelled" in lifecycles.stdout
    assert json.loads(listed.stdout)[0]["unknown"] == []
    assert run("verify", log, *APP).exit_code == run("alerts", log, *APP).exit_code == 0
    assert run("alerts", log, *APP, "--stuck", "order.checking=0").exit_code == 1


@pytest.mark.usefixtures("named")
def test_a_verb_of_an_app_shows_its_option(log: Path) -> None:
    """Its help names `--app`; offline it is decided by the app's law, a birth as well."""
    told = run("order", "withdraw", *APP, "--help")
    done = run("order", "withdraw", log, DESK, PIANO, "--reason", "too late", "--app=app:build")
    late = run("order", "withdraw", log, DESK, "order_pen", *APP)
    born = run("order", "place", log, DESK, "pin", "100", *APP)
    again = run("order", "place", log, DESK, "pin", "100", "--id", "order_pen", *APP)
    other = run("parcel", "ship", log, *APP)

    assert "--app" in told.stdout
    assert done.exit_code == 0
    assert "order is paid: it cannot take Withdraw now" in late.stderr
    assert born.exit_code == 0
    assert re.match(r"placed order_[0-9a-f]{16}", born.stdout)
    assert "order_pen is there already, and was begun with other content" in again.stderr
    assert "app:build has no kind of that name" in " ".join(other.stderr.replace("│", " ").split())


class PaidOnce(Audit):
    """An audit of an app: no order costs more than a house."""

    holds = ("APP-NO-HOUSES",)

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Find one."""
        if isinstance(placed := envelope.payload, Placed) and placed.cents > 500_00:
            yield Found("APP-NO-HOUSES", envelope.event_id, f"{placed.item} is a house")


def test_verify_holds_a_log_to_the_invariants_of_the_app(log: Path) -> None:
    """Only with its code: without it there is no such rule."""
    strict = KINDS.plus([dataclasses.replace(ORDER, invariants=(PaidOnce,))])
    found = verify(log, kinds=strict)

    assert [(each.invariant, each.message) for each in found.problems] == [
        ("APP-NO-HOUSES", "piano is a house")
    ]
    assert verify(log).ok


def test_an_order_that_is_stuck_raises_an_alert(tmp_path: Path) -> None:
    """By rules about its phases, which are checked against the app's tables."""
    stage = staged(tmp_path)
    stage.advance(60)
    alerts = stage.runtime.monitor(Rules(stuck={"order.checking": 30})).alerts()

    assert [(each.rule, each.entity) for each in alerts] == [("stuck", PIANO)]
    with pytest.raises(Refused, match=r"there is no phase order\.lost"):
        stage.runtime.monitor(Rules(stuck={"order.lost": 30})).alerts()


@pytest.mark.parametrize("seed", range(10))
def test_an_order_is_played_in_any_order_of_events(tmp_path: Path, seed: int) -> None:
    """On the stage, by a seed, with a power cut at an append that the seed chooses as well."""
    directory = tmp_path / "desk"
    directory.mkdir()
    stage = Stage(seed=seed, **options(directory))
    session = stage.runtime.create_session(
        AgentSpec(role="clerk", model="demo"), conversation_id=DESK
    )
    session.do(Place("pen", 2_50), "order_pen")
    stage.log.flush()
    stage.crash()
    stage.reopen()
    stage.run()
    session = stage.runtime.session(DESK)
    stage.run_until(lambda: session.history("order_pen").is_over)

    assert session.history("order_pen").phase == "paid"
    assert len(Bank(directory / "bank.jsonl").payments()) == 1


# -- kinds that do not fit -------------------------------------------------------------------------

FIFTEEN: Final = (
    *("session", "agent", "turn", "tool", "approval", "channel", "plan", "task", "run"),
    *("research", "hypothesis", "worker", "resource", "health", "episode"),
)
IDS: Final = ("agt", "call", "apr", "conv", "hyp", "epi", "msg", "req", "model", "budget", "system")


@pytest.mark.parametrize("name", [*FIFTEEN, *IDS])
def test_names_of_ours_are_taken(name: str) -> None:
    """As a name, as a prefix and as a family of runes: those of machines to come too."""
    law = dataclasses.replace(ORDER.lifecycle, name=name)

    class Begun(Rune, frozen=True, tag=f"{name}.ordered"):
        """Begin one."""

    for kind in (
        dataclasses.replace(ORDER, lifecycle=law),
        dataclasses.replace(ORDER, prefix=name),
        dataclasses.replace(ORDER, runes=(Begun,), commands=(), births=()),
    ):
        with pytest.raises(Refused, match=f"cannot use the name '{name}': it is taken"):
            KINDS.plus([kind], RESERVED)


def test_two_kinds_of_apps_share_nothing() -> None:
    """Neither a prefix nor a family of runes nor a name."""
    law = dataclasses.replace(ORDER.lifecycle, name="sale")
    same_prefix = dataclasses.replace(ORDER, lifecycle=law, commands=())

    with pytest.raises(Refused, match="the kind sale cannot use the name 'order'"):
        KINDS.plus([ORDER, same_prefix])
    with pytest.raises(Refused, match="the kind order cannot use the name 'order'"):
        KINDS.plus([ORDER, ORDER])
    with pytest.raises(Refused, match="kind sale cannot use the name 'order'"):
        KINDS.plus([ORDER, dataclasses.replace(same_prefix, prefix="sale")])


def test_a_kind_is_named_that_is_none(tmp_path: Path) -> None:
    """Before anything is opened."""
    with pytest.raises(Refused, match="takes values of Kind, not a type"):
        Runtime.open(tmp_path / "log", kinds=[Kind])  # type: ignore[list-item]  # the point
    assert not (tmp_path / "log").exists()


def test_a_law_of_another_version_folds_anew(tmp_path: Path) -> None:
    """What a snapshot holds of an entity is used by that version alone that folded it."""

    def louder(state: Any, rune: Rune) -> Any:  # noqa: ANN401 -- the order's
        after = ORDER.lifecycle.evolve(state, rune)
        return msgspec.structs.replace(after, item=after.item.upper())

    later = dataclasses.replace(ORDER.lifecycle, version=2, evolve=louder)
    directory = tmp_path / "log"
    with Runelog.open(directory, KINDS.plus([ORDER]).codec) as log:
        placed = log.append(DESK, [Change(PIANO, 0, [Placed("piano", 1)])])
        assert placed is not None
        keep(log, ORDER.lifecycle)
        old, new = (folded(log, law).item for law in (ORDER.lifecycle, later))

    assert (old, new) == ("kept", "PIANO")


def keep(log: Runelog, law: Lifecycle[Any, Any, Any, Any]) -> None:
    """Keep a snapshot of the piano that is told apart from what its runes add up to."""
    assert log.snapshots is not None
    [latest] = log.stream(DESK, PIANO)
    state = msgspec.structs.replace(Given(law, latest.payload).state, item="kept")
    remember(log.snapshots, law, latest, 1, state, entity=PIANO)


def folded(log: Runelog, law: Lifecycle[Any, Any, Any, Any]) -> Any:  # noqa: ANN401 -- the order's
    """Return the state of the piano, from its snapshot if there is one."""
    return replay(log, DESK, law, entity=PIANO, snapshots=log.snapshots).state


def test_an_offline_command_without_the_code_is_refused_by_name(log: Path) -> None:
    """The app's command is no command of a kind that is known there."""
    with OfflineCommands.open(log) as offline, pytest.raises(Refused, match="known here"):
        offline.do(DESK, Withdraw(), PIANO)
