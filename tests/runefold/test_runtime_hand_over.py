"""Rules about handing over: what the agent that takes over is shown, and that it answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from actors.invariants import violations
from actors.model.providers.scripted import call
from actors.tool.adapters.function import tool
from runefold.agents import HandOver
from runefold.spec import AgentSpec
from runelog.errors import Refused
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.model.provider import Message, Request
    from actors.model.providers.scripted import Reply


@tool(side_effects=False)
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


def triage(request: Request) -> Reply:
    """Look words up; hand over what is about a bill."""
    last = request.messages[-1]
    if last.role == "tool":
        return [f"I see: {last.text}."]
    if "bill" in last.text:
        return ["One moment. ", call("hand_over", to="billing")]
    return [call("look_up", word=last.text)]


def desk(hand_over: HandOver, **options: Any) -> tuple[Talk, Strict]:  # noqa: ANN401 -- those of `talk`
    """Begin a conversation with an agent that hands over, and return the model of the other one."""
    billing = Strict(["It is paid.", "Still paid."])
    there = talk(Strict(triage), hand_over, look_up, others={"billing": billing}, **options)
    there.session.spawn(AgentSpec(role="clerk", name="billing", model="billing"))
    return there, billing


def shown(model: Strict) -> list[str]:
    """Return what a model was shown last."""
    return [each.text for each in model.requests[-1].messages]


ALL = [
    "sun",
    '[helper called look_up({"word":"sun"}): sun is a word]',
    "[helper] I see: sun is a word.",
    "My bill is wrong.",
    "[helper] One moment. ",
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ALL),
        ({"tools": "omit"}, [each for each in ALL if "called" not in each]),
        ({"history": 3}, ALL[-3:]),
        ({"history": 1}, [ALL[-1], "My bill is wrong."]),
        ({"history": "none"}, ["My bill is wrong."]),
        (
            {"history": lambda said: f"{len(said)} things were said."},
            ["5 things were said.", "My bill is wrong."],
        ),
        (
            {"history": lambda said: [each.text[:4] for each in said[:2]]},
            ["sun", "[hel", "My bill is wrong."],
        ),
    ],
)
def test_as_much_is_shown_as_the_app_says(options: dict[str, Any], expected: list[str]) -> None:
    """Users' words as they were, agents' under their names; the message at hand in any case."""
    there, billing = desk(HandOver(**options))
    there.session.send("sun").result(10)
    answer = there.session.send("My bill is wrong.").result(10)

    assert answer.output == "It is paid."
    assert shown(billing) == expected
    assert {each.role for each in billing.requests[-1].messages} == {"user"}
    there.stage.log.flush()
    assert [*violations(there.session.runes(), at_rest=True)] == []


def test_what_was_shown_is_the_same_after_a_crash() -> None:
    """It is read from the log: the next message has all of it before it, and what it said."""
    there, billing = desk(HandOver())
    there.session.send("sun").result(10)
    there.session.send("My bill is wrong.").result(10)
    again = there.reopen()

    assert again.send("Are you sure?").result(10).output == "Still paid."
    assert shown(billing) == [*ALL, "It is paid.", "Are you sure?"]


def test_nothing_secret_is_passed_on() -> None:
    """What is kept out of the log is in nobody's words, nor in a call's arguments."""
    key = "sk-proj-" + "a1B2" * 12
    there, billing = desk(HandOver())
    there.session.send(key).result(10)
    there.session.send("My bill is wrong.").result(10)

    assert not any(key in each for each in shown(billing))
    assert len(shown(billing)) == len(ALL)


def test_an_agent_that_it_may_not_hand_over_to_is_no_choice() -> None:
    """The tool takes the names of the spec only; without names there is no tool."""
    names: list[Sequence[dict[str, Any]]] = []

    def tells(request: Request) -> Reply:
        names.append(request.tools)
        return ["Hello."]

    there = talk(Strict(tells), tools=[])
    session = there.stage.runtime.session(
        "conv_team",
        create=AgentSpec(role="triage", model="demo", can_hand_over_to=["billing"]),
        team=[
            AgentSpec(role="billing", model="demo", can_ask=["triage"]),
            AgentSpec(role="law", model="demo"),
        ],
    )
    for name in ("triage", "billing", "law"):
        session.send("Hi", to=name).result(10)

    found = [[each["name"] for each in tools] for tools in names]
    assert found == [["hand_over"], ["ask_agent"], []]
    assert '"enum":["billing"]' in json.dumps(names[0], separators=(",", ":"))


def test_agents_that_hand_a_message_to_each_other_come_to_an_end() -> None:
    """After some times the tool refuses, and whoever has it then answers."""

    def away(request: Request) -> Reply:
        last = request.messages[-1]
        if last.role == "tool":
            return [f"I stay: {last.text}"]
        other = "two" if request.system == "one" else "one"
        return [call("hand_over", to=other)]

    there = talk(Strict(away), tools=[])
    session = there.stage.runtime.session(
        "conv_pair",
        create=AgentSpec(role="one", model="demo", instructions="one", can_hand_over_to=["two"]),
        team=[AgentSpec(role="two", model="demo", instructions="two", can_hand_over_to=["one"])],
    )
    result = session.send("Hi").result(10)

    assert "this message was handed on 10 times already: answer it yourself" in result.output
    assert session.turn(result.turn_id).message_id == session.turns()[0].message_id
    assert len([*session.runes(kinds={"session.handed_over"})]) == 10


@pytest.mark.parametrize("history", [-1, 0, True, "some", None])
def test_what_says_nothing_of_the_history_is_refused(history: Any) -> None:  # noqa: ANN401 -- anything
    """When the tool is made, with what can be said."""
    with pytest.raises(Refused, match="says nothing: give 'all', 'none', how many messages, or a"):
        HandOver(history=history)


def test_messages_are_what_a_function_is_given() -> None:
    """Each with its role and text, so that it can tell users from agents."""
    given: list[Message] = []

    def sums_up(said: Sequence[Message]) -> str:
        given.extend(said)
        return "It is about a bill."

    there, billing = desk(HandOver(history=sums_up))
    there.session.send("My bill is wrong.").result(10)

    assert [each.text for each in given] == ["My bill is wrong.", "[helper] One moment. "]
    assert shown(billing) == ["It is about a bill.", "My bill is wrong."]
