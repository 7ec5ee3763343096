"""Backups of a log that is being written, and backups that are killed or lose power.

A backup holds all that was acknowledged before it began. One that is interrupted leaves what was
there, or a directory that opens to none until it is finished.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.errors import RunefoldError
from runelog.files import TEMPORARY
from runelog.manifest import PLACING
from runelog.repair.restore import restore_backup
from runelog.rune import State
from runelog.transfer.placing import INCOMING
from tests.crash.backups import try_backups
from tests.crash.calls import Saboteur, watch
from tests.crash.guard import survived
from tests.crash.judge import observe, sound
from tests.crash.moments import read_files, write_files
from tests.crash.ptrace import Kill, needs_tracer
from tests.crash.runs import narrowed, power_cuts, record, scratch
from tests.crash.story import Step, World, open_log, perform, worlds
from tests.crash.tally import SWEPT
from tests.crash.warm import walking_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

    from tests.crash.disk import Case
    from tests.crash.moments import Files

SEED: Final = 37
STORY: Final = (
    Step("append", ("conv_a", "conv_b", "conv_e"), 2, 300),
    Step("roll"),
    Step("append", ("conv_a", "conv_e"), 1),
    Step("archive", ("conv_b",)),
    Step("backup"),
    Step("append", ("conv_a",), 1),
    Step("archive", ("conv_a",)),
    Step("restore", ("conv_b",)),
    Step("erase", ("conv_e",)),
    Step("append", ("conv_b",), 1),
    Step("backup"),
)
"""Between two backups, all that changes which files a log has."""
BACKUPS: Final = [number for number, step in enumerate(STORY, 1) if step.do == "backup"]
WORLDS: Final = worlds(STORY)


def test_each_backup_of_a_live_log_is_whole(pool: ProcessPoolExecutor) -> None:
    """All acknowledged before is in it, all of it sound, and nothing that was erased before."""
    assert pool.submit(try_backups, 5).result() == []


@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_each_of_many_backups_of_a_live_log_is_whole(warm: ProcessPoolExecutor) -> None:
    """The same for many backups into one directory."""
    assert warm.submit(try_backups, 200).result() == []


# -- killed ----------------------------------------------------------------------------------------


def found_in(directory: Path) -> World | None:
    """Return what is in a backup; None if it does not open, and nothing in it was changed."""
    before = read_files(directory) if directory.exists() else {}
    try:
        with open_log(directory, readonly=True) as log:
            return observe(log)
    except RunefoldError:
        after = read_files(directory) if directory.exists() else {}
        assert after == before, "refused, and changed"
        return None


def judge(root: Path, allowed: Sequence[World]) -> None:
    """Assert that a backup that was interrupted is one of those allowed, or refused.

    Either way the next backup finishes it, and before that a restore does.
    """
    backup = root / "backup"
    found = found_in(backup)
    assert found is None or found in allowed, f"the backup is {found}"
    if (backup / PLACING).exists():
        assert found is None
        restore_backup(backup, root / "restored")
        assert found_in(root / "restored") in allowed
        sound(root / "restored")
    with open_log(root / "log") as log:
        log.backup(backup)
        expected = observe(log)
    assert found_in(backup) == expected
    sound(backup)
    assert not (backup / PLACING).exists()
    assert not (backup / INCOMING).exists()
    assert not list(backup.rglob(f"*{TEMPORARY}"))
    erased = [name for name, (state, _) in expected.items() if state is State.ERASED]
    left = b"".join(read_files(backup).values())
    assert not [name for name in erased if f"of {name} ".encode() in left]


def told(root: Path, steps: Sequence[Step], first: int = 1) -> None:
    """Take steps in the log, and close it."""
    log = open_log(root / "log")
    for number, step in enumerate(steps, first):
        log = perform(log, step, number)
    log.close()


def interrupted(number: int, first: int) -> tuple[int, str]:
    """Kill the `first` or last backup at its n-th change; return how many there are, and faults."""
    with scratch() as root, walking_inside():
        step = BACKUPS[first]
        told(root, STORY[: step - 1])
        saboteur = Saboteur(str(root / "backup"), number, Kill())
        status = watch(partial(told, root, [STORY[step - 1]], step), saboteur)
        assert status == (-9 if number else 0)
        allowed = [WORLDS[at] for at in BACKUPS[: first + 1]]
        wrong = survived(partial(judge, root, allowed)) if number else ""
        where = f"backup {first} killed at change {number}, {saboteur.hit}"
        return saboteur.count, f"{where}: {wrong}" if wrong else ""


def kills(pool: ProcessPoolExecutor, first: int, sample: int | None) -> list[str]:
    """Kill a backup at some or all of its changes; return what is wrong afterwards."""
    count, _ = pool.submit(interrupted, 0, first).result()
    numbers = range(1, count + 1)
    chosen = numbers if sample is None else random.Random(SEED).sample(numbers, sample)
    return [wrong for _, wrong in pool.map(partial(interrupted, first=first), chosen) if wrong]


@needs_tracer
@pytest.mark.parametrize("first", [0, 1])
def test_a_killed_backup_is_the_last_one_or_is_finished(
    pool: ProcessPoolExecutor, first: int
) -> None:
    """Killed at a sample of its changes, it never leaves a mixture that opens."""
    assert kills(pool, first, 8) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", [0, 1])
def test_a_backup_killed_anywhere_is_the_last_one_or_is_finished(
    pool: ProcessPoolExecutor, first: int
) -> None:
    """The same for each of its changes."""
    assert kills(pool, first, None) == []


# -- without power ---------------------------------------------------------------------------------


def cut_short(sample: int | None) -> tuple[int, list[str]]:
    """Cut the power of a backup's disk; return how many states there were, and the faults."""
    with walking_inside():
        recording = record(STORY)
        beside = f"{recording.root}/log"
        changes = [change for change in recording.changes if not change.path.startswith(beside)]
        cases = power_cuts(STORY, recording._replace(changes=changes), SEED).cases
        count = len(cases)
        if sample is not None:
            cases = chosen(cases, sample)
        with scratch() as root:
            wrong = narrowed(partial(judge_each, root, recording.left), cases)
    return count, [f"power cut before {case.where}: {told}" for case, told in wrong]


