"""Run the benchmarks: `python -m bench [--quick] [--dir DIRECTORY] [--report-only]`."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from pathlib import Path

from bench import (
    append,
    bytecodes,
    idle,
    memory,
    open,  # noqa: A004 -- named after what it measures
    read,
    redaction,
    simulation,
    size,
    table,
    turns,
)
from bench.measure import FULL, QUICK

HERE = Path(__file__).parent
THEMES = (
    "bytecodes",
    "append",
    "read",
    "open",
    "size",
    "turns",
    "idle",
    "redaction",
    "simulation",
)
LONG = ("memory",)
"""What takes a quarter of an hour, and so is measured only when it is named."""


def main() -> int:
    """Measure, print, publish; say by the exit code whether a bar was missed."""
    options = _options()
    sizes = QUICK if options.quick else FULL
    options.dir.mkdir(parents=True, exist_ok=True)
    rows: list[table.Row] = []
    python = f"{platform.python_implementation()} {platform.python_version()}"
    settings = [("measured with", f"{python}, {platform.system()} {platform.machine()}")]
    settings.append(("rates and times", "ours and the peer by turns, the best round of each"))
    for theme in options.only or THEMES:
        began = time.perf_counter()
        # On the disk that the repository is on: a file system in memory would sync for nothing.
        with tempfile.TemporaryDirectory(dir=options.dir, prefix=f"{theme}-") as name:
            place = Path(name)
            if theme in {"append", "turns"}:
                rows += {"append": append, "turns": turns}[theme].rows(place, sizes, settings)
            else:
                themes = {"read": read, "open": open, "size": size, "idle": idle}
                themes |= {"simulation": simulation, "redaction": redaction, "memory": memory}
                themes |= {"bytecodes": bytecodes}
                rows += themes[theme].rows(place, sizes)
        print(f"{theme}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    table.show(rows, settings)
    if not options.only:
        table.publish(rows, HERE / "results.json")
    missed = [row.name for row in rows if not row.ok]
    if missed:
        print(f"{len(missed)} of {sum(1 for row in rows if row.bar)} bars missed")
    return 1 if missed and not (options.quick or options.report_only) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, two minutes")
    parser.add_argument(
        "--report-only", action="store_true", help="exit with 0 even if a bar is missed"
    )
    parser.add_argument(
        "--dir", type=Path, default=HERE.parent / ".bench", help="where data is put meanwhile"
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=THEMES + LONG,
        help="one theme; nothing is published then",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
