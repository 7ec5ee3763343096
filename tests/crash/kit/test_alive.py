"""Rules about what is alive: a state is held against its runes, whatever comes in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from actors.model.providers.scripted import Scripted
from runefold.spec import AgentSpec
from runefold.testing.crash.verdict import judge
from runefold.testing.stage import Stage
from tests.crash.kit import bots
from tests.crash.kit.test_sweep import swept

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.session.lifecycle import State
    from runefold.runtime import Runtime


class Looked:
    """A runtime with one session, and something that is done each time its state was asked for."""

    def __init__(self, asked: Callable[[Runtime, State], State]) -> None:
        """Begin the session."""
        self._runtime = Stage(providers={"bot": Scripted(["Well."])}).runtime
        self._asked = asked
        spec = AgentSpec(role="bot", model="bot")
        self._runtime.create_session(spec, conversation_id=bots.NAME)

    @property
    def log(self) -> Any:  # noqa: ANN401 -- as the runtime has it
        """Its log."""
        return self._runtime.log

    def session(self, _conversation: str) -> Looked:
        """Give the one there is."""
        return self

    @property
    def state(self) -> State:
        """What is answered, with something done after that."""
        return self._asked(self._runtime, self._runtime.session(bots.NAME).state)


def found(asked: Callable[[Runtime, State], State]) -> list[str]:
    """Return the verdicts on such a runtime."""
    return [finding.verdict for finding in judge.alive(cast("Runtime", Looked(asked)))]


def test_what_is_noted_just_behind_a_look_is_no_difference() -> None:
    """An actor that died is restarted, and that is written down a moment after it has answered."""
    paused: list[bool] = []

    def pause(runtime: Runtime, state: State) -> State:
        if not paused:
            paused.append(True)
            runtime.session(bots.NAME).pause()
        return state

    assert found(pause) == []
    assert paused


def test_what_is_noted_before_and_behind_it_is_looked_at_again() -> None:
    """A state in the middle is neither that of before nor that of afterwards; the next one is."""
    looks: list[State] = []

    def pause(runtime: Runtime, state: State) -> State:
        looks.append(state)
        if len(looks) > 1:
            return state
        session = runtime.session(bots.NAME)
        session.pause()
        between = session.state
        session.resume()
        return between

    assert found(pause) == []
    assert len(looks) == 2


def test_a_state_that_stays_behind_is_found() -> None:
    """However often it is looked at, it is not what the runes add up to."""
    first: list[State] = []

    def stale(runtime: Runtime, state: State) -> State:
        runtime.session(bots.NAME).suspend("later")
        first.append(state)
        return first[0]

    looked = Looked(stale)
    assert looked.state.phase == "active"

    assert [finding.verdict for finding in judge.alive(cast("Runtime", looked))] == ["state"]


def test_nobody_dies_of_what_the_judge_asks() -> None:
    """Points are moments of the app: what is asked to judge it afterwards is none."""
    report = swept(bots.SOUND, in_process=True, point="1:before-commit")
    kinds = [message.mark.rpartition(" ")[2] for message in report.messages]

    assert "Send" in kinds
    assert "Look" not in kinds
