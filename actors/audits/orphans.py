"""Children: each has a parent that lives or the root, and each end is told to the parent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors import children
from actors.audit import Audit, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope

NO_ORPHANS: Final = "INV-NO-ORPHANS"


class Orphans(Audit):
    """No child is without a parent: one whose parent has ended is left to the root, or stopped."""

    holds = (NO_ORPHANS,)

    def __init__(self) -> None:
        """Begin without any child."""
        self._living: dict[str, children.Started] = {}
        self._parents: dict[str, str] = {}
        """The parent of each that lives; empty for the root."""
        self._ended: set[str] = set()
        self._unborn: dict[str, int] = {}
        """Children that are in a table and have no rune of their own yet, and since when."""
        self._left: dict[str, str] = {}
        """Children that have to stop since their parent has ended, and which that was."""

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Yield what is wrong about a birth or an end."""
        at, owner = envelope.event_id, envelope.owner
        self._unborn.pop(owner, None)
        match rune := envelope.payload:
            case children.Started():
                yield from self._started(at, rune)
            case children.Ended(child, refused="", parent=parent):
                yield from self._gone(at, child, parent, failed=rune.failed)
            case _:
                pass

    def _started(self, at: int, rune: children.Started) -> Iterator[Found]:
        name, parent = rune.child, rune.parent
        if name in self._living or name in self._ended:
            yield Found(NO_ORPHANS, at, f"{name} is born a second time")
        if parent in self._ended:
            yield Found(NO_ORPHANS, at, f"{name} is born by {parent}, which has ended")
        self._living[name], self._parents[name] = rune, parent
        self._unborn[name] = at

    def _gone(self, at: int, name: str, parent: str, *, failed: bool) -> Iterator[Found]:
        if name not in self._living:
            yield Found(NO_ORPHANS, at, f"{name} ends, and is in no table of children")
            return
        if parent != self._parents[name]:
            there = self._parents[name] or "the root"
            yield Found(NO_ORPHANS, at, f"{name} ends, and {there} is not told")
        del self._living[name], self._parents[name]
        self._left.pop(name, None)
        self._ended.add(name)
        for child, of in self._parents.items():
            if of == name:
                self._parents[child] = ""
                fate = self._living[child].on_fail if failed else self._living[child].on_close
                if fate == "cancel":
                    self._left[child] = name

    def skipped(self, envelope: Envelope) -> None:
        """Take notice of a child of a kind that is not known here."""
        self._unborn.pop(envelope.owner, None)

    def rest(self, at: int) -> Iterator[Found]:
        """Yield the children that were never born, and those that outlive their parents."""
        for name, since in self._unborn.items():
            yield Found(NO_ORPHANS, since, f"{name} is in a table of children and was never born")
        for name, parent in self._left.items():
            yield Found(NO_ORPHANS, at, f"{name} goes on, and its parent {parent} has ended")
