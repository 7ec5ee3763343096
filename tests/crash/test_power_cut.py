"""Power cuts: whatever part of what was not synced is lost, nothing acknowledged is."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.disk import PAGE, Disk
from tests.crash.ptrace import needs_tracer
from tests.crash.runs import open_after, power_cuts, record
from tests.crash.story import KEEPING, PATIENT, SHORT, but_the_last

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from tests.crash.disk import Case, File
    from tests.crash.runs import Story

STORIES: Final = {"short": SHORT, **KEEPING}
SEED: Final = 7


def content(file: File) -> bytes:
    """Return all bytes of a file."""
    pages = dict(file.pages)
    whole = b"".join(pages.get(at, bytes(PAGE)) for at in range(-(-file.size // PAGE)))
    return whole[: file.size]


@needs_tracer
@pytest.mark.parametrize("name", STORIES)
def test_nothing_escapes_the_tracer(pool: ProcessPoolExecutor, name: str) -> None:
    """The changes that were seen, made once more, give the very files that are there."""
    recording = pool.submit(record, STORIES[name]).result()
    disk = Disk(recording.root, journal=False)
    for change in recording.changes:
        if change.what != "ack":
            disk.apply(change)
    state = disk.state(disk.pending)
    found = {path: content(file) for path, file in state.files if not path.endswith("-lock")}

    assert found == {
        path: data for path, data in recording.left.items() if not path.endswith("-lock")
    }


def open_all(
    pool: ProcessPoolExecutor, story: Story, chosen: list[Case], *, inside: bool = False
) -> list[str]:
    """Open each of these states; return what is wrong with them."""
    job = partial(open_after, story, inside=inside)
    return [wrong for wrong in pool.map(job, chosen, chunksize=4) if wrong]


def spread(found: list[Case], count: int) -> list[Case]:
    """Choose so many states, from all moments alike."""
    rng = random.Random(SEED)
    moments: dict[str, list[Case]] = {}
    for case in found:
        moments.setdefault(case.where, []).append(case)
    for group in moments.values():
        rng.shuffle(group)
    ranked = sorted(
        (
            (rank, rng.random(), case)
            for group in moments.values()
            for rank, case in enumerate(group)
        ),
        key=lambda item: item[:2],
    )
    return [case for _, _, case in ranked[:count]]


@needs_tracer
@pytest.mark.parametrize(("name", "count"), [("short", 70), ("archive", 16), ("take_in", 16)])
def test_no_power_cut_loses_what_was_acknowledged(
    pool: ProcessPoolExecutor, name: str, count: int
) -> None:
    """In a sample of states, all that was acknowledged is there, and nothing by halves."""
    story = STORIES[name]
    found = power_cuts(story, pool.submit(record, story).result(), SEED)

    assert open_all(pool, story, spread(found, count)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("name", STORIES)
def test_no_power_cut_at_all_loses_what_was_acknowledged(
    pool: ProcessPoolExecutor, name: str, part: int
) -> None:
    """In every state that is tried, all that was acknowledged is there, and nothing by halves."""
    story = STORIES[name]
    found = power_cuts(story, pool.submit(record, story).result(), SEED)

    assert open_all(pool, story, found[part::8], inside=True) == []


def relaxed(pool: ProcessPoolExecutor) -> list[Case]:
    """Return the states that a power cut can leave of a log that is opened as relaxed."""
    recording = pool.submit(record, PATIENT, "relaxed").result()
    return power_cuts(PATIENT, recording, SEED, but_the_last)


@needs_tracer
def test_a_power_cut_takes_at_most_the_last_commit_of_a_relaxed_log(
    pool: ProcessPoolExecutor,
) -> None:
    """In a sample of states all is there but for the last commit, and nothing is damaged."""
    assert open_all(pool, PATIENT, spread(relaxed(pool), 60)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("part", range(4))
def test_no_power_cut_at_all_damages_a_relaxed_log(pool: ProcessPoolExecutor, part: int) -> None:
    """In every state that is tried, all is there but for the last commit."""
    assert open_all(pool, PATIENT, relaxed(pool)[part::4], inside=True) == []
