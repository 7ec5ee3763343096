"""Decoders, made one at a time.

msgspec finds out what a type is made of when something is first read as one, and another thread
that reads one meanwhile ends the process with a segmentation fault. So decoders are made here, one
at a time; one that is made may be used by all threads.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Bench:
    """Where one decoder is made at a time."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin free: in a forked child, the thread that held it does not exist."""
        self.lock = threading.RLock()


_bench = _Bench()
os.register_at_fork(after_in_child=_bench.renew)


def from_msgpack(kind: type[T]) -> Callable[[bytes], T]:
    """Return what reads a type from msgpack.

    >>> from_msgpack(list[int])(bytes([0x92, 1, 2]))
    [1, 2]
    """
    with _bench.lock:
        return msgspec.msgpack.Decoder(kind).decode


def from_json(kind: type[T]) -> Callable[[bytes], T]:
    """Return what reads a type from JSON.

    >>> from_json(dict[str, int])(b'{"a": 1}')
    {'a': 1}
    """
    with _bench.lock:
        return msgspec.json.Decoder(kind).decode


def get_to_know(kind: Any) -> None:  # noqa: ANN401 -- any type there is
    """Prepare a type for conversion by any thread; `TypeError` if that is impossible.

    >>> get_to_know(list[int])
    >>> msgspec.convert([1, 2], list[int])
    [1, 2]
    """
    from_json(kind)
