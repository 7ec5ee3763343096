"""The commands that sessions, agents and calls take, as values: for `do` of a session or a runtime.

docs/COMMANDS.md lists each with its fields, and says when it is refused.

>>> from runefold import commands
>>> commands.Pause("lunch")
Pause(reason='lunch', finish=True)
"""

from actors.agent.public_commands import Terminate
from actors.session.public_commands import (
    Archive,
    Close,
    HandOver,
    Interrupt,
    Pause,
    Replenish,
    Resume,
    Send,
    Suspend,
    Unsuspend,
)
from actors.tool.public_commands import Acknowledge, Answer, Approve, Deny

__all__ = [
    "Acknowledge",
    "Answer",
    "Approve",
    "Archive",
    "Close",
    "Deny",
    "HandOver",
    "Interrupt",
    "Pause",
    "Replenish",
    "Resume",
    "Send",
    "Suspend",
    "Terminate",
    "Unsuspend",
]
