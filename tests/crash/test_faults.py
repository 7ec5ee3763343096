"""A disk that fails: what was acknowledged stays, and what is in doubt is said to be in doubt."""

from __future__ import annotations

import errno
import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog import errors
from tests.crash.calls import SYNCS, WRITES
from tests.crash.ptrace import needs_tracer
from tests.crash.runs import fail_at
from tests.crash.story import KEEPING, SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ProcessPoolExecutor

    from tests.crash.runs import Failed, Story

SEED: Final = 13
TYPED: Final = {name for name, error in vars(errors).items() if isinstance(error, type)}
CALLS: Final = {
    "sync": tuple(SYNCS),
    "write": tuple(WRITES),
    "name": ("openat", "rename", "unlink", "mkdir"),
    "size": ("ftruncate", "fallocate"),
}


def all_failing(
    pool: ProcessPoolExecutor, story: Story, error: int, calls: Sequence[str], skip: int = 0
) -> list[Failed]:
    """Let each of some calls fail in turn; return what came of each."""
    found: list[Failed] = []
    job = partial(fail_at, story, errno=error, calls=calls, skip=skip)
    while not found or found[-1].call:
        start = len(found) + 1
        found += pool.map(job, range(start, start + 8))
        while len(found) > 1 and not found[-1].call and not found[-2].call:
            found.pop()
    return found[:-1]


def some_failing(
    pool: ProcessPoolExecutor, story: Story, error: int, calls: Sequence[str], skip: int = 0
) -> list[Failed]:
    """Let a sample of some calls fail, one in each run; return what came of each."""
    chosen = random.Random(SEED).sample(range(1, 40), 12)
    job = partial(fail_at, story, errno=error, calls=calls, skip=skip)
    return [failed for failed in pool.map(job, chosen) if failed.call]


def complaints(story: Story, failed: Failed) -> list[str]:
    """Return what is wrong about how a failure was dealt with."""
    where = f"{failed.call} {failed.path} failed, {failed.told}"
    found = [f"{where}: {failed.wrong}"] if failed.wrong else []
    broken = False
    for line in failed.told:
        number, _, error = line.partition(" ")
        step = story[int(number) - 1] if 0 < int(number) <= len(story) else None
        if error and error not in TYPED:
            found.append(f"{where}: step {number} raised {error}")
        if step is not None and step.do == "reopen" and not error:
            broken = False
        elif error == "LogFailed":
            broken = True
        elif broken and not error and step is not None and step.names:
            found.append(f"{where}: step {number} went on behind a failure")
    return found


def judged(story: Story, found: list[Failed]) -> list[str]:
    """Return what is wrong about any of these."""
    assert found
    return [complaint for failed in found for complaint in complaints(story, failed)]


@needs_tracer
@pytest.mark.parametrize("calls", CALLS)
def test_a_failing_disk_loses_nothing_acknowledged(pool: ProcessPoolExecutor, calls: str) -> None:
    """Whichever call fails, a typed error says so, and what was acknowledged is there.

    Nothing is acknowledged behind a failed commit.
    """
    found = some_failing(pool, SHORT, errno.EIO, CALLS[calls])

    assert judged(SHORT, found) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("name", ["short", *KEEPING])
def test_a_disk_that_fails_anywhere_loses_nothing_acknowledged(
    warm: ProcessPoolExecutor, name: str, error: int, calls: str
) -> None:
    """The same, for each call in turn, archiving, restoring, erasing and taking in included."""
    story = KEEPING.get(name, SHORT)
    skip = len(story) - 2 if name in KEEPING else 0
    found = all_failing(warm, story, error, CALLS[calls], skip)

    assert judged(story, found) == []


@needs_tracer
@pytest.mark.parametrize("name", KEEPING)
def test_keeping_on_a_failing_disk_happens_or_does_not(
    warm: ProcessPoolExecutor, name: str
) -> None:
    """If a sync fails, archiving, restoring, erasing or taking in is done wholly or not at all."""
    story = KEEPING[name]
    found = some_failing(warm, story, errno.EIO, CALLS["sync"], len(story) - 2)

    assert judged(story, found) == []
