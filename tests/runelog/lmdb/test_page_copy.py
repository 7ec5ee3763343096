"""Rules about copying an LMDB file that is being written: the copy is one commit, whole."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING, Final, cast

import pytest

from runelog.errors import Busy
from runelog.lmdb.environment import Environment
from runelog.lmdb.page_copy import pinned
from runelog.lmdb.salvage import SalvageView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.lmdb.environment import Batch

TABLES: Final = ("names", "meta")
SEED: Final = 41


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Environment]:
    """Make a file with entries and free pages."""
    found = Environment(tmp_path / "file.mdb", map_size=16 << 20, tables=TABLES, create=True)
    for number in range(30):
        commit(found, number)
    yield found
    found.close()


def commit(env: Environment, number: int) -> None:
    """Write something everywhere, so that pages are copied, freed and used again."""
    rng = random.Random(number)
    with env.batch() as batch:
        for _ in range(40):
            key = b"%03d" % rng.randrange(300)
            if rng.random() < 0.4:
                batch.delete("names", key)
            else:
                batch.put("names", key, b"%d " % number * rng.randrange(1, 600))
        batch.put("meta", b"last", b"%d" % number)


class Hasty:
    """An environment in which something happens right after a transaction has begun."""

    def __init__(self, env: Environment, then: Callable[[], None]) -> None:
        """Do `then` each time."""
        self.path = env.path
        self._env = env
        self._then = then

    @contextlib.contextmanager
    def view(self) -> Iterator[Batch]:
        """Give a state to read from that is not the newest any more."""
        with self._env.view() as view:
            self._then()
            yield view


def contents(path: Path) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
    """Return what a copy holds, if every page of it is sound."""
    with SalvageView.open(path) as view:
        assert view.check() == []
        found = view.scan("names", limit=10_000)
        last = view.get("meta", b"last")
    env = Environment(path, map_size=path.stat().st_size, tables=TABLES, readonly=True, lock=False)
    with env.view() as mapped:
        assert mapped.scan("names", limit=10_000) == found
    env.close()
    return found, last


def test_a_copy_is_what_was_pinned(env: Environment, tmp_path: Path) -> None:
    """However often the file is written to until it is copied."""
    for number in range(30, 60, 10):
        copy = tmp_path / f"copy_{number}"
        with pinned(env) as pages, env.view() as view:
            before = view.scan("names", limit=10_000), view.get("meta", b"last")
            for each in range(number, number + 10):
                commit(env, each)
            with copy.open("wb") as file:
                _, size = pages.copy_to(file)

        assert contents(copy) == before
        assert copy.stat().st_size == size == pages.size


@pytest.mark.parametrize("commits", [1, 2, 3])
def test_a_commit_that_comes_first_is_noticed(
    env: Environment, tmp_path: Path, commits: int
) -> None:
    """What is pinned is then no more what the file's header tells of: another one is pinned."""
    numbers = iter(range(100, 100 + 2 * commits))

    def write() -> None:
        for _, number in zip(range(commits), numbers, strict=False):
            commit(env, number)

    hasty = cast("Environment", Hasty(env, write))
    with pinned(hasty) as pages, (tmp_path / "copy").open("wb") as file:
        pages.copy_to(file)
        found = pages.view.scan("names", limit=10_000), pages.view.get("meta", b"last")

    assert contents(tmp_path / "copy") == found
    assert found[1] == b"%d" % (99 + 2 * commits)


def test_a_file_that_is_never_at_rest_is_given_up(env: Environment) -> None:
    """After many looks, with the advice to come again."""
    numbers = iter(range(1_000_000))
    hasty = cast("Environment", Hasty(env, lambda: commit(env, next(numbers))))
    with pytest.raises(Busy, match="try again later"), pinned(hasty):
        pass
