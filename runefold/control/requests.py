"""What a runtime does when it is asked from another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from runefold.control import wire
from runefold.observe import session_list
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from supervisors.tree_view import Node

PATIENCE: Final = 20.0
"""How many seconds a turn or a session may take to end: less than a client waits."""
MOST_LISTED: Final = 10_000


def carried_out(runtime: Runtime, request: wire.Request, process: str) -> Any:  # noqa: ANN401 -- the answer
    """Do what a process asks, and return the answer, in plain values."""
    match request:
        case wire.Ask(conversation, command, entity):
            if conversation != SYSTEM:
                runtime.session(conversation)  # or it is refused: there is no such session
            return runtime.do(conversation, command, entity, process=process, timeout=PATIENCE)
        case wire.State(conversation=conversation):
            state = runtime.session(conversation).state
            return msgspec.to_builtins(state, builtin_types=(bytes,))
        case wire.Sessions(after=after, limit=limit):
            most = max(0, min(limit, MOST_LISTED))
            found = session_list.sessions(runtime.log, after, most, runtime.kinds)
            return msgspec.to_builtins(found)
        case wire.Tree():
            return drawn(runtime.tree())
        case _:
            assert_never(request)


def drawn(node: Node) -> dict[str, Any]:
    """Return a tree of actors in plain values."""
    return {
        "id": node.id,
        "type": node.type,
        "state": node.state,
        "restarts": node.restarts,
        "children": [drawn(child) for child in node.children],
    }
