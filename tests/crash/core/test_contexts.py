"""What tools, probes and policies are told of a call is a fold of the log: a kill changes none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from actors.tool.context import Context
from actors.tool.outcome import Happened
from actors.tool.policy import Policy
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runefold.testing import Effects
    from runefold.testing.crash.fixture import Sweeper

NAME = "conv_shop"
PATIENCE = 20.0


class Books:
    """What was told to whom, on disk: it outlives every crash."""

    def __init__(self, path: Path) -> None:
        """Keep them in a file."""
        self._path = path

    def note(self, who: str, context: Context[Books]) -> None:
        """Note what a function was told of a call, the time left out."""
        told = [
            context.session_id,
            dict(context.labels),
            context.client_id,
            *context.agent,
            context.turn_id,
        ]
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([context.call_id, who, told]) + "\n")

    def told(self) -> dict[str, list[tuple[str, object]]]:
        """Return what was noted, by call."""
        found: dict[str, list[tuple[str, object]]] = {}
        lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
        for call_id, who, told in map(json.loads, lines):
            found.setdefault(call_id, []).append((who, told))
        return found


@tool(idempotent=True)
def ship(context: Context[Books]) -> str:
    """Ship: it may run again."""
    context.app.note("tool", context)
    return "shipped"


def was_sent(_call: str, _arguments: Mapping[str, Any], context: Context[Books]) -> Happened:
    """Look into the books."""
    context.app.note("probe", context)
    return Happened("sent")


@tool(on_doubt="probe", probe=was_sent)
async def send(context: Context[Books]) -> str:
    """Send: it is asked about."""
    context.app.note("tool", context)
    return "sent"


def judge(name: str, _given: object, _tool: object, context: Context[Books]) -> Literal["allow"]:
    """Let everything pass, and note who asked."""
    context.app.note(f"policy of {name}", context)
    return "allow"


def build(directory: Path) -> Runtime:
    """Open a runtime with books."""
    model = Scripted([[call("ship"), call("send")], ["done"]])
    return Runtime.open(
        directory / "log",
        app=Books(directory / "books"),
        tools=[ship, send],
        policy=Policy(function=judge),
        providers={"demo": model},
    )


def scenario(runtime: Runtime) -> None:
    """Have both tools called, for a client."""
    try:
        session = runtime.session(NAME)
    except UnknownConversation:
        session = runtime.create_session(
            AgentSpec(role="clerk", model="demo", name="dora", tools=["ship", "send"]),
            conversation_id=NAME,
            labels={"tenant": "north"},
            client_id="client_ada",
        )
    session.send("go", message_id="m1").result(PATIENCE)


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold that each call was told one thing, whoever was told and however often."""
    del effects
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # it has one here
    told = Books(directory.parent / "books").told()
    [agent] = runtime.session(NAME).agents
    calls = [each.owner for each in runtime.log.read(NAME, kinds={"tool.call"})]

    assert set(calls) <= set(told)
    assert {who for notes in told.values() for who, _ in notes} >= {"tool", "policy of send"}
    assert [told for notes in told.values() for _, told in notes] == [
        [NAME, {"tenant": "north"}, "client_ada", agent.id, "dora", "turn_1"]
        for notes in told.values()
        for _ in notes
    ]


@pytest.mark.parametrize("mode", ["every", "actor"])
def test_a_context_is_the_same_wherever_a_kill_falls(crash_sweep: Sweeper, mode: str) -> None:
    """Judged, run, run again or asked about: always for the same client, agent, turn and call."""
    report = crash_sweep(build, scenario, check, mode=mode, in_process=True, seed=7)

    assert {each.status for each in report.results} == {"survived"}
