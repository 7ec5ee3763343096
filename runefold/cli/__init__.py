"""The command line, `runefold`. Needs the extra `cli`; the library does without it."""

from __future__ import annotations

import importlib.util
import sys
from typing import Final

NEEDED: Final = ("typer", "rich")


def main() -> None:
    """Run the command line, or say what to install for it."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"runefold: the command line needs {' and '.join(missing)}: "
            "pip install 'runefold[cli]'\n"
        )
        raise SystemExit(2)
    from runefold.cli.app import main as run  # noqa: PLC0415 -- needs what was just found

    run()
