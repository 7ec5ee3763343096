"""A disk with next to nothing left: whatever is asked of a log, work goes on once there is room."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.errors import LogFull
from runelog.lmdb.environment import Environment
from runelog.store import Runelog
from tests.crash import mounts
from tests.crash.judge import sound
from tests.crash.story import CODEC, content, open_log
from tests.crash.test_room import put, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

LEFT: Final = tuple(range(0, 68, 4))
"""How many KiB are left free."""


def leave(root: Path, kibibytes: int) -> None:
    """Fill a disk but for so much."""
    found = os.statvfs(root)
    with (root / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - (kibibytes << 10))


def may_be_full(use: Callable[[], object]) -> bool:
    """Do something that may be refused for want of room; tell whether it was done."""
    try:
        use()
    except LogFull:
        return False
    return True


def _use(root: Path, *, left: int, use: Callable[[Runelog], object]) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    log = open_log(root / "log")
    put(log, 0)
    leave(root, left)
    for _ in range(3):
        may_be_full(partial(use, log))
    done = len(content(log, "conv_a"))
    (root / "ballast").unlink()
    log.roll()
    put(log, done)
    assert len(content(log, "conv_a")) == done + 1
    log.close()
    with open_log(root / "log") as again:
        assert len(content(again, "conv_a")) == done + 1
    sound(root / "log")


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("use", [Runelog.roll, partial(put, number=1)], ids=["roll", "append"])
def test_a_handle_outlives_a_disk_with_nothing_left(
    pool: ProcessPoolExecutor, left: int, use: Callable[[Runelog], object]
) -> None:
    """Rolling and appending with next to no room are done or refused; the same handle goes on."""
    assert run(pool, partial(_use, left=left, use=use)) == ""


def _open(root: Path, *, left: int) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    with open_log(root / "log") as log:
        put(log, 0)
    for locks in (root / "log").rglob("*-lock"):
        locks.unlink()
    leave(root, left)
    for _ in range(2):
        may_be_full(partial(_look, root / "log", readonly=True))
        may_be_full(partial(_look, root / "log", readonly=False))
    (root / "ballast").unlink()
    with open_log(root / "log") as log:
        put(log, 1)
        assert len(content(log, "conv_a")) == 2
    sound(root / "log")


def _look(directory: Path, *, readonly: bool) -> None:
    with Runelog.open(directory, CODEC, readonly=readonly) as log:
        assert len(content(log, "conv_a")) == 1
        assert len([*log.conversations()]) == 1


@pytest.mark.parametrize("left", LEFT)
def test_a_log_is_opened_where_nothing_is_left(pool: ProcessPoolExecutor, left: int) -> None:
    """Where LMDB's own files do not fit, opening for reading or writing is refused, not fatal."""
    assert run(pool, partial(_open, left=left)) == ""


def _arm(root: Path, *, left: int) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    with open_log(root / "log") as log:
        put(log, 0)
    log = open_log(root / "log")
    leave(root, left)
    for _ in range(2):
        may_be_full(partial(put, log, 1))
    done = len(content(log, "conv_a"))
    (root / "ballast").unlink()
    put(log, done)
    assert len(content(log, "conv_a")) == done + 1
    log.close()
    sound(root / "log")


@pytest.mark.parametrize("left", LEFT)
def test_the_first_append_needs_room_like_any_other(pool: ProcessPoolExecutor, left: int) -> None:
    """Becoming ready to write on a full disk is refused, and works once there is room."""
    assert run(pool, partial(_arm, left=left)) == ""


def _begin(root: Path, *, left: int) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    leave(root, left)
    for _ in range(3):
        if may_be_full(lambda: open_log(root / "log").close()):
            break
        assert not (root / "log" / "MANIFEST").exists()
    (root / "ballast").unlink()
    with open_log(root / "log") as log:
        put(log, 0)
    sound(root / "log")


@pytest.mark.parametrize("left", [*LEFT, 128, 160, 192, 224, 256, 320])
def test_a_log_is_begun_whole_or_not_at_all(pool: ProcessPoolExecutor, left: int) -> None:
    """A log that does not fit is not there, and can be begun once it fits."""
    assert run(pool, partial(_begin, left=left)) == ""


def _begin_one(root: Path, *, left: int) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    leave(root, left)
    with pytest.raises(LogFull):
        Environment(root / "one.mdb", map_size=1 << 20, create=True)
    assert [path.name for path in root.iterdir()] == ["ballast"]


@pytest.mark.parametrize("left", LEFT)
def test_a_segment_that_does_not_fit_leaves_nothing(pool: ProcessPoolExecutor, left: int) -> None:
    """An environment that cannot be made for want of room leaves neither data nor locks behind."""
    assert run(pool, partial(_begin_one, left=left)) == ""
