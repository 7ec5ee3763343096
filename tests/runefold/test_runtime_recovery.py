"""Rules about opening again, giving up on what fails to recover, and sleeping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.model.provider import Done, Text
from actors.model.providers.scripted import call, pause
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from runefold.spec import AgentSpec
from runefold.testing.stage import Stage
from tests.runefold.talks import NAME, Strict, talk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply


@tool(side_effects=False)
def look(x: int) -> int:
    """Look."""
    return x


# -- opening again -----------------------------------------------------------------------------


def test_a_turn_that_was_cut_off_is_asked_again_and_says_what_it_dropped() -> None:
    """The model answers that round once more; fragments of the first try do not count."""
    there = talk([["one ", pause(5), "two"]])
    turn = there.session.send("go", message_id="m1")
    there.stage.advance(1)
    session = there.reopen()
    result = session.send("go", message_id="m1").result(100)
    restarted = there.runes("turn.stream_restarted")[0]

    assert result.output == "one two"
    assert restarted.dropped == "turn_1-r0-a0"  # type: ignore[attr-defined]  # by its kind
    assert there.model.last == [("user", "go")]
    assert turn.message_id == "m1"


def test_a_turn_that_is_not_to_be_asked_again_ends_with_what_it_said() -> None:
    """The agent says so: then a crash interrupts, and the partial text is kept."""
    there = talk([["one ", pause(5), "two"]], on_crash="interrupt")
    there.session.send("go", message_id="m1")
    there.stage.advance(1)
    result = there.reopen().send("go", message_id="m1").result(100)

    assert (result.status, result.reason, result.output) == ("interrupted", "crash", "one ")


def test_a_conversation_goes_on_with_its_whole_history() -> None:
    """What the model is shown after a crash is what it would have been shown without."""

    def answer(request: Request) -> Reply:
        last = request.messages[-1]
        return ["so ", call("look", x=1)] if last.role == "user" else ["done"]

    there, other = talk(answer, look), talk(answer, look)
    for each in (there, other):
        each.session.send("one").result(10)
    there.reopen()
    for each in (there, other):
        each.session.send("two").result(10)

    assert there.model.last == other.model.last
    assert len(there.model.last) == 7


def test_messages_that_waited_are_taken_up_in_order() -> None:
    """What was accepted is never lost: each becomes a turn once the one before it has ended."""
    there = talk([["one ", pause(5), "two"], "three", "four"])
    names = ["m1", "m2", "m3"]
    for name in names:
        there.session.send(name, message_id=name)
    there.stage.run()
    session = there.reopen()
    turns = [session.send(name, message_id=name) for name in names]

    assert [turn.result(100).output for turn in turns] == ["one two", "three", "four"]
    assert [turn.id for turn in turns] == ["turn_1", "turn_2", "turn_3"]


class Deadly:
    """A model that takes the process with it as long as it is asked to."""

    def __init__(self) -> None:
        """Begin deadly."""
        self.stage: Stage | None = None
        self.asked = 0

    def stream(self, _request: Request) -> Iterator[Any]:
        """Pull the plug, or answer."""
        self.asked += 1
        if self.stage is not None:
            self.stage.crash()
        yield Text("fine")
        yield Done()


def test_three_unclean_opens_without_an_outcome_suspend_the_session() -> None:
    """The third one does not try again. Unsuspended by hand, it goes on from where it was."""
    deadly = Deadly()
    there = talk(deadly, retries=9)
    stage = deadly.stage = there.stage
    there.session.send("go", message_id="m1")
    stage.run()
    for _ in range(3):
        stage.clock.advance(1)
        there.reopen()
        stage.advance(10)
    session, asked = there.session, deadly.asked
    state = session.state
    waiting = session.send("go", message_id="m1")
    deadly.stage = None
    session.unsuspend("mended")

    assert (state.phase, state.suspension) == (Phase.SUSPENDED, "error_threshold")
    assert asked == 3
    assert waiting.result(100).output == "fine"


def test_an_outcome_in_between_begins_the_count_anew() -> None:
    """Opens that were unclean are no reason as long as the conversation gets on."""
    there = talk([["one ", pause(5), "two"]])
    for number in range(5):
        there.session.send("go", message_id=f"m{number}")
        there.stage.advance(1)
        there.reopen().send("go", message_id=f"m{number}").result(100)
    state = there.session.state

    assert (state.phase, state.unclean) == (Phase.ACTIVE, 0)


# -- sleeping ----------------------------------------------------------------------------------


def test_a_session_in_which_nothing_happens_goes_to_sleep_and_a_message_wakes_it() -> None:
    """Not before a minute has passed; awake again it knows everything."""
    there = talk(["one", "two"])
    there.session.send("a").result(1)
    awake = there.stage.runtime._core.tree.awake
    there.stage.advance(59)
    before = awake()
    there.stage.advance(2)
    after = awake()
    result = there.session.send("b").result(1)

    assert (before, after) == ([NAME], [])
    assert result.output == "two"
    assert there.model.last == [("user", "a"), ("assistant", "one"), ("user", "b")]


def test_a_session_at_work_does_not_go_to_sleep() -> None:
    """However quiet its model is within its limits."""
    there = talk([["one ", pause(59), "two ", pause(59), "three"]])
    turn = there.session.send("a")
    there.stage.advance(100)

    assert there.stage.runtime._core.tree.awake() == [NAME]
    assert turn.result(100).output == "one two three"


def test_two_hundred_sessions_sleep_and_each_wakes_by_itself() -> None:
    """Nobody is alive when nothing happens, and one message wakes one session."""
    stage = Stage(providers={"demo": Strict(["hello"])})
    spec = AgentSpec(role="helper", model="demo")
    sessions = [stage.runtime.create_session(spec) for _ in range(200)]
    stage.advance(61)
    asleep = stage.runtime._core.tree.awake()
    answer = sessions[117].send("hi").result(1).output

    assert asleep == []
    assert answer == "hello"
    assert stage.runtime._core.tree.awake() == [sessions[117].id]


def test_the_same_seed_gives_the_same_run() -> None:
    """A whole conversation on one thread, with chance from a seed, leaves the same runes."""

    def play(seed: int) -> list[str]:
        asked = [call("look", x=x) for x in range(4)]
        there = talk([["go ", *asked], ["done"]], look, stage={"seed": seed})
        there.session.send("go").result(10)
        return there.kinds()

    first, second = play(3), play(3)

    assert first == second
