"""Errors of an app's own code: told to operators with their stack, and to the log in short.

A model is told the type and the message alone; a stack is no business of its.
"""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.operator_log import log

if TYPE_CHECKING:
    from actors.redaction.redactor import Replacer

MOST_FRAMES: Final = 8
"""So many frames are kept of an error, the innermost."""
MAX_FRAME: Final = 200
"""Characters of a frame."""
MAX_STACK: Final = 16 << 10
"""Characters of a stack that operators are told."""
_OURS: Final = tuple(
    str(Path(__file__).parents[1] / name)
    for name in ("runelog", "actors", "supervisors", "runefold")
)
_OTHERS: Final = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def own_frames(error: BaseException) -> tuple[str, ...]:
    """Return where an error went through the app's own code: neither ours, nor what is installed.

    >>> try:
    ...     exec(compile("1 / 0", "/srv/shop/orders/app.py", "exec"))
    ... except ZeroDivisionError as error:
    ...     own_frames(error)[-1:]
    ('orders/app.py:1 in <module>',)
    """
    found = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if not code.co_filename.startswith((*_OURS, *_OTHERS, "<")):
            place = "/".join(Path(code.co_filename).parts[-2:])
            found.append(f"{place}:{line} in {code.co_name}"[-MAX_FRAME:])
    return tuple(found[-MOST_FRAMES:])


def report(
    event: str,
    error: BaseException,
    *hiding: Replacer,
    **about: Any,  # noqa: ANN401 -- whatever says where it was
) -> tuple[str, ...]:
    """Tell operators of an error of the app's code, with its stack; return its own frames.

    What each of `hiding` replaces is in neither.
    """
    try:
        stack = "".join(traceback.format_exception(error))
        words = f"{type(error).__name__}: {error}"
        frames = own_frames(error)
    except Exception:  # noqa: BLE001 -- an error that cannot even say what it is
        stack, words, frames = type(error).__name__, type(error).__name__, ()
    for each in hiding:
        stack, words = each.text(stack), each.text(words)
        frames = tuple(map(each.text, frames))
    # Cut last: half of a secret would not be known for one. The end says most.
    log.warning(event, **about, error=words[:MAX_STACK], exception=stack[-MAX_STACK:])
    return frames
