"""Runs patterns over text, one character after the other: all of them at once."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

from actors.redaction import escapes
from actors.redaction.patterns import Move, Net, fits, read, spelt
from actors.redaction.signs import Anchors, Prefix, Searches, beginnings, signs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.redaction.patterns import Read

PREFIX: Final = 8
"""So many characters of a pattern are looked for at once, before it is run."""
MOST_PREFIXES: Final = 64
"""Of one pattern: with more of them, they are shorter."""
MOST_HELD: Final = 8_192
"""So many characters are held back at most, unless all of them are a secret."""
LONG: Final = 2_048
"""In a text that is longer, one sign after the other is searched for."""
MOST_KNOWN: Final = 20_000
"""So many steps are remembered; then they are found out anew."""


class Spot(dict[str, "Spot"]):
    """Where the machine stands: what may become a match, and whether there is one.

    `spot[character]` is where a character leads from there. What was found out is kept.
    """

    __slots__ = ("_machine", "is_idle", "is_match", "is_open", "looks", "moves", "seen", "stays")

    def __init__(
        self,
        machine: Machine,
        seen: frozenset[int],
        moves: list[Move],
        *,
        looks: bool,
        is_open: bool,
        is_match: bool,
    ) -> None:
        """Stand somewhere; `moves` are all that lead on from there."""
        self._machine = machine
        self.seen = seen
        self.moves = moves
        self.looks = looks
        """Whether it is on the lookout for whatever begins."""
        self.is_idle = not seen
        """Whether nothing of what was seen can belong to a match."""
        self.is_open = is_open
        """Whether more characters may make a match of what was seen, or a longer one."""
        self.is_match = is_match
        self.stays = is_open and not is_match
        """Whether there is nothing to do but to take the next character."""

    def __missing__(self, character: str) -> Spot:
        """Find out where a character leads that has not come before."""
        return self._machine.step(self, character)


class Machine:
    """Several patterns as one, and texts that are looked for as they are.

    At each character a match may begin that was not there before. So a machine is walked in two
    ways: on the lookout (`looking`), where whatever has begun since it was last idle goes on beside
    the others, each character being looked at once; and from one beginning on (`going`), to see how
    far the match reaches that begins there.
    """

    def __init__(
        self, patterns: Iterable[str | re.Pattern[str]] = (), texts: Iterable[str] = ()
    ) -> None:
        """Read the patterns, or refuse one that cannot be run."""
        self._net = net = Net()
        found = [read(net, pattern) for pattern in patterns]
        spelt_out = [*texts]
        found += [spelt(net, text) for text in spelt_out]
        self.most_held = max(MOST_HELD, escapes.LONGEST * max(map(len, spelt_out), default=0))
        """So many characters are held back at most."""
        self._ends = frozenset(each.ends for each in found)
        self._spots: dict[tuple[frozenset[int], frozenset[int] | None], Spot] = {}
        self._steps = 0
        anywhere = {each.begins for each in found if not each.bounded}
        self._within = net.closed(anywhere)
        """What may begin behind a letter or a digit."""
        self._apart = net.closed({each.begins for each in found})
        """What may begin otherwise."""
        self.shortest = min((self._shortest(each) for each in found), default=0)
        """No match is shorter than that."""
        shorter, prefixes = self._prefixes(found)
        self._signs = signs(prefixes)
        self.search = re.compile(self._signs.at_once()).search
        """Finds what a match may begin with: quick, and too often rather than too seldom.

        The match itself begins there or up to `PREFIX` characters before. It may be that one of its
        characters is written as an escape.
        """
        self.tail = re.compile(rf"(?:{beginnings(shorter)})\Z").search
        """Finds, at the end of a text, what is too short for `search`."""

    def finds(self, text: str) -> bool:
        """Return True if there may be a match in a text."""
        if len(text) < LONG:
            return len(text) >= self.shortest and self.search(text) is not None
        return self._searches.find(text)

    @functools.cached_property
    def _searches(self) -> Searches:
        return Searches(self._signs)

    @functools.cached_property
    def anchors(self) -> Anchors:
        """Finds what a match has among its first characters, or an order to a terminal."""
        return Anchors(self._signs)

    def _shortest(self, pattern: Read) -> int:
        """Return how many characters a match has at least."""
        length, states = 0, self._net.closed({pattern.begins})
        while pattern.ends not in states:
            moves = self._net.moves
            states = self._net.closed({move.to for state in states for move in moves[state]})
            length += 1
        return length

    def _prefixes(self, patterns: Sequence[Read]) -> tuple[set[Prefix], set[Prefix]]:
        """Return the first characters of everything that is looked for: fewer, and some."""
        shorter: set[Prefix] = set()
        found: set[Prefix] = set()
        for each in patterns:
            ahead: dict[tuple[str, ...], frozenset[int]] = {(): self._net.closed({each.begins})}
            for _ in range(PREFIX):
                if any(states & self._ends for states in ahead.values()):
                    break
                longer: dict[tuple[str, ...], set[int]] = {}
                for prefix, states in ahead.items():
                    for state in states:
                        for source, to in self._net.moves[state]:
                            longer.setdefault((*prefix, source), set()).add(to)
                if len(longer) > MOST_PREFIXES and () not in ahead:
                    break
                shorter.update(Prefix(prefix, each.bounded) for prefix in ahead if prefix)
                ahead = {prefix: self._net.closed(states) for prefix, states in longer.items()}
            found.update(Prefix(prefix, each.bounded) for prefix in ahead)
        return shorter, found

    # -- walking --------------------------------------------------------------------------------

    def looking(self, before: str) -> Spot:
        """Return where it stands, on the lookout, behind a character."""
        return self._spot(frozenset(), self._begins(before))

    def going(self, before: str) -> Spot:
        """Return where it stands before a match that begins behind a character."""
        return self._spot(self._begins(before), None)

    def further(self, spot: Spot) -> Spot:
        """Return where it stands, on the lookout no more: what was seen goes on."""
        return self._spot(spot.seen, None)

    def apart(self, spot: Spot) -> Spot:
        """Return where it stands, on the lookout, if a word ends here that has not been seen to."""
        return self._spot(spot.seen, self._apart)

    def _begins(self, before: str) -> frozenset[int]:
        return self._within if _IN_WORD(before) else self._apart

    def step(self, spot: Spot, character: str) -> Spot:
        """Return where a character leads; within a match, idle if it ends the match."""
        if self._steps >= MOST_KNOWN:
            # What text is made of has no end.
            self._steps = 0
            self._spots = {}
            spot.clear()
        self._steps += 1
        to = {move.to for move in spot.moves if fits(move.source, character)}
        begins = self._begins(character) if spot.looks else None
        found = spot[character] = self._spot(self._net.closed(to), begins)
        return found

    def _spot(self, seen: frozenset[int], begins: frozenset[int] | None) -> Spot:
        """Return the spot where `seen` goes on and `begins` may begin; None: not on the lookout."""
        spot = self._spots.get((seen, begins))
        if spot is None:
            moves = self._net.moves
            goes_on = [move for state in seen for move in moves[state]]
            spot = self._spots[seen, begins] = Spot(
                self,
                seen,
                goes_on
                + [move for state in (begins or frozenset()) - seen for move in moves[state]],
                looks=begins is not None,
                is_open=bool(goes_on),
                is_match=bool(seen & self._ends),
            )
        return spot


_IN_WORD: Final = re.compile(r"[^\W_]").match
