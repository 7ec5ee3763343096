"""Several processes and one log: one writes, the others read, nobody is in another's way."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from runelog.errors import Fenced, Forked, Held
from runelog.lifecycle import Lifecycle
from runelog.replay import replay
from runelog.rune import Change, Rune
from runelog.store import Runelog
from tests.crash.guard import survived
from tests.crash.judge import observe, sound
from tests.crash.puppets import Puppet
from tests.crash.runs import scratch
from tests.crash.story import CODEC, SMALL, Noted, content, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

NAME: Final = "conv_a"


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Puppet]:
    """Provide another process, for the log in `tmp_path / "log"`."""
    with Puppet(tmp_path / "log") as other:
        yield other


def note(text: str) -> list[Change]:
    """Return an append of one rune."""
    return [Change("note_1", None, [Noted(text=text)], ("book_1",))]


# -- two writers -------------------------------------------------------------------------------


def test_a_second_writer_is_told_who_the_first_is(tmp_path: Path, puppet: Puppet) -> None:
    """While one process writes another cannot; the refusal names the process, and ends with it."""
    pid = puppet.ask("open")
    with pytest.raises(Held, match=rf"\b{pid}\b"):
        open_log(tmp_path / "log")
    puppet.ask("append", NAME, "one")
    puppet.kill()

    with open_log(tmp_path / "log") as log:
        assert content(log, NAME) == ("one",)


def test_a_writer_that_wakes_up_is_fenced(tmp_path: Path, puppet: Puppet) -> None:
    """A writer that was taken over while it hung is fenced off, and nothing of it gets in."""
    puppet.ask("open")
    puppet.ask("append", NAME, "one")
    puppet.freeze()
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL, take_over=True) as log:
        log.append(NAME, note("two"))
        puppet.thaw()
        assert puppet.ask("append", NAME, "three")[0] == Fenced.__name__
        assert puppet.ask("append", "conv_b", "four")[0] == Fenced.__name__
        puppet.ask("close")
        log.append(NAME, note("five"))

    with open_log(tmp_path / "log") as log:
        assert observe(log) == {NAME: (0, ("one", "two", "five"))}
    sound(tmp_path / "log")


def test_a_fenced_writer_does_not_disturb_a_roll(tmp_path: Path, puppet: Puppet) -> None:
    """A writer that was taken over cannot roll, archive or erase either."""
    puppet.ask("open")
    puppet.ask("append", NAME, "one")
    puppet.freeze()
    with Runelog.open(tmp_path / "log", CODEC, segment_size=SMALL, take_over=True) as log:
        log.append(NAME, note("two"))
        log.roll()
        log.append(NAME, note("three"))
        puppet.thaw()
        for order in (("append", NAME, "four"), ("roll",), ("archive", NAME), ("erase", NAME)):
            assert puppet.ask(*order)[0] == Fenced.__name__, order
        puppet.ask("close")
        log.append(NAME, note("five"))

    with open_log(tmp_path / "log") as log:
        assert observe(log) == {NAME: (0, ("one", "two", "three", "five"))}
    sound(tmp_path / "log")


# -- forks -------------------------------------------------------------------------------------


def _forked(root: Path) -> None:
    log = open_log(root / "log")
    log.append(NAME, note("one"))
    pid = os.fork()
    if pid == 0:
        os._exit(bool(survived(partial(_in_child, log))))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    log.append(NAME, note("two"))
    log.close()
    with open_log(root / "log") as again:
        assert content(again, NAME) == ("one", "two")
    sound(root / "log")


def _in_child(log: Runelog) -> None:
    for use in (
        lambda: log.append(NAME, note("child")),
        lambda: list(log.read(NAME)),
        log.flush,
        log.roll,
        lambda: log.erase(NAME),
    ):
        with pytest.raises(Forked):
            use()
    with Runelog.open(log.directory, CODEC, readonly=True) as mine:
        assert content(mine, NAME) == ("one",)
    with pytest.raises(Held):
        Runelog.open(log.directory, CODEC)
    log.close()


def _outlived(root: Path) -> None:
    """Let a forked child live on while its parent closes the log and opens it again."""
    reading, writing = os.pipe()
    log = open_log(root / "log")
    log.append(NAME, note("one"))
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    log.close()
    with open_log(root / "log") as again:
        again.append(NAME, note("two"))
    os.close(writing)
    os.waitpid(pid, 0)


def _bereft(root: Path) -> None:
    """Let a writer die that has forked a child; the child lives on."""
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        log = open_log(root / "log")
        log.append(NAME, note("one"))
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
        os._exit(0)
    os.waitpid(parent, 0)
    with open_log(root / "log") as again:
        assert content(again, NAME) == ("one",)
    os.close(writing)


def in_scratch(job: str) -> str:
    """Run one of the jobs of this module in a child; return what went wrong."""
    with scratch() as root:
        return survived(partial(globals()[job], root))


def test_a_forked_child_cannot_use_the_handle(pool: ProcessPoolExecutor) -> None:
    """In a forked child every use of the log raises `Forked`; a handle of its own can read."""
    assert pool.submit(in_scratch, "_forked").result() == ""


def test_a_forked_child_does_not_keep_the_log(pool: ProcessPoolExecutor) -> None:
    """A child that lives on does not hold the log its parent has closed, or has died with."""
    assert pool.submit(in_scratch, "_outlived").result() == ""
    assert pool.submit(in_scratch, "_bereft").result() == ""


# -- readers -----------------------------------------------------------------------------------


def slots(log: Runelog) -> int:
    """Return how many reader slots of the active segment are taken."""
    volumes = log.log_directory.segments
    env = volumes.segment(volumes.manifest.active.number).env
    assert env is not None
    return len(re.findall(r"^\s*\d+ ", env._env.readers(), re.MULTILINE))


def test_a_reader_that_dies_costs_nothing(tmp_path: Path, puppet: Puppet) -> None:
    """A reader killed in the middle leaves neither a slot nor a growing segment behind."""
    with open_log(tmp_path / "log") as log:
        log.append(NAME, note("0"))
        puppet.ask("open", readonly=True)
        puppet.ask("hold")
        puppet.kill()
        for number in range(1, 120):
            log.append(NAME, note(str(number)))

        assert slots(log) <= 2
        assert len(log.log_directory.segments.manifest.segments) == 1
        assert content(log, NAME) == tuple(map(str, range(120)))


class Phase(StrEnum):
    """The one phase of a notebook."""

    OPEN = "open"


class Notebook(msgspec.Struct, frozen=True):
    """How many notes were taken."""

    phase: Phase = Phase.OPEN
    notes: int = 0


def one_more(state: Notebook, _: Rune) -> Notebook:
    """Count a note."""
    return msgspec.structs.replace(state, notes=state.notes + 1)


def nothing(*_: object) -> tuple[()]:
    """Decide nothing, and owe nothing."""
    return ()


COUNTING: Lifecycle[Phase, Notebook, object, object] = Lifecycle(
    name="notebook",
    table={Phase.OPEN: {Noted: Phase.OPEN}},
    initial=Notebook(),
    decide=nothing,
    evolve=one_more,
    due=nothing,
)


def replay_both_ways(log: Runelog, until: int) -> None:
    """Fold from the start, and from the snapshots that are kept on the way."""
    whole = replay(log, NAME, COUNTING, until)
    stream = replay(log, NAME, COUNTING, until, entity="note_1")
    short = replay(log, NAME, COUNTING, until, snapshots=log.snapshots, save_every=8)
    assert whole.state.notes == stream.state.notes == short.state.notes == until


def read_often(log: Runelog, times: int) -> int:
    """Read in every way there is, to the end and not; return how many slots are taken then."""
    for number in range(times):
        replay_both_ways(log, number % 40 + 1)
        assert len(content(log, NAME)) == 40
        abandoned = log.read(NAME, number % 40)
        next(abandoned)
        next(log.read_all(number % 40))
        next(iter(log.stream(NAME, "note_1", number % 40)))
        next(log.follow(NAME, number % 40, wait=0))
        log.version(NAME, "note_1")
    return slots(log)


@pytest.mark.parametrize(
    "times", [1_000, pytest.param(10_000, marks=[pytest.mark.crash, pytest.mark.timeout(3_600)])]
)
@pytest.mark.parametrize("readonly", [False, True])
def test_reading_does_not_use_slots_up(tmp_path: Path, times: int, *, readonly: bool) -> None:
    """However often a log is read, and readers are dropped half way, no slot is lost."""
    with open_log(tmp_path / "log") as log:
        for number in range(40):
            log.append(NAME, note(str(number)))
    with Runelog.open(tmp_path / "log", CODEC, readonly=readonly) as log:
        assert read_often(log, times) <= 9
        # Else not a single one of them began at a snapshot.
        assert readonly or any((tmp_path / "log" / "snapshots").rglob("*"))


def test_a_follower_gets_each_rune_once(tmp_path: Path, puppet: Puppet) -> None:
    """While the writer rolls, archives and erases, a follower misses and repeats nothing."""
    with open_log(tmp_path / "log") as log, Puppet(tmp_path / "log") as other:
        log.append(NAME, note("begin"))
        for reader, name in ((puppet, None), (other, NAME)):
            reader.ask("open", readonly=True)
            assert reader.ask("follow", name, "end") == "following"
        written = ["begin"]
        for number in range(60):
            log.append(NAME, note(f"a {number}"), durable=number % 3 == 0)
            log.append(f"conv_{number % 7}", note(f"{number % 7} {number}"))
            written += [f"a {number}", f"{number % 7} {number}"]
            if number % 5 == 4:
                log.roll()
            if number % 12 == 11:
                log.archive("conv_1", "conv_2")
                log.restore("conv_1", "conv_2")
            if number == 40:
                log.erase("conv_3")
                log.append("conv_7", note("7 x"))
                written.append("7 x")
            if number > 40 and (number + 1) % 7 == 3:
                log.append(NAME, note("end"))
                break
        written.append("end")
        everything = puppet.answer()
        one = other.answer()
    last = 0
    for first, until, _ in everything:
        assert first > last
        last = until
    missed = set(written) - {text for _, _, text in everything}
    got = [text for _, _, text in everything if not text.startswith("[")]

    assert got == [text for text in written if text not in missed]
    assert all(text.split()[0] in "123" for text in missed)
    assert [text for _, _, text in one] == [t for t in written if t[0] in "abe"]
    assert [first for first, _, _ in one] == list(range(1, len(one) + 1))
