"""An agent, as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from actors.agent import runes
from actors.agent.actor import AgentActor
from actors.agent.lifecycle import ENTITY
from actors.agent.requests import COMMANDS
from actors.kind import Kind

KIND: Final = Kind.of(
    ENTITY,
    prefix="agt",
    parents=("session",),
    in_table=False,  # the session's law knows it
    runes=(runes.Spawning, runes.Ready, runes.Failed, runes.Terminated, runes.Equipped),
    actor=AgentActor,
    commands=COMMANDS,
    stuck={"spawning": 60.0},
)
