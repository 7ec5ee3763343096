"""Rules about reading damaged files: what is sound is read, the rest is told, nothing crashes."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runelog.errors import Corrupt
from runelog.lmdb.salvage import SalvageView, check_size
from tests.runelog.damaged_files import (
    TABLES,
    Entries,
    agrees,
    everything,
    position,
    value_of,
)
from tests.runelog.lmdb_file import (
    BRANCH,
    PAGE,
    build,
    changed,
    commits_of,
    content,
    flipped,
    leaf_of,
    number_at,
    pages_of,
    table_list,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

keys = st.binary(min_size=1, max_size=20) | st.binary(min_size=1, max_size=511)
values = st.none() | st.binary(max_size=60) | st.integers(0, 20_000).map(lambda n: b"v" * n)
commits = st.lists(
    st.lists(st.tuples(st.sampled_from(TABLES), keys, values), max_size=60), max_size=8
)


# -- sound files -----------------------------------------------------------------------------------


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(commits)
def test_a_sound_file_reads_as_with_lmdb(
    history: list[list[tuple[str, bytes, bytes | None]]],
) -> None:
    """Whatever was written and deleted, get, floor, scan and salvage give what LMDB gives."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "file.mdb"
        build(path, TABLES, history)

        check_size(path)
        with SalvageView.open(path) as view:
            assert agrees(view, content(path, TABLES))


def test_a_large_file_reads_as_with_lmdb(large: Path) -> None:
    """Several levels, overflow pages, deletes and a list of free pages change nothing."""
    with SalvageView.open(large) as view:
        assert agrees(view, content(large, TABLES), step=23)


def test_scan_keeps_to_its_bounds(large: Path) -> None:
    """A scan gives start <= key < stop, no more than the limit, and about a MiB at most."""
    entries = content(large, TABLES)["runes"]
    with SalvageView.open(large) as view:
        start, stop = entries[100][0], entries[200][0]

        assert view.scan("runes", start, stop) == entries[100:200]
        assert view.scan("runes", start, stop, 7) == entries[100:107]
        assert view.scan("runes", start + b"\0", None, 3) == entries[101:104]
        assert view.scan("runes", stop, start) == []
        assert view.scan("runes", entries[-1][0] + b"\0") == []
        assert sum(len(value) for _, value in view.scan("runes")) < 2 << 20


def test_a_table_that_is_not_there_is_an_error(small: Path) -> None:
    """A table whose name was damaged must not look like an empty one."""
    with SalvageView.open(small) as view:
        assert everything(view, "heads") == []
        with pytest.raises(Corrupt, match="runas"):
            view.get("runas", b"key")


# -- damage at a chosen place ----------------------------------------------------------------------


def test_a_page_without_any_sound_entry_is_damage(tmp_path: Path) -> None:
    """Where the only entry of a page is said to reach beyond it, that is told as Corrupt."""
    path = tmp_path / "file.mdb"
    data = build(path, TABLES, [[("runes", b"key", b"value")]])
    leaf = leaf_of(data, b"key")
    entry = int.from_bytes(data[leaf * PAGE + 16 :][:2], sys.byteorder)
    view = SalvageView.of(changed(data, {leaf * PAGE + entry: b"\xff\xff"}))

    assert not view.complete("runes")
    with pytest.raises(Corrupt, match="does not fit"):
        view.get("runes", b"key")


def test_a_lost_leaf_costs_only_what_was_on_it(large: Path) -> None:
    """Reading runs into Corrupt exactly where entries are missing, and salvage gives all others."""
    data = large.read_bytes()
    entries = dict(content(large, TABLES)["runes"])
    lost = leaf_of(data, position(7000))
    view = SalvageView.of(changed(data, {lost * PAGE: b"\xff" * PAGE}))
    left = dict(view.salvage("runes"))

    assert left.items() <= entries.items()
    assert 0 < len(entries) - len(left) < 40
    assert not view.complete("runes")
    assert view.complete("names")
    assert any(f"page {lost}" in problem for problem in view.problems)
    for key, value in left.items():
        assert view.get("runes", key) == value
    for key in entries.keys() - left.keys():
        with pytest.raises(Corrupt, match=f"page {lost}"):
            view.get("runes", key)
        with pytest.raises(Corrupt):
            view.floor("runes", key)
    with pytest.raises(Corrupt):
        everything(view, "runes")


