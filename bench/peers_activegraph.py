"""ActiveGraph: behaviors that react to a graph, each event stored in SQLite as it happens.

A conversation is a run, a turn is a goal: a behavior with a model hears of the goal, the runtime
calls the tool that the model asks for, and what was said becomes an object of the graph, so that
the next turn's prompt has it. A model is asked for its whole answer; there is no streaming in it,
so its model gathers the fragments by itself, and nobody hears one before the behavior is over.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
from decimal import Decimal
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final

from activegraph import Graph, Runtime, SQLiteEventStore
from activegraph.behaviors.decorators import llm_behavior
from activegraph.llm.types import LLMResponse, ToolCall
from activegraph.tools.decorators import tool
from pydantic import BaseModel

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_calls = itertools.count()


class _Numbers(BaseModel):
    a: int
    b: int


class _Sum(BaseModel):
    sum: int


@tool(name="add", description="Add two numbers.", output_schema=_Sum)
def _add(args: _Numbers, ctx: Any) -> _Sum:  # noqa: ANN401, ARG001 -- as it is called
    return _Sum(sum=args.a + args.b)


@llm_behavior(
    name="helper",
    on=["goal.created"],
    model="scripted",
    tools=[_add],
    # The messages of the conversation, and not every event of it as well.
    view={"include_types": ["message"], "recent_events": 0},
    creates=["message"],
)
def _helper(event: Any, graph: Any, ctx: Any, said: Any) -> None:  # noqa: ANN401, ARG001 -- as it is called
    graph.add_object("message", {"role": "user", "text": event.payload["goal"]})
    graph.add_object("message", {"role": "assistant", "text": said["text"]})


class _Model:
    """A model that takes no time."""

    default_model: Final = "scripted"

    def complete(self, *, messages: list[Any], **_: Any) -> Any:  # noqa: ANN401 -- it has no types
        said, asks = read(FRAGMENTS), messages[-1].role == "user"
        calls = [ToolCall(f"call_{next(_calls)}", "add", {**ARGUMENTS})] if asks else None
        return LLMResponse(
            raw_text=said,
            parsed={"text": said},
            input_tokens=0,
            output_tokens=0,
            cost_usd=Decimal(0),
            latency_seconds=0.0,
            model="scripted",
            finish_reason="tool_use" if asks else "stop",
            tool_calls=calls,
        )

    def estimate_cost(self, **_: Any) -> Decimal:  # noqa: ANN401 -- whatever it is asked
        return Decimal(0)

    def count_tokens(self, **_: Any) -> int:  # noqa: ANN401 -- the same
        return 0


class _Store(SQLiteEventStore):
    """Its store, synced at each commit, and with a lock: then threads queue there."""

    turn = threading.Lock()
    _conn: sqlite3.Connection

    def __init__(self, path: Path, run: str) -> None:
        super().__init__(str(path), run)
        self._conn.close()
        # Its own connection serves the thread only that begins the conversation.
        self._conn = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=60
        )
        self._conn.row_factory = sqlite3.Row
        self._conn.execute("PRAGMA synchronous=FULL")

    @property
    def connection(self) -> sqlite3.Connection:
        """Its connection."""
        return self._conn

    def append(self, event: Any) -> None:  # noqa: ANN401 -- it has no types
        with self.turn:
            super().append(event)

    def upsert_run(self, **row: Any) -> None:  # noqa: ANN401 -- the same
        with self.turn:
            super().upsert_run(**row)


class ActiveGraph:
    """ActiveGraph on SQLite in WAL mode."""

    name = "ActiveGraph on SQLite in WAL mode"

    def __init__(self, path: Path) -> None:
        """Keep its runs in one database."""
        self._path = path
        self._stores: list[_Store] = []

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a run, as ActiveGraph calls it."""
        graph = Graph(run_id=conversation)
        store = _Store(self._path, conversation)
        self._stores.append(store)
        runtime = Runtime(
            graph, behaviors=[_helper], tools=[_add], llm_provider=_Model(), store=store
        )

        def turn() -> str:
            runtime.run_goal(QUESTION)
            assert not runtime.errors, runtime.errors
            return str(graph.objects_in_types(["message"])[-1].data["text"])

        return turn

    def settings(self) -> str:
        """Return what its connection says of itself."""
        found = pragmas([self._stores[-1].connection])
        how = "an llm_behavior with a tool, SQLiteEventStore behind a lock, a commit for each event"
        return f"activegraph {version_of('activegraph')}, {how}, {found} (its own default: NORMAL)"

    def close(self) -> None:
        """Close the connections."""
        for store in self._stores:
            store.connection.close()
