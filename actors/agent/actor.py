"""Makes an agent happen: finds what it needs, keeps its prompt material, has its turns run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec

from actors.agent.lifecycle import (
    BecomeReady,
    Effect,
    EnsureTurn,
    Equip,
    Fail,
    Phase,
    Prepare,
    Terminate,
)
from actors.model.provider import price_of
from actors.shell import Shell
from actors.tool.planning import Planner
from actors.tool.spec import digest
from actors.tray import Tray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.agent.lifecycle import State
    from actors.agent.runes import AgentConfig
    from actors.hall import Offices
    from actors.model.provider import Provider


class Kit:
    """What the turns of an agent work with: its model, its tools, its prompt material."""

    def __init__(self, state: State, offices: Offices) -> None:
        """Look everything up; what is missing is said in `missing`."""
        self.agent_id = state.agent_id
        self.config: AgentConfig = state.config
        self.model = state.model
        self.system = state.config.instructions
        self.missing = ""
        self.tools: Sequence[dict[str, Any]] = ()
        self.provider: Provider | None = offices.models.get(state.model)
        self.price = price_of(self.provider)
        if self.provider is None:
            known = ", ".join(sorted(offices.models)) or "none"
            self.missing = f"there is no model {state.model!r} here; registered: {known}"
        gone = [name for name in state.config.tools if name not in offices.tools]
        if gone:
            known = ", ".join(sorted(tool.spec.name for tool in offices.tools)) or "none"
            self.missing = self.missing or f"there is no tool {gone[0]!r}; registered: {known}"
        self.planner = Planner(offices, state.config.tools)
        described = self.planner.described
        self.tools = offices.redactor.value(described.tools)
        self.hash = digest([self.system, described.hash])
        shown = msgspec.json.encode(self.tools) if self.tools else b""
        self.characters = len(self.system) + len(shown)
        """How long the prompt material is, as every model call of the agent has it."""


_READY: Final = frozenset({Phase.IDLE, Phase.RUNNING_TURN})
KITS: Final = Tray[Kit]()
"""By agent."""


class AgentActor(Shell):
    """An agent."""

    def on_start(self) -> None:
        """Take over, and lay out what the agent's turns work with."""
        super().on_start()
        self._kit = self.hall.trays[KITS][self.me] = Kit(self.state, self.hall.offices)

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; new prompt material is recorded before it is used."""
        ready = self.state.phase in _READY
        if ready and self._kit.hash not in self.state.materials[-1:]:
            self._equip()
        return super().on_receive(message)

    def _equip(self) -> None:
        self.catch_up()
        kit = self._kit
        self.carry_out(Equip(kit.hash, kit.system, tuple(kit.tools)))

    def perform(self, effect: Effect) -> None:
        """Do what is due."""
        match effect:
            case Prepare():
                missing = self._kit.missing
                self.carry_out(Fail(missing) if missing else BecomeReady())
                if not missing:
                    self._equip()
            case EnsureTurn(turn_id):
                self.hall.children.ensure("turn", turn_id, self.me)
            case Terminate():
                pass  # internal
            case _:
                assert_never(effect)
