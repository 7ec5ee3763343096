"""Damaged files: a typed error or correct data, never a wrong rune, never a dead process."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.errors import RunefoldError
from runelog.index.catalog import TABLES as CATALOG_TABLES
from runelog.index.records import NUMBER
from runelog.lmdb.environment import TABLES
from runelog.lmdb.pages import BRANCH, LEAF, META, OVERFLOW
from runelog.lmdb.salvage import SalvageView
from runelog.store import Runelog
from tests.crash.damage import (
    FILES,
    INDEX,
    SEED,
    SEGMENTS,
    TALE,
    WORLD,
    Damage,
    Scene,
    data_of,
    filled_bits,
    flips,
    places_of,
    size_of,
    staged,
    table_bits,
    tried,
    visible_bits,
)
from tests.crash.small import SMALL_PAGE
from tests.crash.story import CODEC, open_log, work
from tests.crash.tally import SWEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

LARGE: Final = (*SEGMENTS, "catalog")
SHORT: Final = ("clean", "manifest")
PARTS: Final = 4
WRITTEN: Final = 5
"""One of so many bits is flipped once more, and the log opened for writing."""
UNSIGNED: Final = ("names", "events", "streams")
"""What of a segment's index has no checksums, and is held against the runes."""
SIGNED: Final = (("active", ("heads", "work")), ("catalog", CATALOG_TABLES))
"""What has checksums, as no runes can tell whether it is right."""


def bits(chosen: Sequence[int]) -> list[Damage]:
    """Return the flips of these bits."""
    return [Damage(bit=bit) for bit in chosen]


def some(chosen: Sequence[int], count: int) -> list[Damage]:
    """Return the flips of so many of these bits."""
    return bits(random.Random(SEED).sample(chosen, count))


# -- what is damaged here --------------------------------------------------------------------------


def test_the_tale_is_told_in_full(pool: ProcessPoolExecutor) -> None:
    """What every damaged log is compared with is what was written."""
    answers = pool.submit(told).result()
    runes = [one for one in answers["all"] if isinstance(one, tuple)]

    assert {name: [one[-1] for one in runes if one[1] == name] for name in WORLD} == {
        name: [*written] for name, (_, written) in WORLD.items()
    }
    assert len(answers["all"]) == len(runes) + 1, "there is one gap, where one was erased"
    assert answers["work"] == work(TALE)
    assert answers["conv_a note_3"] == [
        one for one in runes if one[1] == "conv_a" and one[3] == "note_3"
    ]


def told() -> dict[str, list[object]]:
    """Return what the log says before it is damaged."""
    with staged(Scene("active")) as stage:
        return stage.expected


def test_small_pages_leave_nothing_out(pool: ProcessPoolExecutor) -> None:
    """Between them the files of small pages have entries in every table, and every kind of page."""
    files = [pool.submit(data_of, Scene(kind, small=True)).result() for kind in LARGE]
    filled = set()
    kinds = set()
    for data in files:
        view = SalvageView.of(data)
        filled |= {table for table, record in view._survey.tables.items() if record.entries}
        starts = range(0, len(data), SMALL_PAGE)
        kinds |= {int.from_bytes(data[at + 10 : at + 12], "little") for at in starts}

    assert filled == {*TABLES, *CATALOG_TABLES}
    assert kinds >= {BRANCH, LEAF, OVERFLOW, META}


# -- closed logs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", FILES)
def test_a_flipped_bit_is_never_taken_for_a_rune(
    warm: ProcessPoolExecutor, kind: str, *, readonly: bool
) -> None:
    """With one of a sample of bits flipped, whatever of the log can be read is right."""
    scene = Scene(kind, readonly=readonly)
    size = warm.submit(size_of, scene).result()
    count = 12 if scene.walked else min(8 * size, 200)

    assert tried(warm, scene, flips(size, count)) == []


@pytest.mark.parametrize("kind", LARGE)
def test_a_flipped_bit_is_never_taken_for_a_rune_on_small_pages(
    pool: ProcessPoolExecutor, kind: str
) -> None:
    """The same for trees of several levels, and for values that are large."""
    scene = Scene(kind, readonly=True, small=True)
    chosen = pool.submit(filled_bits, scene).result()

    assert tried(pool, scene, some(chosen, 200)) == []


@pytest.mark.parametrize("kind", SEGMENTS)
def test_a_flipped_bit_of_the_index_is_never_taken_for_right(
    pool: ProcessPoolExecutor, kind: str
) -> None:
    """With one of a sample of bits of a segment's index flipped, whatever can be read is right."""
    scene = Scene(kind, readonly=True)
    chosen = some(pool.submit(table_bits, scene).result(), 400)

    assert tried(pool, scene, chosen) == []
    assert tried(pool, scene._replace(readonly=False), chosen[:100]) == []


@pytest.mark.parametrize("kind", SEGMENTS)
def test_a_number_that_became_anothers_is_found(pool: ProcessPoolExecutor, kind: str) -> None:
    """A conversation whose name leads to another one's number is not read as that one."""
    scene = Scene(kind, readonly=True)
    every = pool.submit(places_of, scene, b"conv_a" + NUMBER.pack(1)).result()

    assert every
    assert tried(pool, scene, bits([8 * (at + 9) + 1 for at in every])) == []


@pytest.mark.parametrize("kind", FILES)
def test_a_file_cut_short_is_never_taken_for_whole(warm: ProcessPoolExecutor, kind: str) -> None:
    """Cut at any 512 bytes, the manifest at any byte, whatever of the log can be read is right."""
    scene = Scene(kind)
    size = warm.submit(size_of, scene).result()
    step = 512 if size > 4_096 else 23 if scene.walked else 1
    cuts = [Damage(length=length) for length in range(0, size, step)]

    assert tried(warm, scene, cuts) == []


