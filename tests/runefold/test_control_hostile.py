"""Rules about clients of the control socket that do not behave: they harm nobody but themselves."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import Unanswered
from runefold import control, wire
from runefold import place as places
from runefold.remote import NobodyThere, Remote
from runefold.runtime import Runtime
from runelog.errors import Refused, TooLarge
from tests.runefold.control_app import SESSION, options, spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
        peer.settimeout(60)
        with places.short(place) as name:
            peer.connect(name)
        yield peer


def frame(value: object) -> bytes:
    """Return a value as a frame."""
    data = msgspec.msgpack.encode(value)
    return struct.pack(">I", len(data)) + data


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
        {"do": "send", "session": 7, "content": "Hi"},
        {"do": "send", "session": SESSION, "content": "Hi", "mode": "shout"},
        {"do": "send", "session": "../../etc", "content": "Hi"},
        {"do": "replenish", "session": SESSION, "tokens": "many"},
        {"do": "replenish", "session": SESSION, "tokens": -5},
        {"do": "sessions", "limit": 1.5},
        {"do": "pause", "session": SESSION, "finish": None},
        {"do": "answer", "session": SESSION, "call": "c", "verdict": "rerun", "approver": None},
    ],
    ids=repr,
)
def test_what_is_no_request_is_refused(place: Path, value: object) -> None:
    """With a sentence, and nothing is done."""
    with connected(place) as peer:
        peer.sendall(frame(value))
        reply = answer(peer)

    assert reply.error in {"Refused", "BadId"}
    assert reply.message
    assert Remote(place).ask(wire.Sessions())[0]["turns"] == 0


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
        peer.sendall(frame({"do": "send", "session": SESSION, "content": "Hi", "message_id": "m"}))

        assert answer(peer).value["message_id"] == "m"


def test_a_client_may_go_away_before_its_answer(place: Path) -> None:
    """What it asked for is done all the same."""
    with connected(place) as peer:
        peer.sendall(frame({"do": "send", "session": SESSION, "content": "Hi", "message_id": "m"}))
        peer.shutdown(socket.SHUT_RD)
    with connected(place) as peer:
        peer.sendall(frame({"do": "send", "session": SESSION, "content": "Hi", "message_id": "m"}))

        assert answer(peer).value["message_id"] == "m"


def test_a_client_that_says_nothing_is_sent_away(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has so much time for all of its request, not for each byte."""
    monkeypatch.setattr(control, "READING", 0.01)
    with connected(place) as peer:
        left = peer.recv(1)
    monkeypatch.undo()

    assert left == b""


def test_those_who_hold_the_door_are_few(place: Path) -> None:
    """Beyond so many clients others wait, and are served as soon as one leaves."""
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connected(place)) for _ in range(control.CLIENTS)]
        late = stack.enter_context(connected(place))
        late.sendall(frame({"do": "tree"}))
        silent[0].close()
        reply = answer(late)

    assert reply.value["id"] == "runtime"


def test_a_runtime_closes_whoever_is_in(place: Path) -> None:
    """Silent clients do not keep it open, not even as many as there may be."""
    directory = place.with_name("other")
    with contextlib.ExitStack() as stack:
        runtime = Runtime.open(directory, **options(directory, "plain"))
        for _ in range(control.CLIENTS + 1):
            stack.enter_context(connected(directory))
        runtime.close()

        assert not (directory / "control").exists()
        with pytest.raises(NobodyThere):
            Remote(directory).tree()


def test_a_server_that_never_answers_is_given_up(tmp_path: Path) -> None:
    """A client waits so long, and says that it may be done yet."""
    with socket.socket(socket.AF_UNIX) as mute:
        with places.short(tmp_path) as name:
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
        found = wire.request_from(data)
    except Refused:
        return

    assert isinstance(found, wire.Request)
