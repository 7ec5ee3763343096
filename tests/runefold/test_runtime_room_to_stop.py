"""A disk without room just as somebody has a turn stopped: it is done, or they are told."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.model.providers.scripted import pause
from actors.session.messages import Interrupt
from runefold import AgentSpec
from runefold.draining import drain
from runefold.errors import RunefoldError
from runelog.errors import LogFull
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.model.provider import Request
    from actors.ports import Edge
    from runefold.testing.stage import FragileLog
    from runefold.turns import Turn

FOR_GOOD: Final = 1_000_000


def reply(request: Request) -> list[Any]:
    """Think long about the first message, and not at all about others."""
    return ["one ", pause(10), "two"] if request.messages[-1].text == "go" else ["fine"]


class Scene:
    """A helper whose model has begun to answer and takes its time."""

    def __init__(self, seed: int | None = None) -> None:
        """Begin there."""
        self.talk: Talk = talk(reply, stage={"seed": seed})
        self.session = self.talk.session
        self.helper = self.session.spawn(AgentSpec(role="helper", model="demo"))
        self.turn: Turn = self.session.send("go", to=self.helper)
        self.talk.until("turn.assistant_delta")
        self.log: FragileLog = self.talk.stage.log

    def fill_up(self, first: int, length: int) -> None:
        """Let some appends find no room, counted from now on."""
        append, count = self.log.append, itertools.count(1)

        def appended(*given: Any, **options: Any) -> Any:  # noqa: ANN401 -- as they are
            if first <= next(count) < first + length:
                msg = "no room"
                raise LogFull(msg)
            return append(*given, **options)

        self.log.append = appended  # type: ignore[method-assign]  # for this one alone

    def make_room(self) -> None:
        """Let everything find room again."""
        del self.log.append


STOPS: Final[Mapping[str, Callable[[Scene], object]]] = {
    "enough": lambda scene: scene.session.interrupt("enough"),
    "steer": lambda scene: scene.session.send("on", to=scene.helper, mode="steer"),
    "pause": lambda scene: scene.session.pause("lunch", finish=False),
    "closing": lambda scene: scene.session.close("home"),
    "agent_terminated": lambda scene: scene.session.terminate(scene.helper, force=True),
}
"""Ways to stop a turn, by the reason that its end then has."""


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("length", [1, 3, 200])
@pytest.mark.parametrize("first", range(1, 7))
@pytest.mark.parametrize("how", STOPS)
def test_a_turn_is_stopped_or_it_is_told_that_it_was_not(
    how: str, first: int, length: int, seed: int | None
) -> None:
    """Wherever room runs out; and asked again by whoever was told, nothing is done twice."""
    scene = Scene(seed)
    scene.fill_up(first, length)
    try:
        STOPS[how](scene)
        scene.make_room()
    except RunefoldError:
        scene.make_room()
        STOPS[how](scene)
    end = scene.turn.result(100)
    sent = scene.talk.kinds().count("session.input_accepted")

    assert (end.status, end.reason) == ("interrupted", how)
    assert sent == (2 if how == "steer" else 1)


def test_an_interrupt_for_which_there_is_never_room_is_not_told_as_done() -> None:
    """Whoever asked for it hears what is missing; with room, it is done when they ask again."""
    scene = Scene()
    scene.fill_up(1, FOR_GOOD)
    with pytest.raises(LogFull, match="no room"):
        scene.session.interrupt()
    scene.make_room()
    running = len(scene.session.state.running)

    assert running == 1
    assert scene.session.interrupt() == 1


def test_a_turn_that_ends_by_itself_was_not_stopped() -> None:
    """Between the look at what runs and the word to stop it, it may be over."""
    scene = Scene()
    tree = scene.talk.stage.runtime._core.tree
    tree_ask = tree.asked

    async def ask(edge: Edge, conversation: str, message: object, *others: Any) -> Any:  # noqa: ANN401 -- as it is
        if isinstance(message, Interrupt):
            scene.turn.result(100)
        return await tree_ask(edge, conversation, message, *others)

    tree.asked = ask  # type: ignore[method-assign, assignment]  # to be late

    assert scene.session.interrupt() == 0
    assert scene.turn.result(0).output == "one two"


def test_what_a_drain_stops_is_stopped_although_there_was_no_room() -> None:
    """The runtime that ends has it stopped anew, as whoever interrupts does."""
    scene = Scene()
    scene.fill_up(1, 1)
    drain(scene.talk.stage.runtime._core.tree, timeout=1)
    end = scene.turn.result(0)

    assert (end.status, end.reason) == ("interrupted", "shutdown")


def test_nobody_is_started_again_where_what_was_decided_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They would believe in no more than those before them: all begin anew from the log at once."""
    scene = Scene()
    scene.fill_up(1, 1)
    scene.session.interrupt()
    said = [vars(each)["event"] for each in caplog.records]

    assert said.count("session_fell") == 1
    assert "too_many_restarts" not in said
