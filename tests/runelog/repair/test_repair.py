"""Repair: nothing readable is lost, what is lost is marked, and the log goes on."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

from runelog.errors import Corrupt, Held
from runelog.manifest import read_manifest
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Envelope, Gap, State, Tombstone
from tests.runelog.ledger import Booked, Truth, open_ledger, write_ledger
from tests.runelog.sound_runes import PAGE, sound_runes

if TYPE_CHECKING:
    from pathlib import Path

    from runelog.log import Log

SEGMENTS = ("000001.0.mdb", "000002.0.mdb")


def check_rescued(directory: Path, truth: Truth, lost: int) -> set[tuple[str, int]]:
    """Hold a repaired log against the truth: each rune is there, or a tombstone in its place.

    Return the runes that are there.
    """
    kept = set()
    report = verify(directory)
    assert report.problems == []
    with open_ledger(directory) as log:
        found = {
            each.id: [envelope.payload for envelope in log.read(each.id)]
            for each in log.conversations()
            if each.state is not State.ERASED
        }
        missing = 0
        assert found.keys() == truth.keys()
        for name, runes in truth.items():
            assert len(found[name]) == len(runes)
            for number, (seen, expected) in enumerate(zip(found[name], runes, strict=True), 1):
                if isinstance(seen, Tombstone):
                    assert seen.reason == "damaged"
                    missing += 1
                else:
                    assert seen == expected
                    kept.add((name, number))
        assert missing == lost
        at = log.version("conv_0", "book_0")
        log.append("conv_0", [Change("book_0", at, [Booked(amount=-1)])])
    assert verify(directory).problems == []
    return kept


def all_sound(directory: Path, truth: Truth) -> set[tuple[str, int]]:
    """Return every rune that can be read in any segment of a log, damaged or not."""
    return {
        rune
        for path in sorted(directory.glob("segments/*.mdb"))
        for rune in sound_runes(path.read_bytes(), truth)
    }


def spoilt(data: bytes, needle: bytes) -> bytes:
    """Return a file with a bit changed wherever it holds `needle`, as free pages may as well."""
    return data.replace(needle, bytes([needle[0] ^ 0x10]) + needle[1:])


def zeroed(data: bytes, page: int) -> bytes:
    """Return a file with nothing left on one of its pages."""
    return data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :]


def rewritten_ledger(directory: Path) -> tuple[Truth, Path]:
    """Write a log and have one of its conversations erased; return the rest, and a segment."""
    truth = write_ledger(directory)
    with open_ledger(directory) as log:
        log.erase("conv_2")
    del truth["conv_2"]
    return truth, directory / "segments" / "000001.1.mdb"


def check_rescued_beside_erased(directory: Path, truth: Truth, lost: int) -> set[tuple[str, int]]:
    """Do as `check_rescued` for a log whose conv_2 was erased, and stays so."""
    with open_ledger(directory) as log:
        assert log.conversation("conv_2").state is State.ERASED
    return check_rescued(directory, truth, lost)


@pytest.mark.parametrize("segment", SEGMENTS)
def test_one_damaged_rune_costs_one_rune(tmp_path: Path, segment: str) -> None:
    """A flipped bit in one body loses that rune alone; a tombstone keeps its event id."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    path = directory / "segments" / segment
    needle = b"conv_3 3.2" if segment == SEGMENTS[0] else b"conv_3 98.2"
    data = spoilt(path.read_bytes(), needle)
    path.write_bytes(data)

    done = repair(directory)

    assert (done.segments, done.runes_lost) == ([segment], 1)
    assert (directory / "damaged" / segment).read_bytes() == data
    check_rescued(directory, truth, 1)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_readable_is_thrown_away(tmp_path: Path, seed: int) -> None:
    """Whatever is damaged, repair ends, keeps count, and leaves a sound log with the rest in it."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    rng = random.Random(seed)
    path = directory / "segments" / SEGMENTS[seed % 2]
    data = bytearray(path.read_bytes())
    for _ in range(1 + seed):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    readable = all_sound(directory, truth)
    assert readable

    done = repair(directory)

    assert check_rescued(directory, truth, done.runes_lost) == readable


@pytest.mark.parametrize("seed", range(8))
def test_nothing_readable_is_thrown_away_of_a_rewritten_segment(tmp_path: Path, seed: int) -> None:
    """Also where the file has no older copy of anything, and whatever flips."""
    directory = tmp_path / "log"
    truth, path = rewritten_ledger(directory)
    rng = random.Random(seed)
    data = bytearray(path.read_bytes())
    for _ in range(1 + 2 * seed):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    readable = all_sound(directory, truth)

    done = repair(directory)

    assert check_rescued_beside_erased(directory, truth, done.runes_lost) == readable


def test_runes_are_kept_whichever_page_is_lost(tmp_path: Path) -> None:
    """Without its names, heads or holes a segment still has its runes: checksums say whose."""
    truth, path = rewritten_ledger(tmp_path / "log")
    data = path.read_bytes()
    whole = len(sound_runes(data, truth))
    for page in range(2, len(data) // PAGE):
        directory = tmp_path / f"log_{page}"
        shutil.copytree(tmp_path / "log", directory)
        damaged = zeroed(data, page)
        (directory / "segments" / path.name).write_bytes(damaged)
        left = sound_runes(damaged, truth)
        readable = all_sound(directory, truth)

        done = repair(directory)

        assert check_rescued_beside_erased(directory, truth, done.runes_lost) == readable
        assert done.runes_lost == whole - len(left), page


def test_runes_are_kept_without_any_list_of_names(tmp_path: Path) -> None:
    """With every page gone that names a conversation, the checksums tell whose they are."""
    directory = tmp_path / "log"
    truth, path = rewritten_ledger(directory)
    data = path.read_bytes()
    before = sound_runes(data, truth)
    for page in range(2, len(data) // PAGE):
        here = data[page * PAGE : (page + 1) * PAGE]
        if b"conv_1" in here and not sound_runes(bytes(page * PAGE) + here, truth):
            data = zeroed(data, page)
    path.write_bytes(data)
    readable = all_sound(directory, truth)
    assert sound_runes(data, truth) == before

    done = repair(directory)

    assert (done.runes_kept, done.runes_lost) == (len(before), 0)
    assert check_rescued_beside_erased(directory, truth, 0) == readable


def test_a_rewritten_segment_cut_short_keeps_what_is_left(tmp_path: Path) -> None:
    """Wherever it is cut, every rune before the cut stays, and only those behind it are lost."""
    truth, path = rewritten_ledger(tmp_path / "log")
    data = path.read_bytes()
    whole = len(sound_runes(data, truth))
    for pages in range(2, len(data) // PAGE):
        directory = tmp_path / f"log_{pages}"
        shutil.copytree(tmp_path / "log", directory)
        (directory / "segments" / path.name).write_bytes(data[: pages * PAGE])
        readable = all_sound(directory, truth)

        done = repair(directory)

        assert check_rescued_beside_erased(directory, truth, done.runes_lost) == readable
        assert done.runes_lost == whole - len(sound_runes(data[: pages * PAGE], truth)), pages


def test_what_was_taken_out_before_is_still_told(tmp_path: Path) -> None:
    """A repaired segment still says which of its positions were erased, and whose they were."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    with open_ledger(directory) as log:
        log.erase("conv_2")
        before = [item for item in log.read_all() if isinstance(item, Gap)]
    path = directory / "segments" / "000001.1.mdb"
    data = bytearray(path.read_bytes())
    data[data.index(b"conv_3 3.2")] ^= 0x10
    path.write_bytes(data)

    done = repair(directory)

    assert done.runes_lost == 1
    assert verify(directory).problems == []
    with open_ledger(directory) as log:
        assert [item for item in log.read_all() if isinstance(item, Gap)] == before
        assert before
        assert [e.payload for e in log.read("conv_0")] == truth["conv_0"]


