"""Rules about finding things again: sessions by label, turns by id, the chat of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import call, pause
from actors.model.runes import Called
from actors.tool.adapters.function import tool
from runefold.spec import AgentSpec
from runelog.errors import BadId, Refused
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.turns import Turn


@tool(side_effects=False)
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


def said(request: Request) -> Reply:
    """Look up what is asked for; think about what begins with a T."""
    last = request.messages[-1]
    if last.role == "tool":
        return [last.text]
    if last.text.startswith("T"):
        return ["Let me ", pause(60), "see."]
    return ["I look. ", call("look_up", word=last.text)]


def busy() -> Talk:
    """Return a conversation with one turn that has ended, one that runs and one that waits."""
    there = talk(said, look_up)
    there.session.send("sun", message_id="m1").result(10)
    there.session.send("Think", message_id="m2")
    there.session.send("moon", message_id="m3")
    there.stage.run()
    return there


def ids(turns: list[Turn]) -> list[tuple[str, str | None]]:
    """Return which message each turn is of, and its id."""
    return [(turn.message_id, turn.id) for turn in turns]


@pytest.mark.parametrize("again", [False, True])
def test_turns_are_found_again_by_their_ids_and_by_those_of_messages(*, again: bool) -> None:
    """Also by an app that was started anew: it goes on waiting for what is under way."""
    there = busy()
    session = there.reopen() if again else there.session
    there.stage.run()

    assert ids(session.turns()) == [("m1", "turn_1"), ("m2", "turn_2"), ("m3", None)]
    assert ids(session.turns(running=True)) == [("m2", "turn_2"), ("m3", None)]
    assert session.turn("turn_1").result(0).output == "sun is a word"
    assert session.turn("m2").id == "turn_2"
    kinds = [rune.kind for rune in session.turn("turn_1").runes({"turn.started", "tool.result"})]
    assert kinds == ["turn.started", "tool.result"]
    ends = [turn.result(1000).output for turn in session.turns(running=True)]
    assert ends == ["Let me see.", "moon is a word"]
    assert session.turns(running=True) == []


def test_a_turn_that_is_not_there_is_refused() -> None:
    """With the way to those that are; entities of other kinds are no turns."""
    session = busy().session

    for name in ("turn_9", "session", session.state.root):
        with pytest.raises(Refused, match=f"no turn and no message {name}: turns"):
            session.turn(name)
    with pytest.raises(BadId):
        session.turn("no id")


def test_the_chat_is_what_the_model_was_shown() -> None:
    """At any event: what a request had then, with its calls and their results."""
    there = busy()
    session = there.session
    began = [each.upto for each in there.runes("model.called") if isinstance(each, Called)]

    for upto, request in zip(began, there.model.requests, strict=True):
        assert session.messages(at=upto) == [*request.messages]
    roles = [each.role for each in session.messages()]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert session.messages("helper") == session.messages() == session.messages(session.state.root)
    assert session.messages(at=0) == []


def test_the_chat_of_an_agent_that_is_gone_is_still_there() -> None:
    """Under its id, as its name may be another's by now; what is no agent is refused."""
    there = talk(said, look_up)
    spec = AgentSpec(role="clerk", model="demo", tools=["look_up"])
    clerk = there.session.spawn(spec)
    there.session.send("sun", to="clerk").result(10)
    chat = there.session.messages("clerk")
    there.session.terminate("clerk")
    there.stage.run()

    assert there.session.messages(clerk) == chat != []
    for nobody in ("clerk", "turn_1", "agt_9"):
        with pytest.raises(Refused, match=f"no agent {nobody}; there are: helper"):
            there.session.messages(nobody)


@pytest.mark.parametrize(
    ("labels", "phase", "found"),
    [
        (None, "", ["conv_1", "conv_2", "conv_3", NAME]),
        ({"for": "ada"}, "", ["conv_1", "conv_2"]),
        ({"for": "ada", "tier": "gold"}, "", ["conv_2"]),
        ({"for": "bob"}, "paused", ["conv_3"]),
        ({"for": "ada"}, "paused", []),
        (None, "active", ["conv_1", "conv_2", NAME]),
        ({"for": "eve"}, "", []),
    ],
)
def test_sessions_are_found_by_label_and_phase(
    labels: Mapping[str, str] | None, phase: str, found: list[str]
) -> None:
    """A session has all the labels that are asked for, and maybe more."""
    runtime = (there := talk(said, look_up)).stage.runtime
    spec = AgentSpec(role="helper", model="demo")
    for number, given in enumerate(
        ({"for": "ada"}, {"for": "ada", "tier": "gold"}, {"for": "bob"}), 1
    ):
        runtime.create_session(spec, conversation_id=f"conv_{number}", labels=given)
    there.stage.run()
    runtime.session("conv_3").pause()

    assert [each.id for each in runtime.sessions(labels=labels, phase=phase)] == sorted(found)


def test_a_phase_that_is_none_is_refused() -> None:
    """At once, with those there are."""
    with pytest.raises(Refused, match=r"phase is 'open': give .*'active' or"):
        talk(said, look_up).stage.runtime.sessions(phase="open")
