"""What was measured, as it is published in bench/results.json.

The table and the plots of docs/performance.md are made from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench.contender import Spent
from bench.table import Row

if TYPE_CHECKING:
    from pathlib import Path


class Standing(msgspec.Struct, frozen=True):
    """What turns take a contender."""

    name: str
    many: Spent
    """Of 32 conversations at once."""
    alone: Spent
    blocks: tuple[float, float] | None = None
    """Milliseconds a turn, of the first block of a long conversation and of the last."""


class Results(msgspec.Struct):
    """Everything that was measured."""

    settings: list[tuple[str, str]] = []
    """What was measured with, and what the peers were set to."""
    rows: list[Row] = []
    field: list[Standing] = []
    turn: dict[str, float] = {}
    """What a turn does, counted with a loop that is driven by hand."""
    parts: dict[str, float] = {}
    """The bytecodes of that turn, by what they are for."""
    series: dict[str, dict[str, list[tuple[float, float]]]] = {}
    """What is plotted: for each plot its lines by name, and their points."""


def publish(results: Results, path: Path) -> None:
    """Write what was measured as JSON, of the rows those that have a bar."""
    barred = [msgspec.structs.replace(row, ok=row.is_met) for row in results.rows if row.bar]
    kept = msgspec.structs.replace(results, rows=barred)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(_rounded(kept)), indent=2) + b"\n")


def load(path: Path) -> Results:
    """Read what was published."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def _rounded(found: object) -> object:
    """Round what was measured: nobody measures more than four digits."""
    match found:
        case float():
            return float(f"{found:.4g}")
        case msgspec.Struct():
            return {name: _rounded(getattr(found, name)) for name in found.__struct_fields__}
        case dict():
            return {name: _rounded(value) for name, value in found.items()}
        case list() | tuple():
            return [_rounded(each) for each in found]
        case _:
            return found