def test_a_log_without_its_manifest_is_rebuilt(tmp_path: Path) -> None:
    """The segments know what they are: no rune is lost with MANIFEST."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    (directory / "MANIFEST").write_bytes(b"runefold 1 00000000\n{}\n")
    with pytest.raises(Corrupt, match="repair"):
        open_ledger(directory)

    done = repair(directory)

    assert done.segments == []
    assert any("MANIFEST" in note for note in done.notes)
    check_rescued(directory, truth, 0)


def test_a_segment_cut_short_keeps_what_is_left(tmp_path: Path) -> None:
    """Of a truncated file whatever pages remain are read; the rest has tombstones."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    path = directory / "segments" / SEGMENTS[0]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    readable = all_sound(directory, truth)

    done = repair(directory)

    assert done.segments == [SEGMENTS[0]]
    assert check_rescued(directory, truth, done.runes_lost) == readable


def test_what_is_lost_is_not_of_another_age(tmp_path: Path) -> None:
    """Where not one time is left, lost runes have one that is about right, and in order."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    with open_ledger(directory) as log:
        last = max(found.last_time for found in log.conversations())
        second = min(
            e.time for e in log.read_all(end_of_first(directory)) if isinstance(e, Envelope)
        )
    (directory / "segments" / SEGMENTS[0]).unlink()

    lost = repair(directory).runes_lost

    check_rescued(directory, truth, lost)
    with open_ledger(directory) as log:
        times = [e.time for e in log.read_all() if isinstance(e, Envelope)]
    assert times == sorted(times)
    assert 0 < times[0] <= second <= last


def end_of_first(directory: Path) -> int:
    """Return the last position of the first segment."""
    return read_manifest(directory).segments[0].last


def test_a_stream_goes_on_behind_what_was_lost(tmp_path: Path) -> None:
    """Each rune that is left is in the streams that see it once, and versions are not reused."""
    directory = tmp_path / "log"
    write_ledger(directory)
    with open_ledger(directory) as log:
        before = {name: log.version(name, "boss") for name in log_names(log)}
    path = directory / "segments" / SEGMENTS[0]
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    assert repair(directory).runes_lost > 10

    with open_ledger(directory) as log:
        for name, version in before.items():
            left = [e.event_id for e in log.read(name) if "boss" in e.observers]
            assert [e.event_id for e in log.stream(name, "boss")] == left
            assert log.version(name, "boss") == version
            some = [e.event_id for e in log.stream(name, "boss", after=version - 2)]
            assert some == left[-2:]


def log_names(log: Log) -> list[str]:
    """Return the conversations of a log."""
    return [found.id for found in log.conversations()]


def test_a_damaged_active_segment_stops_appends_until_it_is_repaired(tmp_path: Path) -> None:
    """What is sound can be read; appending behind damage is refused, and says what to do."""
    directory = tmp_path / "log"
    truth = write_ledger(directory)
    path = directory / "segments" / SEGMENTS[1]
    path.write_bytes(spoilt(path.read_bytes(), b"conv_3 98.2"))

    with open_ledger(directory) as log:
        assert [e.payload for e in log.read("conv_0")] == truth["conv_0"]
        with pytest.raises(Corrupt) as caught:
            list(log.read("conv_3"))
        assert caught.value.conversation == "conv_3"
        with pytest.raises(Corrupt, match="repair"):
            log.append("conv_0", [Change("book_9", 0, [Booked(amount=1)])])

    repair(directory)
    check_rescued(directory, truth, 1)


def test_a_sound_log_is_left_as_it_is(tmp_path: Path) -> None:
    """Repairing what is not broken changes no file."""
    directory = tmp_path / "log"
    write_ledger(directory)
    before = {p: p.read_bytes() for p in directory.rglob("*.mdb")}

    done = repair(directory)

    assert (done.segments, done.notes, done.runes_lost) == ([], [], 0)
    assert {p: p.read_bytes() for p in directory.rglob("*.mdb")} == before


def test_a_log_that_is_being_written_is_not_repaired(tmp_path: Path) -> None:
    """Repair wants the log for itself."""
    write_ledger(tmp_path / "log")

    with open_ledger(tmp_path / "log"), pytest.raises(Held):
        repair(tmp_path / "log")
