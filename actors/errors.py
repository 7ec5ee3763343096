"""What can go wrong between actors, by name."""

from __future__ import annotations

from runelog.errors import Fault, Refused


class Overloaded(Refused):
    """A mailbox is full: send less, or later. Nothing was delivered."""


class Dead(Refused):
    """The actor that was asked is not there any more; the message was not handled."""


class Unanswered(Fault):
    """No answer came in time. The message may still be handled."""


class Crashed(Fault):
    """The actor crashed while it handled the message; its supervisor decides what happens next."""


class StartFailed(Fault):
    """An actor could not start."""
