"""Rules about a runtime that another process has open: the same sessions and turns, from here."""

from __future__ import annotations

import asyncio
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.errors import Unanswered
from actors.model.providers.scripted import Scripted, call
from actors.session.messages import Interrupt
from runefold.async_runtime import AsyncRuntime
from runefold.connected import ConnectedRuntime
from runefold.control import remote_core, server
from runefold.control.client import NoRuntime
from runefold.control.wire import Broken
from runefold.core import core_of
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runefold.turns import TurnResult
from runelog.errors import Closed, Forked, Held, NotALog, ReadOnly, Refused, UnknownConversation
from runelog.rune import SYSTEM, Envelope
from tests.laws.errands import ADVISER, ERRAND, fetch
from tests.laws.errands import Send as SendOut
from tests.runefold.control_app import SESSION, App, charges, options, running, spec

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.control.server import Control

PATIENCE: Final = 60.0
HELLO: Final = "Hello!\n\tTwo \x1b[31mlines\x1b[0m."


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return where the log is to be."""
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, so that nothing here waits for a second."""
    monkeypatch.setattr(remote_core.RemoteCore, "look_every", 0.02)
    monkeypatch.setattr(remote_core, "PAUSE", 0.01)


def following(runtime: Runtime, kind: str, session: str = SESSION) -> Envelope:
    """Wait for a rune of a session."""
    found = next(iter(runtime.session(session).follow(kinds={kind}, wait=PATIENCE)))
    assert isinstance(found, Envelope)
    return found


# -- the same sessions and turns -----------------------------------------------------------------


def test_a_session_is_led_from_another_process(place: Path) -> None:
    """Created, spoken with, led through its phases, closed and archived, as by its own process."""
    phases = []
    with running(place, "plain"), Runtime.connect(place) as runtime:
        session = runtime.create_session(spec(), conversation_id="conv_new", labels={"for": "eve"})
        turn = session.send("Hi", message_id="first")
        result = turn.result(timeout=PATIENCE)
        seen = [each.kind for each in turn.runes()]
        session.pause("lunch")
        phases.append(session.state.phase.value)
        waiting = session.send("And?")
        session.resume()
        session.replenish(tokens=5)
        told = waiting.result(timeout=PATIENCE).status
        session.suspend("enough")
        phases.append(session.state.phase.value)
        session.unsuspend()
        agent = session.spawn(AgentSpec(role="other", model="demo"), agent_id="agt_other")
        session.hand_over("other")
        session.terminate("other")
        following(runtime, "agent.terminated", "conv_new")
        names = [each.name for each in session.agents]
        top = runtime.tree().lines()[0]
        listed = [each.id for each in runtime.sessions()]
        session.close("done")
        phases.append(session.state.phase.value)
        session.archive()
        phases.append(session.state.phase.value)
        state = runtime.log.conversation("conv_new").state.name
        kinds = [each.kind for each in session.runes()]

    assert (result.output, result.turn_id, told) == (HELLO, "turn_1", "completed")
    assert (seen[0], seen[-1]) == ("turn.started", "turn.completed")
    assert phases == ["paused", "suspended", "closed", "archived"]
    assert (agent, names) == ("agt_other", ["helper"])
    assert kinds.count("budget.replenished") == 1
    assert top == "runtime: supervisor, running"
    assert listed == [SESSION, "conv_new"]
    assert state == "ARCHIVED"


def test_a_call_is_approved_from_another_process(place: Path) -> None:
    """Whoever approves sees what is asked; the tool runs where the log is open."""
    with running(place, "asks") as app, Runtime.connect(place) as runtime:
        session = runtime.session(SESSION)
        [waiting] = session.approvals()
        session.approve(waiting.call_id, approver="ada")
        result = session.send("Go.", message_id="first").result(timeout=PATIENCE)
        [rune] = session.runes(kinds={"tool.approved"})
        with pytest.raises(Refused):
            session.deny(waiting.call_id, approver="eve")

    assert (waiting.call_id, waiting.tool_name) == (app.call, "charge")
    assert waiting.arguments == {"amount": 3}
    assert result.output.endswith("It is paid.")
    assert charges(place) == ["3"]
    assert f"process {os.getpid()} " in rune.payload.process  # type: ignore[attr-defined]  # as its kind says


