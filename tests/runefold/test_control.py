"""Rules about the control socket: who may use it, what can be asked, and where it lies."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from actors.session.public_commands import Close, Pause, Replenish, Resume, Send, Unsuspend
from actors.tool.public_commands import Answer, Deny
from runefold.control import peers, socket_path, wire
from runefold.control.client import NoRuntime, Remote
from runefold.runtime import Runtime
from runefold.testing.stage import Stage
from runelog.errors import BadId, Fault, Refused, UnknownConversation
from runelog.rune import Envelope
from tests.runefold.control_app import SESSION, charges, options, spec

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return where the log is to be."""
    return tmp_path / "data"


@pytest.fixture
def runtime(place: Path) -> Iterator[Runtime]:
    """Run a session whose call waits for a human."""
    with opened(place, "asks") as runtime:
        runtime.session(SESSION).send("Go.", message_id="first")
        yield runtime


def opened(place: Path, kind: str) -> Runtime:
    """Open a runtime with one session."""
    runtime = Runtime.open(place, **options(place, kind))
    runtime.create_session(spec(), conversation_id=SESSION)
    return runtime


def asked(runtime: Runtime) -> str:
    """Wait until a call waits for a human; return which."""
    kinds = {"tool.approval_requested"}
    found = next(iter(runtime.session(SESSION).follow(kinds=kinds)))
    assert isinstance(found, Envelope)
    return str(found.payload.call_id)  # type: ignore[attr-defined]  # as its kind says


# -- where it lies -----------------------------------------------------------------------------


def test_only_its_owner_can_open_it(runtime: Runtime, place: Path) -> None:
    """Nobody else may read it or write to it; and it is gone with the runtime."""
    mode = (place / "control").stat().st_mode
    runtime.close()

    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert not (place / "control").exists()


def test_two_runtimes_in_one_process_do_not_know_of_each_other(tmp_path: Path) -> None:
    """Each answers for its own log, also after the other has gone."""
    with opened(tmp_path / "a", "plain"):
        with opened(tmp_path / "b", "plain"):
            first = Remote(tmp_path / "a").do(SESSION, Send("Hi", message_id="one"))
            Remote(tmp_path / "b").do(SESSION, Send("Hi", message_id="two"))
        with Runtime.connect(tmp_path / "a") as connected:
            left = [each.state.stats.turns for each in connected.sessions()]

    assert first == {"message_id": "one"}
    assert left == [1]
    with pytest.raises(NoRuntime):
        Remote(tmp_path / "b").tree()


def test_a_socket_that_was_left_behind_is_replaced(place: Path) -> None:
    """After a crash its name is still there, and nobody listens."""
    opened(place, "plain").close()
    control = place / "control"
    with socket_path.short(place) as name, socket.socket(socket.AF_UNIX) as dead:
        dead.bind(name)
    with pytest.raises(NoRuntime):
        Remote(place).tree()
    with Runtime.open(place, **options(place, "plain")):
        found = Remote(place).tree()

    assert found["id"] == "runtime"
    assert not control.exists()


def test_what_is_no_socket_is_left_alone(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a socket the runtime works all the same, and its operator is told."""
    opened(place, "plain").close()
    (place / "control").write_text("mine")
    with Runtime.open(place, **options(place, "plain")) as runtime:
        output = runtime.session(SESSION).send("Hi").result(timeout=30).output

    assert output.startswith("Hello!")
    assert (place / "control").read_text() == "mine"
    told = [vars(each)["event"] for each in caplog.records if vars(each)["event"] != "slow_step"]
    assert told == ["no_control_socket"]


def test_a_directory_with_a_long_name_has_one_too(tmp_path: Path) -> None:
    """The system takes 107 bytes of a socket's path; a directory's may have far more."""
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.parent.mkdir()
    with opened(deep, "plain"):
        found = Remote(deep).tree()

    assert found["id"] == "runtime"


def test_a_long_name_is_shortened_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc, by a link in a directory that nobody else can enter."""
    monkeypatch.setattr(socket_path, "_DESCRIPTORS", Path("/nonexistent"))
    with tempfile.TemporaryDirectory() as folder:
        deep = Path(folder) / ("d" * 120)
        deep.mkdir()
        with socket_path.short(deep) as name:
            same = Path(name).parent.samefile(deep)
            closed = stat.S_IMODE(Path(name).parent.parent.stat().st_mode)

        assert same
        assert closed == 0o700
        assert len(name) <= socket_path.LONGEST


def test_a_log_in_memory_has_none() -> None:
    """There is no directory to put it into, and nobody else to use it."""
    stage = Stage()

    assert stage.runtime._control is None


def test_a_successor_keeps_its_socket(place: Path) -> None:
    """A runtime that was taken over removes only what it made itself."""
    runtime = opened(place, "plain")
    control = place / "control"
    control.unlink()
    control.write_text("another's")
    runtime.close()

    assert control.read_text() == "another's"


def test_a_forked_child_does_not_listen(runtime: Runtime) -> None:
    """A child that kept the door open would let clients in whom nobody serves."""
    control = runtime._control
    assert control is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0 if control._listener.fileno() == -1 else 1)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert control._listener.fileno() != -1


