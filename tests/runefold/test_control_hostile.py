"""Rules about clients of the control socket that do not behave: they harm nobody but themselves."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.catalogue import COMMANDS
from actors.errors import Unanswered
from actors.session.public_commands import Send
from runefold.control import server, socket_path, wire
from runefold.control.client import NoRuntime, Remote
from runefold.runtime import Runtime
from runelog.errors import Refused, TooLarge
from tests.runefold.control_app import SESSION, options, spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HI: Final = {
    "do": "send",
    "kind": "session",
    "conversation": SESSION,
    "content": "Hi",
    "message_id": "m",
}


AGENT: Final = {"agent_id": "agt_1", "role": "other", "model": "demo"}
BAD_AGENT: Final = AGENT | {"agent_id": "/"}
CREATE: Final = {"conversation_id": "conv_y", "root": AGENT}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Run a session, and return where its log is."""
    directory = tmp_path / "data"
    with Runtime.open(directory, **options(directory, "plain")) as runtime:
        runtime.create_session(spec(), conversation_id=SESSION)
        yield directory
        # Whatever a client did, the next one is served.
        assert Remote(directory).tree()["id"] == "runtime"
        assert runtime.session(SESSION).send("Hi").result(timeout=30)


@contextlib.contextmanager
def connected(place: Path) -> Iterator[socket.socket]:
    """Connect to the socket, as anybody might who may open it."""
    with socket.socket(socket.AF_UNIX) as peer:
        with socket_path.short(place) as name:
            peer.connect(name)
        peer.settimeout(60)
        yield peer


def frame(value: object) -> bytes:
    """Return a value as a frame."""
    data = msgspec.msgpack.encode(value)
    return struct.pack(">I", len(data)) + data


SEND = frame(
    {
        "do": "send",
        "kind": "session",
        "conversation": SESSION,
        "content": "Hi",
        "message_id": "m",
    }
)


def answer(peer: socket.socket) -> wire.Reply:
    """Return what is answered."""
    return wire.reply_from(wire.receive(peer, wire.MAX_ANSWER, 60))


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        [],
        {},
        {"do": "explode"},
        {"do": "tree", "more": 1},
        {"do": "send"},
        {"do": "send", "kind": "session"},
        {"do": "send", "kind": 7, "conversation": SESSION, "content": "Hi"},
        {"do": "explode", "kind": "session", "conversation": SESSION},
        {"do": "pause", "kind": "tool", "conversation": SESSION, "entity": "call_1"},
        {"do": "pause", "kind": "session", "conversation": SESSION, "more": 1},
        {"do": "send", "kind": "session", "conversation": 7, "content": "Hi"},
        {
            "do": "send",
            "kind": "session",
            "conversation": SESSION,
            "content": "Hi",
            "mode": "shout",
        },
        {"do": "send", "kind": "session", "conversation": "../../etc", "content": "Hi"},
        {"do": "replenish", "kind": "session", "conversation": SESSION, "tokens": "many"},
        {"do": "replenish", "kind": "session", "conversation": SESSION, "tokens": -5},
        {"do": "pause", "kind": "session", "conversation": SESSION, "decide": 7},
        {"do": "tell", "conversation": SESSION, "type": "Look", "message": {}},
        {"do": "tell", "conversation": SESSION, "type": "Spawn", "message": {"agent_id": 7}},
        {"do": "tell", "conversation": SESSION, "type": "Spawn", "message": AGENT | {"model": "?"}},
        {
            "do": "tell",
            "conversation": SESSION,
            "type": "Spawn",
            "message": AGENT | {"agent_id": "/"},
        },
        {"do": "tell", "conversation": "conv_x", "type": "Spawn", "message": AGENT},
        {"do": "tell", "conversation": SESSION, "type": "Create", "message": CREATE},
        {"do": "tell", "conversation": "conv_system", "type": "Create", "message": CREATE},
        {"do": "tell", "conversation": SESSION, "type": "Send", "message": ["a b", "Hi"]},
        {"do": "tell", "conversation": SESSION, "type": "Send", "message": ["m", "Hi", "shout"]},
        {"do": "tell", "conversation": SESSION, "type": "Interrupt", "message": []},
        {"do": "pause", "kind": "session", "conversation": SESSION, "finish": None},
        {
            "do": "answer",
            "kind": "tool",
            "conversation": SESSION,
            "entity": "c",
            "verdict": "rerun",
            "approver": None,
        },
    ],
    ids=repr,
)
def test_what_is_no_request_is_refused(place: Path, value: object) -> None:
    """With a sentence, and nothing is done."""
    with connected(place) as peer:
        peer.sendall(frame(value))
        reply = answer(peer)

    assert reply.error in {"Refused", "BadId", "UnknownConversation"}
    assert reply.message
    with Runtime.connect(place) as runtime:
        [session] = runtime.sessions()
        assert (len(session.agents), session.state.stats.turns) == (1, 0)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 3) + b"\xc1\xc1\xc1",
        struct.pack(">I", 4) + b"\xdd\xff\xff\xff",
        struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff",
        struct.pack(">I", 100_000) + b"\x91" * 100_000,
        struct.pack(">I", 3) + b"\x01\x02\x03",
        frame({"do": "answer", "output": msgspec.Raw(b"\x91" * 64 + b"\x01")}),
    ],
    ids=["empty", "junk", "cut", "huge list", "deep", "more than one", "deep inside"],
)
def test_bytes_that_mean_nothing_are_refused(place: Path, data: bytes) -> None:
    """However they are nested and whatever lengths they announce."""
    with connected(place) as peer:
        peer.sendall(data)
        reply = answer(peer)

    assert reply.error == "Refused"
    assert "that is no request" in reply.message


