"""Rules about the end of a run: what must be the same, and what may not, whatever the ids are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from actors.tool import lifecycle
from runefold.testing import CrashApp
from runefold.testing.crash.verdict.comparison import (
    MAY_HAPPEN,
    aligned,
    compared,
    differences,
    varied,
)
from runefold.testing.crash.verdict.outcome import (
    AgentHistory,
    Call,
    ConversationOutcome,
    LogOutcome,
    TurnEnd,
)
from tests.crash.kit import drifting
from tests.crash.kit.test_sweep import effect_points, swept, told

if TYPE_CHECKING:
    from runefold.testing import CrashReport


def verdicts(report: CrashReport) -> set[str]:
    """Return what was found wrong."""
    return {finding.verdict for result in report.failed for finding in result.wrong}


# -- ids that are drawn --------------------------------------------------------------------------


@pytest.mark.parametrize("in_process", [True, False])
def test_an_app_that_draws_its_ids_is_compared(*, in_process: bool) -> None:
    """Conversations and messages have other ids in each run, and what they come to is the same."""
    app = CrashApp(drifting.build_steady, drifting.scenario_drawn, name="drawn")
    report = swept(app, in_process=in_process, sample=6, allow_missed=6)

    assert report.ok, told(report)
    assert not report.varies


@pytest.mark.parametrize("in_process", [True, False])
def test_what_an_app_with_drawn_ids_says_otherwise_is_found(*, in_process: bool) -> None:
    """The bot says something else after a crash: its ids are no excuse."""
    app = CrashApp(drifting.build_changing, drifting.scenario_drawn, name="changing")
    report = swept(app, in_process=in_process, point=effect_points(app)[0])

    assert verdicts(report) == {"state"}, told(report)
    assert "Paid, I think." in told(report)


def test_ids_are_paired_by_what_they_stand_for() -> None:
    """Whichever conversation begins first, and in texts too; what is left over goes by order."""
    want = LogOutcome({"a1": talk("x", "pay"), "b1": talk("y", "look", "a1 b1")}, {}, [], 0)
    got = LogOutcome({"b2": talk("y2", "look", "a2 b2"), "a2": talk("x2", "pay")}, {}, [], 0)

    assert aligned(want, got).talks == want.talks
    assert not [*compared(want, aligned(want, got))]
    assert [each.where for each in compared(want, got)] == ["conversations"]


def test_ids_that_stay_are_compared_as_they_are() -> None:
    """If two undisturbed runs have the same ids, others are a difference."""
    want = LogOutcome({"a": talk("x", "pay")}, {}, [], 0)
    got = LogOutcome({"a": talk("other", "pay")}, {}, [], 0)
    steady, drawn = varied(want, want), varied(want, got)

    assert (steady[0].drawn, drawn[0].drawn) == (False, True)
    assert [*differences(steady[0], got)]
    assert not [*differences(drawn[0], got)]


def test_what_varies_by_itself_is_all_that_is_not_compared() -> None:
    """A model that says something else each time does not excuse a call that is missing."""
    want = LogOutcome({"a": talk("x", "pay", "one")}, {}, [], 0)
    held, varies = varied(want, LogOutcome({"a": talk("x", "pay", "two")}, {}, [], 0))
    less = msgspec.structs.replace(talk("x", "pay", "three"), calls={})

    assert len(varies) == 2
    assert not [*differences(held, LogOutcome({"a": talk("x", "pay", "three")}, {}, [], 0))]
    (finding,) = differences(held, LogOutcome({"a": less}, {}, [], 0))
    assert "missing: pay" in finding.message


def talk(message: str, tool: str, text: str = "Done.", **changes: Any) -> ConversationOutcome:  # noqa: ANN401 -- its fields
    """Return a conversation of one turn."""
    found = ConversationOutcome(
        messages=[message],
        ends={message: TurnEnd("completed", text)},
        histories=[AgentHistory("bot", [("user", "go"), ("assistant", text)], [message], ["go"])],
        calls={message: [Call(tool, "{}", "success")]},
        spent=1,
        doubts=0,
        unknown=0,
        told_doubts=0,
        shaken=[],
    )
    return msgspec.structs.replace(found, **changes)


# -- what nobody knows, and what follows from it -------------------------------------------------


def last_effect(app: CrashApp, name: str) -> str:
    """Return the point after the last effect of a tool."""
    report = swept(app, in_process=True, point="1:before-commit")
    return [
        f"{at.number}:after-effect" + (f".{which}" if which > 1 else "")
        for at in report.boundaries
        for which, effect in enumerate(at.effects, 1)
        if effect.name == name
    ][-1]


@pytest.mark.parametrize("in_process", [True, False])
def test_beside_something_unknown_all_else_is_compared(*, in_process: bool) -> None:
    """The bot makes of it what it likes; what its expert says later does not follow from it."""
    app = CrashApp(drifting.build_pair, drifting.scenario_pair, name="pair")
    point = last_effect(app, "pay")
    other = CrashApp(drifting.build_pair_changing, drifting.scenario_pair, name="changing")
    sound, found = (swept(each, in_process=in_process, point=point) for each in (app, other))

    assert sound.ok, told(sound)
    assert verdicts(found) == {"state"}, told(found)
    assert "m3 ended as completed: 'No.', not as completed: 'It depends.'" in told(found)


def test_what_the_app_says_does_not_follow_from_something_unknown() -> None:
    """To the same agent, after it: a message that the undisturbed run does not have is found."""
    app = CrashApp(drifting.build_pair, drifting.scenario_told_otherwise, name="other words")
    report = swept(app, in_process=True, point=last_effect(app, "pay"))

    assert verdicts(report) == {"state", "outcome"}, told(report)
    assert "what the app said to bot" in told(report), told(report)


def test_calls_before_something_unknown_are_compared() -> None:
    """Those that were asked for before it was; and the call itself, but for how it came out."""
    sure, late = Call("look", "{}", "success"), Call("more", "{}", "success", sure=False)
    doubt = Call("pay", "{}", "unknown")
    want = talk("x", "", calls={"x": [sure, Call("pay", "{}", "success")]}, spent=2)
    shaken: dict[str, Any] = {"shaken": ["x"], "unknown": 1}

    def found(*calls: Call, spent: int) -> list[str]:
        got = talk("x", "", calls={"x": [*calls]}, spent=spent, **shaken)
        return [each.where for each in compared(LogOutcome({"a": want}, {}, [], 0), _only(got))]

    assert found(sure, doubt, spent=2) == []
    assert found(sure, doubt, late, spent=3) == []
    assert found(sure, doubt, late, spent=2) == ["a spent"]
    assert found(doubt, late, spent=2) == ["a calls of x"]
    assert found(sure, Call("pay", "{1}", "unknown"), spent=2) == ["a calls of x"]


def _only(talk_: ConversationOutcome) -> LogOutcome:
    return LogOutcome({"a": talk_}, {}, [], 0)


def stopped(text: str, then: str, before: str = "Hi.") -> ConversationOutcome:
    """Return a conversation of three turns, of which the second was stopped."""
    ends = {
        "m1": TurnEnd("completed", before),
        "m2": TurnEnd("interrupted", text),
        "m3": TurnEnd("completed", then),
    }
    words = [
        ("user", "1"),
        ("assistant", before),
        ("user", "2"),
        *([("assistant", text)] * bool(text)),
    ]
    history = AgentHistory(
        "bot", [*words, ("user", "3"), ("assistant", then)], [*ends], ["1", "2", "3"]
    )
    return talk("m1", "", messages=[*ends], ends=ends, histories=[history], calls={}, spent=0)


@pytest.mark.parametrize(
    ("got", "where"),
    [
        (stopped("One, two", "Well."), []),
        (stopped("One", "Oh."), []),
        (stopped("", "Oh."), []),
        (stopped("Three", "Oh."), ["a text of m2"]),
        (stopped("One, two", "Oh."), ["a text of m3", "a history of bot"]),
        (stopped("One", "Oh.", "Hey."), ["a text of m1", "a history of bot"]),
    ],
)
def test_a_turn_that_was_stopped_may_have_said_less(
    got: ConversationOutcome, where: list[str]
) -> None:
    """And if it has, what its agent said later may be something else; before it, nothing may."""
    want = stopped("One, two", "Well.")

    assert [each.where for each in compared(_only(want), _only(got))] == where


STOPPED = "cancelled: enough; it was cancelled, and stopped go"
UNHEARD = f"cancelled: enough; {MAY_HAPPEN}"


def called_off(*results: str) -> LogOutcome:
    """Return a conversation in which a model is told how some calls came out."""
    words = [("user", "go"), *(("tool", text) for text in results), ("assistant", "Done.")]
    return _only(talk("x", "pay", histories=[AgentHistory("bot", words, ["x"], ["go"])]))


@pytest.mark.parametrize(
    ("got", "same"),
    [
        (called_off(UNHEARD, "ok"), True),
        (called_off(STOPPED, "ok"), True),
        (called_off("cancelled: enough", "ok"), False),
        (called_off("cancelled: enough; another word", "ok"), False),
        (called_off(f"cancelled: no more; {MAY_HAPPEN}", "ok"), False),
        (called_off(f"error: enough; {MAY_HAPPEN}", "ok"), False),
        (called_off("ok", UNHEARD), False),
        (called_off(UNHEARD, UNHEARD), False),
        (called_off(UNHEARD), False),
    ],
)
def test_a_call_that_was_called_off_may_have_been_heard_of_or_not(
    got: LogOutcome, *, same: bool
) -> None:
    """Killed before it says that it has stopped, it is said that it may still take effect."""
    want = called_off(STOPPED, "ok")

    assert ([*compared(want, got)] == []) == same
    assert ([*compared(got, want)] == []) == same


def test_of_several_that_were_called_off_any_may_not_have_been_heard_of() -> None:
    """Each in its place, as results are in the order in which the model asked for them."""
    want = called_off("cancelled: enough; a", "cancelled: enough; b", "cancelled: enough; z")

    assert not [*compared(want, called_off(UNHEARD, UNHEARD, "cancelled: enough; z"))]
    assert not [
        *compared(want, called_off(UNHEARD, "cancelled: enough; b", "cancelled: enough; z"))
    ]
    assert [*compared(want, called_off(UNHEARD, "cancelled: enough; c", "cancelled: enough; z"))]
    assert [*compared(want, called_off("cancelled: enough; b", UNHEARD, "cancelled: enough; z"))]


def test_results_that_a_model_is_shown_in_another_order_are_a_difference() -> None:
    """It may answer otherwise then; in what order tools came back is no reason for that."""
    want, got = called_off("four", "five"), called_off("five", "four")

    assert [each.where for each in compared(want, got)] == ["a history of bot"]


def test_the_words_for_it_are_those_of_the_runtime() -> None:
    """Other words would be a difference again."""
    assert lifecycle._MAY_HAPPEN == MAY_HAPPEN
