r"""What is looked for: a small part of the language of regular expressions, and no more.

Text comes from models and tools, in pieces, and may be hostile. So a pattern is run as an automaton
that takes one character after the other, in a time that no text can stretch, and that knows at any
point whether what it has seen may still become a match. What such an automaton cannot tell is
refused where the pattern is registered: look-around, back references, and anchors, except for `\b`
at either end. At the beginning it means "not behind a letter or a digit": an underscore is apart,
as in `TOKEN_ghp_…`.
"""

from __future__ import annotations

import functools
import re
from typing import Final, NamedTuple

from runelog.errors import Refused

MOST_STATES: Final = 2_000
"""More than any pattern needs that a person can read."""
_CATEGORIES: Final = frozenset("dDwWsS")
_ESCAPES: Final = frozenset("nrtfv")
_UNKNOWN: Final = frozenset("^$")
_COUNT: Final = re.compile(r"\{(\d{0,4})(,?)(\d{0,4})\}")


class BadPattern(Refused, ValueError):
    """A pattern that cannot be looked for in a stream."""


class Move(NamedTuple):
    """A character that leads on: as an expression for that one, and where to."""

    source: str
    to: int


def fits(source: str, character: str) -> bool:
    """Return True if an expression for one character fits this one."""
    return _compiled(source).fullmatch(character) is not None


@functools.lru_cache(maxsize=1_000)
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


class Net:
    """States, and what leads from one to others: with a character, or without."""

    def __init__(self) -> None:
        """Begin with none."""
        self.moves: list[list[Move]] = []
        self.skips: list[list[int]] = []
        self.most = MOST_STATES
        """So many states there may be, with those of the pattern that is read."""

    def state(self) -> int:
        """Return a new one."""
        if len(self.moves) >= self.most:
            msg = "it counts too far: a repetition such as {1000} stands for a thousand states"
            raise BadPattern(msg)
        self.moves.append([])
        self.skips.append([])
        return len(self.moves) - 1

    def closed(self, states: set[int]) -> frozenset[int]:
        """Return these states and all that are reached from them without a character."""
        found, ahead = set(states), list(states)
        while ahead:
            for to in self.skips[ahead.pop()]:
                if to not in found:
                    found.add(to)
                    ahead.append(to)
        return frozenset(found)


class Read(NamedTuple):
    """A pattern as it was read."""

    begins: int
    ends: int
    bounded: bool
    r"""Whether it must not follow on a letter or a digit: it began with `\b`."""


def read(net: Net, pattern: str | re.Pattern[str]) -> Read:
    """Read a pattern into a net, or refuse it."""
    source = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(source, str):
        msg = f"a pattern is a text, not a {type(source).__name__}"
        raise BadPattern(msg)
    folds = isinstance(pattern, re.Pattern) and bool(pattern.flags & re.IGNORECASE)
    net.most = len(net.moves) + MOST_STATES
    try:
        re.compile(source)
        return _Reader(net, source, folds=folds).read()
    except (BadPattern, re.error) as error:
        msg = f"the pattern {source!r:.80} cannot be looked for: {error}"
        raise BadPattern(msg) from None


def spelt(net: Net, text: str) -> Read:
    """Read a text that is looked for as it is, however long."""
    net.most = len(net.moves) + len(text) + 1
    begins = at = net.state()
    for character in text:
        ends = net.state()
        net.moves[at].append(Move(re.escape(character), ends))
        at = ends
    return Read(begins, at, bounded=False)


