"""The system's root, as the rest of the system knows it."""

from __future__ import annotations

from typing import Final

from actors.kind import Kind, never_open
from actors.shell.root import Root
from actors.system.lifecycle import LIFECYCLE, route
from actors.system.runes import Opened
from runelog.rune import SYSTEM

KIND: Final = Kind(
    lifecycle=LIFECYCLE,
    prefix="system",
    single=True,
    conversation=SYSTEM,
    runes=(Opened,),
    route=route,
    is_open=never_open,
    actor=Root,
    printed=False,
)
