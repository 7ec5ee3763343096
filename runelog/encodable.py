"""What is written must be readable: refusing runes that would be stored and never read again."""

from __future__ import annotations

import types
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
)

import msgspec

from runelog.decoders import from_msgpack
from runelog.errors import Refused, TooLarge
from runelog.rune import Rune, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH: Final = 64
"""Deeper payloads are refused: on a thread with a small stack they would end the process."""
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises at bytes it cannot read; to it, bad UTF-8 is no DecodeError."""
_MAX_FORMS: Final = 1_024
_CONTAINERS = bytes([*range(0x80, 0xA0), 0xDC, 0xDD, 0xDE, 0xDF])


_SINGLE: Final[frozenset[object]] = frozenset({str, bytes, int, float, bool, type(None)})


class Form(NamedTuple):
    """What writing needs to know of a kind of rune, told from its class once."""

    schema: int
    visibility: int
    is_flat: bool
    """Whether each field holds a single value."""
    decode: Callable[[bytes], Rune]


class _Forms(dict[type[Rune], Form]):
    """The form of each kind that was written lately."""

    def __missing__(self, cls: type[Rune]) -> Form:
        """Look closer at a kind; `TypeError` if it is none."""
        if not issubclass(cls, Rune):
            msg = f"{cls.__name__} is not a rune: derive it from runelog.Rune"
            raise TypeError(msg)
        if len(self) >= _MAX_FORMS:
            self.clear()
        is_flat = all(_is_single(field.type) for field in msgspec.structs.fields(cls))
        form = self[cls] = Form(cls.schema, int(cls.visibility), is_flat, from_msgpack(cls))
        return form


forms: Final = _Forms()


def _is_single(kind: Any) -> bool:  # noqa: ANN401 -- any type there is
    """Return True if values of a type hold no others, as far as that is quick to see."""
    if get_origin(kind) in {Union, types.UnionType}:
        return all(map(_is_single, get_args(kind)))
    return kind in _SINGLE or get_origin(kind) is Literal


def check_encodable(rune: Rune, payload: bytes, form: Form) -> None:
    """Refuse what could be stored but not read again.

    Fields are not checked when a rune is made: one that is not of its type would be found out only
    by every reader.
    """
    if not form.is_flat:
        # Deep only if it has many containers, which is quick to see.
        room = len(payload) - MAX_DEPTH
        if room > 0 and len(payload.translate(None, _CONTAINERS)) < room:
            check_depth(payload)
    try:
        form.decode(payload)
    except (*UNREADABLE, ValueError, TypeError) as error:
        check_depth(payload)
        msg = f"a {kind_of(rune)} cannot be stored, as it could not be read again: {error}"
        raise Refused(msg) from error


def check_depth(data: bytes, limit: int = MAX_DEPTH) -> None:
    """Refuse msgpack nested deeper than `limit`, by walking its bytes without recursion.

    >>> check_depth(msgspec.msgpack.encode([[1], {"a": [2]}]))
    """
    remaining: list[int] = [1]
    at, end = 0, len(data)
    while remaining:
        if remaining[-1] == 0:
            remaining.pop()
            continue
        remaining[-1] -= 1
        if at >= end:
            msg = "msgpack ends in the middle of a value"
            raise TooLarge(msg)
        size, children = _span(data, at)
        container = data[at] in _CONTAINERS
        at += size
        if container:
            if len(remaining) > limit:
                msg = f"nested deeper than {limit} levels: flatten it, or store it as text"
                raise TooLarge(msg)
            remaining.append(children)
    if at != end:
        msg = "msgpack has bytes after its value"
        raise TooLarge(msg)


_FIXED = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}
_FIXED |= {0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9, 0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18}
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_SIZED |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_COUNTED = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def _span(data: bytes, at: int) -> tuple[int, int]:
    """Return how many bytes the token at `at` takes itself, and how many values are in it."""
    first = data[at]
    if first < 0x80 or first >= 0xE0:
        return 1, 0
    if first < 0x90:
        return 1, 2 * (first & 0x0F)
    if first < 0xA0:
        return 1, first & 0x0F
    if first < 0xC0:
        return 1 + (first & 0x1F), 0
    if first in _FIXED:
        return _FIXED[first], 0
    if first in _SIZED:
        width, extra = _SIZED[first]
        return 1 + width + extra + int.from_bytes(data[at + 1 : at + 1 + width], "big"), 0
    if first in _COUNTED:
        width, per = _COUNTED[first]
        return 1 + width, per * int.from_bytes(data[at + 1 : at + 1 + width], "big")
    msg = f"byte {first:#x} starts no msgpack value"
    raise TooLarge(msg)
