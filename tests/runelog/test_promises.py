"""What the log promises about which files it touches, and when."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from runelog.errors import Cold, Gone
from runelog.index import frame
from runelog.lmdb.environment import Environment
from runelog.manifest import write_manifest
from runelog.rune import Change
from runelog.writer.leader import FLUSH_AFTER
from tests.runelog.ledger import Booked, open_ledger

if TYPE_CHECKING:
    from pathlib import Path


A: Final = "conv_a"
B: Final = "conv_b"
PATIENCE: Final = 60.0
LARGE: Final = "x" * (2 << 20)


def book(amount: int, memo: str = "") -> list[Change]:
    """Return the change of one append."""
    return [Change("book_1", None, [Booked(amount=amount, memo=memo)])]


# -- appends that nobody waits for -------------------------------------------------------------


def test_an_append_that_nobody_waits_for_is_committed_by_itself(tmp_path: Path) -> None:
    """Without any further call, the log commits it, and those who follow see it."""
    with open_ledger(tmp_path) as log:
        log.append(A, book(1), durable=False)

        assert next(log.follow(wait=PATIENCE)).payload == Booked(amount=1)  # type: ignore[union-attr]  # no gap here


def test_it_is_due_well_before_the_promised_time(tmp_path: Path) -> None:
    """The thread that commits it never means to wait longer than half of the promised 20 ms."""
    waits: list[float] = []
    with open_ledger(tmp_path) as log:
        log.append(A, book(1))
        writer: Any = log._writer
        whole = writer._stale.wait

        def wait(timeout: float | None = None) -> None:
            if timeout is not None:
                waits.append(timeout)
            whole(timeout)

        writer._stale.wait = wait
        found = log.follow(A, 1, wait=PATIENCE)
        for amount in range(2, 12):
            log.append(A, book(amount), durable=False)
            next(found)

    assert FLUSH_AFTER <= 0.020 / 2
    assert waits
    assert max(waits) <= FLUSH_AFTER


def test_it_is_ordered_before_every_later_append(tmp_path: Path) -> None:
    """Whatever is appended later, to whichever conversation, comes behind it and with it."""
    with open_ledger(tmp_path) as log:
        places = [
            log.append(f"conv_{number % 3}", book(number), durable=number % 4 == 3).position
            for number in range(40)
        ]
        in_order = [found.payload for found in log.read_all()]  # type: ignore[union-attr]  # no gap here

    assert places == sorted(places)
    assert in_order == [Booked(amount=number) for number in range(40)]


# -- what is read ------------------------------------------------------------------------------


class Opened:
    """Notes which segments are opened."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        """Begin with none."""
        self.names: set[str] = set()
        whole = Environment.__init__

        def init(env: Environment, path: Path, **options: Any) -> None:  # noqa: ANN401 -- whatever they are
            if path.parent.name == "segments":
                self.names.add(path.name)
            whole(env, path, **options)

        patch.setattr(Environment, "__init__", init)


def scattered(directory: Path) -> list[Booked]:
    """Make a log of seven segments, of which the second and the fourth hold one conversation."""
    held = []
    with open_ledger(directory) as log:
        for number in range(1, 7):
            log.append(B, book(number))
            if number in (2, 4):
                log.append(A, book(number * 10))
                held.append(Booked(amount=number * 10))
            log.roll()
    return held


@pytest.mark.parametrize("readonly", [False, True])
def test_a_conversation_is_read_from_the_segments_that_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, readonly: bool
) -> None:
    """Beside the active one no other segment is opened; for a reader they may all be gone."""
    held = scattered(tmp_path)
    if readonly:
        for number in (1, 3, 5, 6):
            (tmp_path / "segments" / f"{number:06d}.0.mdb").unlink()
    opened = Opened(monkeypatch)
    with open_ledger(tmp_path, readonly=readonly) as log:
        whole = [envelope.payload for envelope in log.read(A)]
        stream = [envelope.payload for envelope in log.stream(A, "book_1")]
        version = log.version(A, "book_1")

    assert whole == stream == held
    assert version == 2
    assert opened.names == {"000002.0.mdb", "000004.0.mdb", "000007.0.mdb"}


@pytest.mark.parametrize("readonly", [False, True])
def test_opening_and_listing_read_the_index_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, readonly: bool
) -> None:
    """Neither opening a log nor asking what it holds decodes a rune, or opens a sealed segment."""
    scattered(tmp_path)
    opened = Opened(monkeypatch)

    def decoded(*_: object) -> None:
        msg = "a frame was decoded"
        raise AssertionError(msg)

    for name in ("check", "sound", "unpack", "salvage"):
        monkeypatch.setattr(frame, name, decoded)
    with open_ledger(tmp_path, readonly=readonly) as log:
        heads = {found.id: found.head for found in log.conversations()}
        head = log.conversation(A).head
        held = [log.may_hold(start) for start in ("book_", "order_")]
        work = list(log.open_work())
        position = log.position
        assert opened.names == {"000007.0.mdb"}
        with pytest.raises(AssertionError, match="a frame was decoded"):
            list(log.read(A))

    assert (heads, head, work, position) == ({A: 2, B: 6}, 2, [], 8)
    assert held == [True, False]


# -- blobs of conversations that cannot be appended to -----------------------------------------


@pytest.mark.parametrize(("verb", "refusal"), [("erase", Gone), ("archive", Cold)])
def test_an_append_that_is_refused_leaves_no_blob(
    tmp_path: Path, verb: str, refusal: type[Exception]
) -> None:
    """A large field is not even written for a conversation that was erased or archived."""
    with open_ledger(tmp_path) as log:
        log.append(A, book(1, LARGE))
        getattr(log, verb)(A)
        with pytest.raises(refusal):
            log.append(A, book(2, LARGE + "y"))

        assert not (tmp_path / "blobs" / A).exists()


def test_a_blob_that_an_erasure_overtakes_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that is erased while a large field of it is written leaves nothing."""
    with open_ledger(tmp_path) as log:
        log.append(A, book(1))
        whole = log.log_directory.blobs.put

        def put(conversation: str, content: bytes) -> str:
            log.erase(A)
            return whole(conversation, content)

        monkeypatch.setattr(log.log_directory.blobs, "put", put)
        with pytest.raises(Gone):
            log.append(A, book(2, LARGE))

        assert not (tmp_path / "blobs" / A).exists()


# -- a manifest that is replaced ---------------------------------------------------------------


def test_a_reader_sees_every_change_of_the_manifest(tmp_path: Path) -> None:
    """Two changes within one tick of the clock, to a file of the same length, are not missed."""
    open_ledger(tmp_path).close()
    path = tmp_path / "MANIFEST"
    with open_ledger(tmp_path, readonly=True) as log:
        segments = log.log_directory.segments
        os.utime(path, ns=(1, 1))
        segments.refresh()
        for number in range(10):
            for epoch in (100 + number, 200 + number):
                write_manifest(tmp_path, msgspec.structs.replace(segments.manifest, epoch=epoch))
                os.utime(path, ns=(1, 1))

            assert segments.refresh()
            assert segments.manifest.epoch == 200 + number
            assert not segments.refresh()
