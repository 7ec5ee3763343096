"""Makes an agent happen: finds what it needs, keeps its prompt material, has its turns run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

import msgspec
from msgspec.structs import replace

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
from actors.clock import SECOND
from actors.model.provider import price_of
from actors.shell import Shell
from actors.tool import runes as tool
from actors.tool.outcome import MAX_ERROR_BYTES, in_words
from actors.tool.output import clip, plain
from actors.tool.policy import Verdict, judge
from actors.tool.spec import digest
from actors.tool.toolbox import BadArguments, Fits, Toolbox, UnknownTool
from actors.tray import Tray

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.agent.lifecycle import State
    from actors.agent.runes import AgentConfig
    from actors.hall import Offices
    from actors.model.provider import Provider
    from actors.model.runes import AskedCall
    from actors.tool.spec import ToolSpec


Ruling: TypeAlias = tuple[tool.Rule, bool]
"""What is to become of a call, and whether it waits for the others."""


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
        self._policy = offices.policy
        there = [name for name in state.config.tools if name in offices.tools]
        gone = [name for name in state.config.tools if name not in offices.tools]
        if gone:
            known = ", ".join(sorted(tool.spec.name for tool in offices.tools)) or "none"
            self.missing = self.missing or f"there is no tool {gone[0]!r}; registered: {known}"
        self._rulings: dict[str, tuple[ToolSpec, Ruling]] = {}
        """By tool: what rules say of a call is the same whatever its arguments are."""
        self._toolbox = Toolbox(offices.tools.get(name) for name in there)
        self._redactor = offices.redactor
        described = self._toolbox.describe()
        self.tools = self._redactor.value(described.tools)
        self.tools_hash = described.hash
        self.hash = digest([self.system, described.hash])
        shown = msgspec.json.encode(self.tools) if self.tools else b""
        self.characters = len(self.system) + len(shown)
        """How long the prompt material is, as every model call of the agent has it."""

    @property
    def judged_by_hand(self) -> bool:
        """Whether a function of the app's says what may be called: that may take its time."""
        return self._policy.function is not None

    def rules(self, asked: Sequence[AskedCall]) -> tuple[Ruling, ...]:
        """Say of each call what is to become of it. Of use on any thread."""
        return tuple(self._rule(call) for call in asked)

    def plans(
        self,
        asked: Sequence[AskedCall],
        rules: Sequence[Ruling],
        turn_id: str,
        now: int,
    ) -> tuple[tool.Called, ...]:
        """Return the birth of each call, with everything that its law must know of its tool."""
        plans: list[tool.Called] = []
        for call, (rule, hold) in zip(asked, rules, strict=True):
            plans.append(
                tool.Called(
                    call_id=call.call_id,
                    tool_name=call.tool_name,
                    arguments=call.arguments,
                    turn_id=turn_id,
                    agent_id=self.agent_id,
                    rule=rule,
                    at=now,
                    hold=hold,
                    raw=call.raw,
                )
            )
        return tuple(plans)

    def _rule(self, call: AskedCall) -> Ruling:
        checked = self._toolbox.check(call.tool_name, call.raw or call.arguments)
        match checked:
            case UnknownTool(message):
                return tool.Rule("unknown_tool", message, tools_hash=self.tools_hash), False
            case BadArguments(message):
                return tool.Rule("bad_arguments", message, tools_hash=self.tools_hash), False
            case Fits(found, arguments):
                known = self._rulings.get(call.tool_name)
                if known is None or known[0] is not found.spec or self.judged_by_hand:
                    known = found.spec, self._ruling(found.spec, arguments)
                    self._rulings[call.tool_name] = known
                return known[1]
            case _:
                assert_never(checked)

    def _ruling(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> Ruling:
        verdict = self._judged(spec, arguments)
        assert spec.in_doubt is not None
        rule = tool.Rule(
            verdict=verdict.verdict,
            reason=verdict.reason,
            rules_hash=verdict.rules_hash,
            tools_hash=self.tools_hash,
            in_doubt=spec.in_doubt,
            idempotent=spec.idempotent or not spec.side_effects,
            timeout=round(spec.timeout * SECOND),
            approval_timeout=round(spec.approval_timeout * SECOND),
            grace=round(spec.grace * SECOND),
            sub_call=spec.sub_call,
            network=spec.network,
            side_effects=spec.side_effects,
            requires_approval=spec.requires_approval,
        )
        return rule, not spec.parallel_safe

    def _judged(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> Verdict:
        try:
            verdict = judge(self._policy, spec, arguments)
        except BaseException as error:  # noqa: BLE001 -- a policy may be anybody's function
            # What nobody could judge is not let through.
            reason = f"the policy failed: {in_words(error)}"
            verdict = Verdict("deny", reason, self._policy.hash)
        # Cut last: half of a secret would not be known for one.
        reason = clip(self._redactor.text(plain(verdict.reason)), MAX_ERROR_BYTES)[0]
        return replace(verdict, reason=reason)


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
