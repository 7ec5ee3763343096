"""Burr: an application of actions, its state saved by its SQLite persister after each."""

from __future__ import annotations

import sqlite3
import threading
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, cast

import burr.telemetry
from burr.core import ApplicationBuilder, State, action, default, when
from burr.core.persistence import SQLitePersister

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Much of Burr has no types.
_burr: Any = burr
_burr.telemetry.disable_telemetry()


@action(reads=["messages"], writes=["messages", "call"])
def receive(state: State[Any], content: str) -> State[Any]:
    """Take a question."""
    return state.append(messages={"role": "user", "content": content}).update(call=None)


@action(reads=["messages"], writes=["messages", "call"])
def model(state: State[Any]) -> State[Any]:
    """Ask the model."""
    asks = state["messages"][-1]["role"] == "user"
    said = state.append(messages={"role": "assistant", "content": read(FRAGMENTS)})
    return said.update(call=ARGUMENTS if asks else None)


@action(reads=["messages", "call"], writes=["messages", "call"])
def use_tool(state: State[Any]) -> State[Any]:
    """Run the tool."""
    arguments = state["call"]
    told = {"role": "tool", "content": arguments["a"] + arguments["b"]}
    return state.append(messages=told).update(call=None)


class _Persister(SQLitePersister):
    """Its persister, with a lock: then threads queue there, and not asleep in SQLite."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(str(path), connection=connection)
        self._turn = threading.Lock()

    def save(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- whatever Burr passes
        with self._turn:
            super().save(*args, **kwargs)


class Burr:
    """Burr with its SQLite persister in WAL mode."""

    name = "Burr with its SQLite persister in WAL mode"

    def __init__(self, path: Path) -> None:
        """Make the database."""
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._persister = cast("Any", _Persister(path, self._connection))
        self._persister.initialize()

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin an application, as Burr calls it."""
        builder, if_done = cast("Any", ApplicationBuilder)(), cast("Any", when)(call=None)
        app = (
            builder.with_actions(receive, model, use_tool)
            .with_transitions(
                ("receive", "model"),
                ("model", "receive", if_done),
                ("model", "use_tool", default),
                ("use_tool", "model"),
            )
            .with_state(messages=[], call=None)
            .with_entrypoint("receive")
            .with_identifiers(app_id=conversation)
            .with_state_persister(self._persister)
            .build()
        )

        def turn() -> str:
            *_, state = app.run(halt_before=["receive"], inputs={"content": QUESTION})
            return str(state["messages"][-1]["content"])

        return turn

    def settings(self) -> str:
        """Return what its connection says of itself."""
        found = pragmas([self._connection])
        return f"apache-burr {version_of('apache-burr')}, SQLitePersister behind a lock, {found}"

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
