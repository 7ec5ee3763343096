"""How large a value would be as JSON, at the least, found out without making a copy of it."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import msgspec

from actors.tool.models import is_model

_LIGHT: Final = frozenset({int, float, bool, type(None)})
_DEEP: Final = 128
"""Nothing is looked into deeper than this: what is so deep is refused for that."""


def outweighs(value: object, limit: int) -> bool:
    """Return True if a value takes more than `limit` bytes as JSON, however it is put there.

    What comes again is counted again, as it is encoded again.

    >>> outweighs(["x" * 1_000] * 1_000, 100_000), outweighs({"a": [1, 2]}, 100)
    (True, False)
    """
    left = limit - _own(value)
    ahead = [(value, 0)] if type(value) not in _LIGHT else []
    while ahead and left >= 0:
        found, depth = ahead.pop()
        for each in _inside(found):
            left -= _own(each)
            if left < 0:
                return True
            if type(each) not in _LIGHT and type(each) is not str and depth < _DEEP:
                ahead.append((each, depth + 1))
    return left < 0


def _own(value: object) -> int:
    """Return what a value takes by itself, without what is in it."""
    if isinstance(value, memoryview):
        return value.nbytes
    return 2 + len(value) if isinstance(value, str | bytes | bytearray) else 2


def _inside(value: Any) -> Any:  # noqa: ANN401 -- whatever a tool returns
    """Return what is in a value, as far as it would be encoded."""
    if isinstance(value, dict):
        return (each for entry in value.items() for each in entry)
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, msgspec.Struct):
        return (getattr(value, name, None) for name in value.__struct_fields__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, field.name, None) for field in dataclasses.fields(value))
    has_fields = hasattr(value, "__attrs_attrs__") or is_model(type(value))
    return getattr(value, "__dict__", {}).values() if has_fields else ()
