"""Rules about the hash of a request: all that is sent counts, and nothing else."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from actors.agent.history import HISTORY_VERSION
from actors.model import runes as model
from actors.model.provider import Asked, Message, Request, ToolCall
from actors.model.providers.scripted import Scripted, call
from actors.model.request_hash import SETTINGS, MessagesHash, request_hash
from actors.tool.adapters.function import tool
from tests.runefold.talks import talk

ASKED: Final = Asked("call_1", "look", {"at": "a", "in": 2}, "")
MESSAGES: Final = (
    Message("user", "look"),
    Message("assistant", "so", (ASKED,)),
    Message("tool", "found", call_id="call_1", status="success"),
)
REQUEST: Final = Request(
    model="m", system="be brief", messages=MESSAGES, tools=[{"name": "look"}], max_output_tokens=7
)


def hashed(request: Request) -> str:
    """Return the hash of a request."""
    messages = MessagesHash()
    messages.add(request.messages)
    return request_hash(msgspec.structs.asdict(request), messages)


def changed(message: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- those of a message
    """Return the messages with one that is changed."""
    found = [*MESSAGES]
    found[message] = msgspec.structs.replace(found[message], **fields)
    return {"messages": tuple(found)}


def asking(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- those of a call
    """Return the messages with another call."""
    return changed(1, calls=(msgspec.structs.replace(ASKED, **fields),))


CHANGES: Final[list[dict[str, Any]]] = [
    {"model": "n"},
    {"system": "be brief "},
    {"tools": [{"name": "look", "description": "all over"}]},
    {"tools": []},
    {"max_output_tokens": 8},
    {"messages": MESSAGES[:2]},
    {"messages": (*MESSAGES, MESSAGES[0])},
    {"messages": (MESSAGES[1], MESSAGES[0], MESSAGES[2])},
    changed(0, role="assistant"),
    changed(0, text="look!"),
    changed(1, calls=()),
    changed(1, calls=(ASKED, ASKED)),
    changed(2, call_id="call_2"),
    changed(2, status="error"),
    asking(call_id="call_2"),
    asking(name="find"),
    asking(arguments={"at": "b", "in": 2}),
    asking(raw="{"),
]


def test_each_part_of_what_is_sent_changes_the_hash() -> None:
    """Of all the requests that differ in one part no two have the same hash."""
    parts = {name for change in CHANGES for name in change}
    hashes = [hashed(msgspec.structs.replace(REQUEST, **change)) for change in CHANGES]

    assert parts == {*SETTINGS, "messages"}
    assert len({hashed(REQUEST), *hashes}) == 1 + len(CHANGES)


@pytest.mark.parametrize(
    "name", sorted({*Request.__struct_fields__} - {*SETTINGS, "messages", "cancelled"})
)
def test_what_names_a_call_is_no_part_of_the_hash(name: str) -> None:
    """The same request sent in another conversation, or once more, has the same hash."""
    other: Any = 9 if isinstance(getattr(REQUEST, name), int) else "other"

    assert hashed(msgspec.structs.replace(REQUEST, **{name: other})) == hashed(REQUEST)


def test_messages_that_are_added_later_are_hashed_like_all_at_once() -> None:
    """A history goes on from where it was: however it came about, the hash is that of all."""
    by_and_by = MessagesHash()
    for count in range(1, len(MESSAGES) + 1):
        by_and_by.add(MESSAGES[:count])
        by_and_by.add(MESSAGES[:count])

    assert request_hash(msgspec.structs.asdict(REQUEST), by_and_by) == hashed(REQUEST)


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"{at} is there"


def test_what_a_provider_calls_a_call_is_kept_beside_our_id() -> None:
    """It is in the log and in every later request, also where that is read from the log anew."""
    sent: list[Request] = []
    key = "sk-proj-" + "a1B2" * 12

    def reply(request: Request) -> Any:  # noqa: ANN401 -- a reply
        sent.append(request)
        asks = [ToolCall("look", '{"at": "a"}', "toolu_01"), ToolCall("look", "{", key)]
        return asks if len(sent) == 1 else ["done"]

    there = talk(Scripted(reply), look)
    there.session.send("go").result(10)
    there.stage.reopen()
    there.stage.runtime.session(there.session.id).send("and now?").result(10)
    first = there.runes("model.completed")[0]
    calls = [[each.calls for each in request.messages if each.calls] for request in sent[1:]]

    assert isinstance(first, model.Completed)
    assert first.calls[0].provider_id == "toolu_01" != first.calls[0].call_id
    assert key not in first.calls[1].provider_id != ""
    assert [[asked.provider_id for asked in each] for [each] in calls] == [
        [asked.provider_id for asked in first.calls]
    ] * 2


def test_a_model_call_keeps_the_hash_of_what_its_provider_was_sent() -> None:
    """Of each round, with the version of the history; also where it was read from the log anew."""
    sent: list[Request] = []

    def reply(request: Request) -> Any:  # noqa: ANN401 -- a reply
        sent.append(request)
        return ["so ", call("look", at="a"), call("look", at="b")] if len(sent) == 1 else ["done"]

    there = talk(Scripted(reply), look)
    there.session.send("go").result(10)
    there.stage.reopen()
    there.stage.runtime.session(there.session.id).send("and now?").result(10)
    called = [each for each in there.runes("model.called") if isinstance(each, model.Called)]

    assert len(called) == len(sent) == 3
    assert [each.request for each in called] == [hashed(request) for request in sent]
    assert {each.made_by for each in called} == {HISTORY_VERSION}