def test_a_frame_that_is_too_large_is_not_read(place: Path) -> None:
    """Its length says enough."""
    with connected(place) as peer:
        peer.sendall(struct.pack(">I", wire.MAX_REQUEST + 1))
        reply = answer(peer)

    assert reply.error == "TooLarge"


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x01\x00half"])
def test_a_client_may_go_away_at_any_time(place: Path, data: bytes) -> None:
    """Nobody is left to be told; the next one is answered as if nobody had been there."""
    with connected(place) as peer:
        peer.sendall(data)
    with connected(place) as peer:
        peer.sendall(SEND)

        assert answer(peer).value["message_id"] == "m"


def test_a_client_may_go_away_before_its_answer(place: Path) -> None:
    """What it asked for is done all the same."""
    with connected(place) as peer:
        peer.sendall(SEND)
        peer.shutdown(socket.SHUT_RD)
    with connected(place) as peer:
        peer.sendall(SEND)

        assert answer(peer).value["message_id"] == "m"


def test_a_client_that_says_nothing_is_sent_away(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has so much time for all of its request, not for each byte."""
    monkeypatch.setattr(server, "READING", 0.01)
    with connected(place) as peer:
        left = peer.recv(1)
    monkeypatch.undo()

    assert left == b""


@pytest.mark.parametrize("said", [b"", b"\x00\x00", b"\x00\x01\x00\x00half"])
def test_slow_clients_hold_nobody_up(
    place: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    """However many are silent, or let their request drip, and however long: others are served."""
    monkeypatch.setattr(server, "READING", 3_600.0)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(place)) for _ in range(10 * server.CLIENTS)]
        for peer in slow:
            peer.sendall(said)
        found = [Remote(place, timeout=20).tree()["id"]]
        for peer in slow:
            peer.sendall(said)
        Remote(place, timeout=20).do(SESSION, Send("Hi"))
        found += [Remote(place, timeout=20).tree()["id"]]

    assert found == ["runtime", "runtime"]


def test_a_full_door_is_waited_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many wait to be let in, a command waits as well, rather than give up at once."""
    waits: list[float] = []
    with socket.socket(socket.AF_UNIX) as door, contextlib.ExitStack() as stack:
        with socket_path.short(tmp_path) as name:
            door.bind(name)
        door.listen(0)
        stack.enter_context(connected(tmp_path))

        def wait(seconds: float) -> None:
            waits.append(seconds)
            stack.enter_context(door.accept()[0])

        monkeypatch.setattr(time, "sleep", wait)
        with pytest.raises(Unanswered, match="it may do what was asked all the same"):
            Remote(tmp_path, timeout=0.5).tree()

    assert len(waits) == 1


def test_clients_that_do_not_take_their_answers_hold_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer waits for its client, and no thread does; others are answered in full."""
    monkeypatch.setattr(server, "WRITING", 3_600.0)
    large = "x" * (4 << 20)
    door = server.Control(tmp_path, lambda _request, _process: large)
    with contextlib.ExitStack() as stack:
        stack.callback(door.drop)
        for _ in range(4 * server.CLIENTS):
            stack.enter_context(connected(tmp_path)).sendall(frame({"do": "tree"}))
        honest = stack.enter_context(connected(tmp_path))
        honest.sendall(frame({"do": "tree"}))
        reply = answer(honest)

    assert reply.value == large


def test_of_too_many_slow_clients_the_first_leave(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that there is always room for one that has something to say."""
    monkeypatch.setattr(server, "READING", 3_600.0)
    monkeypatch.setattr(server, "MAX_SLOW", 2)
    with contextlib.ExitStack() as stack:
        first, second, third = (stack.enter_context(connected(place)) for _ in range(3))
        left = first.recv(1)
        for peer in (second, third):
            peer.sendall(frame({"do": "tree"}))
        replies = [answer(peer).value["id"] for peer in (second, third)]

    assert left == b""
    assert replies == ["runtime", "runtime"]


def test_what_is_kept_for_slow_clients_is_bounded(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half requests take memory: when they are too much together, the first are sent away."""
    monkeypatch.setattr(server, "READING", 3_600.0)
    monkeypatch.setattr(server, "MAX_HELD", 100_000)
    half = struct.pack(">I", wire.MAX_REQUEST) + bytes(60_000)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(connected(place)) for _ in range(2)]
        for peer in peers:
            peer.sendall(half)
        Remote(place, timeout=20).tree()
        Remote(place, timeout=20).tree()
        peers[0].settimeout(20)

        assert peers[0].recv(1) == b""


def test_a_request_that_ends_its_thread_is_answered(
    tmp_path: Path,
) -> None:
    """Whatever is raised while it is carried out, the client is told, and the next is served."""

    def carry(_request: object, _process: str) -> object:
        raise SystemExit

    door = server.Control(tmp_path, carry)
    with contextlib.ExitStack() as stack:
        stack.callback(door.drop)
        for _ in range(server.CLIENTS + 1):
            peer = stack.enter_context(connected(tmp_path))
            peer.sendall(frame({"do": "tree"}))

            assert answer(peer).error == "Fault"


def test_a_runtime_closes_whoever_is_in(place: Path) -> None:
    """Silent clients do not keep it open, not even as many as there may be."""
    directory = place.with_name("other")
    with contextlib.ExitStack() as stack:
        runtime = Runtime.open(directory, **options(directory, "plain"))
        for _ in range(server.CLIENTS + 1):
            stack.enter_context(connected(directory))
        runtime.close()

        assert not (directory / "control").exists()
        with pytest.raises(NoRuntime):
            Remote(directory).tree()


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """A client waits so long, and says that it may be done yet."""
    with socket.socket(socket.AF_UNIX) as mute:
        with socket_path.short(tmp_path) as name:
            mute.bind(name)
        mute.listen()
        with pytest.raises(Unanswered, match="it may do what was asked all the same"):
            Remote(tmp_path, timeout=0.01).tree()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", wire.Broken),
        (b"\x00\x00\x00\x05ab", wire.Broken),
        (b"\x00\x00\x00\x01\xc1", wire.Broken),
        (b"\xff\xff\xff\xff", TooLarge),
    ],
)
def test_a_server_that_talks_nonsense_is_not_believed(data: bytes, error: type[Exception]) -> None:
    """Whatever it was, it is no answer."""
    mine, other = socket.socketpair()
    with mine, other:
        other.sendall(data)
        other.close()
        with pytest.raises(error):
            wire.reply_from(wire.receive(mine, wire.MAX_ANSWER, 60))


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    """They are a request, or they are not."""
    try:
        found = wire.request_from(data, COMMANDS)
    except Refused:
        return

    assert isinstance(found, wire.Request)
