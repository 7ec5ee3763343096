"""The OpenAI Agents SDK with its SQLiteSession, which keeps what was said.

All conversations go on in one event loop, as it is made for. Whoever runs the turn hears each
fragment by `stream_events`. It stores what was said, and no more: nothing says that a tool is about
to run, so a turn that is cut off there is not gone on with.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sqlite3
import threading
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any

from agents import Agent, Model, Runner, SQLiteSession, function_tool, set_tracing_disabled

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_types: Any = importlib.import_module("openai.types.responses")
_calls = itertools.count()


@function_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class _Model(Model):
    """A model that takes no time."""

    async def get_response(self, *_args: Any, **_options: Any) -> Any:  # noqa: ANN401 -- whatever it is asked
        msg = "it streams"
        raise NotImplementedError(msg)

    async def stream_response(
        self,
        system_instructions: str | None,  # noqa: ARG002 -- it does not matter
        input: Any,  # noqa: A002, ANN401 -- it is called so
        *_args: Any,  # noqa: ANN401 -- whatever it is asked
        **_options: Any,  # noqa: ANN401 -- the same
    ) -> AsyncIterator[Any]:
        """Say what the model says: its fragments, and all of it at the end."""
        number = next(_calls)
        for place, fragment in enumerate(FRAGMENTS):
            yield _types.ResponseTextDeltaEvent(
                type="response.output_text.delta",
                content_index=0,
                delta=fragment,
                item_id=f"msg_{number}",
                logprobs=[],
                output_index=0,
                sequence_number=place,
            )
        text = _types.ResponseOutputText(
            type="output_text", text="".join(FRAGMENTS), annotations=[], logprobs=[]
        )
        output: list[Any] = [
            _types.ResponseOutputMessage(
                id=f"msg_{number}",
                type="message",
                role="assistant",
                status="completed",
                content=[text],
            )
        ]
        if isinstance(input, str) or input[-1].get("role") == "user":
            call = _types.ResponseFunctionToolCall(
                type="function_call",
                id=f"fc_{number}",
                call_id=f"call_{number}",
                name="add",
                arguments=json.dumps(ARGUMENTS),
            )
            output.append(call)
        response = _types.Response(
            id=f"resp_{number}",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
            status="completed",
        )
        yield _types.ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=len(FRAGMENTS)
        )


class Agents:
    """The OpenAI Agents SDK with SQLiteSession."""

    name = "OpenAI Agents SDK with SQLiteSession"

    def __init__(self, path: Path) -> None:
        """Begin its event loop."""
        set_tracing_disabled(disabled=True)
        self._path = path
        self._agent = Agent(name="helper", model=_Model(), tools=[add])
        self._sessions: list[SQLiteSession] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a session."""
        session = SQLiteSession(conversation, self._path)
        self._sessions.append(session)
        return lambda: asyncio.run_coroutine_threadsafe(self._turn(session), self._loop).result()

    async def _turn(self, session: SQLiteSession) -> str:
        result = Runner.run_streamed(self._agent, QUESTION, session=session)
        heard = [
            event.data.delta
            async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type.endswith("text.delta")
        ]
        assert heard == [*FRAGMENTS, *FRAGMENTS], f"{len(heard)} fragments came"
        return str(result.final_output)

    def settings(self) -> str:
        """Return what connections that are opened as its own are say of themselves."""
        connection = sqlite3.connect(self._path)
        found = pragmas([connection])
        connection.close()
        version = version_of("openai-agents")
        return f"openai-agents {version}, run_streamed in one event loop, tracing off, {found}"

    def close(self) -> None:
        """End its event loop, and close its connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        for session in self._sessions:
            session.close()
