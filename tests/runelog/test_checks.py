"""What no log takes: the shape of an append is checked before anything is numbered or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from runelog.codec import Codec
from runelog.errors import Refused
from runelog.memory import MemoryLog
from runelog.repair.verify import verify
from runelog.rune import Change, Rune
from runelog.store import Runelog
from tests.runelog.ledger import Booked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runelog.log import Log


class Loose(Rune, frozen=True, tag="ledger.loose"):
    """A rune that holds anything."""

    what: Any = None


CODEC = Codec([Booked, Loose])
GOOD = Change("book_1", None, [Booked(amount=1)])
ODD: list[dict[str, Any]] = [
    {"observers": "abc"},
    {"observers": ("book_1", 2)},
    {"tags": "x"},
    {"tags": (1, 2)},
    {"tags": ("fine", "\ud800")},
    {"cause": 1.5},
    {"cause": True},
    {"cause": -1},
    {"cause": None},
    {"visibility": 7},
    {"visibility": "public"},
    {"deadline": 1.5, "open": True},
    {"deadline": 1 << 63, "open": True},
    {"deadline": 5},
    {"open": 1},
    {"expected_version": "0"},
    {"runes": (rune for rune in [Booked(amount=1)])},
    {"runes": []},
    {"runes": [Loose(what="\ud800")]},
    {"runes": [Loose(what=1 << 70)]},
    {"runes": [Loose(what=object())]},
    {"runes": [Booked(amount=1), Loose(what={1, object})]},
]


@pytest.fixture(params=["memory", "disk"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """Give a log of each kind."""
    made: Log = MemoryLog(CODEC) if request.param == "memory" else Runelog.open(tmp_path, CODEC)
    with made:
        yield made


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_what_could_not_be_read_back_is_never_taken(log: Log, odd: dict[str, Any]) -> None:
    """A change of the wrong shape is refused with a sentence, and the log goes on."""
    log.append("conv_a", [GOOD])

    with pytest.raises(Refused) as caught:
        log.append("conv_a", [msgspec.structs.replace(GOOD, **odd)])

    assert len(str(caught.value)) > 20
    log.append("conv_a", [GOOD])
    assert [e.payload for e in log.read("conv_a")] == [Booked(amount=1)] * 2
    assert log.position == 2


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(lambda: (change for change in [GOOD]), id="a generator"),
        pytest.param(lambda: iter([GOOD]), id="an iterator"),
        pytest.param(lambda: {GOOD.entity: GOOD}, id="a mapping"),
        pytest.param(lambda: GOOD, id="a change by itself"),
        pytest.param(lambda: "changes", id="a text"),
        pytest.param(lambda: None, id="nothing"),
    ],
)
def test_changes_come_in_a_list(log: Log, tmp_path: Path, changes: Callable[[], Any]) -> None:
    """What could be gone through only once is refused: by its second look nothing would be left."""
    log.append("conv_a", [GOOD])

    with pytest.raises(Refused, match="a list or a tuple"):
        log.append("conv_a", changes())

    log.append("conv_a", (GOOD,))
    assert [e.payload for e in log.read("conv_a")] == [Booked(amount=1)] * 2
    log.close()
    assert not (tmp_path / "MANIFEST").exists() or verify(tmp_path, codec=CODEC).problems == []


@pytest.mark.parametrize("now", [1.5, None, 1 << 63, True])
def test_a_clock_that_does_not_tell_the_time_is_refused(tmp_path: Path, now: object) -> None:
    """What the clock says becomes part of the log: it must fit, or nothing is appended."""
    told: list[Any] = [5]
    with Runelog.open(tmp_path, CODEC, clock=lambda: told[-1]) as log:
        log.append("conv_a", [GOOD])
        told.append(now)
        with pytest.raises(Refused, match="clock"):
            log.append("conv_a", [GOOD])
        told.append(7)
        log.append("conv_a", [GOOD])

        assert [e.time for e in log.read("conv_a")] == [5, 7]
