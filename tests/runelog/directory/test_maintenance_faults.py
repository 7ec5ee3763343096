"""Rolling, archiving, restoring, erasing and taking in, with something going wrong on the way.

The faults are the system's: a call to make something durable or to reserve room is interrupted, or
fails, one after the other.
"""

from __future__ import annotations

import errno
import io
import os
import resource
from typing import TYPE_CHECKING, Final

import pytest

from runelog.codec import Codec
from runelog.errors import Cold, Gone, LogFull, RunefoldError
from runelog.index.catalog import Catalog
from runelog.index.records import Head
from runelog.memory import MemoryLog
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Rune, State
from runelog.snapshot import Kept, Key
from runelog.store import Runelog
from runelog.transfer.export_import import export, take_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A: Final = "conv_a"
B: Final = "conv_b"
NEW: Final = "conv_new"
SMALL: Final = 1 << 20
LARGE: Final = "x" * (2 << 20)


class Noted(Rune, frozen=True, tag="note.taken"):
    """A rune with some text."""

    text: str


CODEC: Final = Codec([Noted])


def opened(directory: Path) -> Runelog:
    """Open the log in a directory, with small segments."""
    return Runelog.open(directory, CODEC, segment_size=SMALL)


def note(*texts: str) -> list[Change]:
    """Return an append of a rune per text."""
    return [Change("note_1", None, [Noted(text=text) for text in texts])]


def parcel() -> io.BytesIO:
    """Return an export of one conversation that the logs here do not have."""
    other = MemoryLog(CODEC)
    other.append(NEW, note("far", "away"))
    stream = io.BytesIO()
    export(other, stream)
    stream.seek(0)
    return stream


OPERATIONS: Final[dict[str, Callable[[Runelog], object]]] = {
    "roll": lambda log: log.roll(),
    "archive": lambda log: log.archive(A),
    "restore": lambda log: log.restore(A),
    "erase": lambda log: log.erase(A),
    "take_in": lambda log: take_in(log, parcel()),
}


class Fault:
    """Lets the n-th call that makes something durable, or reserves room, go wrong."""

    def __init__(self, patch: pytest.MonkeyPatch, number: int, how: BaseException) -> None:
        """Raise `how`: an interrupt once the call is done, an error in its place."""
        self.left = number
        self._how = how
        for name in ("fsync", "posix_fallocate"):
            patch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: int) -> None:
            self.left -= 1
            if self.left == 0 and isinstance(self._how, Exception):
                raise self._how
            real(*arguments)
            if self.left == 0:
                raise self._how

        return call


def begun(directory: Path, operation: str) -> Runelog:
    """Give a log that an operation can be done to."""
    log = opened(directory)
    log.append(A, note("one", "two"))
    log.append(B, note("three"))
    log.roll()
    log.append(A, note("four"))
    if operation == "restore":
        log.archive(A)
    return log


def grow(log: Runelog, told: dict[str, list[str]]) -> None:
    """Append to every conversation that can be appended to; note what is acknowledged."""
    for name, texts in told.items():
        try:
            log.append(name, note("later"))
        except RunefoldError:
            continue
        texts.append("later")


def texts(log: Runelog, name: str) -> list[str]:
    """Return what is in a conversation."""
    found = (envelope.payload for envelope in log.read(name))
    return [rune.text for rune in found if isinstance(rune, Noted)]


