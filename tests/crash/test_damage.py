"""Damaged files: a typed error or correct data, never a wrong rune, never a dead process."""

from __future__ import annotations

import contextlib
import random
import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from runelog.errors import RunefoldError
from runelog.index import NUMBER
from runelog.rune import State
from runelog.salvage import SalvageView
from runelog.store import Runelog
from tests.crash.guard import survived
from tests.crash.runs import scratch
from tests.crash.story import CODEC, SMALL, Step, content, open_log, play, stream, streams, worlds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from tests.crash.story import World

SEED: Final = 17
TALE: Final = (
    Step("append", ("conv_a",), 2),
    Step("append", ("conv_b",), 1, 300),
    Step("append", ("conv_c",), 2, 20, "note_3"),
    Step("append", ("conv_a",), 1, 20, "note_3"),
    Step("append", ("conv_a",), 2),
    Step("roll"),
    Step("append", ("conv_a",), 1),
    Step("append", ("conv_c",), 2),
    Step("append", ("conv_b",), 2, 20, "note_3"),
    Step("append", ("conv_a",), 1, 20, "note_3"),
    Step("append", ("conv_a",), 2),
)
"""One bit turns some of these names, numbers and counts into others of them.

Each step is a commit of its own: told again, the same story makes the same files.
"""
WORLD: Final = worlds(TALE)[-1]
STREAMS: Final = streams(TALE)
INDEX: Final = ("names", "heads", "events", "streams")
WALKED: Final = "clean"
"""Without it a log is walked through by child processes, which takes its time."""
FILES: Final = {
    "active": "segments/000002.0.mdb",
    "sealed": "segments/000001.0.mdb",
    "catalog": "catalog.0.mdb",
    "clean": "CLEAN",
    "manifest": "MANIFEST",
}
SEGMENTS: Final = ("active", "sealed")
BATCH: Final = 200
"""So many damages are tried in one child; if it dies, each of them is tried again alone."""
PATIENCE: Final = 120


