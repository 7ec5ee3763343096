r"""Characters that are written in another way: by URLs, JSON, Python's `repr`, and terminals.

A key can be hidden from a pattern by how it is written: `%67hp_…`, `\u0067hp_…`, or by what stands
before it: the `n` of a `\n`, the `m` of a colour. So a text is also read as what it stands for.
Escapes of escapes are read to the end, `%253D` as `%3D` and that as `=`: a few levels of them.

>>> [found[0] for found in ESCAPE.finditer(r"a%3Db\u003dc\\nd%5Cte")]
['%3D', '\\u003d', '\\\\n', '%5Ct']
>>> decoded(r"a%3Db\u003dc")
'a=b=c'
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NOTHING: Final = "(?!)"
"""Fits nowhere."""
INTRODUCE: Final = frozenset("%\\\x1b")
"""Characters that an escape begins with."""
introduces: Final = re.compile(r"[%\\\x1b]").search
LONGEST: Final = 56
"""No escape is longer than that."""
_PERCENT: Final = "%(?:25){0,2}"
_SLASHES: Final = rf"(?:\\{{1,4}}+|(?:{_PERCENT}5[Cc]){{1,4}})"
"""How many there are depends on how often it was written as a string in a string."""
_ESC: Final = rf"(?:\x1b|{_SLASHES}(?:u001[bB]|x1[bB]|033|e))"
_PARAMETERS: Final = r"\[[0-?]{0,16}+[ -$&-/]{0,2}+"
_LAST: Final = r"[@-\[\]-~]"
r"""No `\` and, in front of it, no `%`: with those an escape begins, whatever stands before."""
_COLOUR: Final = rf"{_ESC}{_PARAMETERS}{_LAST}"
_HEX: Final = "[0-9A-Fa-f]"

ESCAPE: Final = re.compile(
    rf"{_COLOUR}"
    rf"|{_SLASHES}(?:u(?P<u>{_HEX}{{4}})|x(?P<x>{_HEX}{{2}})|(?P<c>[nrtbfv\"'/]))"
    rf"|{_PERCENT}(?P<p>{_HEX}{{2}})"
)
"""One character that is written in another way, or an order to a terminal, which is none."""
ESCAPE_ENDS: Final = re.compile(rf"(?:{ESCAPE.pattern})\Z")
_NAMED: Final = r"(?:u001[bB]|x1[bB]|033|e)"
_BEGUN: Final = (
    rf"(?:u{_HEX}{{0,3}}+|x{_HEX}?+|03?+|{_NAMED}(?:{_PARAMETERS})?+|%(?:25){{0,2}}+{_HEX}?+)?"
)
_MORE_SLASHES: Final = rf"(?:25){{0,2}}+5[Cc](?:{_PERCENT}5[Cc]){{0,3}}"
"""What follows on a `%`."""
_PART: Final = (
    rf"(?:\\\\{{0,3}}+{_BEGUN}|%(?:{_MORE_SLASHES}{_BEGUN}|(?:25){{0,2}}+{_HEX}?+)"
    rf"|\x1b(?:{_PARAMETERS})?+)"
)
PART: Final = re.compile(rf"{_PART}\Z")
"""The end of a text from where on it may be an escape, or a longer one, once more has come."""
_ORDERS: Final = rf"{_PARAMETERS}{_LAST}(?:{_COLOUR}){{0,2}}((?:{_PART})?)"
ending: Final = re.compile(
    rf"(?:\\\\{{0,3}}+(?:{_NAMED}{_ORDERS}|{_BEGUN})"
    rf"|%(?:{_MORE_SLASHES}(?:{_NAMED}{_ORDERS}|{_BEGUN})|(?:25){{0,2}}+{_HEX}?+)"
    rf"|\x1b(?:{_ORDERS}|(?:{_PARAMETERS})?))\Z"
).search
"""Finds orders to a terminal and what has begun of an escape, at the end of a text.

The last of its groups is what has begun behind orders; without orders there is none.

Each choice begins with one certain character: such expressions are found quickly.
"""
_HEX_DIGITS: Final = "0123456789ABCDEFabcdef"
_INTERMEDIATE: Final = "".join(map(chr, range(0x20, 0x40)))
_FINAL: Final = "".join(map(chr, range(0x40, 0x7F)))
RESTLESS: Final = frozenset(
    [one + other for one in "\\Cc" for other in "ux0e"]
    + [one + other for one in _HEX_DIGITS + "%ux" for other in _HEX_DIGITS]
    + [one + other for one in _INTERMEDIATE + "[" for other in _INTERMEDIATE + _FINAL]
    + [one + "[" for one in "\x1bBb3e"]
)
"""Where `ending` finds anything, a text ends with two of these, or with what begins an escape."""
_SIMPLE: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v"} | {
    each: each for each in "\"'/"
}
SIMPLE: Final = frozenset(_SIMPLE.values())
"""What strings write as a backslash and one character."""
_ASCII: Final = 0x80
NO_LETTER: Final = "\ufffd"
"""Stands for bytes that are a part of some character only."""


def meaning(found: re.Match[str]) -> str:
    """Return the character that an escape stands for; none if it is an order to a terminal."""
    kind = found.lastgroup
    if kind is None:
        return ""
    code = found[kind]
    if kind == "c":
        return _SIMPLE[code]
    number = int(code, 16)
    return chr(number) if kind == "u" or number < _ASCII else NO_LETTER


def decoded(text: str) -> str:
    """Return what a text stands for."""
    return ESCAPE.sub(meaning, text)


# -- expressions that find where something may be hidden -------------------------------------------


def by_percent(characters: Collection[str]) -> str:
    """Return an expression for any of these characters, written as URLs do."""
    codes = _codes(characters)
    escape = rf"(?:u00(?:{codes})|x(?:{codes}))"
    deeper = rf"(?:25)?(?:{codes}|5[Cc]{escape})"
    return "%(?:" + _codes(characters, {"5c": escape, "25": deeper}) + ")"


def by_backslash(characters: Collection[str], after: str = "") -> dict[str, str]:
    """Return expressions for any of these written as strings do, or orders before `after`.

    By what each begins with, behind the backslash, and what may follow on that.
    """
    codes = _codes(characters)
    orders = _orders_before(after) if after else NOTHING
    coded = f"(?:{codes}|1[bB]{orders})"
    found = {"u00": coded, "x": coded}
    if after:
        found |= {escape + r"\[": orders.removeprefix(r"\[") for escape in ("033", "e")}
    if letters := "".join(each for each, meant in _SIMPLE.items() if meant in characters):
        found[f"[{letters}]"] = ""
    return found


def by_order(before: str, after: str) -> str:
    """Return an expression for orders to a terminal between two characters."""
    return rf"\x1b(?<={before}\x1b){_orders_before(after)}"


def _orders_before(after: str) -> str:
    return rf"{_PARAMETERS}{_LAST}(?:{_COLOUR}){{0,2}}{after}"


def _codes(characters: Collection[str], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return an expression for codes in two hex digits: of these, or more if that follows on them.

    The first digit decides: most of what this is held against is no more than a `%20`.
    """
    found = {f"{ord(each):02x}": "" for each in characters if ord(each) < _ASCII} | dict(more)
    by_first: dict[str, dict[str, str]] = {}
    for code, rest in sorted(found.items()):
        second = code[1]
        seconds = by_first.setdefault(code[0], {})
        seconds[rest] = seconds.get(rest, "") + second + (second.upper() if second > "9" else "")
    return (
        "|".join(
            first + "(?:" + "|".join(f"[{each}]{rest}" for rest, each in seconds.items()) + ")"
            for first, seconds in by_first.items()
        )
        or NOTHING
    )


def behind(text: str) -> str:
    r"""Return an expression for `text`, at its end, where it is not a part of a word.

    A letter or a digit before it is, unless that ends an escape, as in `\n`, `%3D` or `ESC[31m`.
    """
    return (
        rf"(?:(?<![^\W_]{text})|(?<=[\\\[ -?A-Fa-f][0-9@-~]{text})"
        rf"(?:(?<=\\[nrtbfv]{text})|(?<=5[Cc][nrtbfv]{text})"
        rf"|(?<=%{_HEX}{_HEX}{text})|(?<=25{_HEX}{_HEX}{text})|(?<=x{_HEX}{_HEX}{text})"
        rf"|(?<=u{_HEX}{_HEX}{_HEX}{_HEX}{text})"
        rf"|(?<=[!-?\[][@-~]{text})|(?<=[ -?\[] [@-~]{text})))"
    )
