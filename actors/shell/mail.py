"""Messages from one conversation to another: nothing waits for them, and they may be lost.

So the sender repeats one until it is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from actors.errors import Dead, Overloaded
from runelog.errors import Closed, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.process.ref import Ref


class Reply:
    """Takes the answer to a message, in place of a caller that waits for it."""

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[object], None]) -> None:
        """Have `told` called with the answer, or with the error that it is, on any thread."""
        self._told = told

    def set(self, value: object = None) -> None:
        """Give the answer."""
        self._told(value)

    def fail(self, error: Exception) -> None:
        """Give an error as the answer."""
        self._told(error)


class Echo(NamedTuple):
    """What another conversation said to a message, for the actor that sent it."""

    effect: Any
    """What the message was sent for."""
    said: object
    """The answer, or the error why it was not taken."""


def echo_to(sender: Ref, effect: object) -> Reply:
    """Return a reply that tells an actor what is said to a message that it sent for an effect."""
    return Reply(lambda said: sender.notify(Echo(effect, said)))


def is_answer(said: object) -> bool:
    """Return True if the other side has decided; False if the message may not have reached it.

    A conversation that is being put to sleep, or is overloaded, has refused nothing.
    """
    if isinstance(said, Dead | Overloaded | Closed):
        return False
    return not isinstance(said, Exception) or isinstance(said, Refused)


class Mail:
    """Takes messages to the roots of other conversations, which are woken for them."""

    def __init__(self) -> None:
        """Begin where no conversation can be reached: nothing runs."""
        self._carry: Callable[[str, object, Reply], None] | None = None

    def carried_by(self, carry: Callable[[str, object, Reply], None]) -> None:
        """Have messages carried by this function, which must not block."""
        self._carry = carry

    def send(self, conversation: str, message: object, reply: Reply) -> None:
        """Send a message to the root of a conversation; `reply` takes its answer or the error."""
        if self._carry is None:
            reply.fail(Closed("no runtime has the log open: nothing is sent"))
        else:
            self._carry(conversation, message, reply)
