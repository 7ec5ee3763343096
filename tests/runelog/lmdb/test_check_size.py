"""Rules about a file before it is mapped: what LMDB would choose by must be beyond doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runelog.errors import Corrupt
from runelog.lmdb.salvage import SalvageView, check_size
from tests.runelog.damaged_files import TABLES, agrees, everything
from tests.runelog.lmdb_file import PAGE, changed, commits_of, content

if TYPE_CHECKING:
    from pathlib import Path


def test_check_size_names_file_and_sizes(tmp_path: Path, small: Path) -> None:
    """The message says which file, how long it is and how long it should be."""
    data = small.read_bytes()
    path = tmp_path / "segment.mdb"
    path.write_bytes(data[: len(data) - PAGE])

    with pytest.raises(Corrupt, match=rf"segment\.mdb.*{len(data) - PAGE:,}.*{len(data):,}"):
        check_size(path)


def test_space_reserved_behind_the_last_page_is_fine(tmp_path: Path, small: Path) -> None:
    """A file may be longer than its pages: disk space is reserved ahead."""
    path = tmp_path / "segment.mdb"
    path.write_bytes(small.read_bytes() + bytes(1 << 20))

    check_size(path)
    with SalvageView.open(path) as view:
        assert agrees(view, content(small, TABLES))


@pytest.mark.parametrize(
    ("place", "new", "said"),
    [
        (0, b"\7", "does not say that it is one"),
        (16, b"\0", "LMDB"),
        (20, b"\3", "format 3"),
        (40, b"\1", "page size"),
        (136, b"\0\0\0\0", "last page"),
        (144, b"\x0b", "commit"),
        (144, b"\xf0", "do not follow"),
    ],
)
def test_check_size_refuses_a_damaged_header(
    tmp_path: Path, small: Path, place: int, new: bytes, said: str
) -> None:
    """What LMDB would choose a state by must be beyond doubt before it may choose."""
    path = tmp_path / "segment.mdb"
    path.write_bytes(changed(small.read_bytes(), {place: new}))

    with pytest.raises(Corrupt, match=said):
        check_size(path)


@pytest.mark.parametrize("slot", [0, 1])
def test_commits_in_the_wrong_order_are_told(tmp_path: Path, small: Path, slot: int) -> None:
    """A count that went wrong must not bring the state before the last commit back in silence."""
    path = tmp_path / "segment.mdb"
    place = slot * PAGE + 144
    data = small.read_bytes()
    path.write_bytes(changed(data, {place: bytes([data[place] ^ 2])}))

    assert sorted(commits_of(data)) == [5, 6]
    with pytest.raises(Corrupt, match="is older than commit"):
        check_size(path)
    with SalvageView.open(path) as view:
        assert "is older than commit" in view.problems[0]
        assert everything(view, "names") == content(small, TABLES)["names"]


def test_check_size_says_that_a_file_is_missing(tmp_path: Path) -> None:
    """A file that the log lists and that is not there is damage too."""
    with pytest.raises(Corrupt, match="missing"):
        check_size(tmp_path / "nothing.mdb")
