"""What a text is searched for, to find out quickly that there is nothing in it.

A sign is the first characters of something that is looked for, as they are written or as escapes.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from actors.redaction import escapes
from actors.redaction.escapes import NOTHING
from actors.redaction.patterns import fits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    Search: TypeAlias = Callable[..., re.Match[str] | None]

MOST_ANCHORS: Final = 8
"""With more characters to begin a search with, they are searched for at once."""
SELDOM: Final = 64
"""If there is one backslash among so many characters, there are few of them."""
_SELDOM_FIRST: Final = (
    "\x1b`~^|@$&!?;+*<>{}[]%#\\-_.:=/(),'\"JQZXVKYIGUWHBOFPDNMLRSTECA"
    "zqjx9876543210kvbypgwfmculdrhsnioate\t\n "
)
"""Characters by how often texts have them, roughly; those of keys and not of words come first."""
_CHARACTERS: Final = tuple(map(chr, range(128)))
_SIMPLE_CLASS: Final = re.compile(r"\[[A-Za-z0-9]+\]")


class Prefix(NamedTuple):
    """The first characters of something that is looked for, each as an expression."""

    sources: tuple[str, ...]
    bounded: bool


class Signs(NamedTuple):
    """Expressions that fit where one of some prefixes is, as it is or written as escapes."""

    plain: dict[str, str]
    """As it is, by the character of it that texts have least of: each begins with that."""
    strings: dict[str, str]
    """As strings are written, by what is behind the backslash, and what follows on that."""
    others: dict[str, str]
    """Written in other ways, by what they begin with."""

    def at_once(self) -> str:
        """Return one expression for all: it begins with one of a few characters."""
        if not self.plain:
            return NOTHING
        strings = _behind_backslash(self.strings)
        return "|".join((strings, *self.others.values(), *self.plain.values()))


class Searches:
    """Finds out whether a text has signs: one after the other, as each is found quickly by itself.

    An expression that begins with one literal is found ten times as fast as one of several. For
    the same reason what stands behind a backslash is searched for where there are many of those.
    """

    def __init__(self, signs: Signs) -> None:
        """Prepare the searches."""
        plain = signs.plain
        if len(plain) > MOST_ANCHORS:
            plain = {"": "|".join(plain.values())}
        self._each = [(_literal(begins), _search(sign)) for begins, sign in plain.items()]
        self._each += [(begins, _search(sign)) for begins, sign in signs.others.items()]
        self._backslash = _search(_behind_backslash(signs.strings))
        self._backslashes = [_search(_behind(*each)) for each in signs.strings.items()]

    def find(self, text: str) -> bool:
        """Return True if there are any signs."""
        return any(search(text) is not None for search in self._for(text))

    def _for(self, text: str) -> Iterator[Search]:
        yield from (search for begins, search in self._each if begins in text)
        if count := text.count("\\"):
            yield from self._backslashes if count * SELDOM > len(text) else [self._backslash]


class Anchors:
    """Finds, from place to place, what every match has among its first characters."""

    def __init__(self, signs: Signs) -> None:
        """Prepare for a text; if anchors are many, or have other forms, they are everywhere."""
        sources = signs.plain
        characters = {each for each in _CHARACTERS if re.escape(each) in sources}
        self._each: list[tuple[str, Search]] = []
        if len(characters) == len(sources) <= MOST_ANCHORS and not characters & escapes.SIMPLE:
            plain = characters | {"["}
            self._each += [(each, _search(re.escape(each))) for each in plain]
            self._each.append(("%", _search(escapes.by_percent(characters))))
            strings = escapes.by_backslash(characters)
            self._each += [("\\", _search(_behind(*each))) for each in strings.items()]

    def after(self, text: str, at: int, known: list[int]) -> int:
        """Return where one is, from a place on: the end if nowhere. What is `known` is kept."""
        known[:] = known or [-1] * len(self._each)
        for which, (begins, search) in enumerate(self._each):
            if known[which] < at:
                found = search(text, at) if text.find(begins, at) >= 0 else None
                known[which] = len(text) if found is None else found.start()
        return min(known, default=at)


def _search(expression: str) -> Search:
    return re.compile(expression).search


def _literal(source: str) -> str:
    """Return the character that a source stands for; nothing if it stands for several."""
    alphabet = _alphabet(source)
    return next((each for each in alphabet if re.escape(each) == source), "")


def _behind(begins: str, rest: str) -> str:
    """Return an expression for something behind a backslash, which begins with the something."""
    return rf"{begins}(?<=\\{begins}){rest}"


def _behind_backslash(signs: Mapping[str, str]) -> str:
    return r"\\(?:" + "|".join(begins + rest for begins, rest in signs.items()) + ")"


def signs(prefixes: Collection[Prefix]) -> Signs:
    """Return what to search for to find where one of these is, as it is or written as escapes.

    It begins with the characters that texts have least of, and looks back from there, or with those
    that escapes begin with: a text is searched about as fast as it has few of them.
    """
    if not prefixes:
        return Signs({}, {}, {})
    by_anchor: dict[str, dict[str, dict[Prefix, set[tuple[str, ...]]]]] = {}
    for sources, bounded in prefixes:
        at = min(range(len(sources)), key=lambda number: _how_common(sources[number]))
        before = sources[at - 1] if at else ""
        upto = Prefix(sources[: at + 1], bounded)
        around = by_anchor.setdefault(sources[at], {}).setdefault(before, {})
        around.setdefault(upto, set()).add(sources[at + 1 :])
    plain = {
        anchor: anchor + _guard(anchor, each) + "(?:" + "|".join(_guarded(anchor, each)) + ")"
        for anchor, each in sorted(by_anchor.items())
    }
    every = {source for prefix in prefixes for source in prefix.sources}
    characters = frozenset[str]().union(*map(_alphabet, every))
    before = _class(source for prefix in prefixes for source in prefix.sources[:-1])
    after = _class(source for prefix in prefixes for source in prefix.sources[1:])
    return Signs(
        plain,
        escapes.by_backslash(characters, after),
        {"%": escapes.by_percent(characters), "\x1b": escapes.by_order(before, after)},
    )


def beginnings(prefixes: Collection[Prefix]) -> str:
    """Return an expression that fits any of these, where it may begin.

    The second character is looked at before what stands in front of the first one: few of those
    that may be a first one have such a second one.
    """
    firsts: dict[Prefix, set[tuple[str, ...]]] = {}
    for (sources, *more), bounded in prefixes:
        for first in (_SIMPLE_CLASS.fullmatch(sources) and sources[1:-1]) or [sources]:
            firsts.setdefault(Prefix((first,), bounded), set()).add(tuple(more))
    found = []
    for ((first,), bounded), rest in sorted(firsts.items()):
        seconds: dict[str, set[tuple[str, ...]]] = {}
        for second, *more in filter(None, rest):
            seconds.setdefault(second, set()).add(tuple(more))
        choices = [
            second + (escapes.behind(first + second) if bounded else "") + _either(more)
            for second, more in sorted(seconds.items())
        ]
        choices.append(r"\Z" + (escapes.behind(first) if bounded else ""))
        found.append(f"{first}(?:{'|'.join(choices)})")
    return "|".join(found) or NOTHING


def _guard(anchor: str, befores: Collection[str]) -> str:
    """Return an expression for what all of these have before an anchor, to be looked at first."""
    return "" if "" in befores else f"(?<={_class(befores)}{anchor})"


def _guarded(
    anchor: str, by_before: dict[str, dict[Prefix, set[tuple[str, ...]]]]
) -> Iterator[str]:
    """Yield what may stand around an anchor, what it has before it looked at first."""
    for before, around in sorted(by_before.items()):
        found = []
        for (sources, bounded), rest in sorted(around.items()):
            upto = "".join(sources)
            apart = escapes.behind(upto) if bounded else ""
            found.append((f"(?<={upto})" if before else "") + apart + _either(rest))
        yield (f"(?<={before}{anchor})" if before else "") + f"(?:{'|'.join(found)})"


def _class(sources: Iterable[str]) -> str:
    """Return an expression for any one character that one of these fits."""
    found = frozenset[str]().union(*map(_alphabet, sources))
    others = "".join(re.escape(each) for each in _CHARACTERS if each not in found)
    return f"[^{others}]" if others else r"[\s\S]"


def _how_common(source: str) -> int:
    """Return about how often a text has what an expression fits: only the order counts."""
    return sum(max(_SELDOM_FIRST.find(each), 0) + 1 for each in _alphabet(source))


def _either(prefixes: Collection[tuple[str, ...]]) -> str:
    """Return an expression that fits any of them, what they have in common written once."""
    following: dict[str, list[tuple[str, ...]]] = {}
    for prefix in prefixes:
        if prefix:
            following.setdefault(prefix[0], []).append(prefix[1:])
    if not following:
        return "" if () in prefixes else NOTHING
    found = "|".join(first + _either(rest) for first, rest in sorted(following.items()))
    return f"(?:{found})?" if () in prefixes else f"(?:{found})"


@functools.lru_cache(maxsize=1_000)
def _alphabet(source: str) -> frozenset[str]:
    """Return which of the simple characters an expression for one character fits."""
    return frozenset(each for each in _CHARACTERS if fits(source, each))
