"""Repairing what lies beside the segments: archives and blobs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from runelog.codec import Codec
from runelog.errors import Corrupt
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import Change, Rune, State, Tombstone
from runelog.store import Runelog
from runelog.stream.streams import StreamReader
from tests.crash.story import compacting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Kept(Rune, frozen=True, tag="mending.kept"):
    """Something to keep."""

    number: int
    content: bytes = b""


CODEC = Codec([Kept])
RUNES = 24
LARGE = 2 << 20


def archived(directory: Path, blob: bytes = b"") -> Path:
    """Write a log with an archived conversation of several blocks; return where that is."""
    with Runelog.open(directory, CODEC) as log:
        for number in range(1, RUNES + 1):
            large = blob if number == 5 else b""
            rune = Kept(number=number, content=large or os.urandom(60_000))
            log.append("conv_a", [Change("thing_1", None, [rune])])
        log.append("conv_b", [Change("thing_1", None, [Kept(number=0)])])
        with compacting():
            log.archive("conv_a")
    return directory / "archive" / "conv_a.runes"


def numbers(directory: Path) -> list[int | None]:
    """Return the numbers in the archived runes, None for those that are lost."""
    with Runelog.open(directory, CODEC, readonly=True) as log:
        payloads = [envelope.payload for envelope in log.read("conv_a")]
    assert all(isinstance(each, Kept) or each == Tombstone(reason="damaged") for each in payloads)
    return [each.number if isinstance(each, Kept) else None for each in payloads]


def flip(path: Path, at: int) -> bytes:
    """Change one bit of a file; return what it holds then."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)
    return bytes(data)


def places(path: Path) -> list[tuple[int, int]]:
    """Return first event id and offset of each block of runes of an archive."""
    with StreamReader(path.open("rb")) as reader:
        return reader.section("conv_a").places()


@pytest.mark.parametrize("inside", [0, 2, 9, 20, 500])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_damaged_block_costs_the_runes_in_it(tmp_path: Path, which: int, inside: int) -> None:
    """Wherever a bit flips in a block of an archive, every rune of the other blocks is kept."""
    directory = tmp_path / "log"
    path = archived(directory)
    blocks = [*places(path), (RUNES + 1, 0)]
    which %= len(blocks) - 1
    assert len(blocks) > 4
    (first, offset), (following, _) = blocks[which], blocks[which + 1]
    damaged = flip(path, offset + inside)
    assert not verify(directory).ok

    done = repair(directory)

    assert (done.segments, done.runes_lost) == (["conv_a.runes"], following - first)
    assert done.runes_kept == RUNES - done.runes_lost
    assert (directory / "damaged" / "conv_a.runes").read_bytes() == damaged
    assert verify(directory).problems == []
    assert numbers(directory) == [
        None if first <= number < following else number for number in range(1, RUNES + 1)
    ]
    assert repair(directory).segments == []


@pytest.mark.parametrize("at", [0, 9, 20, -1, -70, -150])
def test_damage_beside_the_runes_costs_none(tmp_path: Path, at: int) -> None:
    """Preamble, header, section and trailer only say what can be found without them."""
    directory = tmp_path / "log"
    path = archived(directory)
    flip(path, at % path.stat().st_size)

    done = repair(directory)

    assert (done.runes_kept, done.runes_lost) == (RUNES, 0)
    assert verify(directory).problems == []
    assert numbers(directory) == list(range(1, RUNES + 1))


def test_an_archive_cut_short_keeps_what_is_left(tmp_path: Path) -> None:
    """The index still knows how many runes there were: those behind the cut have tombstones."""
    directory = tmp_path / "log"
    path = archived(directory)
    first, offset = places(path)[2]
    path.write_bytes(path.read_bytes()[: offset + 100])

    done = repair(directory)

    assert (done.runes_kept, done.runes_lost) == (first - 1, RUNES - first + 1)
    assert verify(directory).problems == []
    assert numbers(directory) == [*range(1, first), *[None] * (RUNES - first + 1)]
    with Runelog.open(directory, CODEC) as log:
        log.restore("conv_a")
        assert log.conversation("conv_a").head == RUNES


