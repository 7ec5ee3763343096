"""In what two values differ, by the names of their fields rather than as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = 5
"""So many differences are told."""
_WIDE: Final = 200
"""Characters of a value that are shown."""


def in_what(got: object, want: object) -> str:
    """Return in what a value is not what it should be.

    >>> in_what({"phase": "paid", "cents": 5}, {"phase": "checked", "cents": 5})
    "phase is 'paid', not 'checked'"
    >>> in_what({"stats": {"turns": 2}}, {"stats": {"turns": 1}})
    'stats.turns is 2, not 1'
    >>> in_what([True, 3], [True, 4])
    'item 2 is 3, not 4'
    >>> in_what("a", "b")
    "it is 'a', not 'b'"
    """
    found = [*_each("", _plain(got), _plain(want))]
    more = f"; and {len(found) - MOST} more" if len(found) > MOST else ""
    return "; ".join(found[:MOST]) + more


def named(value: object) -> str:
    """Return a value with its fields by name.

    >>> named({"phase": "paid", "cents": 5})
    "phase='paid', cents=5"
    >>> named([True, 3])
    '[True, 3]'
    """
    plain = _plain(value)
    if isinstance(plain, dict):
        return ", ".join(f"{name}={_short(each)}" for name, each in plain.items())
    return _short(plain)


def _each(path: str, got: Any, want: Any) -> Iterator[str]:  # noqa: ANN401 -- as JSON knows it
    if isinstance(got, dict) and isinstance(want, dict):
        for name in dict.fromkeys((*want, *got)):
            inner = f"{path}.{name}" if path else str(name)
            if name not in got:
                yield f"{inner} is missing, it should be {_short(want[name])}"
            elif name not in want:
                yield f"{inner} is {_short(got[name])}, and should not be there"
            else:
                yield from _each(inner, got[name], want[name])
    elif isinstance(got, list) and isinstance(want, list):
        place = path or "item"
        for number, (one, other) in enumerate(zip(got, want, strict=False), 1):
            yield from _each(f"{place} {number}", one, other)
        if len(got) != len(want):
            yield f"{path or 'it'} has {len(got)} items, not {len(want)}"
    elif got != want:
        yield f"{path or 'it'} is {_short(got)}, not {_short(want)}"


def _plain(value: object) -> Any:  # noqa: ANN401 -- as JSON knows it
    return msgspec.to_builtins(value, str_keys=True, enc_hook=repr)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _WIDE else f"{shown[:_WIDE]} …"
