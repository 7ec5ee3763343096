"""Makes an agent happen: finds what it needs, keeps its prompt material, has its turns run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.agent.lifecycle import (
    BecomeReady,
    Equip,
    Fail,
    Phase,
    Prepare,
    has_material,
)
from actors.agent.runes import ASK, HAND_OVER
from actors.model.provider import price_of
from actors.operator_log import log
from actors.shell.shared_caches import SharedCache
from actors.shell.shell import Shell
from actors.tool.planning import Planner
from actors.tool.spec import TeamTool, digest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.agent.lifecycle import State
    from actors.agent.runes import AgentConfig
    from actors.model.provider import Provider
    from actors.shell.conversation import Services
    from actors.tool.spec import Tool
    from runelog.rune import Rune


class AgentToolset:
    """What the turns of an agent work with: its model, its tools, its prompt material."""

    def __init__(self, state: State, services: Services) -> None:
        """Look everything up; what is missing is said in `missing`."""
        self.agent_id = state.agent_id
        self.config: AgentConfig = state.config
        self.model = state.model
        self.system = state.config.instructions
        self.missing = ""
        self.tools: Sequence[dict[str, Any]] = ()
        self.provider: Provider | None = services.models.get(state.model)
        self.price = price_of(self.provider)
        if self.provider is None:
            known = ", ".join(sorted(services.models)) or "none"
            self.missing = f"there is no model {state.model!r} here; registered: {known}"
        gone = [name for name in state.config.tools if name not in services.tools]
        if gone:
            known = ", ".join(sorted(tool.spec.name for tool in services.tools)) or "none"
            self.missing = self.missing or f"there is no tool {gone[0]!r}; registered: {known}"
        self.planner = Planner(services, state.config.tools, self._team_tools(services))
        described = self.planner.described
        self.tools = services.redactor.value(described.tools)
        self.hash = digest([self.system, described.hash])
        shown = msgspec.json.encode(self.tools) if self.tools else b""
        self.characters = len(self.system) + len(shown)
        """How long the prompt material is, as every model call of the agent has it."""

    def _team_tools(self, services: Services) -> list[Tool]:
        """Return the tools by which it reaches those agents that it may reach, and no others."""
        wanted = {ASK: self.config.asks, HAND_OVER: self.config.hands_over_to}
        found = {name: services.tools.get(name) for name, names in wanted.items() if names}
        return [
            tool.narrowed(wanted[name])
            for name, tool in found.items()
            if isinstance(tool, TeamTool)
        ]


_READY: Final = frozenset({Phase.IDLE, Phase.RUNNING_TURN})
TOOLSETS: Final = SharedCache[AgentToolset]()
"""By agent."""


class AgentActor(Shell):
    """An agent."""

    def on_start(self) -> None:
        """Take over, and lay out what the agent's turns work with."""
        super().on_start()
        self._lay_out()

    def on_folded(self, rune: Rune) -> None:
        """Work with what it was updated to: at once, or as soon as its turn has ended."""
        del rune
        now, toolset = self.state, self.ctx.caches[TOOLSETS].get(self.me)
        if toolset is None:
            return
        if now.config is not toolset.config or now.model != toolset.model:
            self._lay_out()
            # New prompt material is recorded before its next turn asks by it.
            self.wake()

    def _lay_out(self) -> None:
        toolset = AgentToolset(self.state, self.ctx.services)
        self._toolset = self.ctx.caches[TOOLSETS][self.me] = toolset
        if toolset.missing and self.state.phase in _READY:
            log.warning("agent lacks what it needs", agent=self.me, missing=toolset.missing)

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; new prompt material is recorded before it is used."""
        ready = self.state.phase in _READY
        if ready and not has_material(self.state, self._toolset.hash):
            self._equip()
        return super().on_receive(message)

    def _equip(self) -> None:
        toolset = self._toolset
        self.carry_out(Equip(toolset.hash, toolset.system, tuple(toolset.tools)))

    def perform(self, effect: Prepare) -> None:
        """Make the agent ready, or record what is missing."""
        assert isinstance(effect, Prepare)
        missing = self._toolset.missing
        self.carry_out(Fail(missing) if missing else BecomeReady())
        if not missing:
            self._equip()
