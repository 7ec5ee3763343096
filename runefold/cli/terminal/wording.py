"""Values from a log as text that a terminal can be trusted with, and as JSON.

A payload is whatever a model, a tool or a stranger sent. Nothing of it may move the cursor, change
a colour, set a title or turn the direction of writing; it is shown as what it is, escaped.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import functools
import json
import math
import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT: Final = 160
"""Longer values are cut, except with --full."""
NOTHING: Final = "-"
"""Stands for a value that is not there."""
TIMES: Final = frozenset({"time", "began", "seen", "since", "deadline", "first_time", "last_time"})
"""Fields that hold a time; there is none if it is 0."""

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, marks without a shape, surrogates, breaks of lines: all that acts and is not seen."""
_JOINERS: Final = frozenset("\u200c\u200d")
"""Without these, Persian words and many emoji fall apart; they join and do nothing else."""
_NAME = re.compile(r"[A-Za-z0-9_.:/-]+")
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def safe(text: str) -> str:
    r"""Return `text` with everything escaped that would act on a terminal rather than be shown.

    >>> safe("fine \x1b[31mred\x1b[0m \u202eback")
    'fine \\x1b[31mred\\x1b[0m \\u202eback'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(char) for char in text)


def _shown(char: str) -> str:
    if unicodedata.category(char) not in _HIDDEN or char in _JOINERS:
        return char
    code = ord(char)
    if code < 0x80:
        return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def name(text: str) -> str:
    """Return a kind or a field's name as it is, in quotes if it could be taken for something else.

    >>> name("turn.started"), name("turn started=1")
    ('turn.started', '"turn started=1"')
    """
    return text if _NAME.fullmatch(text) else _quoted(text)


def value(item: object, limit: int | None = SHORT) -> str:
    """Return a value of a payload on one line, at most about `limit` characters of it.

    >>> value({"ok": True, "text": "hi"})
    '{"ok": true, "text": "hi"}'
    >>> value("x" * 1_000, limit=5)
    '"xxxxx" … (1,000 characters)'
    """
    if isinstance(item, str):
        if limit is None or len(item) <= limit:
            return _quoted(item)
        return f"{_quoted(item[:limit])} … ({len(item):,} characters)"
    if isinstance(item, bytes):
        head = item if limit is None else item[: limit // 2]
        more = "" if len(head) == len(item) else f" … ({len(item):,} bytes)"
        return f"0x{head.hex()}{more}"
    text = _quoted(plain(item))
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]} … ({len(text):,} characters)"


def _quoted(item: object) -> str:
    return safe(json.dumps(item, ensure_ascii=False))


def fields(payload: Mapping[str, object], limit: int | None = SHORT) -> str:
    """Return the fields of a payload on one line."""
    return " ".join(f"{name(key)}={value(item, limit)}" for key, item in payload.items())


def plain(item: Any) -> Any:  # noqa: ANN401, PLR0911 -- plain values of any shape
    """Return a decoded value as one that JSON can hold; bytes become `{"$base64": …}`.

    >>> plain({1: b"ab", "x": [float("inf")]})
    {'1': {'$base64': 'YWI='}, 'x': ['inf']}
    """
    match item:
        case None | bool() | int() | str():
            return item
        case float():
            return item if math.isfinite(item) else str(item)
        case bytes():
            return {"$base64": base64.b64encode(item).decode()}
        case dict():
            return {
                key if isinstance(key, str) else str(key): plain(at) for key, at in item.items()
            }
        case _ if isinstance(item, msgspec.Struct) or hasattr(item, "_fields"):
            return record(item)
        case list() | tuple():
            return [plain(at) for at in item]
        case dt.datetime():
            return item.isoformat()
        case msgspec.msgpack.Ext():
            return {"$ext": item.code, **plain(bytes(item.data))}
    return str(item)


def record(item: Any) -> dict[str, Any]:  # noqa: ANN401 -- any struct
    """Return the fields of a struct, a dataclass or a named tuple as JSON has them.

    Times become ISO 8601 in UTC: every field of `TIMES` is one.
    """
    names = getattr(item, "_fields", None) or getattr(item, "__struct_fields__", None)
    names = names or [field.name for field in dataclasses.fields(item)]
    return {each: _field(each, getattr(item, each)) for each in names}


def _field(field: str, item: Any) -> Any:  # noqa: ANN401 -- of any type
    if field in TIMES:
        return moment(item, 9) if item else None
    return plain(item)


def moment(time: float, digits: int = 0) -> str:
    """Return a time in UTC, with so many digits after the second.

    Whole numbers are nanoseconds since 1970, as the log has them; others are seconds.

    >>> moment(1_700_000_000_123_456_789, 3), moment(1_700_000_000.5, 3)
    ('2023-11-14T22:13:20.123Z', '2023-11-14T22:13:20.500Z')
    """
    if isinstance(time, float):
        time = round(time * 1_000_000) * 1_000
    seconds, rest = divmod(time, SECOND)
    try:
        whole = _second(seconds)
    except OverflowError:
        return f"{time} ns"
    return whole + (f".{rest:09d}"[: digits + 1] if digits else "") + "Z"


@functools.lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return (_EPOCH + dt.timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


def size(count: int) -> str:
    """Return a number of bytes as people say it.

    >>> size(999), size(1_500), size(2_345_678)
    ('999 B', '1.5 kB', '2.3 MB')
    """
    if count < 1_000:
        return f"{count} B"
    amount = float(count)
    for unit in ("kB", "MB", "GB"):
        amount /= 1_000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1_000:,.1f} TB"


def many(count: int, one: str, more: str = "") -> str:
    """Return a number with its noun.

    >>> many(1, "rune"), many(2_000, "rune"), many(0, "entity", "entities")
    ('1 rune', '2,000 runes', '0 entities')
    """
    return f"{count:,} {one if count == 1 else more or one + 's'}"
