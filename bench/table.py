"""The rows, whether each clears its bar, and how they are shown."""

from __future__ import annotations

import operator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMPARE: Final = {">=": operator.ge, "<=": operator.le}
_HEADINGS: Final = ("what", "ours", "peer", "unit", "ratio", "bar", "ok", "the peer")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement beside its peer's. The bar, if there is one, is for the ratio."""

    name: str
    ours: float
    peer: float
    peer_name: str
    ratio: float
    bar: str
    """Such as ">= 0.5"; empty for what is shown for information only."""
    unit: str

    reason: str = ""
    """Why it could not be measured, if it could not: its bar is then missed."""
    ok: bool = True
    """As it was published; `is_met` says it of what was just measured."""

    @property
    def is_met(self) -> bool:
        """Tell whether the ratio, before it is rounded for publishing, clears the bar."""
        if self.reason:
            return False
        if not self.bar:
            return True
        sign, limit = self.bar.split()
        return bool(_COMPARE[sign](self.ratio, float(limit)))


def missed(name: str, peer_name: str, bar: str, reason: str) -> Row:
    """Return a row of what could not be measured."""
    return Row(
        name=name, ours=0.0, peer=0.0, peer_name=peer_name, ratio=0.0, bar=bar, unit="",
        reason=reason, ok=False,
    )  # fmt: skip


def faster(name: str, rates: tuple[float, float], peer_name: str, bar: str = "") -> Row:
    """Return a row of two rates in runes a second: ours and the peer's."""
    ours, peer = rates
    return Row(
        name=name, ours=ours, peer=peer, peer_name=peer_name, ratio=ours / peer, bar=bar,
        unit="runes/s",
    )  # fmt: skip


def show(rows: Sequence[Row], settings: Sequence[tuple[str, str]]) -> None:
    """Print the table, and what the peers were set to."""
    cells = [_cells(row) for row in rows]
    if find_spec("rich") is not None:
        _show_rich(cells, settings)
        return
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *cells, strict=True)]
    for line in (_HEADINGS, tuple("-" * width for width in widths), *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    print("\nsettings in force")
    for what, value in settings:
        print(f"  {what}: {value}")


def _show_rich(cells: Sequence[tuple[str, ...]], settings: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console  # noqa: PLC0415 -- an extra that may not be there
    from rich.table import Table  # noqa: PLC0415 -- the same

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)
    table = Table()
    for heading in _HEADINGS:
        right = heading in {"ours", "peer", "ratio", "bar"}
        table.add_column(heading, justify="right" if right else "left", no_wrap=right)
    for line in cells:
        style = {"MISSED": "red", "": "dim"}.get(line[6])
        table.add_row(*line, style=style)
    console.print(table)
    facts = Table(title="settings in force", title_justify="left", show_header=False)
    for what, value in settings:
        facts.add_row(what, value)
    console.print(facts)


def _cells(row: Row) -> tuple[str, ...]:
    verdict = ("yes" if row.is_met else "MISSED") if row.bar else ""
    if row.reason:
        return (row.name, "-", "-", "", "-", row.bar, verdict, row.reason)
    return (
        row.name, _shown(row.ours), _shown(row.peer), row.unit, _shown(row.ratio), row.bar,
        verdict, row.peer_name,
    )  # fmt: skip


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