class Damage(NamedTuple):
    """A bit to flip, or a length to cut the file to."""

    bit: int = -1
    length: int = -1

    def done(self, data: bytes) -> bytes:
        """Return what is left of a file."""
        if self.length >= 0:
            return data[: self.length]
        damaged = bytearray(data)
        damaged[self.bit // 8] ^= 1 << self.bit % 8
        return bytes(damaged)


def look(directory: Path, *, readonly: bool) -> None:
    """Read everything in a log that may be damaged: what can be read must be right."""
    try:
        log = Runelog.open(directory, CODEC, readonly=readonly, segment_size=SMALL)
    except RunefoldError:
        return
    with log:
        for name, (_, expected) in WORLD.items():
            try:
                found = content(log, name)
            except RunefoldError:
                continue
            assert found == expected, f"{name} reads {found}"
        check_streams(log)
        check_list(log)
        seen: World = {}
        try:
            for item in log.read_all():
                text = getattr(getattr(item, "payload", None), "text", "")
                name = item.conversation or ""
                seen[name] = (State.LIVE, (*seen.get(name, (State.LIVE, ()))[1], text))
        except RunefoldError:
            pass
        else:
            assert seen == WORLD, f"in the order of all: {seen}"
        for name, (_, expected) in seen.items():
            assert expected == WORLD[name][1][: len(expected)], f"in the order of all: {seen}"


def check_streams(log: Runelog) -> None:
    """Read every entity's stream, also from its middle: what can be read must be right."""
    for (name, entity), expected in STREAMS.items():
        with contextlib.suppress(RunefoldError):
            found = stream(log, name, entity)
            assert found == expected, f"the stream of {entity} in {name} reads {found}"
        with contextlib.suppress(RunefoldError):
            version = log.version(name, entity)
            assert version == len(expected), f"{entity} in {name} is at version {version}"
        with contextlib.suppress(RunefoldError):
            half = len(expected) // 2
            left = sum(1 for _ in log.stream(name, entity, after=half))
            assert left == len(expected) - half, f"{left} runes of {entity} in {name} are left"


def check_list(log: Runelog) -> None:
    """List all conversations: each must be there, and as long as it is."""
    with contextlib.suppress(RunefoldError):
        found = {one.id: one.head for one in log.conversations()}
        assert found == {name: len(runes) for name, (_, runes) in WORLD.items()}, f"lists {found}"


def try_all(file: str, damages: Sequence[Damage], *, readonly: bool = False) -> list[str]:
    """Damage a file of a closed log in each of these ways; return what went wrong."""
    with scratch() as root:
        play(root / "log", TALE, lambda _: None)
        kept = {path: path.read_bytes() for path in (root / "log").rglob("*") if path.is_file()}
        job = partial(_try_each, root, file, kept, readonly=readonly)
        if not survived(partial(job, damages), PATIENCE):
            return []
        wrong = {damage: survived(partial(job, [damage])) for damage in damages}
        return [f"{file} with {damage}: {told}" for damage, told in wrong.items() if told]


def _try_each(
    root: Path, file: str, kept: dict[Path, bytes], damages: Sequence[Damage], *, readonly: bool
) -> None:
    directory = root / "log"
    for damage in damages:
        for path in directory.rglob("*"):
            if path.is_file() and path not in kept:
                path.unlink()
        for path, data in kept.items():
            if not path.name.endswith("-lock"):
                path.write_bytes(data)
        target = directory / file
        target.write_bytes(damage.done(kept[target]))
        look(directory, readonly=readonly)


def size_of(file: str) -> int:
    """Return the length of a file of the log that is damaged here."""
    with scratch() as root:
        play(root / "log", TALE, lambda _: None)
        return (root / "log" / file).stat().st_size


def tried(
    pool: ProcessPoolExecutor, kind: str, damages: Sequence[Damage], *, readonly: bool = False
) -> list[str]:
    """Try damages in batches, in several processes."""
    batches = [damages[start : start + BATCH] for start in range(0, len(damages), BATCH)]
    job = partial(try_all, FILES[kind], readonly=readonly)
    return [wrong for batch in pool.map(job, batches) for wrong in batch]


def index_bits(kind: str) -> list[int]:
    """Return every bit of the index of a segment: of its entries, and of copies they left."""
    with scratch() as root:
        play(root / "log", TALE, lambda _: None)
        path = root / "log" / FILES[kind]
        data = path.read_bytes()
        with SalvageView.open(path) as view:
            entries = [key + value for table in INDEX for key, value in view.scan(table)]
    places = {at.start() for entry in entries for at in re.finditer(re.escape(entry), data)}
    ends = {at: max(len(e) for e in entries if data.startswith(e, at)) for at in places}
    return sorted({8 * at + bit for at, length in ends.items() for bit in range(8 * length)})


def flips(size: int, count: int) -> list[Damage]:
    """Choose so many bits of a file."""
    return [Damage(bit=bit) for bit in random.Random(SEED).sample(range(8 * size), count)]


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_flipped_bit_is_never_taken_for_a_rune(
    pool: ProcessPoolExecutor, kind: str, *, readonly: bool
) -> None:
    """With one of a sample of bits flipped, whatever of the log can be read is right."""
    size = pool.submit(size_of, FILES[kind]).result()
    count = 12 if kind == WALKED else min(8 * size, 300)

    assert tried(pool, kind, flips(size, count), readonly=readonly) == []


@pytest.mark.parametrize("kind", SEGMENTS)
def test_a_flipped_bit_of_the_index_is_never_taken_for_right(
    pool: ProcessPoolExecutor, kind: str
) -> None:
    """With one of a sample of bits of a segment's index flipped, whatever can be read is right."""
    bits = random.Random(SEED).sample(pool.submit(index_bits, kind).result(), 400)

    assert tried(pool, kind, [Damage(bit=bit) for bit in bits], readonly=True) == []
    assert tried(pool, kind, [Damage(bit=bit) for bit in bits[:100]]) == []


@pytest.mark.parametrize("kind", SEGMENTS)
def test_a_number_that_became_anothers_is_found(pool: ProcessPoolExecutor, kind: str) -> None:
    """A conversation whose name leads to another one's number is not read as that one."""
    every = pool.submit(places_of, kind, b"conv_a" + NUMBER.pack(1)).result()
    damages = [Damage(bit=8 * (at + 9) + 1) for at in every]

    assert damages
    assert tried(pool, kind, damages, readonly=True) == []


def places_of(kind: str, what: bytes) -> list[int]:
    """Return where some bytes are in a file of the log that is damaged here."""
    with scratch() as root:
        play(root / "log", TALE, lambda _: None)
        data = (root / "log" / FILES[kind]).read_bytes()
    return [at.start() for at in re.finditer(re.escape(what), data)]


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", SEGMENTS)
def test_no_flipped_bit_of_the_index_is_ever_taken_for_right(
    pool: ProcessPoolExecutor, kind: str
) -> None:
    """With any one bit of a segment's index flipped, whatever can be read is right."""
    every = [Damage(bit=bit) for bit in pool.submit(index_bits, kind).result()]

    assert tried(pool, kind, every, readonly=True) == []
    assert tried(pool, kind, every) == []


@pytest.mark.parametrize("kind", FILES)
def test_a_file_cut_short_is_never_taken_for_whole(pool: ProcessPoolExecutor, kind: str) -> None:
    """Cut at any 512 bytes, the manifest at any byte, whatever of the log can be read is right."""
    size = pool.submit(size_of, FILES[kind]).result()
    step = 512 if size > 4_096 else 23 if kind == WALKED else 1
    cuts = [Damage(length=length) for length in range(0, size, step)]

    assert tried(pool, kind, cuts) == []


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(16))
@pytest.mark.parametrize("kind", FILES)
def test_no_flipped_bit_is_ever_taken_for_a_rune(
    pool: ProcessPoolExecutor, kind: str, part: int
) -> None:
    """With any one bit flipped, whatever of the log can be read is right."""
    size = pool.submit(size_of, FILES[kind]).result()
    every = [Damage(bit=bit) for bit in range(part, 8 * size, 16)]

    assert tried(pool, kind, every, readonly=True) == []
    assert tried(pool, kind, every[:: len(every) // 100 + 1]) == []


@pytest.mark.crash
@pytest.mark.timeout(7_200)
def test_no_flipped_bit_is_taken_for_a_rune_in_an_unclean_log(pool: ProcessPoolExecutor) -> None:
    """With a bit flipped in a log that was not closed, whatever can be read is right."""
    size = pool.submit(size_of, FILES["active"]).result()

    assert [*pool.map(partial(unclean, "active"), flips(size, 400))] == [""] * 400


@pytest.mark.crash
@pytest.mark.timeout(7_200)
def test_no_flipped_bit_of_the_index_is_taken_for_right_in_an_unclean_log(
    pool: ProcessPoolExecutor,
) -> None:
    """With any bit of the index flipped in a log that was not closed, what can be read is right."""
    every = [Damage(bit=bit) for bit in pool.submit(index_bits, "active").result()]

    assert [wrong for wrong in pool.map(partial(unclean, "active"), every) if wrong] == []


def test_a_flipped_bit_of_the_index_in_an_unclean_log_is_found(pool: ProcessPoolExecutor) -> None:
    """With a bit of the index flipped in a log that was not closed, what can be read is right."""
    bits = random.Random(SEED).sample(pool.submit(index_bits, "active").result(), 40)
    wrong = pool.map(partial(unclean, "active"), [Damage(bit=bit) for bit in bits])

    assert [*wrong] == [""] * 40


def test_a_flipped_bit_in_an_unclean_log_is_found(pool: ProcessPoolExecutor) -> None:
    """With a bit flipped in a log that was not closed, whatever can be read is right."""
    size = pool.submit(size_of, FILES["active"]).result()

    assert [*pool.map(partial(unclean, "active"), flips(size, 12))] == [""] * 12


def unclean(kind: str, damage: Damage) -> str:
    """Damage a log that has no CLEAN; return what went wrong."""
    with scratch() as root:
        play(root / "log", TALE, lambda _: None)
        (root / "log" / "CLEAN").unlink()
        target = root / "log" / FILES[kind]
        target.write_bytes(damage.done(target.read_bytes()))
        told = survived(partial(look, root / "log", readonly=False))
        return f"{kind} with {damage}: {told}" if told else ""


def newer(root: Path) -> None:
    """Write a manifest that a later version might have written, and look."""
    open_log(root / "log").close()
    path = root / "log" / "MANIFEST"
    path.write_bytes(path.read_bytes().replace(b"runefold 1 ", b"runefold 2 "))
    for readonly in (False, True):
        with pytest.raises(RunefoldError, match="format 2"):
            Runelog.open(root / "log", CODEC, readonly=readonly)


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    """A log of a later format is refused by name, and left as it is."""
    newer(tmp_path)

    assert b"runefold 2 " in (tmp_path / "log" / "MANIFEST").read_bytes()