def check(directory: Path, operation: str, told: dict[str, list[str]]) -> None:
    """Assert that the operation happened or did not, that nothing is lost, and that it goes on."""
    with opened(directory) as log:
        states = {found.id: found.state for found in log.conversations()}
        for name, expected in told.items():
            if states[name] is State.ERASED:
                assert (operation, name) == ("erase", A)
            else:
                assert texts(log, name) == expected
        if NEW in states:
            assert texts(log, NEW) == ["far", "away"]
        log.append(B, note("last"))
        if states[A] is State.LIVE:
            log.append(A, note("last"))
    problems = verify(directory, codec=CODEC).problems
    assert not problems, problems


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("how", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left")])
def test_whatever_goes_wrong_nothing_is_lost(
    tmp_path: Path, operation: str, how: BaseException
) -> None:
    """Wherever an operation is cut short, it happened or did not, and all that was told is there.

    The handle goes on, or refuses with an error that has a name.
    """
    for number in range(1, 200):
        directory = tmp_path / f"log_{number}"
        log = begun(directory, operation)
        told = {A: ["one", "two", "four"], B: ["three"]}
        with pytest.MonkeyPatch.context() as patch:
            fault = Fault(patch, number, how)
            try:
                OPERATIONS[operation](log)
            except (KeyboardInterrupt, RunefoldError):
                assert fault.left <= 0
        grow(log, told)
        log.close()
        check(directory, operation, told)
        if fault.left > 0:
            return
    pytest.fail("there is no end to it")


@pytest.mark.parametrize("operation", ["archive", "restore", "erase"])
def test_an_operation_that_was_cut_short_can_be_repeated(tmp_path: Path, operation: str) -> None:
    """Where the handle goes on, repeating the operation through it completes it."""
    how = OSError(errno.ENOSPC, "No space left")
    wanted = {"archive": State.ARCHIVED, "restore": State.LIVE, "erase": State.ERASED}[operation]
    for number in range(1, 200):
        directory = tmp_path / f"log_{number}"
        with begun(directory, operation) as log:
            with pytest.MonkeyPatch.context() as patch:
                fault = Fault(patch, number, how)
                try:
                    OPERATIONS[operation](log)
                except (KeyboardInterrupt, LogFull):
                    patch.undo()
                    OPERATIONS[operation](log)
                except RunefoldError:
                    continue
            assert log.conversation(A).state is wanted
            assert not log.log_directory.segments.manifest.pending
        check(directory, operation, {A: ["one", "two", "four"], B: ["three"]})
        left = {path.name for path in (directory / "archive").glob("*.runes")}
        assert left == ({f"{A}.runes"} if operation == "archive" else set())
        if fault.left > 0:
            return
    pytest.fail("there is no end to it")


def test_the_catalog_keeps_what_is_settled(tmp_path: Path) -> None:
    """A segment does not bring a conversation back that was archived or erased; a restore does."""
    with opened(tmp_path / "log") as log:
        log.append(A, note("one"))
        log.append(B, note("two"))
        log.roll()
        with log.log_directory.segments.take(1) as (_, view):
            catalog = Catalog(tmp_path / "catalog.mdb", create=True)
            catalog.settle(Head(A, 0, 0, 0, 0, 0, State.ERASED))
            catalog.merge(1, view)
    found = catalog.head(A)
    spans, streams = catalog.spans(A, 0), catalog.stream_spans(A, "note_1", 0)
    other = catalog.head(B)
    catalog.close()

    assert found is not None
    assert found.state is State.ERASED
    assert (spans, streams) == ([], [])
    assert other is not None
    assert other.state is State.LIVE


def test_a_leftover_archive_of_a_live_conversation_goes(tmp_path: Path) -> None:
    """After a crash an archive of a conversation that is live is removed, and no other."""
    directory = tmp_path / "log"
    with opened(directory) as log:
        log.append(A, note("one"))
        log.append(B, note("two"))
        log.archive(A, B)
        kept = log.log_directory.archives.path(A).read_bytes()
        log.restore(A)
    log.log_directory.archives.path(A).write_bytes(kept)
    (directory / "CLEAN").unlink()
    opened(directory).close()

    assert not log.log_directory.archives.path(A).exists()
    assert log.log_directory.archives.path(B).exists()
    with opened(directory) as log:
        assert texts(log, A) == ["one"]
        assert texts(log, B) == ["two"]


def remains(directory: Path) -> list[Path]:
    """Return the files that blobs and snapshots are in."""
    return [*directory.glob("blobs/*/*"), *directory.glob("snapshots/*.snap")]


def come_too_late(log: Runelog) -> None:
    """Leave a blob and a snapshot to a conversation that was erased."""
    with pytest.raises(Gone):
        log.append(A, note(LARGE))
    log.log_directory.blobs.put(A, b"late")
    assert log.snapshots.save(A, 1, {Key("note", 1, "note_1"): Kept(1, b"anchor", b"state")})
    assert len(remains(log.directory)) >= 2


def test_erasing_again_removes_what_came_too_late(tmp_path: Path) -> None:
    """To erase what is erased already removes what was left to it since."""
    with opened(tmp_path / "log") as log:
        log.append(A, note(LARGE))
        log.erase(A)
        come_too_late(log)
        log.erase(A)

        assert remains(tmp_path / "log") == []
        assert log.conversation(A).state is State.ERASED


def test_opening_removes_what_an_erased_conversation_has_left(tmp_path: Path) -> None:
    """Opening a log removes blobs and snapshots of conversations that were erased."""
    with opened(tmp_path / "log") as log:
        log.append(A, note("one"))
        log.append(B, note(LARGE))
        log.erase(A)
        come_too_late(log)
    opened(tmp_path / "log").close()

    assert [path.parent.name for path in remains(tmp_path / "log")] == [B]


def test_opening_removes_what_somebody_was_killed_over(tmp_path: Path) -> None:
    """Archives and blobs that a crash left half written are gone when the log is opened again."""
    with opened(tmp_path / "log") as log:
        log.append(A, note(LARGE))
        log.append(B, note("one"))
        log.archive(B)
    blob = next(tmp_path.glob("log/blobs/*/*"))
    archive = next(tmp_path.glob("log/archive/*.runes"))
    for path in (blob, archive):
        path.with_name(f"{path.name}.17-0.new").write_bytes(path.read_bytes()[:-9])
    (tmp_path / "log" / "CLEAN").unlink()

    with opened(tmp_path / "log") as log:
        assert list(tmp_path.rglob("*.new")) == []
        assert texts(log, A) == [LARGE]
        assert texts(log, B) == ["one"]


def test_erasing_reaches_what_was_set_aside(tmp_path: Path) -> None:
    """What a repair or a crash left of one conversation goes with it; what is of others stays."""
    words = "".join(chr(97 + number * number % 23) for number in range(2_000))
    with opened(tmp_path / "log") as log:
        for name in (A, B, "conv_a_2"):
            log.append(name, note(words + name, LARGE + name))
        log.archive(A)
    blobs = sorted(tmp_path.glob("log/blobs/*/*"))
    archive = tmp_path / "log" / "archive" / f"{A}.runes"
    for path in (*blobs, archive):
        path.write_bytes(path.read_bytes()[:-1] + b"#")
    repair(tmp_path / "log")
    archive.with_name(f"{A}.runes.17-0.new").write_bytes(archive.read_bytes())
    before = {path.name for path in tmp_path.glob("log/damaged/*")}
    with opened(tmp_path / "log") as log:
        log.erase(A, B)

    assert {name.partition(".")[0] for name in before} == {A, B, "conv_a_2"}
    assert [path.name for path in tmp_path.glob("log/damaged/*")] == [
        name for name in before if name.startswith("conv_a_2.")
    ]
    assert {path.name for path in tmp_path.glob("log/archive/*")} == {f"{A}.erased", f"{B}.erased"}


def test_little_room_is_enough_to_erase(tmp_path: Path) -> None:
    """Whoever erases to make room does not need megabytes of it first."""
    with opened(tmp_path / "log") as log:
        for number in range(40):
            log.append(f"conv_{number}", note(*("x" * 100 for _ in range(10))))
        log.roll()
        largest = max(path.stat().st_size for path in tmp_path.rglob("*.mdb"))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(largest, SMALL), before[1]))
        try:
            log.erase("conv_7")
            log.archive("conv_8")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        with pytest.raises(Cold):
            log.append("conv_8", note("more"))
        assert len(texts(log, "conv_9")) == 10
