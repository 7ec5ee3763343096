"""Rules about words that are left in a log that nobody runs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

import pytest

from actors.agent.runes import Ready
from actors.errors import Unanswered
from actors.model.providers.scripted import Scripted, call, pause
from actors.session.public_commands import Close, Send
from actors.session.runes import Reopened
from actors.tool.adapters.function import tool
from actors.tool.public_commands import Answer, Approve, Deny
from runefold.control.offline import OfflineCommands
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runefold.testing.stage import Stage
from runelog.errors import Refused, UnknownConversation
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY = 24 * 3600.0


class Scene:
    """A session that asks before it charges a customer, in a process that is gone."""

    def __init__(self, on_doubt: Literal["ask", "unknown"] = "unknown") -> None:
        """Run it until it asks, and end the process."""
        self.charged: list[int] = []

        @tool(requires_approval=True, timeout=5, on_doubt=on_doubt)
        def charge(amount: int) -> str:
            """Charge a customer."""
            self.charged.append(amount)
            return "charged"

        script = Scripted([[call("charge", amount=3)], "Paid."])
        self.stage = Stage(tools=[charge], providers={"demo": script})
        spec = AgentSpec(role="helper", model="demo", tools=["charge"])
        session = self.stage.runtime.create_session(spec)
        self.id = session.id
        session.send("Go.", message_id="first")
        self.stage.run()
        self.call = session.approvals()[0].call_id
        self.away()

    def away(self) -> None:
        """End the process."""
        self.stage.crash()
        self.stage.log.mend()

    @property
    def offline(self) -> OfflineCommands:
        """Return where words are left."""
        return OfflineCommands(self.stage.log, clock=self.stage.clock)

    def kinds(self) -> list[str]:
        """Return what happened so far."""
        return [envelope.kind for envelope in self.stage.log.read(self.id)]

    def back(self) -> str:
        """Open the runtime again, and return the answer to the message."""
        session = self.stage.reopen().session(self.id)
        return session.send("Go.", message_id="first").result(timeout=10).output


def test_an_approval_is_written_down_and_nothing_else() -> None:
    """The call is not started: that is for whoever can run it."""
    scene = Scene()
    before = scene.kinds()
    scene.offline.do(scene.id, Approve("ann"), scene.call)

    assert scene.kinds()[len(before) :] == [
        "tool.approved",
        "approval.approved",
        "session.rested",
    ]
    assert scene.charged == []


@pytest.mark.parametrize("text", ["Hi.", "Pause."])
def test_a_command_left_in_a_log_that_rests_is_no_crash(tmp_path: Path, text: str) -> None:
    """The next open finds work that no process was killed over, and counts no unclean open.

    The log was closed in order: with its session idle, or in the middle of a turn.
    """
    spec = AgentSpec(role="helper", model="demo")
    slow = Scripted([["Hello! ", pause(0 if text == "Hi." else 60)], "Well.", "Again!"])
    with Runtime.open(tmp_path, providers={"demo": slow}) as runtime:
        session = runtime.create_session(spec)
        turn = session.send(text)
        next(iter(turn.runes()))
        if text == "Hi.":
            turn.result(timeout=10)
    with OfflineCommands.open(tmp_path) as offline:
        offline.do(session.id, Send("More.", message_id="more"))
    fast = Scripted(["Hello!", "Again!"])
    with Runtime.open(tmp_path, providers={"demo": fast}) as runtime:
        after = runtime.session(session.id)
        after.send("More.", message_id="more").result(timeout=10)
        opens = [rune.payload for rune in after.runes(kinds={"session.reopened"})]

    assert [rune.unclean for rune in opens if isinstance(rune, Reopened)] == [0]


def test_a_command_left_in_a_log_that_crashed_hides_no_crash() -> None:
    """A turn was under way when the process was killed: the next open counts it all the same."""
    stage = Stage(providers={"demo": Scripted(["Hello!", "Again!"])})
    session = stage.runtime.create_session(AgentSpec(role="helper", model="demo"))
    session.send("Hi.")
    stage.crash()
    stage.log.mend()
    OfflineCommands(stage.log, clock=stage.clock).do(session.id, Send("More.", message_id="more"))
    after = stage.reopen().session(session.id)
    after.send("More.", message_id="more").result(timeout=10)
    opens = [rune.payload for rune in after.runes(kinds={"session.reopened"})]

    assert [rune.unclean for rune in opens if isinstance(rune, Reopened)] == [1]


def test_a_call_that_was_approved_has_all_its_time() -> None:
    """Its deadline counts from when it is run, however late that is."""
    scene = Scene()
    scene.offline.do(scene.id, Approve("ann"), scene.call)
    scene.stage.clock.advance(10 * DAY)

    assert scene.back() == "Paid."
    assert scene.charged == [3]


def test_a_word_is_heard_once() -> None:
    """Said again it changes nothing; another's is refused."""
    scene = Scene()
    scene.offline.do(scene.id, Approve("ann"), scene.call)
    before = scene.kinds()
    scene.offline.do(scene.id, Approve("ann"), scene.call)
    with pytest.raises(Refused, match="ann has answered"):
        scene.offline.do(scene.id, Deny("bob"), scene.call)

    assert scene.kinds() == before


def test_a_denial_is_all_there_is_to_it() -> None:
    """The turn goes on with it when it is next run."""
    scene = Scene()
    scene.offline.do(scene.id, Deny("ann", "too much"), scene.call)
    waiting = scene.offline.state(scene.id).approvals

    assert waiting == ()
    assert scene.back() == "Paid."
    assert scene.charged == []


