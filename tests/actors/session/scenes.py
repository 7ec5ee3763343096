"""Scenes that the stories about sessions begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.agent.lifecycle import BecomeReady
from actors.session import members, queue
from actors.turn import runes as turns
from runelog.rune import kind_of
from tests.actors.session.world import ROOT, World

if TYPE_CHECKING:
    from actors.agent.runes import AgentConfig
    from actors.session.runes import Mode, SessionConfig

CHILD = "agt_child"


def ready(config: SessionConfig | None = None, root: AgentConfig | None = None) -> World:
    """Return a conversation whose root agent is ready."""
    world = World(config, root)
    world.tell(ROOT, BecomeReady())
    return world


def send(
    world: World, message_id: str, mode: Mode = "queue", to: str = "", asked_in: str = ""
) -> list[str]:
    """Send a message and return the kinds of the runes it led to."""
    content = f"about {message_id}"
    command = queue.Accept(message_id, content, world.now, mode=mode, to=to, asked_in=asked_in)
    return [kind_of(rune) for rune in world.tell("session", command)]


def spawn(world: World, agent_id: str = CHILD, parent: str | None = ROOT) -> None:
    """Spawn a child and let it become ready."""
    world.tell("session", members.Spawn(agent_id, "clerk", "echo", parent))
    world.tell(agent_id, BecomeReady())


def inputs(world: World) -> list[str]:
    """Return the messages that became turns, in the order in which they did."""
    return [rune.message_id for rune in world.log if isinstance(rune, turns.Started)]
