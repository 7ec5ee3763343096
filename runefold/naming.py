"""Things that are named on a command line as `package.module:name`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from runelog.errors import Refused


def imported(reference: str, what: str) -> Any:  # noqa: ANN401 -- whatever has the name
    """Import something by its name; the current directory counts too.

    >>> imported("math:pi", "number")
    3.141592653589793
    >>> imported("math", "number")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: 'math' names no number: write it as package.module:number
    """
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        msg = f"{reference!r} names no {what}: write it as package.module:{what}"
        raise Refused(msg)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        msg = f"{reference} cannot be imported: {error}"
        raise Refused(msg) from error
    return found