def test_leaves_that_lost_their_parents_are_found(large: Path) -> None:
    """With every branch destroyed, the leaves still hold all entries, and salvage finds them."""
    data = large.read_bytes()
    branches = pages_of(data, BRANCH)
    view = SalvageView.of(changed(data, {n * PAGE: bytes(PAGE) for n in branches}))
    entries = content(large, TABLES)["runes"]

    found = dict(view.salvage("runes", lambda key, _: len(key) == 8))

    assert len(branches) > 3
    assert all(found[key] == value for key, value in entries)
    assert [*found] == sorted(found)


def test_without_any_header_the_leaves_are_still_found(large: Path) -> None:
    """Even with both meta pages gone nothing is thrown away that a leaf still holds."""
    data = large.read_bytes()
    view = SalvageView.of(changed(data, {0: bytes(2 * PAGE)}))

    found = dict(view.salvage("runes", lambda key, _: len(key) == 8))

    assert all(found[key] == value for key, value in content(large, TABLES)["runes"])
    with pytest.raises(Corrupt, match="meta page 0"):
        view.get("runes", position(1))


def test_a_lost_list_of_tables_is_taken_from_the_commit_before(small: Path) -> None:
    """The state before the last commit is still in the file: salvage starts from there."""
    data = small.read_bytes()
    listing = table_list(data)
    view = SalvageView.of(changed(data, {listing * PAGE: bytes(PAGE)}))

    found = dict(view.salvage("runes"))

    assert found.items() >= dict(content(small, TABLES)["runes"]).items()
    assert not view.complete("runes")
    assert any("before the last commit" in problem for problem in view.problems)
    with pytest.raises(Corrupt):
        view.get("runes", position(1))


@pytest.mark.parametrize("slot", [0, 1])
def test_a_damaged_meta_page_leaves_the_other(small: Path, slot: int) -> None:
    """The file is read as of the other one, and the view says so."""
    data = small.read_bytes()
    newest = commits_of(data)[slot] == max(commits_of(data))
    view = SalvageView.of(changed(data, {slot * PAGE + 16: b"\0\0\0\0"}))

    assert f"meta page {slot}" in view.problems[0]
    assert view.stale == newest
    assert view.complete("runes") != newest
    assert [key for key, _ in everything(view, "names")] == [b"conv_a", b"conv_b"][: 2 - newest]


def test_a_table_that_uses_another_ones_page_is_not_read(small: Path) -> None:
    """Two tables with one root: no telling whose it is, so neither is believed."""
    data = small.read_bytes()
    page = table_list(data) * PAGE
    names, runes = (data.index(name, page, page + PAGE) + 5 for name in (b"names", b"runes"))
    view = SalvageView.of(changed(data, {names + 40: data[runes + 40 : runes + 48]}))

    for table in ("names", "runes"):
        assert not view.complete(table) or view.check()
        with pytest.raises(Corrupt):
            everything(view, table)


def test_a_free_page_that_is_in_use_is_told(small: Path) -> None:
    """A writer would overwrite it with its next commit, so it must be known before there is one."""
    data = small.read_bytes()
    newest = commits_of(data).index(max(commits_of(data)))
    behind = (number_at(data, newest * PAGE + 80) + 1) * PAGE
    last_free = behind - 8

    def check(number: int) -> list[str]:
        new = number.to_bytes(8, sys.byteorder)
        return SalvageView.of(changed(data, {last_free: new})).check()

    assert check(number_at(data, last_free)) == []
    assert any("is in use" in problem for problem in check(table_list(data)))
    assert any("damaged" in problem for problem in check(1))
    assert any("damaged" in problem for problem in check(1 << 40))


def test_a_circle_of_pages_ends(large: Path) -> None:
    """A branch that leads back to itself is damage like any other."""
    data = large.read_bytes()
    branches = pages_of(data, BRANCH)
    changes = {}
    for number in branches:
        start = number * PAGE
        first = int.from_bytes(data[start + 16 : start + 18], "little")
        changes[start + first] = number.to_bytes(6, "little")
    view = SalvageView.of(changed(data, changes))

    assert view.check()
    with pytest.raises(Corrupt):
        everything(view, "runes")


