"""What a shell tells itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    import msgspec


class Wake:
    """Look what is due: the first message of every shell, and whenever a pause is over."""


WAKE: Final = Wake()


class RetryEffect(NamedTuple):
    """Perform an effect again, if it is still due: a pause is over."""

    effect: msgspec.Struct