def chosen(cases: Sequence[Case], count: int) -> list[Case]:
    """Return a sample of states: two of three from while files are put in place."""
    rng = random.Random(SEED)
    parts: dict[bool, list[Case]] = {True: [], False: []}
    for case in cases:
        parts["backup/PLACING" in dict(case.state.files)].append(case)
    return rng.sample(parts[True], 2 * count // 3) + rng.sample(parts[False], count // 3)


def judge_each(root: Path, left: Files, cases: Sequence[Case]) -> None:
    """Assert that a backup is what it must be in each of some states; the log is as it was left."""
    log = {name: data for name, data in left.items() if name.startswith("log/")}
    for case in cases:
        with scratch(root) as place:
            case.state.build(place)
            write_files(place, log)
            made = [at for at in BACKUPS if at <= case.required]
            if made:
                assert found_in(place / "backup") or (place / "backup" / PLACING).exists()
            start = len(made[:-1])
            judge(place, [WORLDS[at] for at in BACKUPS[start:] if at <= case.limit])


@needs_tracer
def test_no_power_cut_leaves_a_mixture(warm: ProcessPoolExecutor) -> None:
    """In a sample of states, an acknowledged backup is there, and no other opens."""
    _, wrong = warm.submit(cut_short, 60).result()

    assert wrong == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(7_200)
def test_no_power_cut_at_all_leaves_a_mixture(
    pool: ProcessPoolExecutor, record_property: Callable[[str, object], None]
) -> None:
    """In every state there can be, an acknowledged backup is there, and no other opens."""
    count, wrong = pool.submit(cut_short, None).result()
    record_property(SWEPT, f"{count:,} states of a directory that is backed up to")

    assert wrong == []