# -- logs that were not closed ---------------------------------------------------------------------


def test_a_flipped_bit_in_an_unclean_log_is_found(pool: ProcessPoolExecutor) -> None:
    """With a bit flipped in a log that was not closed, whatever can be read is right."""
    scene = Scene("active", unclean=True)
    size = pool.submit(size_of, scene).result()

    assert tried(pool, scene, flips(size, 12)) == []


def test_a_flipped_bit_of_the_index_in_an_unclean_log_is_found(warm: ProcessPoolExecutor) -> None:
    """With a bit of the index flipped in a log that was not closed, what can be read is right."""
    scene = Scene("active", unclean=True)
    chosen = some(warm.submit(table_bits, scene, UNSIGNED).result(), 40)

    assert tried(warm, scene, chosen) == []


@pytest.mark.parametrize(("kind", "tables"), SIGNED)
def test_what_no_rune_can_vouch_for_has_a_checksum(
    warm: ProcessPoolExecutor, kind: str, tables: tuple[str, ...]
) -> None:
    """A bit flipped in open work, in a head or anywhere in the catalog is found after a crash."""
    scene = Scene(kind, unclean=True)
    chosen = some(warm.submit(table_bits, scene, tables).result(), 40)

    assert tried(warm, scene, chosen) == []


# -- sweeps ----------------------------------------------------------------------------------------


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", SEGMENTS)
def test_no_flipped_bit_is_ever_taken_for_a_rune(
    warm: ProcessPoolExecutor, kind: str, part: int, record_property: Callable[[str, object], None]
) -> None:
    """With any one bit of a segment flipped, whatever it is a bit of, what can be read is right.

    Where a bit changes what is seen of its page, all is asked, and with one of `WRITTEN` of those
    the log is opened for writing, too; elsewhere what is asked reads every rune.
    """
    scene = Scene(kind, readonly=True, small=True)
    seen = {*warm.submit(visible_bits, scene).result()}
    count = 8 * warm.submit(size_of, scene).result()
    every = range(count)[part::PARTS]
    fully = bits([bit for bit in every if bit in seen])
    briefly = bits([bit for bit in every if bit not in seen])
    written = fully[::WRITTEN]

    assert tried(warm, scene, fully) == []
    assert tried(warm, scene._replace(brief=True), briefly) == []
    assert tried(warm, scene._replace(readonly=False), written) == []
    record_property(
        SWEPT,
        f"{len(fully) + len(briefly):,} of {count:,} bits flipped, all asked with {len(fully):,} "
        f"of them, opened for writing with {len(written):,}",
    )


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", SEGMENTS)
def test_no_flipped_bit_of_the_index_is_ever_taken_for_right(
    warm: ProcessPoolExecutor, kind: str, *, readonly: bool
) -> None:
    """With any one bit of a segment's index flipped, on large pages, the same."""
    scene = Scene(kind, readonly=readonly)
    every = bits(warm.submit(table_bits, scene).result())

    assert tried(warm, scene, every) == []


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("readonly", [False, True])
def test_a_catalog_with_any_flipped_bit_is_not_used(
    warm: ProcessPoolExecutor, *, readonly: bool
) -> None:
    """With many bits of a closed log's catalog flipped, each by itself, nothing is read wrongly."""
    scene = Scene("catalog", readonly=readonly)
    chosen = warm.submit(filled_bits, scene).result()

    assert tried(warm, scene, some(chosen, 2_000)) == []


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("kind", SHORT)
def test_no_flipped_bit_of_a_short_file_is_ever_believed(
    warm: ProcessPoolExecutor, kind: str, *, readonly: bool
) -> None:
    """With any one bit of MANIFEST or CLEAN flipped, whatever of the log can be read is right."""
    scene = Scene(kind, readonly=readonly)
    every = range(8 * warm.submit(size_of, scene).result())

    assert tried(warm, scene, bits(every)) == []


@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["active", "catalog"])
def test_no_flipped_bit_is_taken_for_a_rune_in_an_unclean_log(
    warm: ProcessPoolExecutor, kind: str, part: int
) -> None:
    """With any bit of the index, or one of many others, flipped in a log that was not closed."""
    scene = Scene(kind, small=True, unclean=True)
    tables = CATALOG_TABLES if kind == "catalog" else INDEX
    index = warm.submit(partial(table_bits, scene, tables, copies=False)).result()
    others = warm.submit(filled_bits, scene).result()[::4]
    every = bits(sorted({*index, *others})[part::PARTS])

    assert tried(warm, scene, every) == []
    assert tried(warm, scene._replace(readonly=True), every[::20]) == []


# -- other formats ---------------------------------------------------------------------------------


def newer(root: Path) -> None:
    """Write a manifest that a later version might have written, and look."""
    open_log(root / "log").close()
    path = root / "log" / "MANIFEST"
    path.write_bytes(path.read_bytes().replace(b"runefold 2 ", b"runefold 3 "))
    for readonly in (False, True):
        with pytest.raises(RunefoldError, match="format 3"):
            Runelog.open(root / "log", CODEC, readonly=readonly)


def test_a_newer_log_is_refused(tmp_path: Path) -> None:
    """A log of a later format is refused by name, and left as it is."""
    newer(tmp_path)

    assert b"runefold 3 " in (tmp_path / "log" / "MANIFEST").read_bytes()
