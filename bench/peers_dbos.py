"""DBOS: a workflow of steps, each recorded in SQLite before the next begins.

Its model gathers the fragments by itself, and nobody hears one before the step is over. Its
documentation streams them by `DBOS.write_stream` in the step. That writes each fragment in a
transaction of its own, some forty more a turn, which nothing here asks for; so it is left out.
"""

from __future__ import annotations

import sqlite3
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final, cast

from dbos import DBOS

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POOL: Final = 4
"""Connections. With the default of 20, 32 threads mostly sleep waiting for SQLite's lock."""


@DBOS.step()
def _model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": read(FRAGMENTS)}
    if messages[-1]["role"] == "user":
        said["call"] = {"name": "add", "arguments": ARGUMENTS}
    return said


@DBOS.step()
def _tool(arguments: dict[str, int]) -> int:
    return arguments["a"] + arguments["b"]


@DBOS.workflow()
def _turn(question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        said = _model(messages)
        messages.append(said)
        if "call" not in said:
            return str(said["content"])
        messages.append({"role": "tool", "content": _tool(said["call"]["arguments"])})


class Dbos:
    """DBOS on SQLite in WAL mode. There is one in a process."""

    name = "DBOS on SQLite in WAL mode"

    def __init__(self, path: Path) -> None:
        """Make the database and launch it."""
        # It leaves the journal as it finds it, and the file remembers the mode.
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.close()
        self._dbos = DBOS(
            config={
                "name": "bench",
                "system_database_url": f"sqlite:///{path}",
                "sys_db_pool_size": POOL,
                "log_level": "WARNING",
            }
        )
        DBOS.launch()

    def begin(self, conversation: str) -> Callable[[], str]:  # noqa: ARG002 -- each turn is a workflow
        """Return a turn: a workflow that knows of no turn before it."""
        return lambda: _turn(QUESTION)

    def settings(self) -> str:
        """Return what its own connections say of themselves."""
        engine = self._dbos._sys_db.engine  # noqa: SLF001 -- nothing else tells
        with engine.connect() as connection:
            raw = cast("sqlite3.Connection", connection.connection.dbapi_connection)
            found = pragmas([raw])
        return f"dbos {version_of('dbos')}, a workflow of three steps, pool of {POOL}, {found}"

    def close(self) -> None:
        """Stop its threads and close the database."""
        DBOS.destroy()
