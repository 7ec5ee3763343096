r"""Redaction: what fits a pattern is replaced by a mark, before anybody keeps it.

The mark is `{"redacted": "…"}` with the beginning of a hash, so that the same secret can be
recognised and none can be read. Text that comes in pieces goes through a `Flow`, which holds back
what may still become a match.

>>> Redactor([r"acct-\d{6}"]).text("pay acct-123456 now")
'pay {"redacted": "3d9f36cb"} now'
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.redaction.machine import Machine

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable

    from actors.redaction.machine import Spot

PROVIDER_KEYS: Final = (
    r"\bsk-(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{20,}",
    r"\bsk-[A-Za-z0-9]{20,}",
    r"\bAIza[A-Za-z0-9_-]{35}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"\b(?:gsk|hf|r8)_[A-Za-z0-9]{20,}",
    r"\b(?:xai|pplx)-[A-Za-z0-9]{20,}",
    r"\bgh[oprsu]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeprs]-[A-Za-z0-9-]{10,}",
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]+-----END [A-Z ]{0,30}PRIVATE KEY-----",
)
"""Keys of model providers, and others that are known by their looks: always looked for."""
MOST_HELD: Final = 8_192
"""So many characters are held back at most: what is longer than that is no secret."""
MOST_TRIED: Final = 256
"""At so many places it is tried where a match begins; then all that is held back is replaced."""
_SHOWN: Final = 8
_NO_TEXT: Final = frozenset({bool, int, float})
"""Types of values that nothing can be hidden in."""


def mark(secret: str) -> str:
    """Return what stands in the log where a secret was.

    >>> mark("hunter2")
    '{"redacted": "f52fbd32"}'
    """
    found = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    return f'{{"redacted": "{found[:_SHOWN]}"}}'


class Redactor:
    """Replaces what fits one of its patterns."""

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        """Look for these patterns, and for the keys of providers; refuse one that cannot be."""
        self._machine = Machine([*PROVIDER_KEYS, *patterns])
        self._search = self._machine.search

    def flow(self) -> Flow:
        """Return what takes in a text piece by piece."""
        return Flow(self._machine)

    def text(self, text: str) -> str:
        """Return a whole text with every match replaced."""
        if self._search(text) is None:
            return text
        flow = Flow(self._machine)
        return flow.feed(text) + flow.end()

    def finds(self, text: str) -> bool:
        """Tell whether there is anything to replace."""
        return self.text(text) != text

    def value(self, value: Any) -> Any:  # noqa: ANN401 -- whatever JSON knows, and commands
        """Return a value with every match replaced, wherever in it a text is; keys as well."""
        if value is None or type(value) in _NO_TEXT:
            return value
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.value(key): self.value(each) for key, each in value.items()}
            case list():
                return [self.value(each) for each in value]
            case tuple():
                found = [self.value(each) for each in value]
                return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
            case msgspec.Struct():
                new = {}
                for name in value.__struct_fields__:
                    field = getattr(value, name)
                    found = self.value(field)
                    if found is not field and found != field:
                        new[name] = found
                return msgspec.structs.replace(value, **new) if new else value
            case _:
                return value


class Flow:
    """A text that comes in pieces. What may still become a match is held back."""

    def __init__(self, machine: Machine) -> None:
        """Begin before the first piece."""
        self._machine = machine
        self._text = ""
        self._at = 0
        """So much of the text is dealt with."""
        self._before = ""
        """The character before the text."""
        self._done: list[str] = []
        self._spot: Spot | None = None
        """Where the machine stands on the lookout; None where nothing may have begun."""
        self._seen = 0
        """How many characters of the text it has seen."""

    def feed(self, piece: str) -> str:
        """Take in a piece; return what may be shown by now."""
        if not self._text:
            if not piece:
                return ""
            if self._found(piece, 0, last=False) is None:
                # As nearly always.
                self._before = piece[-1]
                return piece
        self._text += piece
        return self._passed(last=False)

    def end(self) -> str:
        """Return what was held back: nothing more will come."""
        return self._passed(last=True) if self._text else ""

    def _passed(self, *, last: bool) -> str:
        while self._at < len(self._text) and self._goes_on(last=last):
            pass
        done, self._done = "".join(self._done), []
        self._before = self._char(self._at - 1)
        self._text = self._text[self._at :]
        self._seen -= self._at
        self._at = 0
        return done

    def _goes_on(self, *, last: bool) -> bool:
        """Let through or replace what can be; tell whether there is more to look at now."""
        text = self._text
        if self._spot is None:
            begins = self._found(text, self._at, last=last)
            self._let(len(text) if begins is None else begins)
            if begins is None:
                return False
            self._spot, self._seen = self._machine.looking(self._char(begins - 1)), begins
        looks, spot = self._machine.looks, self._spot
        for number in range(self._seen, len(text)):
            following = looks(spot, text[number])
            if following.is_match:
                self._spot, self._seen = spot, number
                return self._replaced(number + 1, last=last)
            if following.is_idle:
                self._let(number + 1)
                self._spot = None
                return True
            spot = following
        self._spot, self._seen = spot, len(text)
        self._let(len(text) if last else max(self._at, len(text) - MOST_HELD))
        return False

    def _replaced(self, ends: int, *, last: bool) -> bool:
        """Replace the match that was found, unless it may become longer; tell whether it was."""
        begins, reaches, is_open = self._reach(ends)
        self._let(begins)
        if is_open and not last and len(self._text) - begins <= MOST_HELD:
            return False
        self._done.append(mark(self._text[begins:reaches]))
        self._at = reaches
        self._spot = None
        return True

    def _reach(self, ends: int) -> tuple[int, int, bool]:
        """Return where a match begins that ends here or later, where it ends, and if it is open."""
        machine, text = self._machine, self._text
        for begins in range(self._at, min(ends, self._at + MOST_TRIED)):
            spot = machine.going(self._char(begins - 1))
            reaches, at = 0, begins
            while at < len(text) and not (spot := machine.goes(spot, text[at])).is_idle:
                at += 1
                reaches = at if spot.is_match else reaches
            if reaches >= ends:
                return begins, reaches, at == len(text) and spot.is_open
        # It is among what was held back, wherever it begins.
        return self._at, ends, False

    def _let(self, upto: int) -> None:
        """Let the text through, up to here."""
        self._done.append(self._text[self._at : upto])
        self._at = upto

    def _char(self, number: int) -> str:
        return self._text[number] if number >= 0 else self._before

    def _found(self, text: str, at: int, *, last: bool) -> int | None:
        """Return where a match may begin; None if nowhere."""
        found = self._machine.search(text, at)
        if found is None and not last:
            # Too little of it may be there yet to be found that way.
            found = self._machine.tail(text, max(at, len(text) - self._machine.depth + 1))
        return None if found is None else found.start()


DEFAULT: Final = Redactor()
"""Looks for the keys of providers only."""
