"""A text that comes in pieces, looked through as it is and as what it stands for.

Two walks over the text go side by side: one takes the characters as they are, the other takes each
escape for the character that it stands for. What either of them finds is replaced, from the first
character to the last as they are written. What may still become a match is held back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from actors.redaction.escapes import (
    ESCAPE,
    ESCAPE_ENDS,
    INTRODUCE,
    LONGEST,
    PART,
    decoded,
    introduces,
    meaning,
)
from actors.redaction.machine import PREFIX

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from actors.redaction.machine import Machine, Spot

MOST_TRIED: Final = 256
"""At so many places it is tried where a match begins; then all that is held back is replaced."""
_NEAR: Final = 2 * LONGEST
"""So many characters at the end of a text are looked at for what has only begun."""


class Part(NamedTuple):
    """So many characters of what came in, and what is shown of them."""

    length: int
    shown: str
    is_mark: bool = False


class _Match:
    """A match that begins at some place, as far as it is known."""

    def __init__(self, begins: int, plain: Spot, read: Spot | None) -> None:
        self.begins = begins
        self.plain: Spot | None = plain
        self.read = read
        self.at = begins
        """Up to here it was walked."""
        self.reaches = 0
        self.reads_further = False
        """Whether it reaches that far only when it is read as what it stands for."""
        self.is_shown = False
        """Whether a mark stands for it already: what follows of it is dropped."""


class Flow:
    """Takes in a text piece by piece and gives it back with every match replaced."""

    def __init__(self, machine: Machine, mark: Callable[[str], str]) -> None:
        """Begin before the first piece; `mark` says what is shown in the place of a match."""
        self._machine = machine
        self._mark = mark
        self._text = ""
        """What is held back, then what is looked at."""
        self._at = 0
        """So much of the text is dealt with."""
        self._past = ""
        """What was dealt with last."""
        self._done: list[Part] = []
        self._plain: Spot | None = None
        """Where the machine stands on the lookout, as the text is written; None: not at all."""
        self._read: Spot
        """Where it stands with escapes read."""
        self._seen = 0
        """How many characters of the text it has seen."""
        self._until = 0
        """So far it has to look, whatever it sees."""
        self._ends = 0
        """Where the first match ends that was seen."""
        self._match: _Match | None = None
        """The match that is looked at, once it is known that there is one."""
        self._inside: set[int] = set()
        """Places within escapes."""
        self._searched = ""
        self._hits: list[re.Match[str] | None] = []
        """What is found next in the text that was searched."""

    def feed(self, piece: str) -> str:
        """Take in a piece; return what may be shown by now."""
        if not self._text and self._match is None:
            if not piece:
                return ""
            if self._passes(piece):
                # As nearly always.
                self._remember(piece)
                return piece
        return "".join(part.shown for part in self.parts(piece))

    def end(self) -> str:
        """Return what was held back: nothing more will come."""
        if not self._text and self._match is None:
            return ""
        return "".join(part.shown for part in self.parts("", last=True))

    def parts(self, piece: str, *, last: bool = False) -> list[Part]:
        """Take in a piece, the last one perhaps; return what may be shown, as parts of the text."""
        self._text += piece
        while self._goes_on(last=last):
            pass
        done, self._done = self._done, []
        self._searched = ""
        if self._at:
            self._remember(self._text[: self._at])
            self._forget(self._at)
        return done

    # -- what was dealt with --------------------------------------------------------------------

    def _remember(self, text: str) -> None:
        past = text if len(text) >= LONGEST else self._past + text
        self._past = past[-LONGEST:]

    def _forget(self, count: int) -> None:
        """Count from behind these characters."""
        self._text = self._text[count:]
        self._at -= count
        self._seen -= count
        self._until -= count
        self._ends -= count
        if (match := self._match) is not None:
            self._inside = {each - count for each in self._inside if each > count}
            match.begins -= count
            match.at -= count
            match.reaches -= count

    def _let(self, upto: int) -> None:
        """Let the text through, up to here."""
        if upto > self._at:
            self._done.append(Part(upto - self._at, self._text[self._at : upto]))
            self._at = upto

    def _replace(self, begins: int, upto: int, secret: str) -> None:
        self._let(begins)
        self._done.append(Part(upto - begins, self._mark(secret), is_mark=True))
        self._at = upto

    # -- looking --------------------------------------------------------------------------------

    def _goes_on(self, *, last: bool) -> bool:
        """Let through or replace what can be; tell whether there is more to look at now."""
        if self._match is not None:
            return self._follow(last=last)
        if self._at >= len(self._text):
            return False
        if self._plain is None:
            found = self._candidate(self._text, self._at, last=last)
            if found is None:
                self._let(len(self._text))
                return False
            begins, self._until = found
            self._let(begins)
            before, read_before = self._before(begins)
            self._plain = self._machine.looking(before)
            self._read = self._machine.looking(read_before)
            self._seen = begins
        return self._look(last=last)

    def _candidate(self, text: str, at: int, *, last: bool) -> tuple[int, int] | None:
        """Return where a match may begin, and how far one has to look to know; None if nowhere."""
        found = self._next(text, at)
        if found is not None:
            begins, until = max(at, found.start() - PREFIX), found.end()
        elif last:
            return None
        else:
            # Too little of it may be there yet to be found that way.
            near = max(at, len(text) - _NEAR)
            if introduces(text, near) is None:
                found = self._machine.tail(text, max(at, len(text) - PREFIX))
            else:
                found = self._machine.tail_of_escapes(text, near)
            if found is None:
                return None
            begins, until = found.start(), len(text)
        if begins > at and introduces(text, max(at, begins - LONGEST), begins) is not None:
            for escape in ESCAPE.finditer(text, max(at, begins - LONGEST), until):
                if escape.start() < begins < escape.end():
                    begins = escape.start()
        return begins, until

    def _passes(self, piece: str) -> bool:
        """Tell whether nothing that is looked for is in a piece, or begins in it."""
        machine = self._machine
        for search in machine.searches:
            if search(piece) is not None:
                return False
        near = len(piece) - _NEAR
        if introduces(piece, max(0, near)) is not None:
            return machine.tail_of_escapes(piece, max(0, near)) is None
        near = len(piece) - PREFIX
        return machine.tail(piece, max(0, near)) is None

    def _next(self, text: str, at: int) -> re.Match[str] | None:
        """Return the first of what is searched for; none is searched for twice in one text."""
        if text is not self._searched:
            self._searched = text
            self._hits = [search(text, at) for search in self._machine.searches]
        first = None
        for number, hit in enumerate(self._hits):
            if hit is not None and hit.start() < at:
                hit = self._hits[number] = self._machine.searches[number](text, at)  # noqa: PLW2901 -- the next one
            if hit is not None and (first is None or hit.start() < first.start()):
                first = hit
        return first

    def _before(self, number: int) -> tuple[str, str]:
        """Return the character before a place, and the one that is read there."""
        near = self._text[max(0, number - LONGEST) : number]
        if len(near) < LONGEST:
            near = (self._past + near)[-LONGEST:]
        before = near[-1:]
        if introduces(near) is not None:
            escape = ESCAPE_ENDS.search(near)
            if escape is not None:
                return before, meaning(escape) or " "
        return before, before

    def _token(self, at: int, *, last: bool) -> tuple[int, str] | None:
        """Return where the next character ends and how it is read; None if that is not known."""
        text = self._text
        if text[at] not in INTRODUCE:
            return at + 1, text[at]
        if not last and PART.match(text, at) is not None:
            return None
        found = ESCAPE.match(text, at)
        return (at + 1, text[at]) if found is None else (found.end(), meaning(found))

    def _look(self, *, last: bool) -> bool:
        """Walk on the lookout, until there is a match or nothing that may become one."""
        machine, text = self._machine, self._text
        looks, plain, read = machine.looks, self._plain, self._read
        assert plain is not None
        at, size = self._seen, len(text)
        while at < size:
            character = text[at]
            if character not in INTRODUCE:
                ends = at + 1
                both = plain is read
                plain = looks(plain, character)
                read = plain if both else looks(read, character)
                found = ends if plain.is_match else 0
            elif (token := self._token(at, last=last)) is None:
                break
            else:
                ends, character = token
                found = 0
                for number in range(at, ends):
                    plain = looks(plain, text[number])
                    if plain.is_match and not found:
                        found = number + 1
                read = looks(read, character) if character else machine.apart(read)
            if found or read.is_match:
                self._ends = found or ends
                self._plain = None
                self._inside = {
                    number
                    for escape in ESCAPE.finditer(text, self._at, ends)
                    for number in range(escape.start() + 1, escape.end())
                }
                self._try(self._at)
                return True
            at = ends
            if plain.is_idle and read.is_idle and at >= self._until:
                self._let(at)
                self._plain = None
                return True
        self._plain, self._read, self._seen = plain, read, at
        self._let(size if last else max(self._at, size - machine.most_held))
        return False

    # -- a match --------------------------------------------------------------------------------

    def _try(self, begins: int) -> None:
        """Look how far a match reaches if it begins here."""
        before, read_before = self._before(begins)
        going = self._machine.going
        read = None if begins in self._inside else going(read_before)
        self._match = _Match(begins, going(before), read)

    def _follow(self, *, last: bool) -> bool:
        """Find out whether a match begins where it is tried, and replace it as a whole."""
        match = self._match
        assert match is not None
        is_over = self._walk(match, last=last) or last
        if match.is_shown:
            upto = match.reaches if is_over else match.at
            self._done.append(Part(upto - self._at, "", is_mark=True))
            self._at = upto
            if is_over:
                self._match = None
            return is_over
        if match.reaches >= self._ends:
            too_long = match.at - match.begins > self._machine.most_held
            if not is_over and not too_long:
                self._let(match.begins)
                return False
            secret = self._text[match.begins : match.reaches]
            self._replace(
                match.begins, match.reaches, decoded(secret) if match.reads_further else secret
            )
            match.is_shown = not is_over
            if is_over:
                self._match = None
            return is_over
        if not is_over:
            return False
        if match.begins + 1 >= min(self._ends, self._at + MOST_TRIED):
            # It is among what was held back, wherever it begins.
            self._replace(self._at, self._ends, self._text[self._at : self._ends])
            self._match = None
            return True
        self._try(match.begins + 1)
        return True

    def _walk(self, match: _Match, *, last: bool) -> bool:
        """Walk from where a match begins; tell whether it cannot reach further than it does.

        One that is longer than all that is held back goes on for as long as every character of it
        makes a match.
        """
        text, goes, at = self._text, self._machine.goes, match.at
        size, limit = len(text), match.begins + self._machine.most_held
        while at < size and (match.plain is not None or match.read is not None):
            spot, character = match.plain, text[at]
            if spot is not None and spot is match.read and character not in INTRODUCE:
                # As nearly always: both walks are at one.
                at += 1
                spot = goes(spot, character)
                if spot.is_match:
                    match.reaches, match.reads_further = at, False
                match.plain = match.read = spot if spot.is_open else None
            elif (token := self._token(at, last=last)) is None:
                break
            else:
                at = self._stride(match, at, *token)
            if at > limit and match.reaches < at:
                match.plain = match.read = None
        match.at = at
        return match.plain is None and match.read is None

    def _stride(self, match: _Match, at: int, ends: int, character: str) -> int:
        """Walk over one character, or over an escape that is read as one; return where it ends."""
        text, goes = self._text, self._machine.goes
        if match.read is None:
            ends = at + 1
        elif not character and at == match.begins:
            # No match begins with an order to a terminal.
            match.read = None
        elif character:
            match.read = goes(match.read, character)
        for number in range(at, ends):
            if match.plain is not None:
                match.plain = goes(match.plain, text[number])
                if match.plain.is_match:
                    match.reaches, match.reads_further = number + 1, False
                if not match.plain.is_open:
                    match.plain = None
        if match.read is not None:
            if match.read.is_match and match.reaches < ends:
                match.reaches, match.reads_further = ends, True
            if not match.read.is_open:
                match.read = None
        return ends
