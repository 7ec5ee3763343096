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

from actors.redaction.flow import Flow
from actors.redaction.keys import PROVIDER_KEYS
from actors.redaction.machine import Machine

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

_SHOWN: Final = 8
_encode: Final = msgspec.json.Encoder().encode
_UNWRITABLE: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_NO_TEXT: Final = frozenset({bool, int, float})
"""Types of values that nothing can be hidden in."""


def mark(secret: str) -> str:
    """Return what stands in the log where a secret was.

    >>> mark("hunter2")
    '{"redacted": "f52fbd32"}'
    """
    found = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
    return f'{{"redacted": "{found[:_SHOWN]}"}}'


class Replacer:
    """Replaces what a machine finds."""

    numbers = False
    """Whether whole numbers in lists and mappings are looked at as well."""

    def __init__(self, machine: Machine, mark: Callable[[str], str]) -> None:
        """Replace each match by what `mark` says of it."""
        self._machine = machine
        self._mark = mark

    def flow(self) -> Flow:
        """Return what takes in a text piece by piece."""
        return Flow(self._machine, self._mark)

    def text(self, text: str) -> str:
        """Return a whole text with every match replaced."""
        if not self._machine.finds(text):
            return text
        return "".join(part.shown for part in self.flow().parts(text, last=True))

    def finds(self, text: str) -> bool:
        """Return True if there is anything to replace."""
        return self.text(text) != text

    def value(self, value: Any) -> Any:  # noqa: ANN401 -- whatever JSON knows, and commands
        """Return a value with every match replaced, wherever in it a text is; keys as well."""
        if isinstance(value, msgspec.Struct) and self._is_clean(value):
            return value
        return self._walked(value)

    def _is_clean(self, value: msgspec.Struct) -> bool:
        r"""Return True if nothing in it can be a match; it may be clean if not.

        It is searched at once, written as JSON: that has each text as it is, between quotes, which
        are at the edge of a word as the ends of a text are. Only what is written with a backslash
        differs. What JSON cannot hold may hide a text.
        """
        try:
            written = _encode(value).decode()
        except _UNWRITABLE:
            return False
        return "\\" not in written and not self._machine.finds(written)

    def _walked(self, value: Any) -> Any:  # noqa: ANN401 -- as above
        if value is None or type(value) in _NO_TEXT:
            return self._number(value) if self.numbers and type(value) is int else value
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self._walked(key): self._walked(each) for key, each in value.items()}
            case list():
                return [self._walked(each) for each in value]
            case set() | frozenset():
                return type(value)(self._walked(each) for each in value)
            case tuple():
                found = [self._walked(each) for each in value]
                return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
            case msgspec.Struct():
                new = {}
                for name in value.__struct_fields__:
                    field = getattr(value, name)
                    found = self._walked(field)
                    if found is not field and found != field:
                        new[name] = found
                return msgspec.structs.replace(value, **new) if new else value
            case _:
                return value

    def _number(self, number: int) -> int | str:
        shown = self.text(str(number))
        return number if shown == str(number) else shown


class Redactor(Replacer):
    """Replaces keys of providers, and what fits one of its patterns."""

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        """Look for these patterns, and for the keys of providers; refuse one that cannot be."""
        super().__init__(Machine([*PROVIDER_KEYS, *patterns]), mark)


DEFAULT: Final = Redactor()
"""Looks for the keys of providers only."""
