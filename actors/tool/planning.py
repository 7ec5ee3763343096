"""What is to become of tool calls before they are made: looked up, checked, judged by the policy.

One planner serves whichever entity calls: an agent's turns with the agent's own tools, other
machines with all that are registered.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, assert_never

from msgspec.structs import replace

from actors.tool import runes as tool
from actors.tool.context import Call
from actors.tool.outcome import MAX_ERROR_BYTES
from actors.tool.output import clip, plain
from actors.tool.policy import judged
from actors.tool.toolbox import BadArguments, Fits, Toolbox, UnknownTool
from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from actors.model.runes import AskedCall
    from actors.shell.conversation import Services
    from actors.tool.spec import Tool, ToolSpec

Ruling: TypeAlias = tuple[tool.Rule, bool]
"""What is to become of a call, and whether it waits for the others."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Caller(NamedTuple):
    """What calls a tool: an entity, and the agent that it works for, if it does."""

    entity: str
    agent: str = ""
    account: str = ""
    """The account that the calls are charged to, if that is not the agent's."""


class Planner:
    """Judges the calls of one caller."""

    def __init__(
        self, services: Services, names: Iterable[str] | None = None, more: Sequence[Tool] = ()
    ) -> None:
        """Know the tools of these names, of those that are registered; all of them if None.

        `more` are tools that only this caller has in this form.
        """
        tools = services.tools
        known = tools if names is None else [tools.get(name) for name in names if name in tools]
        own = {each.spec.name for each in more}
        kept = [each for each in known if each is not None and each.spec.name not in own]
        self._toolbox = Toolbox([*more, *kept])
        self._policy = services.policy
        self._redactor = services.redactor
        self._rulings: dict[str, tuple[ToolSpec, Ruling]] = {}
        """By tool: what rules say of a call is the same whatever its arguments are."""
        self.described = self._toolbox.describe()
        """What a model is told of the tools."""
        self.tools_hash = self.described.hash

    @property
    def judged_by_hand(self) -> bool:
        """Whether a function of the app's says what may be called: that may take its time."""
        return self._policy.function is not None

    def rules(
        self, asked: Sequence[AskedCall], around: Mapping[str, Any] = _NOTHING
    ) -> tuple[Ruling, ...]:
        """Say of each call what is to become of it. Of use on any thread.

        `around` is what a policy that is judged by hand is told beside the call.
        """
        return tuple(self._rule(call, around) for call in asked)

    def plans(
        self,
        asked: Sequence[AskedCall],
        rules: Sequence[Ruling],
        caller: Caller,
        now: int,
    ) -> tuple[tool.Called, ...]:
        """Return the birth of each call, with everything that its law must know of its tool."""
        return tuple(
            tool.Called(
                call_id=call.call_id,
                tool_name=call.tool_name,
                arguments=call.arguments,
                caller=caller.entity,
                agent_id=caller.agent,
                account=caller.account or caller.agent,
                rule=rule,
                at=now,
                hold=hold,
                raw=call.raw,
            )
            for call, (rule, hold) in zip(asked, rules, strict=True)
        )

    def _rule(self, call: AskedCall, around: Mapping[str, Any]) -> Ruling:
        checked = self._toolbox.check(call.tool_name, call.raw or call.arguments)
        match checked:
            case UnknownTool(message):
                return tool.Rule("unknown_tool", message, tools_hash=self.tools_hash), False
            case BadArguments(message):
                return tool.Rule("bad_arguments", message, tools_hash=self.tools_hash), False
            case Fits(found, arguments):
                known = self._rulings.get(call.tool_name)
                if known is None or known[0] is not found.spec or self.judged_by_hand:
                    whole = Call(call_id=call.call_id, arguments=arguments, **around)
                    known = found.spec, self._ruling(found.spec, whole)
                    self._rulings[call.tool_name] = known
                return known[1]
            case _:
                assert_never(checked)

    def _ruling(self, spec: ToolSpec, call: Call) -> Ruling:
        verdict = judged(self._policy, spec, call.arguments, call.context())
        # Cut last: half of a secret would not be known for one.
        reason = clip(self._redactor.text(plain(verdict.reason)), MAX_ERROR_BYTES)[0]
        verdict = replace(verdict, reason=reason)
        assert spec.on_doubt is not None
        rule = tool.Rule(
            verdict=verdict.verdict,
            reason=verdict.reason,
            rules_hash=verdict.rules_hash,
            frames=verdict.frames,
            tools_hash=self.tools_hash,
            in_doubt=spec.on_doubt,
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
