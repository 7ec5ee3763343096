"""Files from two moments: nothing is deleted on the word of one of them.

An old MANIFEST, CLEAN or catalog beside newer segments, and a plain copy of a log that is being
written: the log opens with all that was acknowledged, or it is refused and nothing is changed.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest

from runefold.runtime import Runtime
from runelog.errors import Corrupt, OldManifest
from runelog.manifest import read_manifest
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import State
from tests.crash.copies import try_copies
from tests.crash.moments import MIXED, Moment, judge, mixed, moments, read_files, write_files
from tests.crash.runs import scratch
from tests.crash.story import Step, content, open_log, perform
from tests.runefold.cli_scenes import run

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

SEED: Final = 29
SAMPLE: Final = 36


def mixtures(kind: str, count: int | None) -> list[str]:
    """Open logs with some files of an earlier moment, all such or a sample; return the faults."""
    with scratch() as root:
        found = moments(root)
    pairs = [(later, earlier) for later in found for earlier in found if earlier.step < later.step]
    if count is not None:
        pairs = random.Random(SEED).sample(pairs, count)
    return [
        f"{kind} of step {earlier.step} at step {later.step}: {fault}"
        for later, earlier in pairs
        if (fault := _judged(later, earlier, kind))
    ]


def _judged(later: Moment, earlier: Moment, kind: str) -> str:
    return judge(mixed(later, earlier, MIXED[kind]), later.world)


@pytest.mark.parametrize("kind", MIXED)
def test_old_files_beside_newer_segments_lose_nothing(pool: ProcessPoolExecutor, kind: str) -> None:
    """The log has all its runes, at once or after a repair, and what was erased stays erased."""
    assert pool.submit(mixtures, kind, SAMPLE // len(MIXED)).result() == []


@pytest.mark.crash
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", MIXED)
def test_no_old_file_beside_newer_segments_loses_anything(
    warm: ProcessPoolExecutor, kind: str
) -> None:
    """The same for every two moments of the story."""
    assert warm.submit(mixtures, kind, None).result() == []


def test_a_plain_copy_of_a_live_log_is_whole_or_refused(pool: ProcessPoolExecutor) -> None:
    """A copy made while the log is written has all that was acknowledged before, or is refused."""
    _, wrong = pool.submit(try_copies, 8).result()

    assert wrong == []


@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_many_plain_copies_of_a_live_log_are_whole_or_refused(warm: ProcessPoolExecutor) -> None:
    """The same for many copies; some of them open, or this would tell nothing."""
    opened, wrong = warm.submit(try_copies, 300).result()

    assert wrong == []
    assert opened


# -- the ways in which it was found ----------------------------------------------------------------


def told(directory: Path, steps: Sequence[Step]) -> None:
    """Take steps in a log of its own, and close it."""
    log = open_log(directory)
    for number, step in enumerate(steps, 1):
        log = perform(log, step, number)
    log.close()


def test_an_old_manifest_is_named_and_nothing_changes(tmp_path: Path) -> None:
    """From before the last roll: refused to writers, readers and verify alike, with a way out."""
    directory = tmp_path / "log"
    told(directory, [Step("append", ("conv_a",), 20)])
    old = (directory / "MANIFEST").read_bytes()
    told(directory, [Step("roll"), Step("append", ("conv_a",), 120)])
    (directory / "MANIFEST").write_bytes(old)
    before = read_files(directory)
    for readonly in (False, True):
        with pytest.raises(OldManifest, match=r"older than 000002\.0\.mdb .* log repair"):
            open_log(directory, readonly=readonly)
    problems = verify(directory).problems

    assert [problem.severity for problem in problems] == ["fatal"]
    assert "older than" in problems[0].message
    assert read_files(directory) == before

    done = repair(directory)

    assert (done.runes_lost, done.more_lost) == (0, False)
    assert verify(directory).problems == []
    with open_log(directory) as log:
        assert len(content(log, "conv_a")) == 140


def test_an_unknown_segment_with_runes_of_its_own_is_set_aside(tmp_path: Path) -> None:
    """What MANIFEST does not name and nothing proves to be rubbish is kept, and named."""
    directory, other = tmp_path / "log", tmp_path / "other"
    told(directory, [Step("append", ("conv_a",), 2)])
    told(other, [Step("append", ("conv_b",), 2)])
    stray = (other / "segments" / "000001.0.mdb").read_bytes()
    (directory / "segments" / "000007.3.mdb").write_bytes(stray)

    assert [problem.severity for problem in verify(directory).problems] == ["warn"]
    with open_log(directory) as log:
        assert len(content(log, "conv_a")) == 2
        assert "000007.3.mdb" in log.notices[0]
        assert "damaged/000007.3.mdb" in log.notices[0]
    assert (directory / "damaged" / "000007.3.mdb").read_bytes() == stray
    with open_log(directory) as log:
        assert log.notices == []


def test_a_segment_whose_runes_are_elsewhere_is_removed(tmp_path: Path) -> None:
    """A second copy of runes that the log has, byte for byte, is rubbish."""
    directory = tmp_path / "log"
    told(directory, [Step("append", ("conv_a",), 2), Step("roll")])
    first = directory / "segments" / "000001.0.mdb"
    (directory / "segments" / "000001.1.mdb").write_bytes(first.read_bytes())
    with open_log(directory) as log:
        assert log.notices == []
        assert len(content(log, "conv_a")) == 2

    assert not (directory / "segments" / "000001.1.mdb").exists()
    assert not (directory / "damaged").exists()


def test_other_files_among_the_segments_are_left_alone(tmp_path: Path) -> None:
    """A file that no log makes is not for a log to remove."""
    directory = tmp_path / "log"
    told(directory, [Step("append", ("conv_a",), 2)])
    note = directory / "segments" / "000001.0.mdb.bak"
    note.write_text("mine")
    open_log(directory).close()

    assert note.read_text() == "mine"


def test_what_was_erased_does_not_come_back_with_old_files(tmp_path: Path) -> None:
    """Segments from before an erasure: its tombstone is known, so the data goes again."""
    directory = tmp_path / "log"
    told(directory, [Step("append", ("conv_a", "conv_e"), 3)])
    before = read_files(directory)
    told(directory, [Step("erase", ("conv_e",))])
    tombstone = {"archive/conv_e.erased": b""}
    again = tmp_path / "again"
    write_files(again, before | tombstone)
    with open_log(again) as log:
        assert log.conversation("conv_e").state is State.ERASED
        assert len(content(log, "conv_a")) == 3

    assert b"of conv_e" not in b"".join(read_files(again).values())


def test_a_log_that_misses_a_segment_is_refused_to_writers(tmp_path: Path) -> None:
    """Nothing is changed in half of a log; what is there can be read."""
    directory = tmp_path / "log"
    told(directory, [Step("append", ("conv_a",), 2), Step("roll"), Step("append", ("conv_b",), 2)])
    (directory / "segments" / read_manifest(directory).segments[0].name).unlink()
    before = read_files(directory)

    with pytest.raises(Corrupt, match=r"000001\.0\.mdb missing .* log repair"):
        open_log(directory)
    assert read_files(directory) == before
    with open_log(directory, readonly=True) as log:
        assert len(content(log, "conv_b")) == 2


def test_what_is_set_aside_is_told_to_operators(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A runtime writes it to its log; a command prints it to standard error."""
    stray = tmp_path / "other"
    told(stray, [Step("append", ("conv_b",), 2)])
    for name in ("run", "command"):
        directory = tmp_path / name
        told(directory, [Step("append", ("conv_a",), 2)])
        segment = (stray / "segments" / "000001.0.mdb").read_bytes()
        (directory / "segments" / "000007.3.mdb").write_bytes(segment)
    with caplog.at_level("WARNING", "runefold"):
        Runtime.open(tmp_path / "run").close()
    done = run("log", "archive", tmp_path / "command", "conv_a")

    assert "damaged/000007.3.mdb" in vars(caplog.records[0])["notice"]
    assert done.exit_code == 0
    assert "000007.3.mdb is not named by MANIFEST" in done.stderr
