"""Free memory goes back to the system when it is asked for."""

from __future__ import annotations

import ctypes

import pytest

from actors.scheduling import free_memory

LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
SIZE = 64 << 10
"""Bytes of a block: less than what glibc maps by itself, and several pages."""


@pytest.mark.skipif(not hasattr(LIBC, "malloc_trim"), reason="only glibc can be asked")
def test_pages_that_are_free_are_given_back() -> None:
    """What lies between blocks in use goes too: its pages are new ones when they are used next."""
    blocks = [LIBC.malloc(ctypes.c_size_t(SIZE)) for _ in range(64)]
    for block in blocks:
        ctypes.memset(block, 0xFF, SIZE)
    for block in blocks[8:56]:
        LIBC.free(ctypes.c_void_p(block))
    # Still mapped, as there are blocks in use on both sides.
    middle = blocks[32] + SIZE // 2
    before = ctypes.string_at(middle, 1)
    free_memory.trim()
    after = ctypes.string_at(middle, 1)
    for block in (*blocks[:8], *blocks[56:]):
        LIBC.free(ctypes.c_void_p(block))

    assert before == b"\xff"
    assert after == b"\0"
