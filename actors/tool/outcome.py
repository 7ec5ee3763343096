"""How a run of a tool came out, in words that a model can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from actors.tool.output import clip, plain

if TYPE_CHECKING:
    from actors.redaction.redactor import Replacer

Ending: TypeAlias = Literal["success", "error", "timeout", "cancelled"]
"""How a run can end. That a call was denied, or its outcome is unknown, is not for a run to say."""

MAX_ERROR_BYTES: Final = 8 << 10
"""What is told of an error at most."""
_LEAVES: Final = 5


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run came to. The output is made of what JSON knows, and nothing else.

    >>> Outcome(status="success", output=4)
    Outcome(status='success', output=4, error='', truncated=0, frames=())
    """

    status: Ending
    output: Any = None
    error: str = ""
    """What went wrong: never a traceback, which is no business of the model's."""
    truncated: int = 0
    """How many bytes of the output were cut out."""
    frames: tuple[str, ...] = ()
    """Where an error went through the app's own code: for operators, and not for the model."""


class Happened(msgspec.Struct, frozen=True):
    """A probe's answer: the call did happen, and this is what it returned."""

    output: Any = None


def in_words(error: BaseException, *hiding: Replacer) -> str:
    """Say what an error is: its type and its message, without what is to be hidden.

    It is cut last: half of a secret would not be known for one.

    >>> in_words(ValueError("no such city"))
    'ValueError: no such city'
    """
    words = " / ".join(_words(leaf) for leaf in _leaves(error))
    for each in hiding:
        words = each.text(words)
    return clip(words, MAX_ERROR_BYTES)[0]


def _leaves(error: BaseException) -> list[BaseException]:
    # That a group has members says nothing; what they are does.
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _LEAVES:
        error = waiting.pop(0)
        if isinstance(error, BaseExceptionGroup):
            waiting += error.exceptions
        else:
            found.append(error)
    return found


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 -- an error that cannot even say what it is
        return name
    # Cut before anything else: it may be as long as memory lasts.
    return plain(f"{name}: {clip(message, MAX_ERROR_BYTES)[0]}" if message else name)
