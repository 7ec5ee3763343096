"""A full disk, a full segment, a directory that cannot be written: nothing is lost."""

from __future__ import annotations

import os
import resource
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.errors import Fault, LogFull, NotALog, ReadOnly
from runelog.rune import Change
from runelog.store import Runelog
from tests.crash import mounts
from tests.crash.guard import survived
from tests.crash.judge import observe, probe, sound
from tests.crash.runs import scratch
from tests.crash.story import CODEC, SMALL, Noted, content, open_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

LARGE: Final = 64 << 20
NOBODY: Final = 65_534
NOT_PERMITTED: Final = "mounts.NotPermitted"


def run(pool: ProcessPoolExecutor, job: Callable[[Path], None]) -> str:
    """Do something in a child of a child, in a directory of its own; return what went wrong."""
    wrong = pool.submit(_in_child, job).result()
    if NOT_PERMITTED in wrong:
        pytest.skip(f"needs a mount of its own: {wrong.strip().splitlines()[-1]}")
    return wrong


def _in_child(job: Callable[[Path], None]) -> str:
    with scratch() as root:
        root.chmod(0o755)
        return survived(partial(job, root))


def put(log: Runelog, number: int, size: int = 100_000) -> None:
    """Append one rune that takes some room."""
    log.append(
        "conv_a", [Change("note_1", None, [Noted(text=f"{number} " + "=" * size)], ("book_1",))]
    )


def fill(log: Runelog, count: int = 0) -> int:
    """Append until there is no room; return how many runes were acknowledged."""
    while True:
        try:
            put(log, count)
        except LogFull:
            return count
        count += 1


def go_on(log: Runelog, count: int, make_room: Callable[[], None]) -> None:
    """Assert that a full log can be read, stays full, and goes on once there is room."""
    for _ in range(3):
        with pytest.raises(LogFull):
            put(log, count)
    assert len(content(log, "conv_a")) == count
    make_room()
    put(log, count)
    directory = log.directory
    assert [text.split()[0] for text in content(log, "conv_a")] == [*map(str, range(count + 1))]
    log.close()
    with open_log(directory) as again:
        assert len(observe(again)["conv_a"][1]) == count + 1
        probe(again)
    sound(directory)


# -- full disks --------------------------------------------------------------------------------


def _full_disk(root: Path, *, segment_size: int) -> None:
    mounts.alone()
    mounts.mount(root, 24 << 20)
    log = Runelog.open(root / "log", CODEC, segment_size=segment_size)
    put(log, 0)
    ballast = root / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 12 << 20)
    go_on(log, fill(log, 1), ballast.unlink)


@pytest.mark.parametrize("segment_size", [SMALL, LARGE])
def test_a_full_disk_costs_nothing(pool: ProcessPoolExecutor, segment_size: int) -> None:
    """On a full disk an append is refused with `LogFull`; once there is room the log goes on."""
    assert run(pool, partial(_full_disk, segment_size=segment_size)) == ""


def _limited(root: Path, *, segment_size: int) -> None:
    log = Runelog.open(root / "log", CODEC, segment_size=segment_size)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(3 << 20, 3 * segment_size // 4), hard))
    count = fill(log)
    assert count > 3
    go_on(log, count, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard)))


@pytest.mark.parametrize("segment_size", [SMALL, LARGE])
def test_a_limit_on_files_costs_nothing(pool: ProcessPoolExecutor, segment_size: int) -> None:
    """Where files may not grow, an append is refused with `LogFull`, until they may again."""
    assert run(pool, partial(_limited, segment_size=segment_size)) == ""


def _no_room_to_begin(root: Path) -> None:
    mounts.alone()
    mounts.mount(root, 16 << 10)
    for _ in range(2):
        with pytest.raises(LogFull):
            open_log(root / "log")


def test_a_log_that_does_not_fit_is_not_begun(pool: ProcessPoolExecutor) -> None:
    """Where there is no room for an empty log, creating it is refused with `LogFull`, each time."""
    assert run(pool, _no_room_to_begin) == ""


