"""Giving free memory back to the system, where the C library can be asked to.

What Python frees, glibc keeps for the process: in heaps that threads share, and in a cache for each
thread that lives as long as the thread does.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Give whole pages that are free back; do nothing if the C library has no `malloc_trim`.

    It takes a few milliseconds at the most, without the interpreter's lock.
    """
    if _TRIM is not None:
        _TRIM(ctypes.c_size_t(0))
