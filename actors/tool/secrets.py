"""Secrets: named in the log, known to adapters only, and kept out of what a tool says.

A model passes a *reference*, `secret:GITHUB_TOKEN`, to a parameter that is declared `Secret`, and
only such secrets as the tool lists. A plain text that looks like a reference stays plain text, so
that no tool can be talked into repeating what it was never meant to know.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from actors.redaction.machine import Machine
from actors.redaction.redactor import Replacer
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX: Final = "secret:"
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

IS_SECRET: Final = msgspec.Meta(extra={"runefold": "secret"})
Secret = Annotated[str, IS_SECRET]
"""Annotates a parameter whose value is given as `secret:NAME`; the function gets the value."""


def is_secret_name(name: str) -> bool:
    """Return True if a secret may be called that."""
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


class SecretMask(Replacer):
    """Hides the values of secrets in whatever a tool says: their names are shown instead.

    >>> mask = SecretMask({"GITHUB_TOKEN": "s3cr3t/1"})
    >>> mask.text("denied for s3cr3t/1: https://example.org/?token=s3cr3t%2F1")
    'denied for secret:GITHUB_TOKEN: https://example.org/?token=secret:GITHUB_TOKEN'
    """

    numbers = True

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Hide the values of `secrets`, which are listed by name."""
        self._names = {value: PREFIX + name for name, value in secrets.items()}
        super().__init__(Machine(texts=self._names), self._name)

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._names)

    def _name(self, value: str) -> str:
        # What is replaced as a whole may be two values that overlap.
        return self._names.get(value) or next(iter(self._names.values()))