# -- who may use it ----------------------------------------------------------------------------


def test_another_user_is_not_served(
    runtime: Runtime, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the permissions of a directory are, the system says who has come."""
    monkeypatch.setattr(peers, "trusts", lambda _: False)
    with socket.socket(socket.AF_UNIX) as peer, socket_path.short(place) as name:
        peer.connect(name)
        answer = peer.recv(1)
    with pytest.raises(Refused, match="belongs to another user: nothing was sent"):
        Remote(place).tree()
    monkeypatch.undo()

    assert answer == b""
    assert Remote(place).tree()["id"] == runtime.tree().id


@pytest.mark.parametrize(
    ("me", "other", "trusted"), [(7, 7, True), (7, 8, False), (7, 0, True), (0, 7, True)]
)
def test_oneself_and_root_are_trusted(
    monkeypatch: pytest.MonkeyPatch, me: int, other: int, *, trusted: bool
) -> None:
    """Nobody else is."""

    class Peer:
        def getsockopt(self, *_: object) -> bytes:
            return peers._CREDENTIALS.pack(1, other, 1)

    monkeypatch.setattr(os, "geteuid", lambda: me)

    assert peers.trusts(Peer()) is trusted  # type: ignore[arg-type]  # all that is looked at


# -- what can be asked -------------------------------------------------------------------------


def test_a_word_is_as_good_as_if_it_had_been_said_inside(runtime: Runtime, place: Path) -> None:
    """A call that is approved through the socket runs, and its turn goes on."""
    remote = Remote(place)
    call = asked(runtime)
    remote.entity("tool", SESSION, call).approve(approver="ann")
    result = runtime.session(SESSION).send("Go.", message_id="first").result(timeout=30)

    assert result.output.endswith("It is paid.")
    assert charges(place) == ["3"]


def test_a_denial_and_an_interrupt_are_carried_out(runtime: Runtime, place: Path) -> None:
    """Nothing is charged, and what ran has ended when the answer comes."""
    remote = Remote(place)
    call = asked(runtime)
    stopped = remote.entity("session", SESSION).interrupt()
    with pytest.raises(Refused, match="cancelled_result"):
        remote.do(SESSION, Deny("ann", "late"), call)
    with pytest.raises(Refused):
        remote.do(SESSION, Answer("ann", "happened", {"paid": 3}), call)

    assert stopped == {"stopped": 1}
    assert runtime.session(SESSION).state.running == ()
    assert charges(place) == []


def test_a_session_is_led_through_its_phases(place: Path) -> None:
    """Paused, resumed, given more to spend, and closed."""
    phases: list[Any] = []
    with opened(place, "plain") as runtime:
        remote = Remote(place)
        remote.do(SESSION, Send("Hi"))
        for command in (
            Pause("lunch"),
            Resume(),
            Unsuspend(),
            Replenish(tokens=5),
            Close("done"),
        ):
            remote.do(SESSION, command)
            phases.append(runtime.session(SESSION).state.phase.value)
        kinds = [envelope.kind for envelope in runtime.session(SESSION).runes()]

    assert phases == ["paused", "active", "active", "active", "closed"]
    assert "budget.replenished" in kinds


def test_a_refusal_comes_back_as_what_it_is(runtime: Runtime, place: Path) -> None:
    """The same class and the same words as inside."""
    remote = Remote(place)
    with pytest.raises(UnknownConversation) as unknown:
        remote.do("conv_x", Send("Hi"))
    with pytest.raises(BadId) as bad:
        remote.do(SESSION, Send("Hi", message_id="a b"))
    with pytest.raises(UnknownConversation) as inside:
        runtime.session("conv_x")

    assert str(unknown.value) == str(inside.value)
    assert unknown.value.conversation == "conv_x"
    assert "a b" in str(bad.value)


def test_a_bug_costs_one_answer(
    runtime: Runtime,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever asked is told that it failed and not how; the operator is; others are served."""

    def broken() -> None:
        msg = "secret"
        raise ZeroDivisionError(msg)

    monkeypatch.setattr(runtime, "tree", broken)
    with pytest.raises(Fault) as failed:
        Remote(place).tree()

    assert "secret" not in str(failed.value)
    assert "ZeroDivisionError" in str(failed.value)
    assert "control_request_failed" in [vars(each)["event"] for each in caplog.records]
    monkeypatch.undo()
    assert Remote(place).tree()["id"] == "runtime"


def test_what_cannot_be_sent_is_refused_before_it_is(runtime: Runtime, place: Path) -> None:
    """A text that is too long, or none at all."""
    remote = Remote(place)
    with pytest.raises(Refused, match="at most 1,048,576 can be sent"):
        remote.do(SESSION, Send("x" * (wire.MAX_REQUEST + 1)))
    with pytest.raises(Refused, match="no text that can be stored"):
        remote.do(SESSION, Send("\udce4"))
    with pytest.raises(Refused, match="that cannot be sent"):
        remote.do(SESSION, Answer("ann", "happened", object()), "call_1")

    assert runtime.session(SESSION).state.stats.messages == 1
