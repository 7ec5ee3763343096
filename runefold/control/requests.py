"""What a runtime does when it is asked from another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from runefold.control import wire
from runefold.observe import session_list

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from supervisors.drawing import Node

PATIENCE: Final = 20.0
"""How many seconds a turn or a session may take to end: less than whoever asks waits."""
MOST_LISTED: Final = 10_000


def carried_out(runtime: Runtime, request: wire.AnyRequest, process: str) -> Any:  # noqa: ANN401 -- the answer
    """Do what a process asks, and return the answer, in plain values."""
    match request:
        case wire.Sessions(after=after, limit=limit):
            most = max(0, min(limit, MOST_LISTED))
            return msgspec.to_builtins(session_list.sessions(runtime.log, after, most))
        case wire.Tree():
            return drawn(runtime.tree())
        case wire.Approve() | wire.Deny() | wire.Answer():
            return _said(runtime, request, process)
        case wire.Send() | wire.Interrupt() | wire.State():
            return _talked(runtime, request)
        case wire.Pause() | wire.Resume() | wire.Unsuspend() | wire.Replenish() | wire.Close():
            return _steered(runtime, request)
        case _:
            assert_never(request)


def _talked(runtime: Runtime, request: wire.Send | wire.Interrupt | wire.State) -> Any:  # noqa: ANN401 -- as above
    session = runtime.session(request.session)
    match request:
        case wire.Send(content=content, mode=mode, to=to, message_id=message_id):
            turn = session.send(content, mode=mode, to=to, message_id=message_id)
            return {"message_id": turn.message_id, "turn_id": turn.id}
        case wire.Interrupt(reason=reason):
            return session.interrupt(reason, timeout=PATIENCE)
        case wire.State():
            return msgspec.to_builtins(session.state, builtin_types=(bytes,))
        case _:
            assert_never(request)


def _said(runtime: Runtime, request: wire.Approve | wire.Deny | wire.Answer, process: str) -> None:
    session = runtime.session(request.session)
    match request:
        case wire.Approve(call=call, approver=approver):
            session.approve(call, approver=approver, process=process)
        case wire.Deny(call=call, approver=approver, reason=reason):
            session.deny(call, approver=approver, reason=reason, process=process)
        case wire.Answer(call=call, verdict=verdict, approver=approver, output=output):
            session.answer(call, verdict, approver=approver, output=output, process=process)
        case _:
            assert_never(request)


def _steered(
    runtime: Runtime,
    request: wire.Pause | wire.Resume | wire.Unsuspend | wire.Replenish | wire.Close,
) -> None:
    session = runtime.session(request.session)
    match request:
        case wire.Pause(reason=reason, finish=finish):
            session.pause(reason, finish=finish)
        case wire.Resume():
            session.resume()
        case wire.Unsuspend(reason=reason):
            session.unsuspend(reason)
        case wire.Replenish():
            session.replenish(
                agent=request.agent,
                tokens=request.tokens,
                tool_calls=request.tool_calls,
                wall_seconds=request.wall_seconds,
                retries=request.retries,
                sub_calls=request.sub_calls,
                cost=request.cost,
            )
        case wire.Close(reason=reason):
            session.close(reason, timeout=PATIENCE)
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
