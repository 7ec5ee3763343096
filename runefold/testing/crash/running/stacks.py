"""What every thread was doing when the time was up: what is the app's own comes first."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Final

_HOME: Final = Path(__file__).parents[4]
OWN: Final = tuple(str(_HOME / name) for name in ("actors", "runefold", "runelog", "supervisors"))
"""Frames of the kit itself are left out of what is shown of an app."""
_PYTHON: Final = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))
_FRAME: Final = re.compile(r'^  File "([^"<]+)", line (\d+) in (.+)$', re.MULTILINE)


def _app_frame(thread: str) -> str:
    """Return where in the app a thread is; nothing if it is nowhere there."""
    for file, line, name in _FRAME.findall(thread):
        if not file.startswith((*OWN, *_PYTHON)) and "site-packages" not in file:
            return f"in {name}, line {line} of {file}"
    return ""


def in_order(stacks: str) -> str:
    """Return the stacks of all threads, those first that are in the app's own code."""
    first, *threads = re.split(r"^(?=(?:Current thread|Thread) 0x)", stacks, flags=re.MULTILINE)
    threads = [f"{thread.rstrip()}\n\n" for thread in threads]
    return first + "".join(sorted(threads, key=lambda thread: not _app_frame(thread)))


def where(stacks: str) -> str:
    """Say where in the app it hangs; nothing if no thread is in its code."""
    found = _app_frame(stacks)
    return f": {found}" if found else ""