def test_a_running_turn_is_interrupted_from_another_process(place: Path) -> None:
    """It has stopped when the call returns, and keeps what it had said."""
    with running(place, "slow"), Runtime.connect(place) as runtime:
        session = runtime.session(SESSION)
        stopped = session.interrupt("never mind", timeout=PATIENCE)
        result = session.send("Go.", message_id="first").result(timeout=PATIENCE)

    assert stopped == 1
    assert (result.status, result.output, result.reason) == ("interrupted", "Well, ", "never mind")


def test_a_turn_is_awaited_in_an_event_loop(place: Path) -> None:
    """Its runes and its result come from the log, without a thread for each that waits."""

    async def talk(runtime: Runtime) -> tuple[list[str], TurnResult]:
        turn = runtime.session(SESSION).send("Hi")
        return [each.kind async for each in turn.runes()], await turn

    with running(place, "plain"), Runtime.connect(place) as runtime:
        kinds, result = asyncio.run(talk(runtime))

    assert (kinds[0], kinds[-1]) == ("turn.started", "turn.completed")
    assert result.output == HELLO


def test_a_session_is_not_given_to_another_client_and_its_holder_is_named(place: Path) -> None:
    """Asked from another process too; and who opens the log there is told how to use it."""
    with running(place, "plain"), Runtime.connect(place) as runtime:
        runtime.session("conv_ada", create=spec(), client_id="ada")
        runtime.session("conv_ada", create=spec(), client_id="ada")
        with pytest.raises(Refused, match="conv_ada belongs to client 'ada'"):
            runtime.session("conv_ada", create=spec(), client_id="mallory")
        with pytest.raises(Held, match=r"use its runtime from here, with Runtime.connect\(dir"):
            Runtime.open(place)


def test_a_session_is_got_updated_and_looked_into_from_another_process(place: Path) -> None:
    """What changes its agents is checked where the log is open; what is known is read here."""
    brief = AgentSpec(role="helper", model="demo", instructions="Be brief.")
    with running(place, "plain"), Runtime.connect(place) as runtime:
        session = runtime.session("conv_got", create=spec(), labels={"for": "eve"})
        same = runtime.session("conv_got", create=spec())
        session.send("Hi", message_id="first").result(timeout=PATIENCE)
        with pytest.raises(Refused, match="no model 'other'"):
            session.update_agent("helper", AgentSpec(role="helper", model="other"))
        session.update_agent("helper", brief)
        instructions = session.state.members[0].config.instructions
        turn_id = same.turn("first").id
        found = [each.id for each in runtime.sessions(labels={"for": "eve"})]
        said = [each.text for each in session.messages()]
        left = session.spending()

    assert turn_id == "turn_1"
    assert instructions == "Be brief."
    assert found == ["conv_got"]
    assert said[-2:] == ["Hi", HELLO]
    assert left.spent.tokens


def test_a_machine_of_an_app_is_used_by_a_client_that_has_its_kind(tmp_path: Path) -> None:
    """It begins under an id that the client makes; without its kind its commands are unknown."""
    model = Scripted([["Fetch it.", call("fetch", what="bread")]])
    options: dict[str, Any] = {"kinds": [ERRAND], "tools": [fetch], "providers": {ADVISER: model}}
    with Runtime.open(tmp_path, **options), Runtime.connect(tmp_path, kinds=[ERRAND]) as runtime:
        begun = runtime.do(SYSTEM, SendOut("bread"))["entity"]
        runtime.wait_for(SYSTEM, "errand.done", PATIENCE)
        owners = {each.owner for each in runtime.log.read(SYSTEM, kinds={"errand.done"})}
        with (
            Runtime.connect(tmp_path) as other,
            pytest.raises(Refused, match=r"kinds=\[...\]"),
        ):
            other.do(SYSTEM, SendOut("bread"))

    assert owners == {begun}


# -- what only the process with the log can do ----------------------------------------------------