def test_a_word_that_comes_too_late_is_refused() -> None:
    """The deadline is the one in the log, whoever looks at it."""
    scene = Scene()
    scene.stage.clock.advance(2 * DAY)
    with pytest.raises(Refused, match="has lapsed"):
        scene.offline.do(scene.id, Approve("ann"), scene.call)


def test_a_message_waits_even_for_an_agent_that_is_free() -> None:
    """No turn begins whose time would run while nobody runs it."""
    scene = Scene()
    scene.offline.do(scene.id, Deny("ann"), scene.call)
    scene.back()
    scene.away()
    before = scene.kinds()
    name = scene.offline.do(scene.id, Send("More."))["message_id"]
    again = scene.offline.do(scene.id, Send("More.", message_id=name))["message_id"]
    written = scene.kinds()[len(before) :]
    scene.stage.clock.advance(DAY)
    session = scene.stage.reopen().session(scene.id)
    result = session.send("More.", message_id=name).result(timeout=10)

    assert again == name
    assert written == ["session.input_accepted", "session.rested"]
    assert result
    assert result.turn_id == "turn_2"


def test_a_message_that_has_come_to_its_end_is_not_taken_up_again() -> None:
    """Sent again under its id, it is the same message, though no state remembers it any more."""
    scene = Scene()
    scene.offline.do(scene.id, Deny("ann"), scene.call)
    scene.back()
    scene.away()
    before = scene.kinds()
    again = scene.offline.do(scene.id, Send("Go.", message_id="first"))
    written = scene.kinds()[len(before) :]
    session = scene.stage.reopen().session(scene.id)
    scene.stage.run()

    assert again == {"message_id": "first"}
    assert written == []
    with pytest.raises(Refused, match=r"id first is taken, by another message: 'Go\.'"):
        scene.offline.do(scene.id, Send("Stop.", message_id="first"))
    assert session.state.stats.turns == 1


def test_a_message_that_was_refused_is_not_taken_up_again() -> None:
    """It waited when its session was closed; sent again under its id it is as it was."""
    scene = Scene()
    name = scene.offline.do(scene.id, Send("More."))["message_id"]
    scene.offline.do(scene.id, Close())
    scene.stage.reopen()
    scene.stage.run()
    scene.away()
    before = scene.kinds()

    assert "session.input_refused" in before
    assert scene.offline.do(scene.id, Send("More.", message_id=name)) == {"message_id": name}
    assert scene.kinds() == before


def test_a_doubt_can_be_settled_by_what_happened() -> None:
    """Whoever looked says so, and the turn goes on with it; nothing is run again."""
    scene = Scene("ask")
    session = scene.stage.reopen().session(scene.id)
    scene.stage.run()
    # Approved and started is the next append; the one behind it would be the result.
    scene.stage.log.cut_at = scene.stage.log.appends + 2
    with contextlib.suppress(Unanswered):
        session.approve(scene.call, approver="ann")
        scene.stage.run()
    in_doubt = scene.stage.reopen().session(scene.id)
    scene.stage.run()
    in_doubt.approvals()
    scene.away()
    asked = scene.offline.state(scene.id).approvals
    scene.offline.do(scene.id, Answer("ann", "happened", "charged"), scene.call)

    assert [each.call_id for each in asked] == [scene.call]
    assert scene.back() == "Paid."
    assert scene.charged == [3]


def test_a_call_that_is_in_doubt_is_not_run_again_from_here() -> None:
    """Nobody would see it end; what happened can be said, and so can that nobody knows."""
    scene = Scene("ask")
    before = scene.kinds()
    with pytest.raises(Refused, match="no runtime is open to run"):
        scene.offline.do(scene.id, Answer("ann", "rerun"), scene.call)
    with pytest.raises(Refused, match="it was never started"):
        scene.offline.do(scene.id, Answer("ann", "happened"), scene.call)

    assert scene.kinds() == before


@pytest.mark.parametrize("running", [False, True])
def test_a_call_of_another_session_cannot_be_answered_for(*, running: bool) -> None:
    """A call belongs to its own session, be it known by its id elsewhere; nothing is written."""
    scene = Scene()
    runtime = scene.stage.reopen()
    other = runtime.create_session(AgentSpec(role="helper", model="demo", tools=["charge"]))
    scene.stage.run()
    scene.stage.log.flush()
    words: list[Callable[[], None]] = [
        lambda: other.approve(scene.call, approver="ann"),
        lambda: other.deny(scene.call, reason="no", approver="ann"),
        lambda: other.answer(scene.call, "give_up", approver="ann"),
    ]
    if not running:
        scene.away()
        box = scene.offline
        words = [
            lambda: box.do(other.id, Approve("ann"), scene.call),
            lambda: box.do(other.id, Deny("ann", "no"), scene.call),
            lambda: box.do(other.id, Answer("ann", "give_up"), scene.call),
        ]
    before = scene.stage.log.position
    for word in words:
        with pytest.raises(Refused, match=f"{scene.call} in {other.id}"):
            word()
    scene.stage.log.flush()

    assert scene.stage.log.position == before
    assert [each.call_id for each in scene.offline.state(scene.id).approvals] == [scene.call]
    assert scene.charged == []


def test_what_is_not_there_cannot_be_talked_to() -> None:
    """A conversation, a call, or a session that is none."""
    scene = Scene()
    scene.stage.log.append("conv_other", [Change("x", 0, [Ready(agent_id="agt_1")])])
    with pytest.raises(UnknownConversation):
        scene.offline.do("conv_x", Send("Hi"))
    with pytest.raises(Refused, match="there is no call call_x"):
        scene.offline.do(scene.id, Approve("ann"), "call_x")
    with pytest.raises(Refused, match="conv_other is no session"):
        scene.offline.do("conv_other", Send("Hi"))
