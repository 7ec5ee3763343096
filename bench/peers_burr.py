"""Burr: an application of actions, its state saved by its SQLite persister after each.

The model is a streaming action, run by `stream_result`, as its documentation teaches it: whoever
runs the turn hears each fragment. `BurrJoined` leaves that out: its model gathers the fragments by
itself, and nobody hears one before the action is over.
"""

from __future__ import annotations

import sqlite3
import threading
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, ClassVar, cast

import burr.telemetry
from burr.core import ApplicationBuilder, State, action, default, when
from burr.core.action import streaming_action
from burr.core.persistence import SQLitePersister

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Much of Burr has no types.
_burr: Any = burr
_burr.telemetry.disable_telemetry()


@action(reads=["messages"], writes=["messages", "call"])
def receive(state: State[Any], content: str) -> State[Any]:
    """Take a question."""
    return state.append(messages={"role": "user", "content": content}).update(call=None)


def _said(state: State[Any], content: str) -> State[Any]:
    asks = state["messages"][-1]["role"] == "user"
    said = state.append(messages={"role": "assistant", "content": content})
    return said.update(call=ARGUMENTS if asks else None)


@streaming_action(reads=["messages"], writes=["messages", "call"])
def streaming_model(state: State[Any]) -> Iterator[tuple[dict[str, str], State[Any] | None]]:
    """Ask the model, and pass on what it says as it says it."""
    said = []
    for fragment in FRAGMENTS:
        said.append(fragment)
        yield {"response": fragment}, None
    response = "".join(said)
    yield {"response": response}, _said(state, response)


@action(reads=["messages"], writes=["messages", "call"])
def joining_model(state: State[Any]) -> State[Any]:
    """Ask the model, and wait until it has said everything."""
    return _said(state, read(FRAGMENTS))


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

    name = "Burr with its SQLite persister in WAL mode, as documented"
    _model: ClassVar[Any] = staticmethod(streaming_model)
    _how = "a streaming action, stream_result"

    def __init__(self, path: Path) -> None:
        """Make the database."""
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._persister = cast("Any", _Persister(path, self._connection))
        self._persister.initialize()

    def _application(self, conversation: str) -> Any:  # noqa: ANN401 -- it has no types
        builder, if_done = cast("Any", ApplicationBuilder)(), cast("Any", when)(call=None)
        return (
            builder.with_actions(receive, use_tool, model=self._model)
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

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin an application, as Burr calls it."""
        app = self._application(conversation)

        def turn() -> str:
            heard: list[str] = []
            inputs = {"content": QUESTION}
            while True:
                # It runs what comes before the model by itself: the question, or the tool.
                _, said = app.stream_result(halt_after=["model"], inputs=inputs)
                heard.extend(each["response"] for each in said)
                _, state = said.get()
                if state["call"] is None:
                    break
                inputs = {}
            assert heard == [*FRAGMENTS, *FRAGMENTS], f"{len(heard)} fragments came"
            return str(state["messages"][-1]["content"])

        return turn

    def settings(self) -> str:
        """Return what its connection says of itself."""
        found = f"SQLitePersister behind a lock, {pragmas([self._connection])}"
        return f"apache-burr {version_of('apache-burr')}, {self._how}, {found}"

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class BurrJoined(Burr):
    """The same, but for the fragments: nobody hears them."""

    name = "Burr with its SQLite persister in WAL mode, lean: fragments not streamed"
    _model: ClassVar[Any] = staticmethod(joining_model)
    _how = "no streaming action, run"

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin an application, as Burr calls it."""
        app = self._application(conversation)

        def turn() -> str:
            *_, state = app.run(halt_before=["receive"], inputs={"content": QUESTION})
            return str(state["messages"][-1]["content"])

        return turn