def test_what_another_process_has_not_is_refused_with_a_way_out(place: Path) -> None:
    """Models and tools are known where the log is open; its end and its runes are not ours."""
    with running(place, "plain"), Runtime.connect(place) as runtime:
        session = runtime.session(SESSION)
        with pytest.raises(Refused, match=r"no model 'other': pass providers=.*; registered: demo"):
            runtime.create_session(AgentSpec(role="clerk", model="other"))
        with pytest.raises(Refused, match=r"no tool 'pay': pass it in tools=.*registered: charge"):
            session.spawn(AgentSpec(role="clerk", model="demo", tools=["pay"]))
        with pytest.raises(Refused, match="send SIGTERM to `runefold serve`"):
            runtime.close(drain=True)
        with pytest.raises(Refused, match="described by an AgentSpec"):
            runtime.create_session("helper")  # type: ignore[arg-type]  # on purpose
        with pytest.raises(UnknownConversation):
            runtime.session("conv_nowhere")
        with pytest.raises(ReadOnly):
            runtime.log.append("conv_x", [])
        with pytest.raises(TypeError):
            Runtime.connect(place, tools=[])  # type: ignore[call-arg]  # on purpose
        assert len(list(runtime.sessions())) == 1


def test_of_two_that_create_a_session_under_one_id_one_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both saw that it was not there: only one has made it, and the other is told so."""
    with Runtime.open(place, **options(place, "plain")) as owner, Runtime.connect(place) as runtime:

        async def late(_: str) -> None:
            owner.create_session(spec(), conversation_id="conv_one")

        monkeypatch.setattr(core_of(runtime), "_check_new", late)
        with pytest.raises(Refused, match="conv_one is there already"):
            runtime.create_session(spec(), conversation_id="conv_one")
        assert len(owner.session("conv_one").agents) == 1


def test_a_forked_child_connects_for_itself(place: Path) -> None:
    """What it has a copy of is refused before anything is waited for, with what to do instead."""
    with running(place, "plain"), Runtime.connect(place) as runtime:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                runtime.session(SESSION)
            except Forked as error:
                os._exit(0 if "Runtime.connect" in str(error) else 2)
            os._exit(1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


# -- a process that goes away ---------------------------------------------------------------------


def test_without_a_runtime_what_is_there_is_read_and_commands_say_what_to_do(place: Path) -> None:
    """The log is read as ever; what would have to be answered raises, and nothing was done."""
    with running(place, "slow") as app, Runtime.connect(place) as runtime:
        session = runtime.session(SESSION)
        turn = session.send("Go.", message_id="first")
        app.kill()
        with pytest.raises(NoRuntime, match="start one, such as by `runefold serve`, or wait"):
            session.send("Hi")
        with pytest.raises(NoRuntime):
            runtime.create_session(spec())
        with pytest.raises(NoRuntime):
            turn.result()
        with pytest.raises(NoRuntime):
            [*turn.runes()]
        with pytest.raises(NoRuntime):
            asyncio.run(_awaited(turn))
        with pytest.raises(Unanswered):
            turn.result(timeout=0)
        running_now = session.state.running
        followed = [*session.follow(wait=0)]

    assert [each.message_id for each in running_now] == ["first"]
    assert followed
    with pytest.raises(NotALog, match="a runtime makes it: start one"):
        Runtime.connect(place.with_name("nowhere"))


async def _awaited(turn: Any) -> TurnResult:  # noqa: ANN401 -- whatever can be awaited
    result: TurnResult = await turn
    return result


def test_one_that_waits_goes_on_when_the_runtime_is_back(place: Path) -> None:
    """Connected before there is a log, it sends once there is; killed meanwhile, it goes on."""
    with ThreadPoolExecutor() as pool:
        connecting = pool.submit(Runtime.connect, place, wait=None)
        with running(place, "asks") as app, connecting.result(PATIENCE) as runtime:
            session = runtime.session(SESSION)
            turn = session.send("Go.", message_id="first")
            results = [pool.submit(turn.result), pool.submit(lambda: [*turn.runes()][-1].kind)]
            app.kill()
            approving = pool.submit(session.approve, app.call, approver="ada")
            creating = pool.submit(runtime.create_session, spec(), conversation_id="conv_b")
            with running(place, "asks"):
                approving.result(PATIENCE)
                created = creating.result(PATIENCE)
                result, last = [each.result(PATIENCE) for each in results]

    assert isinstance(result, TurnResult)
    assert result.output.endswith("It is paid.")
    assert last == "turn.completed"
    assert created.id == "conv_b"
    assert charges(place) == ["3"]


def test_a_request_whose_answer_was_lost_counts_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is done, its answer is lost, and it is sent again under the id that it had."""
    reply = server.Control._reply
    lost = set[bytes]()

    def losing(self: Control, peer: Any, data: bytes) -> bytes:  # noqa: ANN401 -- a socket
        answer = reply(self, peer, data)
        if data not in lost:
            lost.add(data)
            raise Broken
        return answer

    with Runtime.open(place, **options(place, "plain")), Runtime.connect(place, wait=60) as runtime:
        monkeypatch.setattr(server.Control, "_reply", losing)
        session = runtime.create_session(spec(), conversation_id="conv_a")
        session.send("One").result(timeout=PATIENCE)
        session.send("Two", message_id="two").result(timeout=PATIENCE)
        session.replenish(tokens=5)
        session.spawn(AgentSpec(role="other", model="demo"))
        session.pause("lunch")
        session.resume()
        session.close()
        kinds = [each.kind for each in session.runes()]

    counted = {kind: kinds.count(kind) for kind in kinds}
    assert len(lost) > 7
    assert counted["session.input_accepted"] == counted["turn.completed"] == 2
    assert counted["budget.replenished"] == counted["session.paused"] == 1
    assert counted["agent.spawning"] == 2
    assert counted["session.created"] == counted["session.closed"] == 1


