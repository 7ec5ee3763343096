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
    RESTLESS,
    decoded,
    ending,
    introduces,
    meaning,
)
from actors.redaction.machine import LONG, PREFIX

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from actors.redaction.machine import Machine, Spot

MOST_TRIED: Final = 256
"""At so many places it is tried where a match begins; then all that is held back is replaced."""
REACH: Final = (PREFIX + 1) * LONGEST
"""The first characters of a match are not longer than that, unless there are orders in them."""
_NEAR: Final = 3 * LONGEST
"""So many characters at the end of a text are looked at for escapes that have only begun."""
_STRETCH: Final = 64
"""So many characters are walked over before it is looked again where the next escape is."""


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
        self._search = machine.search
        self._tail = machine.tail
        self._mark = mark
        self._text = ""
        """What is held back, then what is looked at."""
        self._at = 0
        """So much of the text is dealt with."""
        self._past = ""
        """What was dealt with last."""
        self._anchors: list[int] = []
        """Where the next of each anchors is, if it is not behind."""
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
        self._stood: tuple[Spot, Spot]
        """Where the machine stood when it had seen a match, as it is written and as it is read."""
        self._match: _Match | None = None
        """The match that is looked at, once it is known that there is one."""
        self._inside: set[int] = set()
        """Places within escapes."""
        self._escaped = False
        """Whether there are any escapes where the match is looked for."""

    def feed(self, piece: str) -> str:
        """Take in a piece; return what may be shown by now."""
        if self._plain is None and self._match is None:
            held = self._text
            text = held + piece if held else piece
            if self._search(text) is None:
                # As nearly always.
                upto = self._begun(text)
                if upto is not None:
                    self._text = text[upto:]
                    text = text[:upto]
                elif held:
                    self._text = ""
                if text:
                    self._past = text
                return text
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
        if self._at:
            self._past = self._text[: self._at]
            self._forget(self._at)
        return done

    # -- what was dealt with --------------------------------------------------------------------

    def _forget(self, count: int) -> None:
        """Count from behind these characters."""
        self._text = self._text[count:]
        self._anchors = []
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
        """Let through or replace what can be; return True if there is more to look at now."""
        if self._match is not None:
            return self._follow(last=last)
        if self._at >= len(self._text):
            return False
        if self._plain is None:
            found = self._search(self._text, self._at)
            if found is None:
                upto = None if last else self._begun(self._text, self._at)
                self._let(len(self._text) if upto is None else upto)
                return False
            self._until = found.end()
            if (far := self._before_anchor(found.start())) > self._at:
                self._let(far)
                return True
            begins = _first(self._text, self._at, found)
            self._let(begins)
            before, read_before = self._before(begins)
            self._plain = self._read = self._machine.looking(before)
            if read_before != before:
                self._read = self._machine.looking(read_before)
            self._seen = begins
        return self._look(last=last)

    def _before_anchor(self, number: int) -> int:
        """Return up to where no match begins if the search found something at this place.

        What it found may be one escaped letter of many: an anchor must follow, or be just before.
        """
        text, at = self._text, self._at
        if text[number] not in INTRODUCE or len(text) - at < LONG:
            return at
        return self._machine.anchors.after(text, at, self._anchors) - REACH

    def _begun(self, text: str, at: int = 0) -> int | None:
        """Return from where on the end of a text may become more than it is; None if it may not.

        What is too short to be found may become a match, and what is too short for an escape may
        become one.
        """
        size = len(text)
        escaped = "%" in text or "\\" in text or "\x1b" in text
        if escaped and (text[-2:] in RESTLESS or text[-1] in INTRODUCE):
            near = size - _NEAR
            found = ending(text, near if near > at else at)  # noqa: FURB136 -- half the time of `max`
            if found is not None:
                return self._begun_before(text, at, found)
        near = size - PREFIX
        last = self._tail(text, near if near > at else at)  # noqa: FURB136 -- the same
        if last is None:
            return None
        return _outside(text, at, last.start(), size) if escaped else last.start()

    def _begun_before(self, text: str, at: int, found: re.Match[str]) -> int | None:
        """Return the same for a text with orders to a terminal, or a part of an escape, at its end.

        What has begun may end before those orders, or with the letter that is the end of one.
        """
        orders = found.start()
        if found.lastindex is None:
            last = self._tail(text, max(at, orders - PREFIX), orders)
            return orders if last is None else _outside(text, at, last.start(), orders)
        size, part = len(text), found.start(found.lastindex)
        for upto in sorted({orders, part, size}):
            last = self._tail(text, max(at, upto - PREFIX), upto)
            if last is not None:
                return min(part, _outside(text, at, last.start(), upto))
        return None if part == size else part

    def _before(self, number: int) -> tuple[str, str]:
        """Return the character before a place, and the one that is read there."""
        near = self._text[max(0, number - LONGEST) : number]
        if len(near) < LONGEST:
            near = (self._past[-LONGEST:] + near)[-LONGEST:]
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
        if not last and at + LONGEST > len(text) and PART.match(text, at) is not None:
            return None
        found = ESCAPE.match(text, at)
        return (at + 1, text[at]) if found is None else (found.end(), meaning(found))

    def _look(self, *, last: bool) -> bool:
        """Walk on the lookout, until there is a match or nothing that may become one."""
        text, plain, read, at = self._text, self._plain, self._read, self._seen
        assert plain is not None
        size = len(text)
        while at < size:
            begins, found = at, 0
            if plain is read and text[at] not in INTRODUCE:
                # As nearly always: both walks are at one.
                for character in text[at : self._plainly(at)]:
                    plain = plain[character]
                    at += 1
                    if not plain.stays:
                        break
                read = plain
            elif (token := self._token(at, last=last)) is None:
                break
            else:
                at, character = token
                for number in range(begins, at):
                    plain = plain[text[number]]
                    if plain.is_match and not found:
                        found = number + 1
                read = read[character] if character else self._machine.apart(read)
            if found or plain.is_match or read.is_match:
                self._seen, self._stood = at, (plain, read)
                self._found(found or at)
                return True
            if at >= self._until and plain.is_idle and read.is_idle:
                self._let(at)
                self._plain = None
                return True
        self._plain, self._read, self._seen = plain, read, at
        self._let(size if last else max(self._at, size - self._machine.most_held))
        return False

    def _plainly(self, at: int) -> int:
        """Return up to where the text can be walked over, from here on, before an escape begins."""
        upto = at + _STRETCH
        found = introduces(self._text, at, upto)
        return upto if found is None else found.start()

    # -- a match --------------------------------------------------------------------------------

    def _found(self, ends: int) -> None:
        """Look for the beginning of a match that was seen to end here."""
        self._ends = ends
        self._plain = None
        self._escaped = introduces(self._text, self._at, ends) is not None
        self._inside = set()
        if self._escaped:
            self._inside.update(
                number
                for escape in ESCAPE.finditer(self._text, self._at, ends)
                for number in range(escape.start() + 1, escape.end())
            )
        self._try(self._at)

    def _try(self, begins: int) -> None:
        """Look how far a match reaches if it begins here, or where else the first one may."""
        going, text = self._machine.going, self._text
        before, read_before = self._before(begins)
        spot = going(before)
        if self._escaped or before != read_before:
            read = None if begins in self._inside else going(read_before)
        else:
            last = min(self._ends, self._at + MOST_TRIED) - 1
            while begins < last and spot[text[begins]].is_idle:
                spot = going(text[begins])
                begins += 1
            read = spot
        self._match = _Match(begins, spot, read)

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
            # It is among what was held back, wherever it begins, and may go on behind it.
            upto = self._seen
            self._replace(self._at, upto, self._text[self._at : upto])
            self._match = match = _Match(upto, *map(self._machine.further, self._stood))
            match.begins -= self._machine.most_held + 1  # so every character must make a match
            match.reaches, match.is_shown = upto, True
            return True
        self._try(match.begins + 1)
        return True

    def _walk(self, match: _Match, *, last: bool) -> bool:
        """Walk from where a match begins; return True if it cannot reach further than it does.

        One that is longer than all that is held back goes on for as long as every character of it
        makes a match.
        """
        text, at = self._text, match.at
        size, limit = len(text), match.begins + self._machine.most_held
        while at < size and (match.plain is not None or match.read is not None):
            spot = match.plain
            if spot is not None and spot is match.read and text[at] not in INTRODUCE:
                # As nearly always: both walks are at one.
                for character in text[at : self._plainly(at)]:
                    spot = spot[character]
                    at += 1
                    if spot.is_match:
                        match.reaches, match.reads_further = at, False
                    if not spot.is_open:
                        break
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
        text = self._text
        if match.read is None:
            ends = at + 1
        elif not character and at == match.begins:
            # No match begins with an order to a terminal.
            match.read = None
        elif character:
            match.read = match.read[character]
        for number in range(at, ends):
            if match.plain is not None:
                match.plain = match.plain[text[number]]
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


def _outside(text: str, at: int, begins: int, until: int) -> int:
    """Return where the escape begins that a place is in; the place itself if it is in none."""
    near = max(at, begins - LONGEST)
    if begins > at and introduces(text, near, begins) is not None:
        for escape in ESCAPE.finditer(text, near, until):
            if escape.start() < begins < escape.end():
                return escape.start()
    return begins


def _first(text: str, at: int, found: re.Match[str]) -> int:
    """Return the first place where a match may begin if this was found."""
    begins, until = found.start(), found.end()
    if text[begins] in INTRODUCE:
        begins = _outside(text, at, begins, until)
        orders = ending(text, max(at, begins - _NEAR), begins)
        if orders is not None:
            begins = orders.start()
    return _outside(text, at, max(at, begins - PREFIX), until)