def test_a_damaged_blob_of_an_archive_costs_its_rune(tmp_path: Path) -> None:
    """A large field that cannot be read is lost with its rune, and nothing else is."""
    directory = tmp_path / "log"
    content = os.urandom(LARGE)
    path = archived(directory, content)
    flip(path, path.read_bytes().index(content[LARGE // 2 : LARGE // 2 + 64]))

    done = repair(directory)

    assert (done.runes_kept, done.runes_lost) == (RUNES - 1, 1)
    assert verify(directory).problems == []
    assert numbers(directory) == [None if n == 5 else n for n in range(1, RUNES + 1)]


def test_what_looks_like_a_block_inside_a_damaged_blob_is_not_one(tmp_path: Path) -> None:
    """What somebody put into a large field cannot become a rune by damage beside it."""
    directory = tmp_path / "log"
    path = archived(directory, os.urandom(LARGE))
    first, offset = places(path)[-1]
    with StreamReader(path.open("rb")) as reader:
        (blob,) = reader.section("conv_a").digests().values()
    data = bytearray(path.read_bytes())
    # The blob is damaged by a copy of a block of runes, which is sound only where it was.
    data[blob + 100 : blob + 100 + 40_000] = data[offset : offset + 40_000]
    path.write_bytes(data)

    assert repair(directory).runes_lost == 1
    assert numbers(directory) == [None if n == 5 else n for n in range(1, RUNES + 1)]
    assert first > 5


def test_a_damaged_blob_is_set_aside_and_its_rune_says_so(tmp_path: Path) -> None:
    """Nothing else is touched; with the blob back from a backup everything can be read again."""
    directory = tmp_path / "log"
    content = os.urandom(LARGE)
    with Runelog.open(directory, CODEC) as log:
        runes = [Kept(number=1), Kept(number=2, content=content), Kept(number=3)]
        log.append("conv_a", [Change("thing_1", None, runes)])
    (path,) = directory.glob("blobs/conv_a/*")
    damaged = flip(path, 1_000)

    done = repair(directory)

    (aside,) = done.segments
    assert (directory / "damaged" / aside).read_bytes() == damaged
    assert not path.exists()
    assert done.runes_lost == 0
    assert "from a backup" in done.notes[0]
    report = verify(directory)
    assert [problem.where for problem in report.problems] == ["conv_a event 2"]
    assert "from a backup" in report.problems[0].message
    with Runelog.open(directory, CODEC) as log:
        envelopes = list(log.read("conv_a"))
        assert [envelopes[0].payload, envelopes[2].payload] == [runes[0], runes[2]]
        with pytest.raises(Corrupt, match="from a backup"):
            _ = envelopes[1].payload
    assert repair(directory).segments == []

    path.write_bytes(content)
    assert verify(directory).problems == []
    assert numbers(directory) == [1, 2, 3]


def spoil_segment(directory: Path) -> None:
    """Have a repair rebuild the catalog over a damaged segment."""
    path = min(directory.glob("segments/*.mdb"))
    flip(path, path.stat().st_size - 2_000)
    repair(directory)


def lose_manifest(directory: Path) -> None:
    """Have a repair rebuild MANIFEST, and the catalog with it."""
    (directory / "MANIFEST").unlink()
    repair(directory)


def spoil_catalog(directory: Path) -> None:
    """Have the next writer rebuild the catalog."""
    (path,) = directory.glob("catalog.*.mdb")
    path.write_bytes(path.read_bytes() + bytes(4_096))
    with Runelog.open(directory, CODEC) as log:
        assert len(list(log.read("conv_b"))) == 1


@pytest.mark.parametrize("spoil", [spoil_segment, lose_manifest, spoil_catalog])
def test_an_archive_that_is_missing_is_not_forgotten(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """Whoever makes the catalog anew keeps what the old one knew: the archive may come back."""
    directory = tmp_path / "log"
    path = archived(directory)
    path.rename(tmp_path / "backup")

    spoil(directory)

    with Runelog.open(directory, CODEC) as log:
        found = log.conversation("conv_a")
        assert (found.state, found.head) == (State.ARCHIVED, RUNES)
    assert [each.where for each in verify(directory).problems] == ["conv_a"]
    (tmp_path / "backup").rename(path)
    assert numbers(directory) == [*range(1, RUNES + 1)]
    assert verify(directory).problems == []
