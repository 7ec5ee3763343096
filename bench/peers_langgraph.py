"""LangGraph as its documentation teaches it, checkpointed by its SqliteSaver after each step.

The state is `MessagesState`; a chat model, bound to the tool, streams its fragments; `ToolNode`
runs the tool and `tools_condition` decides whether there is one to run. Whoever runs the turn
hears each fragment by `stream_mode="messages"`. How little of that one can do with is in
`bench.peers_langgraph_lean`.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench.peers import pragmas
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from langchain_core.callbacks import CallbackManagerForLLMRun
    from langchain_core.language_models import LanguageModelInput
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.outputs import ChatResult
    from langchain_core.runnables import Runnable, RunnableConfig
    from langchain_core.tools import BaseTool

DURABILITY: Final = "sync"
"""Each step is on disk before the next one begins."""

_calls = itertools.count()


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class _Model(BaseChatModel):
    """A chat model that takes no time."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,  # noqa: ANN401 -- whatever a provider takes
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Tell it of its tools."""
        told = [convert_to_openai_tool(each) for each in tools]
        return self.bind(tools=told, tool_choice=tool_choice, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002 -- it never has to
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 -- the caller tells it
        **_kwargs: Any,  # noqa: ANN401 -- whatever it is bound to
    ) -> Iterator[ChatGenerationChunk]:
        asks = isinstance(messages[-1], HumanMessage)
        last = len(FRAGMENTS) - 1
        for number, fragment in enumerate(FRAGMENTS):
            said = AIMessageChunk(content=fragment)
            if number == last and not asks:
                said.chunk_position = "last"  # as providers do; else an empty one would follow
            yield ChatGenerationChunk(message=said)
        if asks:
            call = tool_call_chunk(
                name="add", args=json.dumps(ARGUMENTS), id=f"call_{next(_calls)}", index=0
            )
            asked = AIMessageChunk(content="", tool_call_chunks=[call], chunk_position="last")
            yield ChatGenerationChunk(message=asked)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ANN401 -- whatever it is bound to
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, run_manager, **kwargs))


class Saved:
    """A database for a graph, set as all of them are."""

    def __init__(self, path: Path) -> None:
        """Make the database."""
        # One connection for all threads: its saver has a lock for that.
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self.saver = SqliteSaver(self._connection)
        self.saver.setup()
        self._connection.execute("PRAGMA synchronous=FULL")

    def settings(self) -> str:
        """Return what its connection says of itself."""
        versions = f"langgraph {version_of('langgraph')}, langgraph-checkpoint-sqlite"
        versions += f" {version_of('langgraph-checkpoint-sqlite')}"
        return f'{versions}, durability="{DURABILITY}", {pragmas([self._connection])}'

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class LangGraph(Saved):
    """LangGraph with its SqliteSaver."""

    name = "LangGraph with SqliteSaver, as documented"

    def __init__(self, path: Path) -> None:
        """Make the graph and its database."""
        super().__init__(path)
        model = _Model().bind_tools([add])

        def call_model(state: MessagesState) -> dict[str, list[AIMessage]]:
            return {"messages": [model.invoke(state["messages"])]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", call_model)
        builder.add_node("tools", ToolNode([add]))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        self._graph = builder.compile(checkpointer=self.saver)

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a thread, as LangGraph calls it."""
        config: RunnableConfig = {"configurable": {"thread_id": conversation}}

        def turn() -> str:
            question: Any = {"messages": [{"role": "user", "content": QUESTION}]}
            stream: Any = self._graph.stream(
                question, config, stream_mode="messages", durability=DURABILITY
            )
            heard = [
                str(message.content)
                for message, metadata in stream
                if message.content and metadata["langgraph_node"] == "model"
            ]
            assert heard == [*FRAGMENTS, *FRAGMENTS], f"{len(heard)} fragments came"
            return "".join(heard[len(FRAGMENTS) :])

        return turn

    def settings(self) -> str:
        """Return what its connection says of itself."""
        how = f'langchain-core {version_of("langchain-core")}, stream_mode="messages"'
        return f"{super().settings()}, {how}"
