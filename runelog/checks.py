"""Arguments that are refused: options that make no log, and appends that no log could take."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import TIMEOUT_MAX
from typing import Final

from runelog.codec import Codec
from runelog.errors import Cold, Gone, Refused
from runelog.rune import Change, State, Visibility, check_id, known_ids

MAX_NUMBER: Final = (1 << 63) - 1
"""The largest version, event id or time there is: what eight bytes hold, with a sign."""
MIN_SEGMENT_SIZE: Final = 1 << 20
_LISTS: Final = frozenset({list, tuple})


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
    if type(conversation) is not str or conversation not in known_ids:
        check_id(conversation, "conversation id")
    if type(changes) not in _LISTS and (
        not isinstance(changes, Sequence) or isinstance(changes, str)
    ):
        # What can be gone through only once would be empty by the time it is written.
        msg = f"the changes for {conversation} must be a list or a tuple of changes"
        raise Refused(msg)
    if not changes:
        msg = f"nothing to append to {conversation}: give at least one change"
        raise Refused(msg)
    earlier: set[str] = set()
    says_something = False
    for change in changes:
        if type(change) is not Change:
            msg = f"{change!r:.80} is no change: say Change(entity, version, runes)"
            raise Refused(msg)
        entity, version, runes = change.entity, change.expected_version, change.runes
        agent, turn, observers, cause = change.agent, change.turn, change.observers, change.cause
        is_open, deadline = change.open, change.deadline
        # Done for every change there is, so what is as it should be takes no call: only where
        # something looks odd is it asked what exactly that is.
        try:
            are_known = type(observers) in _LISTS and known_ids.issuperset(
                [
                    entity,
                    entity if agent is None else agent,
                    entity if turn is None else turn,
                    *observers,
                ]
            )
        except TypeError:  # something that has no hash, and is no id
            are_known = False
        if not are_known:
            _check_ids(change)
        is_sound = (
            type(runes) in _LISTS
            and (type(cause) is int and 0 <= cause <= MAX_NUMBER)
            and (version is None or (type(version) is int and 0 <= version <= MAX_NUMBER))
            and (is_open is None or (type(is_open) is bool))
            and (runes or is_open is not None or version is not None)
            and (
                deadline is None
                or (is_open is True and type(deadline) is int and 0 <= deadline <= MAX_NUMBER)
            )
            and change.visibility is None
            and not change.tags
        )
        if not is_sound:
            _check_shape(change)
        if version is not None and entity in earlier:
            msg = (
                f"a later change for {entity} in one append expects a version: "
                "only the first of them can"
            )
            raise Refused(msg)
        earlier.add(entity)
        if runes:
            says_something = True
    if not says_something:
        msg = f"nothing to append to {conversation}: none of the changes has a rune"
        raise Refused(msg)


def check_timeout(timeout: float | None) -> None:
    """Refuse a time to wait that is in the past, or none at all."""
    if timeout is None:
        return
    if not isinstance(timeout, int | float) or not 0 <= timeout <= TIMEOUT_MAX:
        msg = f"a timeout of {timeout!r:.40} s: give seconds from 0 on, or None to wait for ever"
        raise Refused(msg)


def _check_shape(change: Change) -> None:
    """Refuse a change of the wrong shape, and say what is wrong."""
    entity = change.entity
    if change.tags:
        _check_texts(change.tags, entity, "tags")
        _check_tags(change.tags, entity)
    if type(change.runes) not in _LISTS and not isinstance(change.runes, Sequence):
        msg = f"the runes of the change for {entity} must be a list or a tuple"
        raise Refused(msg)
    is_open = change.open
    if not change.runes and is_open is None and change.expected_version is None:
        msg = f"the change for {entity} has no runes: leave it out, or say what happened"
        raise Refused(msg)
    version, deadline = change.expected_version, change.deadline
    if version is not None and (type(version) is not int or not 0 <= version <= MAX_NUMBER):
        raise _no_number(version, entity, "expected version")
    if type(change.cause) is not int or not 0 <= change.cause <= MAX_NUMBER:
        raise _no_number(change.cause, entity, "cause")
    if deadline is not None and (type(deadline) is not int or not 0 <= deadline <= MAX_NUMBER):
        raise _no_number(deadline, entity, "deadline")
    if change.visibility is not None and type(change.visibility) is not Visibility:
        msg = f"the visibility of {entity}'s runes is {change.visibility!r}: use a Visibility"
        raise Refused(msg)
    if is_open is not None and type(is_open) is not bool:
        msg = f"{entity} is said to be open={is_open!r}: say True, False, or nothing"
        raise Refused(msg)
    if deadline is not None and is_open is not True:
        msg = f"{entity} has a deadline and is not open: say open=True, or it would never be met"
        raise Refused(msg)


def _check_ids(change: Change) -> None:
    entity = check_id(change.entity, "entity id")
    if change.observers:
        _check_texts(change.observers, entity, "observers")
        for observer in change.observers:
            check_id(observer, "observer id")
    if change.agent is not None:
        check_id(change.agent, "agent id")
    if change.turn is not None:
        check_id(change.turn, "turn id")


def _check_texts(values: object, entity: str, what: str) -> None:
    if isinstance(values, (tuple, list)):
        for text in values:
            if not isinstance(text, str):
                break
        else:
            return
    msg = f"the {what} of {entity} are {values!r:.80}: give a tuple of strings"
    raise Refused(msg)


def _check_tags(tags: tuple[str, ...], entity: str) -> None:
    try:
        "".join(tags).encode()
    except UnicodeEncodeError as error:
        msg = f"the tags of {entity} cannot be stored: {error}"
        raise Refused(msg) from error


def _no_number(value: object, entity: str, what: str) -> Refused:
    return Refused(
        f"the {what} of {entity} is {value!r:.40}: give a number from 0 to {MAX_NUMBER:,}"
    )


def check_kinds(kinds: Collection[str] | None) -> None:
    """Refuse a string where kinds are asked for: each of its parts would be taken for a kind."""
    if isinstance(kinds, str):
        msg = f"kinds is the string {kinds!r}: name kinds in a list or a set"
        raise Refused(msg)


def check_following(
    kinds: Collection[str] | None, max_behind: int | None, wait: float | None
) -> None:
    """Refuse arguments of `follow` that make no sense."""
    if max_behind is not None and max_behind < 1:
        msg = f"max_behind is {max_behind}: a reader must be allowed at least one rune"
        raise Refused(msg)
    check_kinds(kinds)
    check_timeout(wait)


def beginning(after: int) -> int:
    """Return behind which event, version or position to begin, 0 at the least."""
    if not isinstance(after, int):
        raise _no_cursor(after)
    return max(after, 0)


def end(until: int | None, head: int) -> int:
    """Return with which event to end: the last one there is at the latest."""
    if until is None:
        return head
    if not isinstance(until, int):
        raise _no_cursor(until)
    return min(until, head)


def _no_cursor(given: object) -> Refused:
    # Where it is looked up it would be taken for damage.
    return Refused(f"{given!r:.40} is no cursor: give a whole number, as runes and gaps have it")


def check_readable(conversation: str, state: State) -> None:
    """Refuse to read a conversation that was erased."""
    if state is State.ERASED:
        msg = f"{conversation} was erased: only its tombstone is left"
        raise Gone(msg)


def check_live(conversation: str, state: State) -> None:
    """Refuse to append to a conversation that was erased or archived."""
    check_readable(conversation, state)
    if state is State.ARCHIVED:
        msg = f"{conversation} is archived: restore it before appending to it"
        raise Cold(msg)
