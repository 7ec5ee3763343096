"""What asks a human, and what ends the question. Pure."""

from __future__ import annotations

import msgspec

from actors.approval.runes import PREFIX
from actors.entity import keyed


class AskHuman(msgspec.Struct, frozen=True):
    """Ask a human to approve something. Due until `approval.approved` or `rejected` is observed.

    If it is due no more before that, the question is withdrawn.
    """

    key: str
    reason: str

    def approval_id(self, conversation: str, entity: str) -> str:
        """Return the id of the approval."""
        return keyed(PREFIX, conversation, entity, self.key)


class Conclude(msgspec.Struct, frozen=True):
    """Tell an approval that its asker goes on, or wants no answer any more."""

    reason: str = ""
