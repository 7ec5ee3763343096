"""The command line, `runefold`. Needs the extra `cli`; the library does without it."""

from __future__ import annotations

import importlib.util
import logging
import sys
from typing import Final

import runefold
from runefold.cli.terminal.exit_codes import Exit

NEEDED: Final = ("typer", "rich")


def main() -> None:
    """Run the command line; if a library is missing, say what to install."""
    if sys.argv[1:] == ["--version"]:
        # At once, without the imports that commands need.
        sys.stdout.write(f"runefold {runefold.__version__}\n")
        return
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.stderr.write(
            f"runefold: the command line needs {' and '.join(missing)}: "
            "pip install 'runefold[cli]'\n"
        )
        raise SystemExit(2)
    try:
        from runefold.cli.app import main as run  # noqa: PLC0415 -- needs what was just found
    except KeyboardInterrupt:
        # Ctrl-C before a command began. It ends like any other that is interrupted.
        raise SystemExit(Exit.INTERRUPTED) from None
    # Commands say themselves what went wrong; `serve` adds a handler that writes.
    logging.getLogger("runefold").addHandler(logging.NullHandler())
    run()
