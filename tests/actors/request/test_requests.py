"""Rules about requests to other conversations: each begins once, and is answered once."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import msgspec
import pytest

from actors.children import AskedFor
from actors.errors import Dead, Overloaded, Unanswered
from actors.invariants import violations
from actors.public_command import Forward
from actors.tool.adapters.function import tool
from actors.tool.policy import Policy
from runefold.testing.stage import PowerCut
from runelog.errors import Closed
from runelog.rune import SYSTEM
from tests.laws.purchases import (
    BUYER,
    KINDS,
    PURCHASE,
    Fetch,
    GiveBack,
    Over,
    begin,
    buy,
    close,
    give_back,
    nothing,
    stage,
    story,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.shell.mail import Reply
    from runefold.testing.stage import Stage
    from runelog.repair.verify import Problem
    from runelog.rune import Envelope

OTHER = "conv_other"
MOST = 60
"""Appends of a story."""


def runes(on: Stage, conversation: str, family: str) -> list[Envelope]:
    """Return the runes of a family in a conversation."""
    on.log.flush()
    known = {each.id for each in on.log.conversations()}
    found = on.log.read(conversation) if conversation in known else ()
    return [each for each in found if each.kind.startswith(f"{family}.")]


def kinds(on: Stage, conversation: str, family: str) -> list[str]:
    """Return the kinds of those runes."""
    return [each.kind for each in runes(on, conversation, family)]


def wrong(on: Stage) -> list[Problem]:
    """Return what is wrong with the log."""
    return [
        problem
        for each in on.log.conversations()
        for problem in violations(on.log.read(each.id), kinds=on.runtime.kinds)
    ]


def over(on: Stage) -> list[str]:
    """Return how the purchase ended, once for each time that it did."""
    found = [each.payload for each in runes(on, BUYER, "purchase")]
    return [each.how for each in found if isinstance(each, Over)]


def test_what_is_asked_for_begins_elsewhere_and_its_end_comes_back() -> None:
    """The answer has the phase of the end and what the kind says of it; both sides are done."""
    on = stage()
    begin(on)
    buy(on)
    on.run()

    assert over(on) == ["ended {'how': 'success'}"]
    assert kinds(on, BUYER, "request") == ["request.sent", "request.answered"]
    assert kinds(on, SYSTEM, "chore") == ["chore.begun", "chore.done"]
    assert kinds(on, SYSTEM, "child") == ["child.started", "child.ended", "child.reported"]
    answered = runes(on, BUYER, "request")[-1].payload
    done = runes(on, SYSTEM, "chore")[-1]
    assert msgspec.structs.asdict(answered)["event"] == done.event_id
    assert [*on.log.open_work()] == []
    assert wrong(on) == []


@pytest.mark.parametrize("act", [nothing, give_back, close])
@pytest.mark.parametrize("after", [False, True])
def test_a_power_cut_on_either_side_loses_and_repeats_nothing(
    act: Callable[[Stage], None], *, after: bool
) -> None:
    """Wherever it is cut: the chore begins once at the most, the request is answered once."""
    for number in range(1, MOST):
        on = story(number, after=after, act=act)
        where = f"cut off {'after' if after else 'before'} append {number}"
        begun = kinds(on, SYSTEM, "chore").count("chore.begun")
        assert begun <= 1, where
        assert len(over(on)) == 1, where
        assert begun or act is not nothing, where
        assert kinds(on, BUYER, "request").count("request.answered") == 1, where
        assert kinds(on, SYSTEM, "child").count("child.reported") == begun, where
        assert [*on.log.open_work()] == [], where
        assert wrong(on) == [], where
        if on.log.appends < number:
            break
    else:
        pytest.fail(f"the story has more than {MOST} appends")


def test_a_request_that_cannot_begin_is_answered_with_the_refusal() -> None:
    """A closed session takes nothing; the caller reads why."""
    on = stage()
    begin(on)
    begin(on, OTHER)
    on.runtime.session(OTHER).close()
    on.run()
    buy(on, OTHER)
    on.run()

    (how,) = over(on)
    assert how.startswith("refused session is closed")


def test_a_conversation_that_is_not_there_is_an_answer_too() -> None:
    """Nothing is begun under its name."""
    on = stage()
    begin(on)
    buy(on, "conv_nowhere")
    on.run()

    (how,) = over(on)
    assert how.startswith("refused session")
    assert "conv_nowhere" not in {each.id for each in on.log.conversations()}


def test_a_session_can_be_asked_and_closes_only_once_the_end_is_reported() -> None:
    """What it was asked for is stopped with it; the caller hears of that."""
    on = stage(policy=Policy(mode="auto"), tools=[slow])
    begin(on)
    begin(on, OTHER)
    on.runtime.do(OTHER, Fetch("bread"), "chore_1")
    buy(on, OTHER)
    on.run()
    assert over(on) == []

    on.runtime.session(OTHER).close()
    on.run()

    assert over(on) == ["ended {'how': 'cancelled'}"]
    assert kinds(on, OTHER, "child")[-1] == "child.reported"
    assert kinds(on, OTHER, "session")[-1] == "session.closed"


@tool(name="fetch", requires_approval=True)
def slow(what: str) -> str:
    """Fetch something once a human agrees."""
    return what


def test_both_sides_sleep_while_the_other_waits_for_a_human() -> None:
    """The answer wakes the conversation that asked."""
    on = stage(policy=Policy(mode="auto"), tools=[slow])
    begin(on)
    begin(on, OTHER)
    buy(on, OTHER)
    on.advance(600)
    assert on.runtime._core.tree.awake() == []

    (call,) = on.runtime.session(OTHER).approvals()
    on.runtime.session(OTHER).approve(call.call_id, approver="ada")
    on.run()

    assert over(on) == ["ended {'how': 'success'}"]


def test_a_request_whose_kind_is_not_known_waits_for_the_app() -> None:
    """Opened without the code of what it asks for, it is sent once that is back."""
    on = sent_and_cut()
    on.change(kinds=[PURCHASE])
    on.reopen()
    on.advance(300)
    assert over(on) == []

    on.crash()
    on.change(kinds=KINDS)
    on.reopen()
    on.advance(300)

    assert over(on) == ["ended {'how': 'success'}"]


def sent_and_cut() -> Stage:
    """Return a runtime that was cut off when a request was on disk, and nothing of it elsewhere."""
    on = stage()
    for number in range(1, MOST):
        on = stage()
        on.log.cut_at, on.log.cut_after = number, True
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            begin(on)
            buy(on)
            on.run()
        on.log.mend()
        if kinds(on, BUYER, "request"):
            break
    assert kinds(on, BUYER, "request") == ["request.sent"]
    assert kinds(on, SYSTEM, "chore") == []
    return on


def test_a_command_of_no_kind_is_refused_at_once() -> None:
    """The caller reads why; nothing is sent."""
    on = stage()
    on.change(kinds=[PURCHASE])
    on.reopen()
    begin(on)
    buy(on)
    on.run()

    (how,) = over(on)
    assert how.startswith("refused Fetch is a command of no kind that is known here")


def test_a_request_that_is_withdrawn_before_it_began_never_begins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The other conversation refuses it, and no actor crashes over that."""
    on = sent_and_cut()
    caplog.clear()
    on.reopen()
    on.runtime.do(BUYER, GiveBack(), "purchase_1")
    on.advance(300)

    (how,) = over(on)
    assert how.startswith("refused chore_")
    assert how.endswith("was withdrawn before it began: changed my mind")
    assert kinds(on, SYSTEM, "chore") == []
    assert "actor_crashed" not in caplog.text


@pytest.mark.parametrize("error", [Dead("asleep"), Overloaded("full"), Closed("closed"), OSError()])
@pytest.mark.parametrize("about", [AskedFor, Forward])
def test_what_was_not_delivered_is_sent_again(about: type, error: Exception) -> None:
    """A conversation that is going to sleep has refused nothing, neither a request nor an end."""
    on = stage()
    post, lost = on.runtime._core.tree.post, list[object]()

    def carry(conversation: str, message: object, reply: Reply) -> None:
        if isinstance(message, about) and len(lost) < 3:
            lost.append(message)
            reply.fail(error)
        else:
            post(conversation, message, reply)

    on.runtime._core.tree.services.mail.carried_by(carry)
    begin(on)
    buy(on)
    on.advance(300)

    assert len(lost) == 3
    assert over(on) == ["ended {'how': 'success'}"]
    assert kinds(on, SYSTEM, "child")[-1] == "child.reported"
    assert [*on.log.open_work()] == []
