"""What happens to the system's own root."""

from __future__ import annotations

from runelog.rune import Rune


class Opened(Rune, frozen=True, gc=False, tag="system.opened"):
    """The reserved conversation begins: the root's birth."""

    conversation_id: str
