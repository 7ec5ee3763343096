"""The public commands of an agent."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from actors.public_command import Command, Reason, about


class Terminate(Command, frozen=True):
    """Terminate an agent: it takes no more work.

    Refused while a turn of it is running, unless by force; and if there is no such agent any more.
    """

    done: ClassVar[str] = "terminated"
    offline: ClassVar[Literal["no"]] = "no"

    reason: Reason = "killed"
    force: Annotated[bool, about("Also while a turn is running, which is interrupted.")] = False


COMMANDS: Final[tuple[type[Command], ...]] = (Terminate,)
"""What users may ask of an agent."""
