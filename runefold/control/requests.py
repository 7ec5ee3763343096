"""What a runtime does when it is asked from another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

from actors.public_command import CommandTarget
from actors.scheduling.edge import run
from actors.session.lifecycle import Create
from actors.session.members import Spawn, Update
from actors.session.messages import Sent
from runefold.control import wire
from runefold.core import core_of
from runelog.errors import Refused
from runelog.rune import SYSTEM, check_id

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from supervisors.tree_view import Node

PATIENCE: Final = 20.0
"""How many seconds a turn or a session may take to end: less than a client waits."""


def carried_out(runtime: Runtime, request: wire.Request, process: str) -> Any:  # noqa: ANN401 -- the answer
    """Do what a process asks, and return the answer, in plain values."""
    match request:
        case wire.Ask(conversation, command, entity, order):
            if conversation != SYSTEM:
                runtime.session(conversation)  # or it is refused: there is no such session
            if order is None:
                return runtime.do(conversation, command, entity, process=process, timeout=PATIENCE)
            kind, entity = runtime.commands.address(command, entity)
            core = core_of(runtime)
            target = CommandTarget(core, kind, conversation, entity, process, PATIENCE)
            return run(target.order(command, order))
        case wire.Tell(conversation=conversation, message=message):
            return _told(runtime, conversation, message)
        case wire.Tree():
            return drawn(runtime.tree())
        case _:
            assert_never(request)


def _told(runtime: Runtime, conversation: str, message: object) -> Any:  # noqa: ANN401 -- as above
    """Send a message as it is, once it is known to be one that this runtime can work with."""
    core = core_of(runtime)
    # Ids are kept as they are: one that holds a secret of this app's is none.
    message = core.redactor.value(message)
    match message:
        case Create(name, root, team=team):
            check_id(name, "conversation id")
            if SYSTEM in {name, conversation} or name != conversation:
                msg = f"{conversation} cannot be begun as {name}"
                raise Refused(msg)
            spawned = [root, *team]
        case Spawn():
            spawned = [message]
        case Update(agents):
            spawned = [*agents]
        case _:
            spawned = []
    for each in spawned:
        core.check_known(each.model, each.config.tools)
    if not isinstance(message, Create):
        runtime.session(conversation)
    match run(core.ask(conversation, message, PATIENCE)):
        case Sent(message_id, before):
            return {"message_id": message_id, "before": before}
        case list() as stopped:
            return stopped
        case _:
            return None


def drawn(node: Node) -> dict[str, Any]:
    """Return a tree of actors in plain values."""
    return {
        "id": node.id,
        "type": node.type,
        "state": node.state,
        "restarts": node.restarts,
        "children": [drawn(child) for child in node.children],
    }
