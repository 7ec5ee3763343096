"""Cursors: a reader that goes on from one gets each later rune, and gets it once."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from actors.audit import Found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runelog.log import Log

PLACES: Final = 3
"""At so many places within a conversation it is read on from a cursor."""


def resumed(log: Log, conversation: str, root: str) -> Iterator[Found]:
    """Read a conversation, and the stream of its root, on from some of their cursors."""
    head = log.conversation(conversation).head
    for cursor in _cursors(head):
        got = [each.event_id for each in log.read(conversation, cursor, head)]
        yield from _compared(cursor, got, range(cursor + 1, head + 1))
    whole = [each.event_id for each in log.stream(conversation, root, 0, head)]
    for version in _cursors(len(whole)):
        got = [each.event_id for each in log.stream(conversation, root, version, head)]
        yield from _compared(whole[version - 1] if version else 0, got, whole[version:])


def _cursors(last: int) -> list[int]:
    return sorted({last * place // PLACES for place in range(PLACES)} | {max(last - 1, 0)})


def _compared(cursor: int, got: Sequence[int], wanted: Iterable[int]) -> Iterator[Found]:
    expected = list(wanted)
    missing = sorted(set(expected) - set(got))
    if missing:
        message = f"event {missing[0]} does not come to who reads on from event {cursor}"
        yield Found("INV-RESUME-NO-GAPS", missing[0], message)
    elif list(got) != expected:
        again = next(each for each, due in zip_longest(got, expected) if each != due)
        message = f"event {again} comes out of turn to who reads on from event {cursor}"
        yield Found("INV-RESUME-NO-DUPLICATES", again, message)
