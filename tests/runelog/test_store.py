"""The log on LMDB keeps the contract, within one handle and from one to the next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract import CODEC, DurableLogContract
from runefold.testing.contract.archiving import Archiving
from runefold.testing.contract.base import A, B, notes, texts
from runefold.testing.contract.reopening import Reopening
from runelog.rune import State
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runelog.log import Log

SMALL = 1 << 20
"""A segment that a test can fill."""


class _OnLmdb:
    """Makes logs on LMDB, and opens them again."""

    segment_size = 256 << 20

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.root = tmp_path
        self.paths: dict[int, tuple[Path, Callable[[], int]]] = {}

    def make_log(self, *, clock: Callable[[], int] = time.time_ns) -> Log:
        """Make a log in a directory of its own."""
        return self._open(self.root / f"log_{len(self.paths)}", clock)

    def reopen(self, log: Log, *, clock: Callable[[], int] | None = None) -> Log:
        """Close the log and open its directory again."""
        path, before = self.paths[id(log)]
        log.close()
        return self._open(path, clock or before)

    def _open(self, path: Path, clock: Callable[[], int]) -> Log:
        log = Runelog.open(path, CODEC, clock=clock, segment_size=self.segment_size)
        self.paths[id(log)] = (path, clock)
        return log


class TestRunelog(_OnLmdb, DurableLogContract):
    """`Runelog` is a log like any other, and there is more to it than its handle."""


class TestRunelogInSmallSegments(_OnLmdb, DurableLogContract):
    """However often it has to roll on the way, it is the same log."""

    segment_size = SMALL


class TestRunelogOnDisk(_OnLmdb, Archiving, Reopening):
    """Where files are moved, written anew and read again, a real disk is no different."""

    segment_size = SMALL

    @pytest.fixture(autouse=True)
    def _on_disk(self, _place: None, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.root = tmp_path_factory.mktemp("on_disk")


@pytest.mark.parametrize("verb", ["archive", "erase"])
@pytest.mark.parametrize("count", range(50, 401, 50))
def test_a_segment_is_rewritten_however_full_it_is(tmp_path: Path, verb: str, count: int) -> None:
    """Taking a conversation out of a segment needs more room than the segment has, and gets it."""
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL) as log:
        log.append(A, [notes("note_1", "a")])
        log.append(B, [notes("note_1", *["many words " * 150] * count)])
        log.append(A, [notes("note_1", "b")])
        getattr(log, verb)(A)

        assert len(texts(log.read(B))) == count
        assert log.conversation(A).state is not State.LIVE


def test_a_log_stays_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that changes its directory writes large fields where the others are."""
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    monkeypatch.chdir(home)
    large = "x" * (2 << 20)
    with Runelog.open("log", CODEC) as log:
        monkeypatch.chdir(other)
        log.append(A, [notes("note_1", large)])
    with Runelog.open(home / "log", CODEC) as again:
        kept = texts(again.read(A))

    assert kept == [large]
    assert not list(other.iterdir())
