"""What is refused before a log even looks at its runes: the shape of an append."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Change

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest version, event id or time there is: what eight bytes hold, with a sign."""


def check_append(conversation: str, changes: Sequence[Change]) -> None:
    """Refuse an append that no log could carry out, and say which part of it is wrong."""
    check_id(conversation, "conversation id")
    if not changes:
        msg = f"nothing to append to {conversation}: give at least one change"
        raise Refused(msg)
    entities = set()
    for change in changes:
        _check_change(change)
        if change.entity in entities:
            msg = f"two changes for {change.entity} in one append: put their runes into one change"
            raise Refused(msg)
        entities.add(change.entity)


def _check_change(change: Change) -> None:
    entity = check_id(change.entity, "entity id")
    for observer in change.observers:
        check_id(observer, "observer id")
    if change.agent is not None:
        check_id(change.agent, "agent id")
    if change.turn is not None:
        check_id(change.turn, "turn id")
    if not change.runes:
        msg = f"the change for {entity} has no runes: leave it out, or say what happened"
        raise Refused(msg)
    _check_number(change.expected_version, entity, "expected version")
    _check_number(change.cause, entity, "cause")
    _check_number(change.deadline, entity, "deadline")
    if change.deadline is not None and change.open is not True:
        msg = f"{entity} has a deadline and is not open: say open=True, or it would never be met"
        raise Refused(msg)


def _check_number(value: int | None, entity: str, what: str) -> None:
    if value is not None and not 0 <= value <= MAX_NUMBER:
        msg = f"the {what} of {entity} is {value}: it must be from 0 to {MAX_NUMBER:,}"
        raise Refused(msg)
