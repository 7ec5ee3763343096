"""Tools that really do something, which is counted, and that go wrong as the plan says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.tool.adapters.function import FunctionTool
from actors.tool.context import progress, stop_if_cancelled
from actors.tool.outcome import Happened
from runefold.agents import AgentTool, HandOver
from runefold.spec import AgentSpec, Budget
from runefold.testing.simulation.world.models import KEY, MARK, TELLING, ModelContext, tool_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.tool.context import Call
    from actors.tool.outcome import Outcome
    from actors.tool.spec import Tool, ToolSpec
    from runefold.testing.simulation.plan.plans import AgentPlan, RunKind, ToolPlan, World
    from runefold.testing.simulation.simulation_scheduler import SimulationScheduler

MODEL: Final = "model"
SLOWLY: Final = 12
"""How many steps others take while a slow tool runs, before its effect and after it."""


class ToolContext(ModelContext, Protocol):
    """What tools need of the world they are in."""

    scheduler: SimulationScheduler

    def cut_power_if_planned(self, when: str) -> None:
        """Have the power fail here if that is the plan."""
        ...


class Hang(BaseException):
    """A run that never returns: its caller waits until its own time limit."""


class PlannedTool:
    """A tool of the plan. It is a function, as most tools are."""

    def __init__(self, number: int, plan: ToolPlan, context: ToolContext) -> None:
        """Make it."""
        self._plan = plan
        self._context = context
        self._name = tool_name(number)
        self._kind: RunKind = "fine"
        """How the run goes that is about to begin."""
        options: dict[str, Any] = {}
        match plan.kind:
            case "look":
                options["side_effects"] = False
            case "keyed":
                options["idempotent"] = True
            case "probed":
                options |= {"on_doubt": "probe", "probe": self._probe}
            case "asked":
                options["on_doubt"] = "ask"
            case _:
                pass
        function: FunctionTool[..., str] = FunctionTool(
            self._do,
            name=self._name,
            description="It does something.",
            call_id="call_id",
            parallel_safe=plan.parallel or None,
            requires_approval=plan.approval,
            timeout=max(plan.timeout, 1),
            approval_timeout=max(plan.approval_timeout, 1),
            **options,
        )
        self._tool = function
        self._spec = replace(function.spec, grace=max(plan.grace, 0))

    @property
    def spec(self) -> ToolSpec:
        """What is declared of it."""
        return self._spec

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as it takes them."""
        return self._tool.fit(arguments)

    def run(self, call: Call) -> Outcome:
        """Run it, or never come back."""
        kind = self._next()
        self._kind = kind
        self._context.checker.tool_runs(call.conversation, call.call_id)
        with self._context.checker.at_work(call, safe=bool(self.spec.parallel_safe)):
            outcome = self._tool.run(call)
        if kind in {"hangs", "hangs_after"} and outcome.status == "error":
            raise Hang
        if outcome.status == "success":
            self._context.truth.returned.setdefault(call.call_id, []).append(
                str(outcome.output).replace(KEY, MARK)
            )
            self._context.truth.done.add(call.call_id)
        return outcome

    def _next(self) -> RunKind:
        count = self._context.truth.runs[self._name]
        self._context.truth.runs[self._name] += 1
        runs = self._plan.runs
        return "fine" if self._context.is_calm() or not runs else runs[count % len(runs)]

    def _do(self, n: int, call_id: str) -> str:
        """Do something."""
        kind, scheduler = self._kind, self._context.scheduler
        if kind == "slow":
            scheduler.linger(SLOWLY)
            if not self._plan.deaf:
                stop_if_cancelled()
        elif kind == "late":
            scheduler.pause(self._plan.timeout + 1)
        elif kind == "talks":
            progress("beginning")
            progress("nearly there")
        if kind in {"raises", "hangs"}:
            msg = "it does not work"
            raise ValueError(msg)
        self._context.cut_power_if_planned("before")
        harmless = self._plan.kind in {"look", "keyed"}
        self._context.checker.took_effect(call_id, repeatable=harmless)
        self._context.cut_power_if_planned("after")
        if kind == "slow":
            scheduler.linger(SLOWLY)
        if kind in {"raises_after", "hangs_after"}:
            msg = "it did work, and then it did not"
            raise ValueError(msg)
        return f"{n} done with {KEY}" if n == TELLING else f"{n} done"

    def _probe(self, call_id: str, _arguments: Mapping[str, Any]) -> Happened | None:
        if not self._context.truth.effects[call_id]:
            return None
        output = "it has happened"
        self._context.truth.returned.setdefault(call_id, []).append(output)
        return Happened(output)


def tools(world: World, context: ToolContext, without: int | None = None) -> list[Tool]:
    """Make the tools of a world, all but one if that was forgotten."""
    found: list[Tool] = []
    for number, plan in enumerate(world.tools):
        name = tool_name(number)
        if without is not None and number == without % len(world.tools):
            continue
        if plan.kind == "agent":
            spec = agent(world, plan.agent, without)
            found.append(AgentTool(name, spec, "Ask.", timeout=max(plan.timeout, 1)))
        elif plan.kind == "hand_over":
            found.append(HandOver(name))
        else:
            found.append(PlannedTool(number, plan, context))
    return found


def agent(world: World, number: int, without: int | None = None) -> AgentSpec:
    """Describe the agent with this number."""
    plan = world.agents[number % len(world.agents)] if world.agents else None
    if plan is None:
        return AgentSpec(role="anybody", model=MODEL)
    return AgentSpec(
        role=f"agent {number % len(world.agents)}",
        model=MODEL,
        instructions="Be good.",
        tools=_names(world, plan, without),
        budget=budget(plan),
        on_exhausted=plan.on_exhausted,
        on_crash=plan.on_crash,
        retries=max(plan.retries, 0),
        turn_timeout=max(plan.turn_timeout, 1),
        first_byte_timeout=max(plan.patience, 1),
        silence_timeout=max(plan.patience, 1),
        max_output_tokens=20,
    )


def _names(world: World, plan: AgentPlan, without: int | None) -> list[str]:
    count = len(world.tools)
    if not count:
        return []
    gone = None if without is None else without % count
    return [tool_name(n) for n in dict.fromkeys(at % count for at in plan.tools) if n != gone]


def budget(plan: AgentPlan | World) -> Budget:
    """Return what may be spent; nought is without limit."""
    return Budget(
        tokens=plan.tokens if plan.tokens > 0 else None,
        tool_calls=plan.calls if plan.calls > 0 else None,
        sub_calls=plan.asks if plan.asks > 0 else None,
        wall_seconds=plan.seconds if plan.seconds > 0 else None,
    )
