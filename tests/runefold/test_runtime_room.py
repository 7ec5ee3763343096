"""A disk without room, in the middle of a conversation: it goes on as soon as there is some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.catalogue import CODEC
from actors.session.lifecycle import Phase
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened
from runefold import AgentSpec, Runtime
from runefold.errors import RunefoldError, UnknownConversation
from runefold.providers import Request, Scripted, call
from runefold.testing.stage import FragileLog, Stage
from runelog.errors import LogFailed, LogFull
from runelog.rune import kind_of
from runelog.store import Runelog
from tests.runelog.writer.test_closing import full_disk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from runelog.rune import Appended, Change

NAME = "conv_a"
MESSAGES = 3


class Till:
    """What was really charged, by call."""

    def __init__(self) -> None:
        """Begin empty."""
        self.charged: list[str] = []

    def stage(self) -> Stage:
        """Open a runtime whose agent charges once for each message."""

        def was_charged(call_id: str, _arguments: Mapping[str, object]) -> Happened | None:
            return Happened("charged") if call_id in self.charged else None

        @tool(on_doubt="probe", probe=was_charged)
        def charge(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- what a charge would take
            """Charge."""
            self.charged.append(call_id)
            return "charged"

        def answer(request: Request) -> list[Any]:
            asked = request.messages[-1].role == "user"
            return ["I charge. ", call("charge", cents=5)] if asked else ["Done."]

        return Stage(tools=[charge], providers={"demo": Scripted(answer)})


def play(runtime: Runtime) -> list[str]:
    """Send the messages, or send them again; return how their turns ended."""
    try:
        session = runtime.session(NAME)
    except UnknownConversation:
        spec = AgentSpec(role="cashier", model="demo", tools=["charge"])
        session = runtime.create_session(spec, conversation_id=NAME)
    turns = (session.send("go", message_id=f"m{each}") for each in range(MESSAGES))
    return [turn.result(100).output for turn in turns]


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """Let appends whose numbers are in these ranges find no room."""
    without: list[range] = []
    count = 0
    append = FragileLog.append

    def appended(self: FragileLog, *args: Any, **options: Any) -> object:  # noqa: ANN401 -- as given
        nonlocal count
        count += 1
        if any(count in each for each in without):
            msg = "no room"
            raise LogFull(msg)
        return append(self, *args, **options)

    monkeypatch.setattr(FragileLog, "append", appended)
    return without


@pytest.mark.parametrize("length", [1, 3, 20])
@pytest.mark.parametrize("first", range(1, 40, 3))
def test_a_full_disk_costs_nothing_but_time(no_room: list[range], first: int, length: int) -> None:
    """Wherever room runs out, whoever asked is told, and asked again everything is done once."""
    till = Till()
    no_room.append(range(first, first + length))
    stage = till.stage()

    try:
        ended = play(stage.runtime)
    except RunefoldError:
        no_room.clear()
        ended = play(stage.runtime)

    assert ended == ["Done."] * MESSAGES
    assert len(till.charged) == len(set(till.charged)) == MESSAGES


class SharedLog(Runelog):
    """A log that finds no room for one append, and of which somebody else asks just then."""

    lost: str | None = None
    """The kind of rune for which there is no room."""
    told: LogFull | None = None
    """What the other one was told."""

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append, and lose it."""
        if self.lost not in {kind_of(rune) for change in changes for rune in change.runes}:
            return super().append(conversation, changes, durable=durable, timeout=timeout)
        self.lost = None
        with full_disk(self):
            appended = super().append(conversation, changes, durable=durable, timeout=timeout)
            try:
                self.flush()
            except LogFull as full:
                self.told = full
        return appended


def test_a_loss_that_somebody_else_was_told_of_is_not_told_as_done(tmp_path: Path) -> None:
    """An app flushes the log and is told of what a session lost: the session notices as well."""
    log = SharedLog.open(tmp_path, CODEC)
    assert isinstance(log, SharedLog)
    with Runtime(log, providers={"demo": Scripted(["Hello!"])}) as runtime:
        session = runtime.create_session(AgentSpec(role="host", model="demo"))
        log.lost = "session.paused"
        with pytest.raises((LogFull, LogFailed)):
            session.pause("lunch")
        told, lost = log.told, session.state.phase
        session.pause("lunch")
        kept = [rune.kind for rune in log.read(session.id, kinds={"session.paused"})]

    assert told is not None
    assert lost is Phase.ACTIVE
    assert kept == ["session.paused"]
