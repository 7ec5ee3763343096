"""The contract on logs that outlive their handle: opened again, they are what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.contract.base import (
    A,
    B,
    Base,
    C,
    NoteAttached,
    fill,
    notes,
    picture,
    some,
    texts,
)
from runelog.errors import Cold, Gone, WrongVersion
from runelog.rune import Change, Work

if TYPE_CHECKING:
    from collections.abc import Callable

    from runelog.log import Log


class Reopening(Base):
    """Closing and opening again."""

    def reopen(self, log: Log, *, clock: Callable[[], int] | None = None) -> Log:
        """Close the log and return it opened anew, with `clock` if one is given."""
        raise NotImplementedError

    def test_an_empty_log_can_be_opened_again(self) -> None:
        """A log that nothing was ever appended to is still one."""
        with self.reopen(self.make_log()) as log:
            assert log.position == 0
            assert log.append(A, [notes("note_1", "a", version=0)]).position == 1

    def test_everything_is_there_again(self) -> None:
        """What could be seen before closing can be seen after opening, nothing more or less."""
        log = self.make_log()
        some(log)
        log.append(B, [notes("note_2", "b3", open=True, deadline=7)])
        log.append(C, [Change("note_1", None, [NoteAttached(content=bytes(2 << 20))])])
        log.roll()
        fill(log, "conv_long", 700)
        log.archive(A)
        log.append("conv_other", [notes("note_1", "x", open=True)])
        log.erase("conv_long")
        before = picture(log)

        with self.reopen(log) as again:
            assert picture(again) == before

    def test_ids_versions_and_positions_go_on(self) -> None:
        """The next append after opening continues where the last one before closing ended."""
        log = self.make_log()
        some(log)

        with self.reopen(log) as again:
            with pytest.raises(WrongVersion):
                again.append(A, [notes("book_1", "x", version=0)])
            appended = again.append(A, [notes("book_1", "a4", version=3)])

            assert (appended.first, appended.position) == (4, 7)
            assert texts(again.read(A)) == ["a1", "a2", "a3", "a4"]

    def test_closing_commits_what_did_not_wait(self) -> None:
        """A clean close loses nothing, waited for or not."""
        log = self.make_log()
        for number in range(50):
            log.append(A, [notes("note_1", str(number))], durable=False)

        with self.reopen(log) as again:
            assert texts(again.read(A)) == [str(number) for number in range(50)]

    def test_states_are_remembered(self) -> None:
        """Archived stays archived, restored stays restored, erased stays erased."""
        log = self.make_log()
        some(log)
        log.archive(A, B)
        log.erase(C)
        log.restore(B)

        with self.reopen(log) as again:
            with pytest.raises(Cold):
                again.append(A, [notes("note_1", "x")])
            with pytest.raises(Gone):
                again.append(C, [notes("note_1", "x")])
            again.append(B, [notes("note_1", "b3", version=2)])
            again.restore(A)
            again.append(A, [notes("note_1", "a4", version=2)])

            assert texts(again.read(A)) == ["a1", "a2", "a3", "a4"]
            assert texts(again.read_all()) == [
                "[moved]",
                "[moved]",
                "[erased]",
                "[moved]",
                "[moved]",
                "b3",
                "a4",
            ]

    def test_open_work_is_remembered(self) -> None:
        """What was left to do when the log was closed is found when it is opened."""
        log = self.make_log()
        log.append(A, [notes("note_1", "a", open=True, deadline=5), notes("n", "b", open=True)])
        log.roll()
        log.append(A, [notes("n", "c", open=False)])

        with self.reopen(log) as again:
            assert list(again.open_work()) == [Work(A, "note_1", 5)]

    @pytest.mark.parametrize("then", ["", "roll", "archive", "archive restore", "erase"])
    def test_time_does_not_run_backwards_over_a_restart(self, then: str) -> None:
        """A clock that is behind at the next start does not set the log's time back.

        Wherever the last rune has gone since: to another segment, to cold storage, or for good.
        """
        log = self.make_log(clock=lambda: 1_000)
        log.append(A, [notes("note_1", "a")])
        for verb in then.split():
            log.roll() if verb == "roll" else getattr(log, verb)(A)

        with self.reopen(log, clock=lambda: 400) as again:
            again.append(B, [notes("note_1", "b")])

            assert again.conversation(B).first_time == 1_000

    def test_it_can_be_opened_many_times(self) -> None:
        """Each time a little is added, and each time everything is there."""
        log = self.make_log()
        for number in range(8):
            log.append(A, [notes("note_1", str(number), version=number)])
            if number % 3 == 0:
                log.roll()
            log = self.reopen(log)

        with log:
            assert texts(log.read(A)) == [str(number) for number in range(8)]
            assert log.position == 8
