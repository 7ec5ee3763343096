"""Rules about whole conversations: what is streamed, what runs when, and how a turn is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.model import runes as models
from actors.model.providers.scripted import Line, Reply, call, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runelog.errors import Refused
from runelog.rune import Envelope, Gap
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runelog.rune import Appended, Change

SLOW: list[Reply] = [["one ", pause(5), "two"], ["again"]]
"""A model that is interrupted in the middle of its first answer, and gives a second."""


def fragments(there: Talk) -> list[str]:
    """Return the text of every rune of an answer."""
    found = there.runes("turn.assistant_delta")
    return [rune.text for rune in found if isinstance(rune, models.AssistantDelta)]


# -- streaming ---------------------------------------------------------------------------------


def test_fragments_are_gathered_and_none_is_lost() -> None:
    """The first goes out at once, then what 20 ms bring together, and the rest at the end."""
    few: list[Line] = ["a", pause(0.005), "b", pause(0.005), "c", pause(0.05), "d"]
    there = talk([[*few, *["x"] * 70, "end"]])
    result = there.session.send("go").result(10)

    assert fragments(there) == ["a", "bc", "d" + "x" * 70 + "end"]
    assert result.output == "".join(fragments(there))


def test_the_runes_of_a_turn_end_with_it_for_everybody_who_follows() -> None:
    """Two who follow see the same, from its beginning to its end and nothing of other turns."""
    there = talk(["Hello.", "Again."])
    turn = there.session.send("one")
    turn.result(10)
    there.session.send("two").result(10)
    one, other = [envelope.kind for envelope in turn.runes()], turn.runes({"turn.completed"})

    assert (one[0], one[-1]) == ("turn.started", "turn.completed")
    assert one.count("turn.completed") == len(list(other)) == 1
    assert turn.id == "turn_1"


def test_a_session_is_followed_from_a_cursor_and_a_slow_reader_is_told_of_the_gap() -> None:
    """Whoever is too far behind gets one gap and then the newest; nobody else misses anything."""
    there = talk([["a", pause(1)] * 20])
    there.session.send("go").result(100)
    whole = [envelope.event_id for envelope in there.session.runes()]
    after = [
        each.event_id
        for each in there.session.follow(whole[-4], wait=0)
        if isinstance(each, Envelope)
    ]
    behind = list(there.session.follow(max_behind=5, wait=0))
    everywhere = list(there.stage.runtime.follow(max_behind=5, wait=0))

    assert after == whole[-3:]
    assert [type(each) for each in behind] == [Gap, *[Envelope] * 5]
    assert [type(each) for each in everywhere] == [Gap, *[Envelope] * 5]


# -- tools -------------------------------------------------------------------------------------


def test_tools_that_are_safe_in_parallel_run_at_once_and_the_others_in_order() -> None:
    """Those with side effects wait for the rest and for each other; each call has one result."""
    ran: list[str] = []

    @tool(side_effects=False)
    def look(x: int) -> int:
        """Look."""
        ran.append(f"look {x}")
        return x

    @tool
    def put(x: int) -> int:
        """Put."""
        ran.append(f"put {x}")
        return x

    asked = [call("put", x=1), call("look", x=2), call("put", x=3), call("look", x=4)]
    there = talk([["go", *asked], ["done"]], look, put)
    turn = there.session.send("go")
    there.until("turn.tool_calls_received")
    started = there.kinds().count("tool.started")
    result = turn.result(10)

    assert started == 2
    assert ran == ["look 2", "look 4", "put 1", "put 3"]
    assert result.output == "done"
    assert sorted(there.model.results) == [("success", str(x)) for x in (1, 2, 3, 4)]


# -- interrupt, steer, queue -------------------------------------------------------------------


@tool(requires_approval=True)
def pay(x: int) -> str:
    """Pay."""
    return f"paid {x}"


@tool(side_effects=False)
def peek(x: int) -> int:
    """Peek."""
    return x


def test_an_interrupt_while_streaming_keeps_what_was_said() -> None:
    """The turn ends as interrupted with the partial text, and the next one builds on it."""
    there = talk(SLOW)
    turn = there.session.send("go")
    there.stage.run()
    stopped = there.session.interrupt()
    ended, after = turn.result(0), there.session.send("on").result(10)

    assert stopped == 1
    assert (ended.status, ended.reason, ended.output) == ("interrupted", "interrupt", "one ")
    assert after.output == "again"
    assert there.model.last == [("user", "go"), ("assistant", "one "), ("user", "on")]
    assert there.session.interrupt() == 0


def test_an_interrupt_while_a_human_is_asked_keeps_the_results_there_are() -> None:
    """The call that waits is cancelled, its approval is gone, and nothing is said twice."""
    there = talk([["pay ", call("pay", x=1), call("peek", x=2)], ["again"]], pay, peek)
    turn = there.session.send("go")
    there.stage.run()
    waiting = there.session.approvals()
    there.session.interrupt()
    after = there.session.send("on").result(10)

    assert [(each.tool_name, each.arguments) for each in waiting] == [("pay", {"x": 1})]
    assert turn.result(0).status == "interrupted"
    assert not there.session.approvals()
    assert after.output == "again"
    assert [role for role, _ in there.model.last] == ["user", "assistant", "tool", "tool", "user"]
    assert dict(there.model.results) == {"success": "2", "cancelled": "cancelled: interrupt"}


def test_an_interrupt_while_tools_run_gives_every_call_its_result() -> None:
    """One that runs is cancelled, one that waits for it never begins."""
    there = talk([["go", call("pay", x=1), call("pay", x=2)], ["again"]], pay)
    turn = there.session.send("go")
    there.stage.run()
    there.session.approve(there.session.approvals()[0].call_id, approver="ada")
    there.session.interrupt("enough")
    after = there.session.send("on").result(10)

    assert turn.result(0).reason == "enough"
    assert after.output == "again"
    assert {status for status, _ in there.model.results} <= {"success", "cancelled"}
    assert len(there.model.results) == 2


@pytest.mark.parametrize("mode", ["queue", "steer"])
@pytest.mark.parametrize("where", ["streaming", "approval"])
def test_a_message_during_a_turn_waits_for_it_or_takes_over(where: str, mode: str) -> None:
    """Queued, it comes after the turn; as a steer it ends the turn and goes before what waits."""
    script: list[Reply] = SLOW if where == "streaming" else [["pay ", call("pay", x=1)], ["again"]]
    there = talk(script, pay)
    first = there.session.send("first")
    there.stage.run()
    third = there.session.send("third")
    second = there.session.send("second", mode=mode)  # type: ignore[arg-type]  # the point
    there.stage.run()
    for waiting in there.session.approvals():
        there.session.approve(waiting.call_id, approver="ada")
    ends = [turn.result(100) for turn in (first, second, third)]
    order = [text for role, text in there.model.last if role == "user"]

    assert ends[0].status == ("completed" if mode == "queue" else "interrupted")
    assert [end.output for end in ends[1:]] == ["again", "again"]
    assert order[:3] == (
        ["first", "third", "second"] if mode == "queue" else ["first", "second", "third"]
    )
    assert ends[0].reason == ("" if mode == "queue" else "steer")


# -- the session's course ----------------------------------------------------------------------


@pytest.mark.parametrize("finish", [True, False])
def test_a_pause_lets_a_turn_finish_or_interrupts_it_and_begins_no_other(*, finish: bool) -> None:
    """What is sent meanwhile is accepted and taken up when the session is resumed."""
    there = talk(SLOW)
    turn = there.session.send("go")
    there.stage.run()
    there.session.pause("lunch", finish=finish)
    queued = there.session.send("on")
    ended = turn.result(100)
    there.stage.advance(100)
    waited = queued.id
    there.session.resume()

    assert (ended.status, ended.output) == (
        ("completed", "one two") if finish else ("interrupted", "one ")
    )
    assert waited is None
    assert queued.result(10).output == "again"


def test_what_a_pause_lets_finish_is_stopped_by_an_interrupt() -> None:
    """A second, harder pause is refused and says so; then nothing runs and none begins."""
    there = talk(SLOW)
    turn = there.session.send("go")
    there.stage.run()
    there.session.pause("lunch")
    with pytest.raises(Refused, match=r"session is paused: .* stop what runs with interrupt\(\)"):
        there.session.pause("lunch", finish=False)
    stopped = there.session.interrupt()
    there.session.pause("lunch", finish=False)

    assert stopped == 1
    assert (turn.result(0).status, turn.result(0).output) == ("interrupted", "one ")
    assert there.session.state.phase.value == "paused"


def test_a_suspended_session_waits_for_a_hand() -> None:
    """The running turn ends, what is sent waits, and it goes on when somebody says so."""
    there = talk(SLOW)
    turn = there.session.send("go")
    there.stage.run()
    there.session.suspend("look at this")
    queued = there.session.send("on")
    turn.result(100)
    there.stage.advance(100)
    state = there.session.state
    there.session.unsuspend()

    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "look at this")
    assert queued.result(10).output == "again"


def test_closing_interrupts_what_runs_and_refuses_what_waits() -> None:
    """Every message has its answer, agents are gone, and the session says that it is closed."""
    there = talk(SLOW)
    running, waiting = there.session.send("go"), there.session.send("on")
    there.stage.run()
    there.session.close("bye")
    there.session.close()

    assert (running.result(1).status, running.result(1).reason) == ("interrupted", "closing")
    with pytest.raises(Refused, match="never became a turn: the session closes"):
        waiting.result(1)
    with pytest.raises(Refused, match="session is closed: it takes no more messages; create"):
        there.session.send("more")
    assert there.session.state.stats.refused == 1
    assert not there.session.state.members


def test_an_archived_session_is_still_listed_and_readable() -> None:
    """State, runes and results are there, also after it was opened again; nothing is accepted."""
    there = talk(["Hello."])
    turn = there.session.send("go")
    turn.result(1)
    there.session.close()
    there.session.archive()
    there.session.archive()
    kinds = there.kinds()
    again = there.reopen()

    assert [each.id for each in there.stage.runtime.sessions()] == [again.id]
    assert again.state.phase is Phase.ARCHIVED
    assert kinds[-1] == "session.archived"
    assert turn.result(1).output == "Hello."
    with pytest.raises(Refused, match="session is archived"):
        again.send("more")


def test_a_message_sent_again_is_the_same_turn() -> None:
    """While it runs, when it has ended, and after a crash: one turn, one answer."""
    there = talk(SLOW)
    first = there.session.send("go", message_id="m1")
    there.stage.run()
    during = there.session.send("go", message_id="m1")
    result = first.result(10)
    after = there.session.send("go", message_id="m1")
    reopened = there.reopen().send("go", message_id="m1")

    assert during.result(10) == after.result(10) == reopened.result(10) == result
    assert len(there.model.requests) == 1
    assert [each.kind for each in reopened.runes()][-1] == "turn.completed"


def test_another_message_under_a_used_id_is_refused() -> None:
    """While the first one runs and after a crash: it would be given the answer to the first one.

    What is stored of a message has its secrets replaced, and is sent again as it was.
    """
    secret = "sk-proj-" + "a1B2" * 12
    there = talk(SLOW)
    there.session.send(f"my key is {secret}", message_id="m1")

    for session in (there.session, there.reopen()):
        with pytest.raises(Refused, match="the message id m1 is taken, by another") as refused:
            session.send("something else", message_id="m1")
        assert secret not in str(refused.value)
        assert session.send(f"my key is {secret}", message_id="m1").result(10)
    assert len(there.runes("session.input_accepted")) == 1


def test_a_turn_waits_for_the_disk_no_more_often_than_it_must(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To say that it is accepted, before the model is asked, around its tool, and at the end."""

    @tool(idempotent=True)
    def look() -> str:
        """Look."""
        return "seen"

    there = talk([[call("look")], ["It ", "is ", "there."]], look)
    waits: list[str] = []
    log = there.stage.log
    append, flush = log.append, log.flush

    def counted(conversation: str, changes: Sequence[Change], **how: Any) -> Appended:  # noqa: ANN401 -- as the log has it
        assert not how["durable"]
        return append(conversation, changes, **how)

    def waited(conversation: str | None = None) -> int:
        waits.append("flush")
        return flush(conversation)

    monkeypatch.setattr(log, "append", counted)
    monkeypatch.setattr(log, "flush", waited)

    assert there.session.send("Is it there?").result(10).output == "It is there."
    assert waits == ["flush"] * 5