def test_without_patience_a_lost_answer_leaves_open_what_was_done(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an error of its own: sent again under the same id, it counts once."""
    reply = server.Control._reply

    def losing(self: Control, peer: Any, data: bytes) -> bytes:  # noqa: ANN401 -- a socket
        reply(self, peer, data)
        raise Broken

    with Runtime.open(place, **options(place, "plain")) as owner, Runtime.connect(place) as runtime:
        owner.create_session(spec(), conversation_id=SESSION)
        session = runtime.session(SESSION)
        monkeypatch.setattr(server.Control, "_reply", losing)
        with pytest.raises(Broken, match="went away before it answered"):
            session.send("Hi", message_id="first")
        monkeypatch.undo()
        result = session.send("Hi", message_id="first").result(timeout=PATIENCE)

        assert result.turn_id == "turn_1"
        assert owner.session(SESSION).state.stats.messages == 1


def test_a_task_that_waits_goes_on_when_the_runtime_is_back(place: Path) -> None:
    """In an event loop too: nothing holds it up, and the result comes with the next process."""

    async def main(app: App) -> str:
        async with AsyncRuntime.connect(place, wait=None) as runtime:
            session = await runtime.session(SESSION)
            turn = await session.send("Go.", message_id="first")
            result = asyncio.ensure_future(turn.result())
            app.kill()
            approving = asyncio.ensure_future(session.approve(app.call, approver="ada"))
            again = await asyncio.to_thread(App, place, "asks")
            try:
                await asyncio.wait_for(approving, PATIENCE)
                return (await asyncio.wait_for(result, PATIENCE)).output
            finally:
                again.kill()
                assert again.process.stdout is not None
                again.process.stdout.close()

    with running(place, "asks") as app:
        output = asyncio.run(main(app))

    assert output.endswith("It is paid.")
    assert charges(place) == ["3"]


def test_an_interrupt_is_said_again_to_a_runtime_that_was_opened_anew(place: Path) -> None:
    """The turn that was to stop goes on after a crash: it is told again, and no other turn is."""
    with running(place, "slow") as app, Runtime.connect(place, wait=None) as runtime:
        session = runtime.session(SESSION)
        core: Any = core_of(runtime)
        ask, said = core._ask, []

        def asked(conversation: str, message: object, *how: Any) -> Any:  # noqa: ANN401 -- as it is
            if isinstance(message, Interrupt):
                said.append(message.turns)
                if len(said) == 1:
                    app.kill()
                    return None
            return ask(conversation, message, *how)

        vars(core)["_ask"] = asked  # the crash comes right before
        with ThreadPoolExecutor() as pool:
            stopping = pool.submit(session.interrupt, "never mind", timeout=None)
            with running(place, "slow"):
                stopped = stopping.result(PATIENCE)

    assert stopped == 1
    assert said == [("turn_1",), ("turn_1",)]


def test_a_closed_connection_says_so_and_ends_what_follows(place: Path) -> None:
    """The runtime goes on where it is."""
    with running(place, "plain") as app:
        runtime = Runtime.connect(place, wait=None)
        session = runtime.session(SESSION)
        follower = session.follow()
        runtime.close()
        runtime.close()
        left = [*follower]
        with pytest.raises(Closed, match="connect again"):
            session.send("Hi")
        alive = app.process.poll() is None

    assert isinstance(runtime, ConnectedRuntime)
    assert left == []
    assert alive
