"""Whether the index of a damaged segment can be believed.

Runes have checksums and their index has none: a damaged name or head could hide runes without
anybody noticing. So where damage is known, the index is held against the runes first.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runelog import frame
from runelog.catalog import entries
from runelog.errors import Corrupt
from runelog.index import NUMBER, decode_head

if TYPE_CHECKING:
    from runelog.view import View


def contradiction(view: View) -> str:
    """Say how names and heads contradict each other or the runes; nothing if they do not.

    What cannot be read contradicts nothing: reading it raises.
    """
    with contextlib.suppress(Corrupt):
        heads = {NUMBER.unpack(key)[0]: decode_head(value) for key, value in entries(view, "heads")}
        names = {name.decode(): NUMBER.unpack(key)[0] for name, key in entries(view, "names")}
        if names != {head.id: number for number, head in heads.items()}:
            return "the names of its conversations are not those that its heads tell"
        found: dict[int, tuple[int, int]] = {}
        for _, data in entries(view, "runes"):
            number, first = frame.number(data), frame.first_event(data)
            since, last = found.get(number, (first, first - 1))
            if first != last + 1:
                return f"event {last + 1} of conversation {number} is missing"
            found[number] = (since, last + frame.count(data))
        if found != {number: (head.since, head.head) for number, head in heads.items()}:
            return "its heads do not tell of the runes that it holds"
    return ""
