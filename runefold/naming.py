"""Things that are named on a command line as `package.module:name`."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from runelog.errors import Refused

_MACHINERY: Final = (importlib.__file__, __file__, "<frozen ")
"""Where an import itself happens, and no app's own mistake."""


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
    if Path(module_name).suffix == ".py":
        # As files are given to most other programs.
        module = ".".join(Path(module_name).with_suffix("").parts)
        msg = f"{module_name} is a file: name its module, {module}:{name}, from where it lies"
        raise Refused(msg)
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever an app's own modules do when they are imported
        msg = f"{reference} cannot be imported: {explained(error)}"
        raise Refused(msg) from error
    return found


def explained(error: Exception) -> str:
    """Return what an error says, and where in the app it happened."""
    words = str(error)
    stack = traceback.extract_tb(error.__traceback__)
    own = [each for each in stack if not each.filename.startswith(_MACHINERY)]
    if not isinstance(error, ImportError | AttributeError):
        words = f"{type(error).__name__}: {words}"
    if isinstance(error, SyntaxError) or not own:
        return words  # which say where, or it is the name itself that is wrong
    return f"{words} ({own[-1].filename}, line {own[-1].lineno})"
