"""A segment that follows: prepared in steps while others append, archive and erase."""

from __future__ import annotations

import shutil
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from runelog.directory import log_directory, next_segment, rewrite
from runelog.errors import LogFull
from runelog.index import catalog, check_in_child
from runelog.index.catalog import TABLES, entries
from runelog.repair.verify import verify
from runelog.rune import Change, State, Work
from runelog.store import Runelog
from runelog.writer import commit, leader
from tests.runelog.directory.test_compaction import amounts, fill
from tests.runelog.ledger import CODEC, SMALL, Booked

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runelog.errors import Corrupt
    from runelog.lmdb.environment import Environment

A, B, C = "conv_a", "conv_b", "conv_c"
MOST: Final = 60
"""No roll here takes more steps."""
MOST_APPENDS: Final = 8


@pytest.fixture(autouse=True)
def _in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare the next segment however small the active one is, a little at a time."""
    monkeypatch.setattr(next_segment, "WORTH", 0)
    monkeypatch.setattr(next_segment, "FEW", 0)
    monkeypatch.setattr(catalog, "_SOME", 3)
    monkeypatch.setattr(leader, "MOST_PAUSE", 0)


def opened(directory: Path, segment_size: int = SMALL) -> Runelog:
    """Open a log in which no time passes."""
    return Runelog.open(directory, CODEC, segment_size=segment_size, clock=lambda: 1)


def tables(log: Runelog) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return all that the catalog of a log holds."""
    with log.log_directory.lookup.catalog.env.view() as view:
        return {table: [*entries(view, table)] for table in TABLES}


def begin(log: Runelog) -> None:
    """Have something in the log before, and some in the active segment."""
    fill(log, A, B)
    log.roll()
    for number, name in enumerate((A, B, C) * 2):
        opened = f"entry_{number}"
        changes = [Change(opened, None, [Booked(amount=7)], observers=("book_1",), open=True)]
        log.append(name, changes)


