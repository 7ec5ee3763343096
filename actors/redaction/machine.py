"""Runs patterns over text, one character after the other: all of them at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

from actors.redaction.patterns import Move, Net, read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from actors.redaction.patterns import Read

    Prefix: TypeAlias = tuple[str, ...]

PREFIX: Final = 4
"""So many characters of a pattern are looked for at once, before it is run."""
MOST_PREFIXES: Final = 200
APART: Final = r"(?<!\w[\s\S])"
"""Fits behind a character before which there is no letter, digit or underscore.

Behind the first character of a pattern, not before it: those are what is found quickly.
"""
NOTHING: Final = "(?!)"
"""Fits nowhere."""
MOST_KNOWN: Final = 20_000
"""So many steps are remembered; then they are found out anew."""


class Spot:
    """Where the machine stands: what may become a match, and whether there is one."""

    __slots__ = ("is_idle", "is_match", "is_open", "known", "moves")

    def __init__(self, moves: list[Move], *, is_idle: bool, is_open: bool, is_match: bool) -> None:
        """Stand somewhere; `moves` are all that lead on from there."""
        self.moves = moves
        self.is_idle = is_idle
        """Whether nothing of what was seen can belong to a match."""
        self.is_open = is_open
        """Whether more characters may make a match of what was seen, or a longer one."""
        self.is_match = is_match
        self.known: dict[str, Spot] = {}


class Machine:
    """Several patterns as one.

    At each character a match may begin that was not there before. So a machine is walked in two
    ways: on the lookout (`looks`), where whatever has begun since it was last idle goes on beside
    the others, each character being looked at once; and from one beginning on (`goes`), to see how
    far the match reaches that begins there.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]]) -> None:
        """Read the patterns, or refuse one that cannot be run."""
        self._net = net = Net()
        found = [read(net, pattern) for pattern in patterns]
        self._ends = frozenset(each.ends for each in found)
        self._spots: dict[tuple[frozenset[int], frozenset[int] | None], Spot] = {}
        self._steps = 0
        self._characters: dict[str, re.Pattern[str]] = {}
        anywhere = {each.begins for each in found if not each.bounded}
        self._within = net.closed(anywhere)
        """What may begin behind a letter, a digit or an underscore."""
        self._apart = net.closed({each.begins for each in found})
        """What may begin otherwise."""
        shorter, prefixes = self._prefixes(found)
        self.search = re.compile(_either(prefixes)).search
        """Finds where a match may begin: quick, and too often rather than too seldom."""
        self.depth = PREFIX if shorter else 1
        """Of so many characters at the end of a text, `tail` is to look at all but one."""
        self.tail = re.compile(rf"(?:{_either(shorter)})\Z").search
        """Finds, at the end of a text, what is too short for `search`."""

    def _prefixes(self, patterns: Sequence[Read]) -> tuple[set[Prefix], set[Prefix]]:
        """Return the first characters of everything that is looked for: fewer, and some."""
        shorter: set[Prefix] = set()
        ahead: dict[Prefix, frozenset[int]] = {}
        for each in patterns:
            for state in self._net.closed({each.begins}):
                for source, to in self._net.moves[state]:
                    first = (source + APART if each.bounded else source,)
                    ahead[first] = ahead.get(first, frozenset()) | self._net.closed({to})
        for _ in range(PREFIX - 1):
            if any(states & self._ends for states in ahead.values()):
                break
            longer: dict[Prefix, set[int]] = {}
            for prefix, states in ahead.items():
                for state in states:
                    for source, to in self._net.moves[state]:
                        longer.setdefault((*prefix, source), set()).add(to)
            if len(longer) > MOST_PREFIXES:
                break
            shorter.update(ahead)
            ahead = {prefix: self._net.closed(states) for prefix, states in longer.items()}
        return shorter, set(ahead)

    # -- walking --------------------------------------------------------------------------------

    def looking(self, before: str) -> Spot:
        """Return where it stands, on the lookout, behind a character."""
        return self._spot(frozenset(), self._begins(before))

    def going(self, before: str) -> Spot:
        """Return where it stands before a match that begins behind a character."""
        return self._spot(self._begins(before), None)

    def looks(self, spot: Spot, character: str) -> Spot:
        """Return where a character leads on the lookout."""
        try:
            return spot.known[character]
        except KeyError:
            return self._step(spot, character, self._begins(character))

    def goes(self, spot: Spot, character: str) -> Spot:
        """Return where a character leads within a match; idle if it ends the match."""
        try:
            return spot.known[character]
        except KeyError:
            return self._step(spot, character, None)

    def _begins(self, before: str) -> frozenset[int]:
        return self._within if _IN_WORD(before) else self._apart

    def _step(self, spot: Spot, character: str, begins: frozenset[int] | None) -> Spot:
        if self._steps >= MOST_KNOWN:
            # What text is made of has no end.
            self._steps = 0
            self._spots = {}
            spot.known = {}
        self._steps += 1
        to = {move.to for move in spot.moves if self._fits(move.source, character)}
        found = spot.known[character] = self._spot(self._net.closed(to), begins)
        return found

    def _spot(self, seen: frozenset[int], begins: frozenset[int] | None) -> Spot:
        """Return the spot where `seen` goes on and `begins` may begin; None: not on the lookout."""
        spot = self._spots.get((seen, begins))
        if spot is None:
            moves = self._net.moves
            goes_on = [move for state in seen for move in moves[state]]
            spot = self._spots[seen, begins] = Spot(
                goes_on
                + [move for state in (begins or frozenset()) - seen for move in moves[state]],
                is_idle=not seen,
                is_open=bool(goes_on),
                is_match=bool(seen & self._ends),
            )
        return spot

    def _fits(self, source: str, character: str) -> bool:
        compiled = self._characters.get(source)
        if compiled is None:
            compiled = self._characters[source] = re.compile(source)
        return compiled.fullmatch(character) is not None


_IN_WORD: Final = re.compile(r"\w").match


def _either(prefixes: Collection[Prefix]) -> str:
    """Return an expression that fits any of them, what they have in common written once."""
    following: dict[str, list[Prefix]] = {}
    for prefix in prefixes:
        if prefix:
            following.setdefault(prefix[0], []).append(prefix[1:])
    if not following:
        return "" if () in prefixes else NOTHING
    found = "|".join(first + _either(rest) for first, rest in sorted(following.items()))
    return f"(?:{found})?" if () in prefixes else f"(?:{found})"
