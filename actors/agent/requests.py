"""The public commands of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

from actors.agent import lifecycle as law
from actors.command import Command, Reason, about

if TYPE_CHECKING:
    from actors.command import Facts


class Terminate(Command, frozen=True):
    """Terminate an agent: it takes no more work.

    Refused while a turn of it is running, unless by force; and if there is no such agent any more.
    """

    done: ClassVar[str] = "terminated"
    offline: ClassVar[Literal["no"]] = "no"

    reason: Reason = "killed"
    force: Annotated[bool, about("Also while a turn is running, which is interrupted.")] = False

    def meant(self, facts: Facts) -> law.Terminate:
        """Record that a user asked for it."""
        del facts
        return law.Terminate(self.reason, self.force, "user")


COMMANDS: Final[tuple[type[Command], ...]] = (Terminate,)
"""What users may ask of an agent."""
