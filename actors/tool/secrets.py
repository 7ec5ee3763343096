"""Secrets: named in the log, known to adapters only, and kept out of what a tool says.

A model passes a *reference*, `secret:GITHUB_TOKEN`, to a parameter that is declared `Secret`, and
only such secrets as the tool lists. A plain text that looks like a reference stays plain text, so
that no tool can be talked into repeating what it was never meant to know.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX: Final = "secret:"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

IS_SECRET: Final = msgspec.Meta(extra={"runefold": "secret"})
Secret = Annotated[str, IS_SECRET]
"""Annotates a parameter whose value is given as `secret:NAME`; the function gets the value."""


def is_secret_name(name: str) -> bool:
    """Tell whether a secret may be called that."""
    return _NAME.fullmatch(name) is not None


def named(reference: object) -> str | None:
    """Return the name in a reference, None if it is something else.

    >>> named("secret:GITHUB_TOKEN")
    'GITHUB_TOKEN'
    """
    if isinstance(reference, str) and reference.startswith(PREFIX):
        return reference[len(PREFIX) :]
    return None


def revealed(name: str, secret: Callable[[str], str]) -> str:
    """Return the value of a secret; refuse one that is empty, which hides nothing and opens all."""
    value = secret(name)
    if not value:
        msg = f"the secret {name!r} is empty: give it a value where the runtime is opened"
        raise Refused(msg)
    return value


class Veil:
    """Hides the values of secrets in whatever a tool says: their names are shown instead.

    >>> veil = Veil({"GITHUB_TOKEN": "s3cr3t"})
    >>> veil.text("denied for s3cr3t")
    'denied for secret:GITHUB_TOKEN'
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Hide the values of `secrets`, which are listed by name."""
        # The longest first: one value may be a part of another.
        byte_values = sorted(
            ((value.encode(), (PREFIX + name).encode()) for name, value in secrets.items()),
            key=lambda pair: -len(pair[0]),
        )
        self._values = byte_values

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._values)

    def text(self, text: str) -> str:
        """Return `text` with every value replaced."""
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def data(self, data: bytes) -> bytes:
        """Return `data` with every value replaced."""
        for value, name in self._values:
            data = data.replace(value, name)
        return data

    def json(self, encoded: bytes) -> bytes:
        """Return JSON with every value replaced, also where JSON writes it with escapes."""
        for value, name in self._values:
            encoded = encoded.replace(msgspec.json.encode(value.decode())[1:-1], name)
        return encoded

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what can be shown of a stream by now, and what the rest of a value may follow."""
        data = self.data(data)
        held = 0
        for value, _ in self._values:
            for size in range(min(len(value) - 1, len(data)), held, -1):
                if data.endswith(value[:size]):
                    held = size
                    break
        return (data[:-held], data[-held:]) if held else (data, b"")
