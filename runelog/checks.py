"""What is refused at the door: options that make no log, and appends that no log could take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from runelog.codec import Codec
from runelog.errors import Refused
from runelog.rune import Visibility, check_id

if TYPE_CHECKING:
    from runelog.rune import Change

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest version, event id or time there is: what eight bytes hold, with a sign."""
MIN_SEGMENT_SIZE: Final = 1 << 20


def check_parts(codec: object, clock: object) -> None:
    """Refuse what is no codec or no clock."""
    if codec is not None and not isinstance(codec, Codec):
        msg = f"a codec is a Codec, such as Codec([Noted]), not a {type(codec).__name__}"
        raise TypeError(msg)
    if not callable(clock):
        msg = f"a clock is a function that returns nanoseconds, such as time.time_ns, not {clock!r}"
        raise TypeError(msg)


def check_options(segment_size: int, durability: str, *, readonly: bool, take_over: bool) -> None:
    """Refuse options that no log can be opened with."""
    if segment_size < MIN_SEGMENT_SIZE:
        msg = f"a segment of {segment_size:,} bytes is too small: use at least {MIN_SEGMENT_SIZE:,}"
        raise Refused(msg)
    if durability not in ("commit", "relaxed"):
        msg = f"there is no durability {durability!r}: use 'commit' or 'relaxed'"
        raise Refused(msg)
    if readonly and take_over:
        msg = "a reader cannot take a log over: leave out readonly"
        raise Refused(msg)


def check_append(conversation: str, changes: Sequence[Change]) -> None:
    """Refuse an append that no log could carry out, and say which part of it is wrong."""
    check_id(conversation, "conversation id")
    if not changes:
        msg = f"nothing to append to {conversation}: give at least one change"
        raise Refused(msg)
    entities = set()
    for change in changes:
        _check_change(change)
        if change.entity in entities and change.expected_version is not None:
            msg = (
                f"a later change for {change.entity} in one append expects a version: "
                "only the first of them can"
            )
            raise Refused(msg)
        entities.add(change.entity)
    if not any(change.runes for change in changes):
        msg = f"nothing to append to {conversation}: none of the changes has a rune"
        raise Refused(msg)


def _check_change(change: Change) -> None:
    entity = check_id(change.entity, "entity id")
    if change.observers:
        _check_texts(change.observers, entity, "observers")
        for observer in change.observers:
            check_id(observer, "observer id")
    if change.tags:
        _check_texts(change.tags, entity, "tags")
    if change.agent is not None:
        check_id(change.agent, "agent id")
    if change.turn is not None:
        check_id(change.turn, "turn id")
    if type(change.runes) is not list and not isinstance(change.runes, Sequence):
        msg = f"the runes of the change for {entity} must be a list or a tuple"
        raise Refused(msg)
    if not change.runes and change.open is None:
        msg = f"the change for {entity} has no runes: leave it out, or say what happened"
        raise Refused(msg)
    _check_number(change.expected_version, entity, "expected version")
    _check_number(change.cause, entity, "cause")
    _check_number(change.deadline, entity, "deadline")
    if change.visibility is not None and not isinstance(change.visibility, Visibility):
        msg = f"the visibility of {entity}'s runes is {change.visibility!r}: use a Visibility"
        raise Refused(msg)
    if change.open is not None and not isinstance(change.open, bool):
        msg = f"{entity} is said to be open={change.open!r}: say True, False, or nothing"
        raise Refused(msg)
    if change.deadline is not None and change.open is not True:
        msg = f"{entity} has a deadline and is not open: say open=True, or it would never be met"
        raise Refused(msg)


def _check_texts(values: object, entity: str, what: str) -> None:
    if not isinstance(values, (tuple, list)) or not all(isinstance(text, str) for text in values):
        msg = f"the {what} of {entity} are {values!r:.80}: give a tuple of strings"
        raise Refused(msg)


def _check_number(value: int | None, entity: str, what: str) -> None:
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_NUMBER):
        msg = f"the {what} of {entity} is {value!r:.40}: give a number from 0 to {MAX_NUMBER:,}"
        raise Refused(msg)
