"""A small log on disk, its truth beside it: what the tests of verify, repair and exchange share."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from runelog.codec import Codec
from runelog.rune import Change, Rune, Visibility
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path

    from runelog.log import Log

SMALL = 1 << 20


class Booked(Rune, frozen=True, tag="ledger.booked"):
    """An amount was booked."""

    amount: int
    memo: str = ""


class Sealed(Rune, frozen=True, tag="ledger.sealed"):
    """Something only its agent may see."""

    visibility: ClassVar[Visibility] = Visibility.SECRET
    memo: str


CODEC = Codec([Booked, Sealed])
Truth = dict[str, list[Rune]]


def open_ledger(directory: Path, *, readonly: bool = False) -> Runelog:
    """Open the log with our kinds and small segments."""
    return Runelog.open(directory, CODEC, readonly=readonly, segment_size=SMALL)


def write_ledger(directory: Path, appends: int = 120) -> Truth:
    """Fill a log with five conversations over two segments, and return what is in each."""
    truth: Truth = {}
    with open_ledger(directory) as log:
        for number in range(appends):
            name = f"conv_{number % 5}"
            runes: list[Rune] = [
                Booked(amount=number, memo=f"{name} {number}.{part}")
                for part in range(number % 4 + 1)
            ]
            entity = f"book_{number % 3}"
            change = Change(
                entity,
                log.version(name, entity),
                runes,
                observers=("boss",),
                open=number % 7 == 0,
                deadline=number if number % 7 == 0 else None,
            )
            log.append(name, [change], durable=number % 10 == 0)
            truth.setdefault(name, []).extend(runes)
            log.flush()
            if number == appends // 2:
                log.roll()
    return truth


def contents(log: Log) -> Truth:
    """Return the payloads of every conversation, in order."""
    return {
        found.id: [envelope.payload for envelope in log.read(found.id)]
        for found in log.conversations()
    }
