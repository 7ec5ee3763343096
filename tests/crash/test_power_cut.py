"""Power cuts: whatever part of what was not synced is lost, nothing acknowledged is."""

from __future__ import annotations

import functools
import os
import random
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.disk import PAGE, Disk, is_lock
from tests.crash.ptrace import needs_tracer
from tests.crash.runs import narrowed, open_after, power_cuts, record
from tests.crash.story import KEEPING, PATIENT, SHORT, but_the_last
from tests.crash.tally import SWEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ProcessPoolExecutor

    from tests.crash.disk import Case, Cuts, File
    from tests.crash.runs import Recording, Story

    Record = Callable[[str, object], None]

STORIES: Final = {"short": SHORT, **KEEPING}
SEED: Final = 7


class Recordings:
    """Each story, told once, and the power cut at every moment of it."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        """Tell them in these processes."""
        self._pool = pool
        self.recording = functools.cache(self._recording)
        self.cuts = functools.cache(self._cuts)
        self.relaxed = functools.cache(self._relaxed)

    def _recording(self, name: str) -> Recording:
        return self._pool.submit(record, STORIES[name]).result()

    def _cuts(self, name: str) -> Cuts:
        return power_cuts(STORIES[name], self.recording(name), SEED)

    def _relaxed(self) -> Cuts:
        recording = self._pool.submit(record, PATIENT, "relaxed").result()
        return power_cuts(PATIENT, recording, SEED, but_the_last)


@pytest.fixture(scope="module")
def recordings(pool: ProcessPoolExecutor) -> Recordings:
    """Provide the stories."""
    return Recordings(pool)


def content(file: File) -> bytes:
    """Return all bytes of a file."""
    pages = dict(file.pages)
    whole = b"".join(pages.get(at, bytes(PAGE)) for at in range(-(-file.size // PAGE)))
    return whole[: file.size]


@needs_tracer
@pytest.mark.parametrize("name", STORIES)
def test_nothing_escapes_the_tracer(recordings: Recordings, name: str) -> None:
    """The changes that were seen, made once more, give the very files that are there."""
    recording = recordings.recording(name)
    disk = Disk(recording.root)
    for change in recording.changes:
        if change.what != "ack":
            disk.apply(change)
    found = {path: content(file) for path, file in disk.state(disk.pending).files}

    assert {path for path in found if is_lock(path)}
    assert {path: data for path, data in found.items() if not is_lock(path)} == {
        path: data for path, data in recording.left.items() if not is_lock(path)
    }


@needs_tracer
@pytest.mark.parametrize("name", [*STORIES, None])
def test_every_subset_of_what_was_not_synced_is_tried(
    recordings: Recordings, name: str | None
) -> None:
    """At no moment is so much pending that a choice must do; states that are alike are one."""
    found = recordings.cuts(name) if name else recordings.relaxed()

    assert found.tally.chosen == 0
    assert found.tally.moments > 40
    assert found.tally.subsets > 900


def open_all(
    pool: ProcessPoolExecutor, story: Story, chosen: list[Case], *, inside: bool = False
) -> list[str]:
    """Open each of these states; return what is wrong with them."""
    size = 40 if inside else 4
    batches = [chosen[start : start + size] for start in range(0, len(chosen), size)]
    job = partial(open_after, story, inside=inside)
    return [wrong for batch in pool.map(job, batches) for wrong in batch]


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
@pytest.mark.parametrize("inside", [False, True])
def test_a_state_that_is_wrong_is_told_of_and_no_other(
    pool: ProcessPoolExecutor, recordings: Recordings, *, inside: bool
) -> None:
    """One state is held to more than it can have, and its neighbours are not blamed for it."""
    chosen = spread(recordings.cuts("short").cases, 4)
    at = next(at for at, case in enumerate(chosen) if case.limit < len(SHORT))
    chosen[at] = chosen[at]._replace(required=len(SHORT), limit=len(SHORT))
    wrong = open_all(pool, SHORT, chosen, inside=inside)

    assert len(wrong) == 1
    assert chosen[at].where in wrong[0]


def perish(numbers: Sequence[int]) -> None:
    """Try numbers: four ends the process, six is an error."""
    for number in numbers:
        assert number != 6
        if number == 4:
            os.kill(os.getpid(), signal.SIGSEGV)


def test_what_ends_a_process_is_found_among_others(pool: ProcessPoolExecutor) -> None:
    """Many are tried in one child; who ends it, or fails in it, is told, and the rest is tried."""
    wrong = pool.submit(narrowed, perish, range(10)).result()

    assert [number for number, _ in wrong] == [4, 6]
    assert "Segmentation fault" in wrong[0][1]
    assert "AssertionError" in wrong[1][1]


def sweep(pool: ProcessPoolExecutor, story: Story, found: Cuts, tell: Record) -> list[str]:
    """Open every state; say how many there were, and return what is wrong with them."""
    begun = time.monotonic()
    wrong = open_all(pool, story, found.cases, inside=True)
    tally = found.tally
    which = f"a choice at {tally.chosen} moments of" if tally.chosen else "every one of"
    tell(
        SWEPT,
        f"{tally.moments} moments, up to {tally.pending} changes pending, {which} "
        f"{tally.subsets:,} subsets: {len(found.cases):,} states opened "
        f"in {time.monotonic() - begun:,.0f} s",
    )
    return wrong


@needs_tracer
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("short", 70),
        ("archive", 16),
        ("compact", 16),
        ("restore", 16),
        ("erase", 16),
        ("take_in", 16),
    ],
)
def test_no_power_cut_loses_what_was_acknowledged(
    warm: ProcessPoolExecutor, recordings: Recordings, name: str, count: int
) -> None:
    """In a sample of states, all that was acknowledged is there, and nothing by halves."""
    assert open_all(warm, STORIES[name], spread(recordings.cuts(name).cases, count)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("name", STORIES)
def test_no_power_cut_at_all_loses_what_was_acknowledged(
    pool: ProcessPoolExecutor, recordings: Recordings, name: str, record_property: Record
) -> None:
    """In every state there can be, all that was acknowledged is there, and nothing by halves."""
    assert sweep(pool, STORIES[name], recordings.cuts(name), record_property) == []


@needs_tracer
def test_a_power_cut_takes_at_most_the_last_commit_of_a_relaxed_log(
    warm: ProcessPoolExecutor, recordings: Recordings
) -> None:
    """In a sample of states all is there but for the last commit, and nothing is damaged."""
    assert open_all(warm, PATIENT, spread(recordings.relaxed().cases, 60)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(7_200)
def test_no_power_cut_at_all_damages_a_relaxed_log(
    pool: ProcessPoolExecutor, recordings: Recordings, record_property: Record
) -> None:
    """In every state there can be, all is there but for the last commit."""
    assert sweep(pool, PATIENT, recordings.relaxed(), record_property) == []