def _full_map(root: Path) -> None:
    with open_log(root / "log") as log:
        for number in range(40):
            put(log, number)
        log.append("conv_b", [Change("note_1", 0, [Noted(text="=" * 900_000)] * 5, ("book_1",))])
        many = [Change(f"note_{n}", 0, [Noted(text="=")]) for n in range(3_000)]
        log.append("conv_c", many)
        for number in range(300):
            log.append("conv_d", [Change(f"{'x' * 50}_{number}", 0, [Noted(text="=" * 9_000)])])
        assert len(log.log_directory.segments.manifest.segments) > 5
        assert len(content(log, "conv_a")) == 40
        assert len(content(log, "conv_b")) == 5
        assert len(content(log, "conv_c")) == 3_000
        assert len(content(log, "conv_d")) == 300
    sound(root / "log")


def test_a_full_segment_is_followed_by_the_next(pool: ProcessPoolExecutor) -> None:
    """Appends that fill a segment, or do not fit into one at all, go to the next."""
    assert run(pool, _full_map) == ""


# -- what cannot be written --------------------------------------------------------------------


def _read_only(root: Path) -> None:
    mounts.alone()
    mounts.mount(root, 64 << 20)
    with open_log(root / "log") as log:
        put(log, 0)
    mounts.forbid_writing(root)
    for name in ("log", "other"):
        with pytest.raises(ReadOnly):
            open_log(root / name)
    with Runelog.open(root / "log", CODEC, readonly=True) as log:
        assert len(observe(log)["conv_a"][1]) == 1
        with pytest.raises(ReadOnly):
            put(log, 1)


def test_a_read_only_disk_can_be_read(pool: ProcessPoolExecutor) -> None:
    """On a disk that cannot be written a log is refused for writing, and read all the same."""
    assert run(pool, _read_only) == ""


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def _another_user(root: Path) -> None:
    with open_log(root / "log") as log:
        put(log, 0)
    for path in (root / "log").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / "log").chmod(0o755)
    _become_nobody()
    for name in ("log", "other"):
        with pytest.raises(ReadOnly):
            open_log(root / name)
    with Runelog.open(root / "log", CODEC, readonly=True) as log:
        assert len(observe(log)["conv_a"][1]) == 1


def _locked_out(root: Path) -> None:
    with open_log(root / "log") as log:
        put(log, 0)
    _become_nobody()
    for readonly in (False, True):
        with pytest.raises(Fault, match="Permission denied"):
            Runelog.open(root / "log", CODEC, readonly=readonly)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("job", [_another_user, _locked_out])
def test_another_user_gets_what_it_may(
    pool: ProcessPoolExecutor, job: Callable[[Path], None]
) -> None:
    """A user who may only read can read; one who may not even that is told so."""
    assert run(pool, job) == ""


# -- what is not a log -------------------------------------------------------------------------


def test_other_directories_are_left_alone(tmp_path: Path) -> None:
    """A directory that holds something else is refused, and nothing is put there."""
    (tmp_path / "letters.txt").write_text("dear", encoding="utf-8")

    for readonly in (False, True):
        with pytest.raises(NotALog):
            Runelog.open(tmp_path, CODEC, readonly=readonly)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_a_file_is_not_a_log(tmp_path: Path) -> None:
    """A file is refused, for writing and for reading, and stays what it is."""
    path = tmp_path / "file"
    path.write_text("dear", encoding="utf-8")

    for readonly in (False, True):
        with pytest.raises(NotALog):
            Runelog.open(path, CODEC, readonly=readonly)
    assert path.read_text(encoding="utf-8") == "dear"


@pytest.mark.parametrize("exists", [True, False])
def test_nothing_is_made_unasked(tmp_path: Path, *, exists: bool) -> None:
    """Reading, or writing without `create`, where there is no log is refused and makes none."""
    path = tmp_path / "log"
    if exists:
        path.mkdir()

    with pytest.raises(NotALog):
        Runelog.open(path, CODEC, create=False)
    with pytest.raises(NotALog):
        Runelog.open(path, CODEC, readonly=True)
    assert [*tmp_path.rglob("*")] == ([path] if exists else [])
