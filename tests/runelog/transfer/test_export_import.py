"""Export and import: what comes out of one log goes into another, whole or not at all."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from runelog.errors import BadStream, Gone, Refused, UnknownConversation
from runelog.repair.verify import verify
from runelog.rune import Change, Tombstone
from runelog.transfer.export_import import export, take_in
from tests.runelog.ledger import Booked, Sealed, contents, open_ledger, write_ledger

if TYPE_CHECKING:
    from pathlib import Path


def exported(directory: Path, *names: str, secret: bool = False) -> bytes:
    """Return an export of some conversations, or of all."""
    file = io.BytesIO()
    with open_ledger(directory, readonly=True) as log:
        export(log, file, names or None, secret=secret)
    return file.getvalue()


def test_a_log_comes_over_whole(tmp_path: Path) -> None:
    """Every conversation arrives with its runes, ids, times and streams, and can be appended to."""
    truth = write_ledger(tmp_path / "one")
    data = exported(tmp_path / "one")

    with open_ledger(tmp_path / "two") as log:
        names = take_in(log, io.BytesIO(data))

        assert names == sorted(truth)
        assert contents(log) == truth
        with open_ledger(tmp_path / "one", readonly=True) as old:
            for name in names:
                here, there = log.conversation(name), old.conversation(name)
                assert here == there
                assert [e.time for e in log.read(name)] == [e.time for e in old.read(name)]
                for entity in ("book_0", "boss"):
                    assert log.version(name, entity) == old.version(name, entity)
        at = log.version("conv_0", "book_0")
        log.append("conv_0", [Change("book_0", at, [Booked(amount=1)])])
    assert verify(tmp_path / "two").problems == []


def test_what_is_taken_in_is_followed_like_anything_new(tmp_path: Path) -> None:
    """Imported runes come behind all others, and a reader of everything gets each once."""
    truth = write_ledger(tmp_path / "one")
    data = exported(tmp_path / "one", "conv_1", "conv_2")

    with open_ledger(tmp_path / "two") as log:
        log.append("conv_x", [Change("book_0", 0, [Booked(amount=7)])])
        take_in(log, io.BytesIO(data))
        log.append("conv_x", [Change("book_0", 1, [Booked(amount=8)])])

        seen = list(log.read_all())

        assert len(seen) == 2 + len(truth["conv_1"]) + len(truth["conv_2"])
        assert [item.position for item in seen if not hasattr(item, "reason")] == list(
            range(1, len(seen) + 1)
        )


def test_secrets_stay_at_home(tmp_path: Path) -> None:
    """A secret rune is exported as a tombstone, unless it is asked for; ids stay gap-free."""
    with open_ledger(tmp_path / "one") as log:
        log.append("conv_a", [Change("book_0", 0, [Booked(amount=1), Sealed(memo="hush")])])
    with open_ledger(tmp_path / "two") as two, open_ledger(tmp_path / "three") as three:
        take_in(two, io.BytesIO(exported(tmp_path / "one")))
        take_in(three, io.BytesIO(exported(tmp_path / "one", secret=True)))

        told = contents(two)["conv_a"]
        assert told == [Booked(amount=1), Tombstone(reason="secret", was="ledger.sealed")]
        assert contents(three)["conv_a"][1] == Sealed(memo="hush")


@pytest.mark.parametrize("cut", [0, 1, 40, -1])
def test_a_broken_stream_changes_nothing(tmp_path: Path, cut: int) -> None:
    """Truncated input is refused, and the log is as it was, byte for byte of its runes."""
    write_ledger(tmp_path / "one")
    data = exported(tmp_path / "one")

    with open_ledger(tmp_path / "two") as log:
        log.append("conv_x", [Change("book_0", 0, [Booked(amount=7)])])
        with pytest.raises(BadStream):
            take_in(log, io.BytesIO(data[:cut]))

        assert contents(log) == {"conv_x": [Booked(amount=7)]}
        assert log.position == 1


def test_what_is_here_already_is_refused(tmp_path: Path) -> None:
    """One conversation that exists, or was erased, and none of the stream is taken in."""
    write_ledger(tmp_path / "one")
    data = exported(tmp_path / "one")

    with open_ledger(tmp_path / "two") as log:
        log.append("conv_3", [Change("book_0", 0, [Booked(amount=7)])])
        with pytest.raises(Refused, match="conv_3 is already in this log"):
            take_in(log, io.BytesIO(data))
        log.erase("conv_3")
        with pytest.raises(Refused, match="conv_3 was erased"):
            take_in(log, io.BytesIO(data))

        assert [found.id for found in log.conversations()] == ["conv_3"]


def test_large_fields_travel_along(tmp_path: Path) -> None:
    """A rune whose text is kept as a blob reads the same in the log it was imported into."""
    large = Booked(amount=1, memo="é" * (1 << 20))
    with open_ledger(tmp_path / "one") as log:
        log.append("conv_a", [Change("book_0", 0, [large])])
    with open_ledger(tmp_path / "two") as log:
        take_in(log, io.BytesIO(exported(tmp_path / "one")))

        assert contents(log) == {"conv_a": [large]}


def test_naming_what_is_not_there_writes_nothing(tmp_path: Path) -> None:
    """An unknown or erased conversation is refused before a byte is written."""
    write_ledger(tmp_path / "one")
    file = io.BytesIO()
    with open_ledger(tmp_path / "one") as log:
        log.erase("conv_2")
        with pytest.raises(UnknownConversation):
            export(log, file, ["conv_0", "conv_zero"])
        with pytest.raises(Gone):
            export(log, file, ["conv_0", "conv_2"])

    assert file.getvalue() == b""
