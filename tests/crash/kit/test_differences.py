"""Rules about comparing: whatever one run has and another has not is named for what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest

from actors.catalogue import KINDS
from runefold.testing.crash.verdict.comparison import compared, differences
from runefold.testing.crash.verdict.outcome import (
    AgentHistory,
    Call,
    ConversationOutcome,
    EntityOutcome,
    LogOutcome,
    TurnEnd,
    outcome_of,
)
from runelog.rune import SYSTEM
from tests.laws.errands import ERRAND, errands

if TYPE_CHECKING:
    from collections.abc import Mapping

PAID: Final = Call("pay", '{"cents":5}', "success")
SAID: Final = [("user", "pay"), ("assistant", "Paid."), ("user", "more"), ("assistant", "On")]
ENDS: Final = {"m1": TurnEnd("completed", "Paid."), "m2": TurnEnd("interrupted", "On", "enough")}


BOT: Final = AgentHistory("bot", SAID, ["m1", "m2"], ["pay", "more"])
TALK: Final = ConversationOutcome(
    messages=["m1", "m2"],
    ends=ENDS,
    histories=[BOT],
    calls={"m1": [PAID]},
    spent=1,
    doubts=0,
    unknown=0,
    told_doubts=0,
    shaken=[],
)
CAME: Final = {
    "order": [EntityOutcome('"new"', "m1"), EntityOutcome('"paid"')],
    "session": [EntityOutcome('"idle"')],
}
"""What the entities of each kind came to."""
WANT: Final = LogOutcome({"a": TALK}, {"a": CAME}, [], 0)


def with_(**changes: Any) -> LogOutcome:  # noqa: ANN401 -- the fields of a conversation
    """Return the same run with something else in its conversation."""
    return msgspec.structs.replace(WANT, talks={"a": msgspec.structs.replace(TALK, **changes)})


def shown(**changes: Any) -> LogOutcome:  # noqa: ANN401 -- what a model is shown
    """Return the same run with something else that a model is shown."""
    return with_(histories=[msgspec.structs.replace(BOT, **changes)])


def ended(message: str, **changes: Any) -> LogOutcome:  # noqa: ANN401 -- how a turn ended
    """Return the same run with another end of one message."""
    return with_(ends={**ENDS, message: msgspec.structs.replace(ENDS[message], **changes)})


def called(**changes: Any) -> LogOutcome:  # noqa: ANN401 -- the fields of a call
    """Return the same run with something else about its call."""
    return with_(calls={"m1": [msgspec.structs.replace(PAID, **changes)]})


CASES: Final[Mapping[str, tuple[LogOutcome, list[str]]]] = {
    "nothing": (WANT, []),
    "an end is missing": (with_(ends={"m1": ENDS["m1"]}), ["a ends"]),
    "an end is one too many": (with_(ends={**ENDS, "m3": TurnEnd("completed")}), ["a ends"]),
    "another kind of end": (ended("m1", kind="error"), ["a end of m1"]),
    "another reason": (ended("m2", reason="no more"), ["a end of m2"]),
    "another text": (ended("m1", text="Sold."), ["a text of m1"]),
    "more text": (ended("m1", text="Paid. Really."), ["a text of m1"]),
    "less text, and not stopped": (ended("m1", text="Pai"), ["a text of m1"]),
    "more text, and stopped": (ended("m2", text="On and on"), ["a text of m2"]),
    "more is spent": (with_(spent=2), ["a spent"]),
    "less is spent": (with_(spent=0), ["a spent"]),
    "no call": (with_(calls={}), ["a calls of m1"]),
    "a call twice": (with_(calls={"m1": [PAID, PAID]}), ["a calls of m1"]),
    "a call of another message": (with_(calls={"m2": [PAID]}), ["a calls of m1", "a calls of m2"]),
    "another tool": (called(tool="sell"), ["a calls of m1"]),
    "other arguments": (called(arguments='{"cents":6}'), ["a calls of m1"]),
    "another status": (called(status="error"), ["a calls of m1"]),
    "no agent": (with_(histories=[]), ["a agents bot"]),
    "an agent more": (with_(histories=[BOT, BOT]), ["a agents bot"]),
    "another role": (shown(role="cook"), ["a agents bot", "a agents cook"]),
    "other words of a model": (
        shown(messages=[("user", "pay"), ("assistant", "Sold."), *SAID[2:]]),
        ["a history of bot"],
    ),
    "words of another": (
        shown(messages=[("user", "pay"), ("tool", "Paid."), *SAID[2:]]),
        ["a history of bot"],
    ),
    "a word less": (shown(messages=SAID[:-1]), ["a history of bot"]),
    "a word more": (shown(messages=[*SAID, ("user", "?")]), ["a history of bot"]),
    "the app asked for something else": (shown(asked=["pay", "less"]), ["a history of bot"]),
    "the app asked for nothing": (shown(asked=["pay"]), ["a history of bot"]),
    "no conversation": (LogOutcome({}, {}, [], 0), ["conversations"]),
    "a conversation more": (
        LogOutcome({"a": TALK, "b": TALK}, {"a": CAME}, [], 0),
        ["conversations"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_one_thing_that_is_another_is_named(case: str) -> None:
    """It is found where it is and nowhere else; as a finding, it is one about the state."""
    got, where = CASES[case]

    assert [each.where for each in compared(WANT, got)] == where
    assert [finding.verdict for finding in differences(WANT, got)] == ["state"] * len(where)


def came(kind: str, *several: EntityOutcome) -> LogOutcome:
    """Return the same run, in which the entities of one kind came to something else."""
    return msgspec.structs.replace(WANT, entities={"a": {**CAME, kind: [*several]}})


NEW, PAID_UP = CAME["order"]
OUTCOMES: Final[Mapping[str, tuple[LogOutcome, list[str]]]] = {
    "the same": (came("order", NEW, PAID_UP), []),
    "in another order": (came("order", PAID_UP, NEW), []),
    "another one": (came("session", EntityOutcome('"closed"')), ["session"]),
    "one too many": (came("order", NEW, PAID_UP, PAID_UP), ["order"]),
    "one less": (came("order", NEW), ["order"]),
    "none": (came("order"), ["order"]),
    "a kind more": (came("errand", EntityOutcome('"out"')), ["errand"]),
    "one that is unknown": (came("order", NEW, EntityOutcome('"lost"', sure=False)), []),
    "beside one that is unknown": (
        came("order", EntityOutcome('"old"', "m1"), EntityOutcome('"lost"', sure=False)),
        ["order"],
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_entities_that_came_to_something_else_are_named_by_their_kind(case: str) -> None:
    """Whatever the kind: what its `outcome` tells must be the same, as often."""
    got, kinds = OUTCOMES[case]
    found = [*differences(WANT, got)]

    assert [each.where for each in compared(WANT, got)] == [
        f"a outcome of {kind}" for kind in kinds
    ]
    assert [finding.verdict for finding in found] == ["outcome"] * len(kinds)


def test_every_kind_is_compared_by_being_listed() -> None:
    """In sessions and outside of them, a machine of an app like one of ours."""
    log = errands()
    found = outcome_of(log, KINDS.plus([ERRAND])).entities

    assert [each.outcome for each in found[SYSTEM]["errand"]] == [
        '["back","bread","success"]',
        '["back","milk","success"]',
    ]
    assert {*found[SYSTEM]} == {"budget", "errand", "model", "system", "tool"}


def test_whoever_is_adrift_may_be_asked_something_else() -> None:
    """What was unknown decided who speaks: then the app may say other things to others."""
    history = msgspec.structs.replace(BOT, asked=["pay", "less"])

    assert [*compared(WANT, with_(histories=[history], adrift=True))] == []


UNTOLD: Final = {
    "the app is not told": (with_(unknown=1, doubts=0, told_doubts=1), ["app is told of 0"]),
    "the models are not": (with_(unknown=1, doubts=1, told_doubts=0), ["models know of 0"]),
    "nobody is": (with_(unknown=1), ["app is told of 0", "models know of 0"]),
    "the app is told for nothing": (with_(doubts=1), ["app is told of 1"]),
    "everybody is": (with_(unknown=1, doubts=1, told_doubts=1), []),
    "several models are": (with_(unknown=1, doubts=1, told_doubts=2), []),
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("case", UNTOLD)
def test_what_is_unknown_is_told_to_everybody(case: str, *, strict: bool) -> None:
    """To the app and to a model, whatever else may be another: who is not told is named."""
    got, words = UNTOLD[case]
    found = [*differences(WANT, got, strict=strict)]

    assert [finding.verdict for finding in found] == ["effect"] * len(words)
    assert all(told in finding.message for told, finding in zip(words, found, strict=True))


@pytest.mark.parametrize("strict", [True, False])
def test_a_problem_that_the_undisturbed_run_has_not_is_found(*, strict: bool) -> None:
    """Each of them, also one that is there more often than it was; what was there is no news."""
    want = msgspec.structs.replace(WANT, problems=["old"])
    got = msgspec.structs.replace(WANT, problems=["old", "new", "old"])
    found = [*differences(want, got, strict=strict)]

    assert {finding.verdict for finding in found} == {"invariant"}
    assert sorted(finding.message for finding in found) == ["new", "old"]
    assert not [*differences(want, want, strict=strict)]
    assert not [*differences(want, WANT, strict=strict)]


@pytest.mark.parametrize("case", CASES)
def test_after_a_fault_that_may_be_noticed_only_what_must_never_be_is_found(case: str) -> None:
    """A turn may end otherwise then."""
    got, _ = CASES[case]

    assert [*differences(WANT, got, strict=False)] == []
