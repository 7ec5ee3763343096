"""LangGraph with less than its documentation teaches: messages are dicts, put behind each other.

No chat model and no `ToolNode`: two functions are the whole graph. `LangGraphDicts` streams: each
fragment goes through LangGraph's own stream writer to whoever runs the turn. `LangGraphJoined`
leaves that out too: its model gathers the fragments by itself, and nobody hears one before the step
is over.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph

from bench.peers_langgraph import DURABILITY, Saved
from bench.scene import ARGUMENTS, FRAGMENTS, QUESTION, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from langchain_core.runnables import RunnableConfig


class _Talk(TypedDict):
    messages: Annotated[list[dict[str, Any]], operator.add]


def _said(state: _Talk, content: str) -> _Talk:
    said: dict[str, Any] = {"role": "assistant", "content": content}
    if state["messages"][-1]["role"] == "user":
        said["call"] = {"name": "add", "arguments": ARGUMENTS}
    return {"messages": [said]}


def _streaming(state: _Talk) -> _Talk:
    write = get_stream_writer()
    said = []
    for fragment in FRAGMENTS:
        write(fragment)
        said.append(fragment)
    return _said(state, "".join(said))


def _joined(state: _Talk) -> _Talk:
    return _said(state, read(FRAGMENTS))


def _tool(state: _Talk) -> _Talk:
    arguments = state["messages"][-1]["call"]["arguments"]
    return {"messages": [{"role": "tool", "content": arguments["a"] + arguments["b"]}]}


def _after_model(state: _Talk) -> str:
    return "tool" if "call" in state["messages"][-1] else END


class LangGraphDicts(Saved):
    """LangGraph with its SqliteSaver, its messages dicts."""

    name = "LangGraph with SqliteSaver, lean: dicts"
    _model = staticmethod(_streaming)

    def __init__(self, path: Path) -> None:
        """Make the graph and its database."""
        super().__init__(path)
        builder = StateGraph(_Talk)
        builder.add_node("model", self._model)
        builder.add_node("tool", _tool)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", _after_model, ["tool", END])
        builder.add_edge("tool", "model")
        self._graph = builder.compile(checkpointer=self.saver)

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a thread, as LangGraph calls it."""
        config: RunnableConfig = {"configurable": {"thread_id": conversation}}

        def turn() -> str:
            question: _Talk = {"messages": [{"role": "user", "content": QUESTION}]}
            heard: list[str] = []
            last: Any = None
            for mode, found in self._graph.stream(
                question, config, stream_mode=["custom", "values"], durability=DURABILITY
            ):
                if mode == "custom":
                    heard.append(str(found))
                else:
                    last = found
            assert len(heard) == 2 * len(FRAGMENTS), f"{len(heard)} fragments came"
            return str(last["messages"][-1]["content"])

        return turn


class LangGraphJoined(LangGraphDicts):
    """The same, but for the fragments: nobody hears them."""

    name = "LangGraph with SqliteSaver, lean: dicts, fragments not streamed"
    _model = staticmethod(_joined)

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a thread, as LangGraph calls it."""
        config: RunnableConfig = {"configurable": {"thread_id": conversation}}

        def turn() -> str:
            question: _Talk = {"messages": [{"role": "user", "content": QUESTION}]}
            found = self._graph.invoke(question, config, durability=DURABILITY)
            return str(found["messages"][-1]["content"])

        return turn