def go_on(log: Runelog, number: int) -> None:
    """Go on in old conversations and in a new one; close what was open, open something else.

    What is new comes to an end: a roll would have to take in more with each step.
    """
    entity = f"entry_{number % 6}"
    name = (A, B, C)[number % 3]
    closes = Change(entity, None, [Booked(amount=8)], open=number // 6 % 2 == 1)
    log.append(name, [closes])
    if number <= MOST_APPENDS:
        fill(log, A, f"conv_new_{number}", runes=2)
        late = Change(f"late_{number}", None, [Booked(amount=9)], open=True, deadline=5)
        log.append(name, [late])


def seen(log: Runelog) -> tuple[dict[str, list[int]], list[Work]]:
    """Return all that can be read in a log, and the work that is left."""
    names = [each.id for each in log.conversations() if each.state is not State.ERASED]
    return {name: amounts(log, name) for name in names}, [*log.open_work()]


def test_a_segment_that_was_prepared_is_sealed_as_any_other(tmp_path: Path) -> None:
    """Whatever was appended meanwhile: the catalog comes to hold the very same."""
    ahead, at_once = (opened(tmp_path / name) for name in ("ahead", "at_once"))
    for log in (ahead, at_once):
        begin(log)
    numbers = []
    for number, _ in enumerate(ahead._arm()._roll_steps(ahead._arm()._env)):
        if ahead.log_directory.segments.manifest.active.number == 2:
            numbers.append(number)
            go_on(ahead, number)
    for number in numbers:
        go_on(at_once, number)
    with at_once._arm()._lock, at_once._arm()._drained():
        at_once._arm()._roll(0)

    assert len(numbers) > 5
    assert tables(ahead) == tables(at_once)
    assert seen(ahead) == seen(at_once)
    for log in (ahead, at_once):
        log.close()
        assert verify(log.directory).problems == []


@pytest.mark.parametrize(
    "act",
    [
        lambda log: log.archive(C),
        lambda log: log.erase(B),
        lambda log: (log.archive(C), log.restore(C)),
        lambda log: log._arm()._roll_steps,
        lambda log: log.roll(),
    ],
    ids=["archive", "erase", "restore", "nothing", "roll"],
)
def test_whatever_happens_between_two_steps(
    tmp_path: Path, act: Callable[[Runelog], object]
) -> None:
    """The log holds what it would hold without."""
    for when in range(MOST):
        directory = tmp_path / str(when)
        with opened(directory) as log:
            fill(log, A, B, C)
            log.roll()
            fill(log, A, B, C, "conv_d", "conv_e")
            steps = log._arm()._roll_steps(log._arm()._env)
            for number, _ in enumerate(steps):
                fill(log, A, runes=1)
                if number == when:
                    act(log)
            fill(log, A)
            found = seen(log)[0]
            heads = {each.id: (each.head, each.state) for each in log.conversations()}
        assert verify(directory).problems == []
        with opened(directory) as log:
            assert seen(log)[0] == found
            assert {each.id: (each.head, each.state) for each in log.conversations()} == heads
        assert found[C] == [1, 2, 3] * 2
        if number < when:
            return
    pytest.fail("a roll has more steps than are looked at")


def test_killed_between_two_steps_nothing_is_lost(tmp_path: Path) -> None:
    """What is opened is the log as it was, whose active segment the catalog knows in part."""
    copies: list[tuple[Path, dict[str, list[int]], list[Work]]] = []
    with opened(tmp_path / "log") as log:
        begin(log)
        for number, _ in enumerate(log._arm()._roll_steps(log._arm()._env)):
            go_on(log, number)
            if number % 3:
                continue
            copy = tmp_path / f"copy_{number}"
            shutil.copytree(log.directory, copy)
            copies.append((copy, *seen(log)))
    assert len(copies) > 3
    for copy, content, work in copies:
        with opened(copy) as log:
            assert seen(log) == (content, work)
            assert not log.notices
            go_on(log, 0)
            log.roll()
            left = seen(log)
        with opened(copy) as log:
            assert seen(log) == left
        assert verify(copy).problems == []


def test_without_room_for_a_file_ahead_the_segment_is_begun_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is made when it is needed."""
    empty, tries = rewrite.empty, [0]

    def full_at_first(*about: Any) -> Environment:  # noqa: ANN401 -- as it takes them
        tries[0] += 1
        if tries[0] == 1:
            msg = "no room"
            raise LogFull(msg)
        return empty(*about)

    with opened(tmp_path / "log") as log:
        fill(log, A)
        monkeypatch.setattr(rewrite, "empty", full_at_first)
        log.roll()

        assert log.log_directory.segments.manifest.active.number == 2
        assert tries == [2]


def test_a_file_that_nothing_came_of_is_removed(tmp_path: Path) -> None:
    """At the close, or by the next who opens the log."""
    for ends in (True, False):
        directory = tmp_path / str(ends)
        with opened(directory) as log:
            fill(log, A)
            next(log._arm()._roll_steps(log._arm()._env))
            assert (directory / "segments" / "000002.0.mdb").exists()
            shutil.copytree(directory, tmp_path / "killed", dirs_exist_ok=True)
        left = directory if ends else tmp_path / "killed"
        if not ends:
            opened(left).close()

        assert [path.name for path in (left / "segments").glob("*.mdb")] == ["000001.0.mdb"]


def test_who_begins_segments_beside_appends_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for a roll, a log says when it is time; an append begins one only far behind that."""
    monkeypatch.setattr(leader, "ROLL_BYTES", 64 << 10)
    monkeypatch.setattr(commit, "ROLL_BYTES", 64 << 10)
    with opened(tmp_path / "log", 16 << 20) as log:
        writer, rolls = log._arm(), [0]
        writer._roll_at = 64 << 10
        assert log.rolling() is None
        used = 0
        while log.log_directory.segments.manifest.active.number == 1:
            used = writer._used
            fill(log, A, runes=100)
            rolls[0] += log.rolling() is not None

        assert used > commit.BEHIND * (64 << 10)
        assert rolls[0] > 1, "it is asked again, as nothing came of it"
        before = log.log_directory.segments.manifest.active.number
        writer._roll_at = 0
        steps = log.rolling()
        assert steps is not None
        with suppress(StopIteration):
            while True:
                next(steps)
                fill(log, A, runes=1)
        assert log.log_directory.segments.manifest.active.number == before + 1


def walked(patch: pytest.MonkeyPatch) -> list[str]:
    """Have noted which files a child process is given to look at."""
    check, names = check_in_child.check_files, list[str]()

    def checked(*files: tuple[Path, Sequence[str]]) -> list[Corrupt | None]:
        names.extend(path.name for path, _ in files)
        return check(*files)

    patch.setattr(log_directory, "check_files", checked)
    return names


def test_a_catalog_that_has_not_changed_is_not_walked_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since a close, or since a roll: its digest tells. In between it is walked."""
    names, directory = walked(monkeypatch), tmp_path / "log"
    copies = [tmp_path / name for name in ("closed", "rolling", "rolled", "archived")]
    with opened(directory) as log:
        fill(log, A, B)
    with opened(directory) as log:
        fill(log, A)
        shutil.copytree(directory, copies[0])
        steps = log._arm()._roll_steps(log._arm()._env)
        next(steps)
        next(steps)
        shutil.copytree(directory, copies[1])
        for _ in steps:
            fill(log, A, runes=1)
        shutil.copytree(directory, copies[2])
        log.archive(B)
        shutil.copytree(directory, copies[3])
        there = amounts(log, A)
    found = []
    for copy in copies:
        names.clear()
        with opened(copy) as log:
            found.append("catalog.0.mdb" in names)
            assert amounts(log, B) == [1, 2, 3]
            assert amounts(log, A) == there[: len(amounts(log, A))]

    assert found == [False, True, False, True]


def test_a_catalog_that_does_not_match_its_digest_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And made anew if it is damaged, whatever vouched for it."""
    names, directory, copy = walked(monkeypatch), tmp_path / "log", tmp_path / "copy"
    with opened(directory) as log:
        fill(log, A, B)
        log.roll()
    with opened(directory) as log:
        fill(log, A)
        shutil.copytree(directory, copy)
    catalog_file = copy / "catalog.0.mdb"
    data = bytearray(catalog_file.read_bytes())
    for at in range(8_192, len(data), 64):
        data[at] ^= 0xFF
    catalog_file.write_bytes(data)
    with opened(copy) as log:
        assert amounts(log, A) == [1, 2, 3] * 2
        assert amounts(log, B) == [1, 2, 3]

    assert "catalog.0.mdb" in names
    assert verify(copy).problems == []


def test_maintenance_rests_if_others_had_to_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it took, and at most for a moment; alone, it does not rest."""
    rests: list[float] = []
    monkeypatch.setattr(leader, "MOST_PAUSE", 0.001)
    with opened(tmp_path / "log") as log:
        fill(log, A)
        writer = log._arm()
        waiting = threading.Event()
        wait = writer._wait_for_room

        def waits(deadline: float | None) -> None:
            waiting.set()
            wait(deadline)

        monkeypatch.setattr(writer, "_wait_for_room", waits)
        monkeypatch.setattr(time, "sleep", rests.append)
        with writer.paused():
            pass
        assert rests == []
        with writer.paused():
            other = threading.Thread(target=fill, args=(log, B))
            other.start()
            assert waiting.wait(30)
            with writer._lock:
                assert writer._kept_waiting
        other.join(30)

        assert amounts(log, B) == [1, 2, 3]
        assert len(rests) == 1
        assert 0 < rests[0] <= 0.001