class _Reader:
    """Reads one pattern. That it is well formed as an expression was checked before."""

    def __init__(self, net: Net, source: str, *, folds: bool) -> None:
        self._net = net
        self._folds = folds or source.startswith("(?i)")
        source = source.removeprefix("(?i)")
        self._bounded = source.startswith(r"\b")
        # What ends a word is not looked for: rather too much is hidden than too little.
        self._left = source.removeprefix(r"\b")
        if re.search(r"(?<!\\)(?:\\\\)*\\b$", self._left):
            self._left = self._left[:-2]

    def read(self) -> Read:
        begins, ends = self._either()
        assert not self._left
        if ends in self._net.closed({begins}):
            msg = "it fits a text that is empty"
            raise BadPattern(msg)
        return Read(begins, ends, self._bounded)

    def _take(self, count: int = 1) -> str:
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def _either(self) -> tuple[int, int]:
        """Read alternatives, until the group they are in ends."""
        net = self._net
        begins, ends = net.state(), net.state()
        while True:
            first, last = self._sequence()
            net.skips[begins].append(first)
            net.skips[last].append(ends)
            if not self._left.startswith("|"):
                return begins, ends
            self._take()

    def _sequence(self) -> tuple[int, int]:
        begins = at = self._net.state()
        while self._left and self._left[0] not in "|)":
            was = self._left
            first, last = self._atom()
            atom = was[: len(was) - len(self._left)]
            first, last = self._repeated(atom, first, last)
            self._net.skips[at].append(first)
            at = last
        return begins, at

    def _atom(self) -> tuple[int, int]:
        """Read a group, or what stands for one character."""
        if self._left[0] == "(":
            return self._group()
        net, source = self._net, self._character()
        begins, ends = net.state(), net.state()
        net.moves[begins].append(Move(f"(?i:{source})" if self._folds else source, ends))
        return begins, ends

    def _group(self) -> tuple[int, int]:
        opening = re.match(r"\((?:\?:|\?P<\w+>|(?!\?))", self._left)
        if opening is None:
            msg = f"{self._left[:4]!r} looks around, or back: use (?:...)"
            raise BadPattern(msg)
        self._take(opening.end())
        found = self._either()
        self._take()
        return found

    def _character(self) -> str:
        first = self._left[0]
        if first == "[":
            end = re.match(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", self._left, re.DOTALL)
            assert end is not None
            return self._take(end.end())
        if first == ".":
            self._take()
            return "[^\n]"
        if first == "\\":
            return self._escaped()
        if first in _UNKNOWN:
            msg = f"{first!r} is a place, not a character: leave it out"
            raise BadPattern(msg)
        return re.escape(self._take())

    def _escaped(self) -> str:
        letter = self._left[1]
        if letter.isalnum() and letter not in _CATEGORIES | _ESCAPES:
            msg = f"'\\{letter}' is not known here: write the character itself, or a class like \\d"
            raise BadPattern(msg)
        return self._take(2)

    # -- how often ------------------------------------------------------------------------------

    def _repeated(self, atom: str, first: int, last: int) -> tuple[int, int]:
        least, most = self._count()
        if (least, most) == (1, 1):
            return first, last
        copies = [(first, last)]
        for _ in range(max(least, most or least, 1) - 1):
            again = _Reader(self._net, "", folds=self._folds)
            again._left = atom
            copies.append(again._atom())
        net = self._net
        begins, ends = net.state(), net.state()
        at = begins
        for number, (one, other) in enumerate(copies):
            if number >= least:
                net.skips[at].append(ends)
            net.skips[at].append(one)
            at = other
        net.skips[at].append(ends)
        if most is None:
            net.skips[copies[-1][1]].append(copies[-1][0])
        return begins, ends

    def _count(self) -> tuple[int, int | None]:
        """Read how often the atom before may come; None is without end."""
        found: tuple[int, int | None] = (1, 1)
        counted = _COUNT.match(self._left)
        if self._left[:1] in {"*", "+", "?"}:
            found = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._take()]
        elif counted is not None and counted[0] != "{}":
            self._take(counted.end())
            least = int(counted[1] or 0)
            most = int(counted[3]) if counted[3] else None
            found = (least, most if counted[2] else least)
        else:
            return found
        if self._left[:1] in {"?", "+"}:
            # Lazy or possessive: the longest match is taken anyway.
            self._take()
        return found
