"""Views at an open: how much of the log is read for them, and which there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.kind import Kinds
from runefold.views import Views
from runelog.memory import MemoryLog
from runelog.rune import Change
from tests.runefold.orders import (
    CODEC,
    LOG,
    STATE,
    Machine,
    Noted,
    Table,
    files,
    fresh,
    go_on,
    order_kind,
    place,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from runelog.rune import Envelope, Gap


class Counted(MemoryLog):
    """A log that notes from where all of it is read."""

    def __init__(self) -> None:
        """Note nothing yet."""
        super().__init__(CODEC)
        self.begun: list[int] = []

    def read_all(self, after: int = 0) -> Iterator[Envelope | Gap]:
        """Note it."""
        self.begun.append(after)
        return super().read_all(after)


def test_a_first_open_reads_nothing_if_there_is_nothing_for_a_view(tmp_path: Path) -> None:
    """The index tells that: files that were left behind are removed, what comes then is shown."""
    log, directory = Counted(), tmp_path / "v"
    for number in range(20):
        log.append(f"conv_{number}", [Change("tea_1", None, [Noted("x")] * 5)])
    (directory / "orders/ord_9").mkdir(parents=True)
    (directory / "orders/ord_9/STATE.json").write_bytes(b"{}")
    machine = Machine(log, directory)
    found, skipped = files(directory), min(log.begun)
    place(log)
    go_on(log)
    machine.views.close()
    shown = files(directory)
    log.begun.clear()
    whole = fresh(log, tmp_path / "fresh")

    assert (found, skipped) == ({}, 99)
    assert shown == whole != {}
    assert min(log.begun) == 0


def test_what_is_skipped_is_not_read_at_the_next_open(tmp_path: Path) -> None:
    """It is recorded how far the files are; also if what came since was archived unseen."""
    log, directory = Counted(), tmp_path / "v"
    log.append("conv_b", [Change("tea_1", None, [Noted("x")] * 5)])
    Machine(log, directory).views.close()
    log.begun.clear()
    Machine(log, directory).views.close()
    again = min(log.begun)
    place(log)
    log.append("conv_b", [Change("tea_1", None, [Noted("y")])])
    log.archive("conv_a")
    Machine(log, directory).views.close()

    assert again == 4
    assert files(directory) == fresh(log, tmp_path / "fresh") != {}


def test_a_second_open_reads_only_what_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on from the recorded position, and files that are right are not written again."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    Machine(log, directory).views.close()
    before = {path: (directory / path).stat().st_ino for path in files(directory)}
    read: list[int] = []
    whole = log.read_all

    def counted(after: int = 0) -> Iterator[Envelope | Gap]:
        read.append(after)
        return whole(after)

    monkeypatch.setattr(log, "read_all", counted)
    Machine(log, directory).views.close()

    assert min(read) == log.position - 1
    assert {path: (directory / path).stat().st_ino for path in files(directory)} == before


def test_files_of_our_own_kinds_are_left_out_where_there_is_no_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An app that opens a log in memory did not ask for them; its own views are kept all the same.

    If they were all that there is, nothing runs.
    """
    log, table = MemoryLog(CODEC), Table()
    ours = order_kind(STATE, LOG)
    mixed = order_kind(STATE, table)
    monkeypatch.setattr("runefold.views.KINDS", Kinds([ours]))
    place(log)
    none = Views(Kinds([ours]), log, None, Machine(log, None, table).views._services)
    none.start()
    none.close()
    monkeypatch.setattr("runefold.views.KINDS", Kinds([mixed]))
    Views(Kinds([mixed]), log, None, none._services).close()

    assert none._job is None
    assert none.alerts() == []
    assert table.rows == {("conv_a", "ord_1"): "placed"}
