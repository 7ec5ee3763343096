"""Rules about durability: what an operation says is done, a power cut does not take back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from runelog.blobs import FileBlobs
from runelog.codec import Codec
from runelog.rune import Change, Rune
from runelog.store import Runelog
from runelog.stream.archive import Archives
from runelog.transfer.export_import import export, take_in
from tests.runelog.syncs import Syncs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A: Final = "conv_a"
B: Final = "conv_b"
LARGE: Final = "x" * (2 << 20)


class Noted(Rune, frozen=True, tag="note.taken"):
    """A rune with some text."""

    text: str


CODEC: Final = Codec([Noted])


def note(*texts: str) -> list[Change]:
    """Return an append of a rune per text."""
    return [Change("note_1", None, [Noted(text=text) for text in texts])]


def moved(log: Runelog) -> None:
    """Export a conversation, erase it, and take another one in."""
    stream = log.directory.parent / "export"
    with stream.open("w+b") as file, Runelog.open(log.directory.parent / "other", CODEC) as other:
        other.append("conv_new", note("far", LARGE))
        export(other, file)
        file.seek(0)
        take_in(log, file)


STEPS: Final[dict[str, tuple[Callable[[Runelog], object], ...]]] = {
    "append": (),
    "append again": (lambda log: log.append(A, note(LARGE)),),
    "archive": (lambda log: log.archive(A),),
    "archive twice": (lambda log: log.archive(A), lambda log: log.archive(B)),
    "restore": (lambda log: log.archive(A, B), lambda log: log.restore(A)),
    "erase": (lambda log: log.erase(A),),
    "erase what is archived": (lambda log: log.archive(A), lambda log: log.erase(A)),
    "roll": (lambda log: log.roll(),),
    "take in": (moved,),
    "close": (lambda log: log.archive(A), lambda log: log.close()),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_what_is_done_is_durable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: tuple[Callable[[Runelog], object], ...],
) -> None:
    """Once a call returns, every name and every content that it changed has been synced.

    The directories above them have too, from the log's own on.
    """
    root = tmp_path / "place"
    root.mkdir()
    syncs = Syncs(root / "log", monkeypatch)
    with Runelog.open(root / "log", CODEC, segment_size=1 << 20) as log:
        log.append(A, note("one", LARGE))
        log.append(B, note("two"))
        for step in steps:
            step(log)

        assert syncs.unsynced() == []
        assert syncs.is_durable(root / "log")


def test_a_tombstone_is_durable_before_anything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a marker is left that a conversation was erased, no power cut takes it back."""
    syncs = Syncs(tmp_path / "archive", monkeypatch)
    Archives(tmp_path / "archive").bury(A)

    assert [path.name for path in (tmp_path / "archive").iterdir()] == [f"{A}.erased"]
    assert syncs.unsynced() == []


def test_what_is_dropped_stays_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once an archive or blobs are deleted, no power cut brings them back."""
    archives, blobs = Archives(tmp_path / "log" / "archive"), FileBlobs(tmp_path / "log" / "blobs")
    syncs = Syncs(tmp_path / "log", monkeypatch)
    (tmp_path / "log" / "archive").mkdir(parents=True)
    archives.path(A).write_bytes(b"runes")
    blobs.put(A, b"large")
    archives.drop(A)
    blobs.drop(A)

    assert [*archives.path(A).parent.iterdir(), *blobs.root.iterdir()] == []
    assert syncs.unsynced() == []


def test_a_blob_that_was_there_is_synced_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that wrote the same content may have died before it was durable."""
    FileBlobs(tmp_path / "blobs").put(A, b"large")
    syncs = Syncs(tmp_path / "blobs", monkeypatch)
    FileBlobs(tmp_path / "blobs").put(A, b"large")

    assert syncs.unsynced() == []


def test_a_blob_that_is_not_synced_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and contents that nobody synced are what a power cut could take back."""
    FileBlobs(tmp_path / "blobs").put(A, b"large")
    syncs = Syncs(tmp_path / "blobs", monkeypatch)
    (digest,) = FileBlobs(tmp_path / "blobs").list(A)

    assert syncs.unsynced() == [
        f"content {A}/{digest}",
        f"name {A}",
        f"name {A}/{digest}",
    ]
