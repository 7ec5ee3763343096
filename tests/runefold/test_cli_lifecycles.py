"""Rules about the tables as they are printed."""

from __future__ import annotations

import json

import pytest

from actors.catalogue import KINDS
from tests.runefold.cli_scenes import run

# Row for row as they were agreed: from, to, on. A row with a choice of runes has a line for each.
TABLES = {
    "session": """
        created active session.activated
        active active turn.started
        active active turn.completed
        active active turn.interrupted
        active active turn.error
        active paused session.paused
        active suspended session.suspended
        active closing session.closing
        paused active session.resumed
        paused closing session.closing
        suspended active session.unsuspended
        suspended closing session.closing
        closing closed session.closed
        closed archived session.archived
        created closing session.closing
    """,
    "agent": """
        spawning idle agent.ready
        spawning failed agent.failed
        idle running_turn turn.started
        idle terminated agent.terminated
        running_turn idle turn.completed
        running_turn idle turn.interrupted
        running_turn idle turn.error
        running_turn terminated agent.terminated
    """,
    "turn": """
        idle streaming turn.started
        streaming streaming turn.assistant_delta
        streaming tool_executing turn.tool_calls_received
        streaming completed turn.completed
        streaming interrupted turn.interrupted
        streaming error turn.error
        tool_executing streaming turn.tools_finished
        tool_executing completed turn.completed
        tool_executing interrupted turn.interrupted
        tool_executing error turn.error
        completed idle finalized
        interrupted idle finalized
        error idle finalized
        streaming streaming turn.stream_restarted
        tool_executing tool_executing tool.result
    """,
    "tool": """
        pending_call awaiting_approval tool.approval_requested
        pending_call executing tool.started
        awaiting_approval executing tool.approved
        awaiting_approval denied tool.denied
        awaiting_approval timeout_result tool.result
        executing executing tool.progress
        executing completed_result tool.result
        executing error_result tool.result
        executing timeout_result tool.result
        executing cancelled_result tool.result
        pending_call cancelled_result tool.result
        pending_call error_result tool.result
        pending_call denied tool.denied
        awaiting_approval cancelled_result tool.result
        executing executing tool.started
        executing executing tool.retried
        executing awaiting_approval tool.approval_requested
        executing unknown_result tool.result
    """,
    "approval": """
        requested awaiting_human approval.awaiting
        awaiting_human approved approval.approved
        awaiting_human rejected approval.rejected
        approved executed approval.executed
        rejected aborted approval.aborted
        awaiting_human aborted approval.aborted
        approved aborted approval.aborted
    """,
}
BEGINS = {
    "session": "created",
    "agent": "spawning",
    "turn": "idle",
    "tool": "pending_call",
    "approval": "requested",
}
ENDS = {
    "session": {"archived"},
    "agent": {"failed", "terminated"},
    "turn": {"completed", "interrupted", "error"},
    "tool": {
        "completed_result",
        "error_result",
        "timeout_result",
        "cancelled_result",
        "denied",
        "unknown_result",
    },
    "approval": {"executed", "aborted"},
}
TIMEOUTS = {
    "tool": {("awaiting_approval", 86400, "timeout_result"), ("executing", 120, "timeout_result")}
}


def test_every_table_is_printed_as_it_was_agreed() -> None:
    """JSON has the names, the states and one entry for each (from, to, on)."""
    result = run("lifecycles", "--format", "json")
    found = {law["name"]: law for law in json.loads(result.stdout)}

    assert result.exit_code == 0
    assert list(found) == [kind.name for kind in KINDS]
    for name, rows_of in TABLES.items():
        law = found[name]
        rows = [(row["from"], row["to"], row["on"]) for row in law["transitions"]]
        agreed = {tuple(line.split()) for line in rows_of.strip().splitlines()}
        late = {(each["state"], each["seconds"], each["to"]) for each in law["timeouts"]}
        assert set(law) == {"name", "initial", "states", "terminal", "transitions", "timeouts"}
        assert len(rows) == len(set(rows))
        assert set(rows) == agreed
        assert law["initial"] == BEGINS[name]
        assert set(law["terminal"]) == ENDS[name]
        assert set(law["states"]) == {state for row in agreed for state in row[:2]}
        assert late == TIMEOUTS.get(name, set())


def test_people_are_shown_a_table_each() -> None:
    """With where it begins, where it ends, and what time does."""
    lines = run("lifecycles").stdout.splitlines()

    assert lines[0] == "session  begins in created, ends in archived"
    assert lines[2].split() == ["created", "active", "session.activated"]
    assert "  after 120 s in executing: timeout_result" in lines


def test_a_picture_can_be_drawn() -> None:
    """Mermaid is given one diagram for each."""
    lines = run("lifecycles", "approval", "--format", "mermaid").stdout.splitlines()

    assert lines[:5] == [
        "---",
        "title: approval",
        "---",
        "stateDiagram-v2",
        "    [*] --> requested",
    ]
    assert "    requested --> awaiting_human: approval.awaiting" in lines
    assert lines[-2:] == ["    executed --> [*]", "    aborted --> [*]"]


@pytest.mark.parametrize("form", ["text", "json", "mermaid"])
def test_an_unknown_lifecycle_is_refused(form: str) -> None:
    """And those that there are are named."""
    result = run("lifecycles", "nope", "--format", form)

    assert result.exit_code == 2
    assert result.stderr == (
        f"error: there is no lifecycle nope; there are {', '.join(kind.name for kind in KINDS)}\n"
    )
