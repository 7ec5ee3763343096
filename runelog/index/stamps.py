"""What a segment's file says of itself in `meta`: its log, how new it is, whether it is complete.

MANIFEST counts its own revisions. A segment stores the revision that was to name it first (`born`)
and, while it is the active one, the last revision that was published (`published`). So a MANIFEST
that is older than the segments beside it, from a backup or a copy, is noticed before anything is
done on its word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runelog.errors import Corrupt
from runelog.index.records import PLACE, checked, signed

if TYPE_CHECKING:
    from runelog.lmdb.environment import Batch
    from runelog.lmdb.tables import Tables

LOG: Final = b"log"
"""The id of the log that the segment belongs to."""
BORN: Final = b"born"
"""The revision of MANIFEST that names the segment first."""
PUBLISHED: Final = b"published"
"""A revision of MANIFEST that is known to have been published."""
ASIDE: Final = b"aside"
"""There only if the segment is built aside before MANIFEST names it; says whether it is done."""
BUILDING: Final = b"building"
COMPLETE: Final = b"complete"


def begin(batch: Batch, log: str, revision: int, *, aside: bool = False) -> None:
    """Stamp a segment that revision `revision` of the manifest of `log` is to name first."""
    batch.put("meta", LOG, signed(LOG, log.encode()))
    batch.put("meta", BORN, signed(BORN, PLACE.pack(revision)))
    if aside:
        batch.put("meta", ASIDE, signed(ASIDE, BUILDING))


def complete(batch: Batch) -> None:
    """Stamp a segment that was built aside: all that belongs into it is in it."""
    batch.put("meta", ASIDE, signed(ASIDE, COMPLETE))


def publish(batch: Batch, revision: int) -> None:
    """Stamp the active segment: this revision of the manifest is on disk."""
    batch.put("meta", PUBLISHED, signed(PUBLISHED, PLACE.pack(revision)))


def log_of(view: Tables) -> str:
    """Return the id of the log that a segment belongs to, empty if it does not say."""
    return (_value(view, LOG) or b"").decode()


def is_aside(view: Tables) -> bool:
    """Return True if a segment was built aside, finished or not."""
    return _value(view, ASIDE) is not None


def is_unfinished(view: Tables) -> bool:
    """Return True if a segment was being built aside and was never completed."""
    return view.get("meta", b"segment") is None or _value(view, ASIDE) == BUILDING


def newest(view: Tables) -> int:
    """Return the newest revision of the manifest that a segment proves to have been published.

    A segment is appended to only once MANIFEST names it; one that is built aside holds runes
    before.
    """
    proven = _revision(view, PUBLISHED)
    if not is_aside(view) and view.scan("runes", limit=1):
        proven = max(proven, _revision(view, BORN))
    return proven


def _revision(view: Tables, key: bytes) -> int:
    found = _value(view, key)
    if found is None:
        return 0
    if len(found) != PLACE.size:
        msg = "a revision in the table meta cannot be decoded"
        raise Corrupt(msg)
    revision: int = PLACE.unpack(found)[0]
    return revision


def _value(view: Tables, key: bytes) -> bytes | None:
    stored = view.get("meta", key)
    return None if stored is None else checked(key, stored)
