"""A writer that was taken over changes nothing any more, whatever it does next."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pytest

from runelog.directory.create import acquire
from runelog.errors import Fenced, Held
from runelog.rune import Change
from runelog.store import Runelog
from tests.crash.judge import observe, sound
from tests.crash.puppets import Puppet
from tests.crash.story import CODEC, SMALL, Noted, content, open_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAME: Final = "conv_a"
MANY: Final = 20


@pytest.fixture
def puppet(tmp_path: Path) -> Iterator[Puppet]:
    """Provide another process, for the log in `tmp_path / "log"`."""
    with Puppet(tmp_path / "log") as other:
        yield other


def note(text: str) -> list[Change]:
    """Return an append of one rune."""
    return [Change("note_1", None, [Noted(text=text)], ("book_1",))]


def taken_over(directory: Path) -> Runelog:
    """Take the log over, and write much more than there was."""
    log = Runelog.open(directory, CODEC, segment_size=SMALL, take_over=True)
    for number in range(MANY):
        log.append(NAME, note(f"{number} " + "=" * 10_000))
    return log


@pytest.mark.parametrize("order", [("close",), ("roll",), ("archive", NAME), ("erase", NAME)])
def test_a_writer_that_was_taken_over_leaves_the_files_alone(
    tmp_path: Path, puppet: Puppet, order: tuple[str, ...]
) -> None:
    """Without an append in between, a fenced writer cannot cut, seal or rewrite a file either."""
    puppet.ask("open")
    puppet.ask("append", NAME, "one")
    with taken_over(tmp_path / "log") as log:
        answer = puppet.ask(*order)
        assert answer is None if order == ("close",) else answer[0] == Fenced.__name__
        assert len(content(log, NAME)) == MANY + 1
        log.append(NAME, note("last"))
        puppet.ask("close")
        assert not (tmp_path / "log" / "CLEAN").exists()
        log.append(NAME, note("very last"))

    with open_log(tmp_path / "log") as log:
        assert len(observe(log)[NAME][1]) == MANY + 3
    sound(tmp_path / "log")


def test_a_writer_that_never_wrote_leaves_the_files_alone(tmp_path: Path, puppet: Puppet) -> None:
    """A log that was taken over is not vouched for by who opened it before and wrote nothing."""
    with Puppet(tmp_path / "log") as first:
        first.ask("open")
        first.ask("append", NAME, "one")
    puppet.ask("open")
    with taken_over(tmp_path / "log") as log:
        puppet.ask("close")
        assert not (tmp_path / "log" / "CLEAN").exists()
        assert len(content(log, NAME)) == MANY + 1
        log.append(NAME, note("last"))

    with open_log(tmp_path / "log") as log:
        assert len(observe(log)[NAME][1]) == MANY + 2
    sound(tmp_path / "log")


def test_a_writer_cannot_begin_after_it_was_taken_over(tmp_path: Path, puppet: Puppet) -> None:
    """Who opened a log and wrote nothing cannot begin once another has had it, even if it left."""
    open_log(tmp_path / "log").close()
    puppet.ask("open")
    with taken_over(tmp_path / "log") as log:
        log.roll()

    assert puppet.ask("append", NAME, "late")[0] == Fenced.__name__
    assert puppet.ask("erase", NAME)[0] == Fenced.__name__
    puppet.ask("close")
    assert (tmp_path / "log" / "CLEAN").exists()
    with open_log(tmp_path / "log") as log:
        assert len(observe(log)[NAME][1]) == MANY
    sound(tmp_path / "log")


def test_taking_over_sees_the_last_thing_the_other_did(tmp_path: Path) -> None:
    """A roll that was under way at the takeover is completed, and the new writer goes on there."""
    directory = tmp_path / "log"
    log = open_log(directory)
    log.append(NAME, note("one"))
    home = log.log_directory
    with home.owned():
        lock = acquire(directory, create=False, take_over=True)
        other = Runelog(
            directory,
            CODEC,
            lock,
            clock=time.time_ns,
            segment_size=SMALL,
            durability="commit",
        )
        home.next.seal(0)
    other._begin(take_over=True)
    other.append(NAME, note("two"))
    with pytest.raises(Fenced):
        log.roll()
    log.close()

    assert other.log_directory.segments.manifest.active.number == 2
    assert content(other, NAME) == ("one", "two")
    other.close()
    sound(directory)


def test_a_writer_that_was_taken_over_does_not_grow_a_file(tmp_path: Path) -> None:
    """An append that needs more room than its file has is refused before the file grows for it.

    The next writer has vouched for the length of that file.
    """
    directory = tmp_path / "log"
    size = 16 * SMALL
    log = Runelog.open(directory, CODEC, segment_size=size)
    log.append(NAME, note("one"))
    with Runelog.open(directory, CODEC, segment_size=size, take_over=True) as other:
        other.append(NAME, note("two"))
    assert (directory / "CLEAN").exists()
    much = [Change("note_1", None, [Noted(text="=" * 900_000)] * 9, ("book_1",))]
    with pytest.raises(Fenced):
        log.append(NAME, much)
    log.close()

    with open_log(directory) as again:
        assert content(again, NAME) == ("one", "two")
    sound(directory)


def test_a_writer_taken_over_before_it_began_is_fenced(tmp_path: Path) -> None:
    """Who had just got the lock when it was taken over finds that out, whatever LOCK says now."""
    directory = tmp_path / "log"
    open_log(directory).close()
    lock = acquire(directory, create=False, take_over=False)
    with open_log_over(directory) as other:
        other.append(NAME, note("one"))
        late = Runelog(
            directory, CODEC, lock, clock=time.time_ns, segment_size=SMALL, durability="commit"
        )
        with pytest.raises(Fenced):
            late.append(NAME, note("two"))
        late.close()
        other.append(NAME, note("three"))

        assert content(other, NAME) == ("one", "three")


def open_log_over(directory: Path) -> Runelog:
    """Take the log of a story over."""
    return Runelog.open(directory, CODEC, segment_size=SMALL, take_over=True)


def test_a_log_that_is_being_made_is_not_taken_over(tmp_path: Path) -> None:
    """Whoever is making a log may still do so: another is refused, and told who it is."""
    lock = acquire(tmp_path / "log", create=True, take_over=False)
    with pytest.raises(Held):
        open_log_over(tmp_path / "log")
    lock.release()
    open_log_over(tmp_path / "log").close()
