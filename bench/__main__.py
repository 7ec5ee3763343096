"""Run the benchmarks: `python -m bench [--quick] [--dir DIRECTORY] [--report-only]`."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import report, table
from bench.measure import FULL, QUICK
from bench.results import Results, load, publish

if TYPE_CHECKING:
    from bench.table import Row

HERE: Final = Path(__file__).parent
THEMES: Final = (
    "bytecodes",
    "append",
    "read",
    "open",
    "size",
    "turns",
    "growth",
    "streams",
    "busy",
    "web",
    "idle",
    "redaction",
    "simulation",
)
LONG: Final = ("memory", "many")
"""What takes many minutes, and so is measured only when it is named."""
PLOTTED: Final = ("growth",)
"""What has no bar, and is left out where there is little time."""


def main() -> int:
    """Measure, print, publish; say by the exit code whether a bar was missed."""
    options = _options()
    sizes = QUICK if options.quick else FULL
    options.dir.mkdir(parents=True, exist_ok=True)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine = f"{platform.system()} {platform.release()} {platform.machine()}"
    results = Results()
    started = time.perf_counter()
    results.settings.append(("measured with", f"{python}, {machine}, {os.cpu_count()} cores"))
    results.settings.append(
        ("rates and times", "ours and the peer by turns, the best round of each")
    )
    themes = [theme for theme in THEMES if not (options.quick and theme in PLOTTED)]
    for theme in options.only or themes:
        began = time.perf_counter()
        # On the disk that the repository is on: a file system in memory would sync for nothing.
        with tempfile.TemporaryDirectory(dir=options.dir, prefix=f"{theme}-") as name:
            found: list[Row] = importlib.import_module(f"bench.{theme}").rows(
                Path(name), sizes, results
            )
        results.rows += found
        print(f"{theme}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(f"all: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    table.show(results.rows, results.settings)
    if options.publish:
        publish(results, options.publish)
    elif not options.only and not options.quick:
        publish(results, report.RESULTS)
        # From what is in the file, where numbers are rounded, and not from what is in memory.
        report.write(load(report.RESULTS))
    missed = [row.name for row in results.rows if not row.is_met]
    if missed:
        print(f"{len(missed)} of {sum(1 for row in results.rows if row.bar)} bars missed")
    return 1 if missed and not (options.quick or options.report_only) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes; nothing is published")
    parser.add_argument(
        "--report-only", action="store_true", help="exit with 0 even if a bar is missed"
    )
    parser.add_argument(
        "--dir", type=Path, default=HERE.parent / ".bench", help="where data is put meanwhile"
    )
    parser.add_argument(
        "--publish", type=Path, help="write the results there, and leave what was published alone"
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