def test_a_file_cut_while_it_is_read_raises(tmp_path: Path, large: Path) -> None:
    """Nothing is mapped: pages that go missing under an open view are damage, not a bus error."""
    path = tmp_path / "cut.mdb"
    path.write_bytes(large.read_bytes())
    with SalvageView.open(path) as view:
        assert view.get("runes", position(1)) == value_of(1)
        with path.open("r+b") as file:
            file.truncate(3 * PAGE)

        with pytest.raises(Corrupt):
            everything(view, "runes")


# -- damage everywhere -----------------------------------------------------------------------------


def alike(found: Entries, expected: Entries) -> bool:
    """Tell whether entries are as expected, but for a bit or for where a large value ends."""
    if len(found) != len(expected):
        return False
    different = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    for (key, value), (other_key, other_value) in different:
        long, short = sorted((value, other_value), key=len, reverse=True)
        one, other = (
            int.from_bytes(part, "big") for part in (key + value, other_key + other_value)
        )
        cut = key == other_key and len(long) > PAGE // 2 and long.startswith(short)
        if not cut and (len(long) != len(short) or (one ^ other).bit_count() != 1):
            return False
    return len(different) <= 1


def examine(data: bytes, expected: dict[str, Entries]) -> None:
    """Ask a view of damaged bytes everything: it may raise Corrupt, and may not lie."""
    view = SalvageView.of(data)
    for table, entries in expected.items():
        for _ in view.salvage(table):
            pass
        try:
            found = everything(view, table)
            view.floor(table, b"\xff")
            view.get(table, b"conv_a")
        except Corrupt:
            assert view.problems
        else:
            assert view.stale or alike(found, entries)


def sampled_bits(data: bytes) -> Iterator[int]:
    """Yield a bit of each byte where pages describe themselves, of every fifth elsewhere."""
    for byte in range(len(data)):
        if byte % PAGE < 160 or byte % 5 == 0:
            yield byte * 8 + byte * 3 % 8


def test_no_changed_bit_is_more_than_damage(small: Path) -> None:
    """A bit of any byte changed: the right entries, or Corrupt, or the one bit inside an entry."""
    data = small.read_bytes()
    expected = content(small, TABLES)
    for bit in sampled_bits(data):
        examine(flipped(data, bit), expected)


@pytest.mark.crash
@pytest.mark.parametrize("bit", range(8))
def test_no_changed_bit_at_all_is_more_than_damage(small: Path, bit: int) -> None:
    """The same for every single bit."""
    data = small.read_bytes()
    expected = content(small, TABLES)
    for byte in range(len(data)):
        examine(flipped(data, byte * 8 + bit), expected)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=24)), max_size=30)
)
def test_hostile_bytes_only_raise(small: Path, writes: list[tuple[int, bytes]]) -> None:
    """However much of a file is overwritten, reading it ends, with entries or with Corrupt."""
    data = small.read_bytes()
    view = SalvageView.of(changed(data, {at % len(data): new for at, new in writes})[: len(data)])

    for table in TABLES:
        found = [key for key, _ in view.salvage(table)]
        assert found == sorted(set(found))
        with contextlib.suppress(Corrupt):
            view.scan(table)


@given(st.binary(max_size=3 * PAGE))
def test_bytes_that_are_no_file_at_all(data: bytes) -> None:
    """Something else altogether is told to be something else, and holds nothing."""
    view = SalvageView.of(data)

    assert view.problems
    assert list(view.salvage("runes")) == []
    with pytest.raises(Corrupt):
        view.get("runes", b"key")


def test_a_file_cut_anywhere_is_refused_or_right(tmp_path: Path, small: Path) -> None:
    """Cut at every 512 bytes: refused before it is mapped, or nothing of it is missing."""
    data = small.read_bytes()
    expected = content(small, TABLES)
    path = tmp_path / "cut.mdb"
    for size in range(0, len(data), 512):
        path.write_bytes(data[:size])
        examine(data[:size], expected)
        with pytest.raises(Corrupt, match=r"cut\.mdb"):
            check_size(path)
