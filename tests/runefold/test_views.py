"""Views: files and tables that are kept in step with the log, and made anew from it."""

from __future__ import annotations

import json
import logging
import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from actors.kind import Kinds
from actors.view import LineFile, StateFile, Step
from runefold.view_files import RECORD
from runefold.views import Views
from runelog.errors import Refused
from runelog.memory import MemoryLog
from runelog.rune import Change
from runelog.store import Runelog
from tests.runefold.orders import (
    ALL,
    CODEC,
    LEDGER,
    LOG,
    STATE,
    UNPAID,
    Machine,
    Paid,
    Table,
    files,
    fresh,
    go_on,
    order_kind,
    place,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.log import Log


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Provide an empty log, in memory or on disk."""
    if request.param == "memory":
        with MemoryLog(CODEC) as memory:
            yield memory
    else:
        with Runelog.open(tmp_path / "log", CODEC) as found:
            yield found


def test_files_show_what_is_committed(log: Log, tmp_path: Path) -> None:
    """A state file is replaced, a line is added per transition, a file that is not due is gone."""
    place(log)
    machine = Machine(log, tmp_path / "v")
    before = files(tmp_path / "v")
    go_on(log)
    machine.views.catch_up()
    found = files(tmp_path / "v")
    state = json.loads(found["orders/ord_1/STATE.json"])
    lines = [json.loads(text) for text in found["orders/ord_1/LOG.jsonl"].splitlines()]

    assert "orders/UNPAID/ord_1.json" in before
    assert sorted(found) == [
        "orders/LEDGER.jsonl",
        "orders/ord_1/LOG.jsonl",
        "orders/ord_1/STATE.json",
    ]
    assert [move[:2] for move in state["history"]] == [
        ["new", "placed"],
        ["placed", "paid"],
        ["paid", "sent"],
    ]
    assert (state["state"], state["notes"]) == ("sent", ["quick"])
    assert [text[4:] for text in lines] == [["order.placed", 1], ["order.paid", 2], ["post", 3]]


def test_what_is_not_committed_is_not_shown(tmp_path: Path) -> None:
    """A view is never ahead of the log: what a power cut could take back is not in it."""
    log = MemoryLog(CODEC, hold=True)
    place(log)
    machine = Machine(log, tmp_path / "v")
    before = files(tmp_path / "v")
    log.append("conv_a", [Change("ord_1", None, [Paid()])], durable=False)
    machine.views.catch_up()

    assert files(tmp_path / "v") == before
    log.commit_pending()
    machine.views.catch_up()
    assert files(tmp_path / "v") != before


OWN, SHARED, SHOWN = "orders/ord_1/LOG.jsonl", "orders/LEDGER.jsonl", "orders/ord_1/STATE.json"


def _tear(directory: Path) -> None:
    for path in (OWN, SHARED):
        with (directory / path).open("ab") as file:
            file.write(b'{"id": "ord')


def _cut(directory: Path) -> None:
    for path in (OWN, SHARED):
        os.truncate(directory / path, 3)


def _overwrite(path: Path) -> None:
    path.write_bytes(b"x" * path.stat().st_size)


def _make_stale(directory: Path) -> None:
    (directory / RECORD).unlink()
    stale = directory / "orders/UNPAID/ord_9.json"
    stale.parent.mkdir(exist_ok=True)
    stale.write_bytes(b"{}")
    (directory / SHOWN).write_bytes(b"old")


DAMAGES: Final[dict[str, Callable[[Path], object]]] = {
    "torn tail": _tear,
    "missing": lambda directory: (directory / SHOWN).unlink(),
    "missing lines": lambda directory: (directory / OWN).unlink(),
    "missing ledger": lambda directory: (directory / SHARED).unlink(),
    "edit": lambda directory: (directory / SHOWN).write_bytes(b"{}"),
    "edited lines": lambda directory: _overwrite(directory / OWN),
    "edited ledger": lambda directory: _overwrite(directory / SHARED),
    "shorter": _cut,
    "all gone": lambda directory: shutil.rmtree(directory / "orders"),
    "no record": lambda directory: (directory / RECORD).unlink(),
    "no record, stale files": _make_stale,
    "damaged record": lambda directory: (directory / RECORD).write_bytes(b"no database" * 1_000),
}


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("what", DAMAGES)
def test_an_open_makes_files_equal_to_the_log(tmp_path: Path, what: str, later: bool) -> None:  # noqa: FBT001 -- a parameter
    """Whatever became of the files meanwhile, and whatever the log has more, they are right."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    place(log, "ord_2")
    go_on(log)
    Machine(log, directory).views.close()
    DAMAGES[what](directory)
    if later:
        go_on(log, "ord_2")
    Machine(log, directory).views.close()

    assert files(directory) == fresh(log, tmp_path / "fresh")


def test_files_that_others_made_are_left_alone(tmp_path: Path) -> None:
    """Only paths of views are touched, also when everything is made anew."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    (directory / "orders").mkdir(parents=True)
    (directory / "orders/README").write_text("mine")
    (directory / "orders/UNPAID").mkdir()
    (directory / "orders/UNPAID/list.json").write_text("mine")
    Machine(log, directory).views.close()

    assert (directory / "orders/README").read_text() == "mine"
    assert (directory / "orders/UNPAID/list.json").read_text() == "mine"


def test_another_version_of_a_view_makes_its_files_anew(tmp_path: Path) -> None:
    """Who changes how a file is written raises its version."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    Machine(log, directory).views.close()
    new = StateFile(path=STATE.path, render=lambda step: step.entity, version=2)
    Machine(log, directory, new).views.close()

    assert files(directory)["orders/ord_1/STATE.json"] == b'"ord_1"\n'


def test_a_log_that_was_set_back_leaves_nothing_of_what_it_lost(tmp_path: Path) -> None:
    """A log restored from an older copy has other runes there: the files follow it."""
    directory = tmp_path / "v"
    log = MemoryLog(CODEC)
    place(log)
    place(log, "ord_2")
    go_on(log)
    Machine(log, directory).views.close()
    older = MemoryLog(CODEC)
    place(older, "ord_3")
    Machine(older, directory).views.close()

    assert files(directory) == fresh(older, tmp_path / "fresh")


def test_an_order_of_which_only_the_intent_is_recorded_is_looked_at(tmp_path: Path) -> None:
    """Killed before the record was complete, and the runes lost too: no file is left behind."""
    directory, log = tmp_path / "v", MemoryLog(CODEC)
    place(log)
    machine = Machine(log, directory)
    view = machine.views._feeds[0].view
    row = ("orders/ord_9/STATE.json", "conv_a", "ord_9", 0, 0, 0, 0, 1)
    view._save([type(view._rows()[0])(*row)])  # type: ignore[attr-defined]  # a FileView
    (directory / "orders/ord_9").mkdir()
    (directory / "orders/ord_9/STATE.json").write_bytes(b"{}")
    (directory / "orders/ord_9/STATE.json.7-1.new").write_bytes(b"{")
    machine.views.close()
    Machine(log, directory).views.close()

    assert not (directory / "orders/ord_9").exists()


def test_an_erased_conversation_is_gone_from_all_files(log: Log, tmp_path: Path) -> None:
    """Files of its entities are removed, and its lines from those that others are in too."""
    directory = tmp_path / "v"
    place(log)
    place(log, "ord_2", "conv_b")
    machine = Machine(log, directory)
    log.erase("conv_a")
    machine.views.look_for_erased()
    machine.views.catch_up()
    live = files(directory)
    machine.views.close()
    log.erase("conv_b")
    Machine(log, directory).views.close()

    assert sorted(live) == [
        "orders/LEDGER.jsonl",
        "orders/UNPAID/ord_2.json",
        "orders/ord_2/LOG.jsonl",
        "orders/ord_2/STATE.json",
    ]
    assert b"ord_1" not in live["orders/LEDGER.jsonl"]
    assert files(directory) == {}


def test_archived_conversations_stay(log: Log, tmp_path: Path) -> None:
    """What is archived is still there to be read: also if everything is made anew."""
    directory = tmp_path / "v"
    for conversation, order in (("conv_a", "ord_1"), ("conv_b", "ord_2"), ("conv_c", "ord_3")):
        place(log, order, conversation)
    go_on(log)
    go_on(log, "ord_3", "conv_c")
    machine = Machine(log, directory)
    before = files(directory)
    log.archive("conv_a", "conv_b")
    machine.views.catch_up()
    log.restore("conv_b")
    machine.views.catch_up()
    machine.views.close()

    assert files(directory) == before
    assert fresh(log, tmp_path / "fresh") == before
    go_on(log, "ord_2", "conv_b")
    Machine(log, directory).views.close()
    assert files(directory) == fresh(log, tmp_path / "fresh")


def test_what_was_archived_unseen_is_found(log: Log, tmp_path: Path) -> None:
    """A conversation that went on and was archived while nothing kept the views is shown too."""
    directory = tmp_path / "v"
    place(log)
    place(log, "ord_2", "conv_b")
    Machine(log, directory).views.close()
    go_on(log)
    log.archive("conv_a")
    Machine(log, directory).views.close()

    assert files(directory) == fresh(log, tmp_path / "fresh")


def test_a_directory_that_cannot_be_written_raises_an_alert(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine goes on, operators are told once, and the files catch up once they can."""
    directory, log = tmp_path / "v", MemoryLog(CODEC)
    directory.write_text("in the way")
    place(log)
    with caplog.at_level(logging.INFO, "runefold"):
        machine = Machine(log, directory)
        go_on(log)
        machine.views.catch_up()
        machine.clock.move_to(machine.clock.now() + 10**9)
        machine.views.catch_up()
        alerts = machine.views.alerts()
        directory.unlink()
        machine.clock.move_to(machine.clock.now() + 120 * 10**9)
        machine.views.catch_up()
    told = [vars(record)["event"] for record in caplog.records]

    assert [alert.rule for alert in alerts] == ["view"] * 4
    assert told.count("view_failed") == 4
    assert told.count("view_recovered") == 4
    assert machine.views.alerts() == []
    assert files(directory) == fresh(log, tmp_path / "fresh")


@pytest.mark.parametrize("sort", ["state", "line"])
def test_a_view_that_raises_costs_no_other(tmp_path: Path, sort: str) -> None:
    """Its own function fails: it is reported, the others go on, and it catches up when it works."""
    broken = [True]

    def wrong(step: Step) -> object:
        if broken[0] and step.state.notes:
            msg = "no notes, please"
            raise ValueError(msg)
        return {"order": step.entity}

    bad = (
        StateFile(path="bad/{entity}.json", render=wrong)
        if sort == "state"
        else LineFile(path="bad/{entity}.jsonl", line=wrong)
    )
    directory, log = tmp_path / "v", MemoryLog(CODEC)
    machine = Machine(log, directory, bad, *ALL)
    place(log)
    go_on(log)
    machine.views.catch_up()
    alerts = machine.views.alerts()
    meanwhile = json.loads(files(directory)["orders/ord_1/STATE.json"])
    broken[0] = False
    machine.clock.move_to(machine.clock.now() + 120 * 10**9)
    machine.views.catch_up()

    assert ["no notes, please" in alert.message for alert in alerts] == [True]
    assert meanwhile["state"] == "sent"
    assert machine.views.alerts() == []
    assert len([path for path in files(directory) if path.startswith("bad/")]) == 1


def test_two_runtimes_do_not_share_a_directory_at_once(tmp_path: Path) -> None:
    """The second one is told so, and takes the files over once the first is closed."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    first = Machine(log, directory)
    second = Machine(log, directory)
    alerts = second.views.alerts()
    go_on(log)
    first.views.close()
    second.clock.move_to(second.clock.now() + 120 * 10**9)
    second.views.catch_up()

    assert all("locked" in alert.message for alert in alerts)
    assert len(alerts) == 4
    assert second.views.alerts() == []
    assert files(directory) == fresh(log, tmp_path / "fresh")


def test_a_view_without_its_kind_is_left_alone(tmp_path: Path) -> None:
    """Who opens the log without an app's machine does not touch the files of that."""
    log, directory = MemoryLog(CODEC), tmp_path / "v"
    place(log)
    Machine(log, directory).views.close()
    before = files(directory)
    go_on(log)
    Machine(log, directory, LEDGER).views.close()

    found = files(directory)
    assert found.pop("orders/LEDGER.jsonl") != before.pop("orders/LEDGER.jsonl")
    assert found == before


def test_nothing_runs_without_views(tmp_path: Path) -> None:
    """A runtime whose kinds have no views has no job, no directory and no record."""
    log = MemoryLog(CODEC)
    machine = Machine(log, tmp_path / "v", LEDGER)
    machine.views.close()
    shutil.rmtree(tmp_path / "v", ignore_errors=True)
    views = Views(Kinds([order_kind()]), log, tmp_path / "v", machine.views._services)
    place(log)
    views.catch_up()
    views.start()
    views.close()

    assert not machine.scheduler.step()
    assert not (tmp_path / "v").exists()


def test_a_table_is_kept_in_step_too() -> None:
    """An app's own view keeps its mark: it is told of what is new, or of all if it does not fit."""
    log, table = MemoryLog(CODEC), Table()
    place(log)
    Machine(log, None, table).views.close()
    go_on(log)
    again = Machine(log, None, table)
    resets = table.resets
    table.broken = True
    place(log, "ord_2", "conv_b")
    again.views.catch_up()
    alerts = again.views.alerts()
    table.broken = False
    log.erase("conv_a")
    again.clock.move_to(again.clock.now() + 120 * 10**9)
    again.views.catch_up()

    assert resets == 1
    assert [alert.entity for alert in alerts] == ["table"]
    assert table.rows == {("conv_b", "ord_2"): "placed"}


def test_a_job_keeps_them_when_driven_by_hand(tmp_path: Path) -> None:
    """The job ends when all is told, so that a simulation comes to rest; it can be woken again."""
    log = MemoryLog(CODEC)
    machine = Machine(log, tmp_path / "v")
    for order in ("ord_1", "ord_2"):
        place(log, order)
        machine.views.wake()
        machine.scheduler.run_until(lambda: False)

    assert machine.clock.next_alarm is None
    assert files(tmp_path / "v") == fresh(log, tmp_path / "fresh")


@pytest.mark.parametrize("path", ["/abs", "a/../b", "{name}.json", "{entity", "a//b", "{entity!r}"])
def test_a_path_that_could_be_anywhere_is_refused(path: str) -> None:
    """Paths are relative, and made of ids: they are checked before anything is written."""
    with pytest.raises(Refused, match="of a view"):
        StateFile(path=path, render=lambda _step: None)


def test_two_views_cannot_have_one_path(tmp_path: Path) -> None:
    """They would overwrite each other."""
    with pytest.raises(Refused, match="two views"):
        Machine(MemoryLog(CODEC), tmp_path / "v", STATE, STATE)


def test_files_need_a_directory() -> None:
    """A log in memory has none: it has to be named."""
    with pytest.raises(Refused, match="views="):
        Machine(MemoryLog(CODEC), None, UNPAID, LOG)


def test_one_file_is_not_of_two_entities(tmp_path: Path) -> None:
    """If ids are the same in two conversations the view says so, and shows the first one's."""
    log = MemoryLog(CODEC)
    place(log)
    machine = Machine(log, tmp_path / "v", STATE)
    place(log, "ord_1", "conv_b")
    machine.views.catch_up()

    assert "put {conversation} into the path" in machine.views.alerts()[0].message
