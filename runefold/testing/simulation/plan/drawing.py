"""Draws a plan from a seed: a world, and what happens in it.

Each seed leaves most kinds of things out. What is left then happens often enough to meet itself.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, get_args

from msgspec.structs import replace

from runefold.testing.simulation.plan.plans import (
    Act,
    ActKind,
    AgentPlan,
    Line,
    LineKind,
    Plan,
    Round,
    RunKind,
    ToolKind,
    ToolPlan,
    Trouble,
    Word,
    World,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    T = TypeVar("T")

ASKED: Final[tuple[ActKind, ...]] = ("approve", "approve", "answer", "deny", "answer_again")
"""What happens where a human is asked something."""
KINDS: Final[tuple[tuple[ActKind, ...], ...]] = (
    ("cut_in_tool", "cut_at_rune"),
    ("cut", "cut_at_append", "cut_in_tool", "cut_at_rune"),
    ("cut", "cut_at_append", "forget", "reopen"),
    ("no_room", "turn_away", "fail_sync", "overload"),
    ("crash", "kill", "crash_at_rune"),
    ("jump", "doze"),
    ("resend", "wait", "interrupt"),
    ("pause", "resume", "suspend", "unsuspend", "replenish"),
    ("spawn", "hand_over", "dismiss", "replenish"),
)
"""What happens in some plans, together; messages are sent in all of them."""
GAPS: Final[tuple[tuple[int, ...], ...]] = (
    (0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 200),
    (0, 0, 0, 1, 1, 2, 3, 5, 8, 13),
    (3, 5, 8, 13, 21),
    (8, 13, 21, 34, 55),
)
"""How many steps lie between two things that happen: anything, in a hurry, at leisure."""
RUNS: Final[tuple[RunKind, ...]] = (*get_args(RunKind), "slow", "slow", "talks")
TROUBLES: Final[tuple[Trouble, ...]] = get_args(Trouble)
TOOLS: Final[tuple[ToolKind, ...]] = (
    "look",
    "look",
    "blind",
    "blind",
    "keyed",
    "keyed",
    "probed",
    "probed",
    "asked",
    "asked",
    "agent",
    "hand_over",
)
APP_TOOLS: Final[tuple[ToolKind, ...]] = ("look", "blind", "keyed", "probed", "asked")
OF_APPS: Final[tuple[ActKind, ...]] = (
    *("begin", "begin", "begin", "begin", "begin_again", "command", "command"),
    *("approve", "approve", "deny", "doze", "crash_at_rune", "cut_at_rune", "cut", "jump"),
    *("pause", "resume", "crash", "reopen"),
)
"""What happens where an app's machines are played."""
LINES: Final[tuple[LineKind, ...]] = (
    "say",
    "say",
    "call",
    "call",
    "call",
    "call",
    "pause",
    "used",
)


THEMES: Final[tuple[tuple[ActKind, ...], ...]] = (
    ("cut_in_tool", "send", "send"),
    ("send", "cut_in_tool", "answer", "cut_in_tool", "send"),
    ("spawn", "hand_over", "send", "hand_over", "send"),
    ("send", "doze", "send", "doze", "wait"),
    ("send", "pause", "reopen", "resume", "send"),
    ("send", "close", "archive", "send"),
    ("overload", "send", "interrupt", "send"),
)
"""What happens in this order in some plans: each makes sense only after the one before it."""


def draw(seed: int, app: str = "") -> Plan:
    """Draw a plan; with an app, named as `package.module:name`, one that plays its machines."""
    plan = _draw(seed)
    return _PlanRandom(f"app of {seed}").with_app(plan, app) if app else plan


def _draw(seed: int) -> Plan:
    dice, more = _PlanRandom(f"plan of {seed}"), _PlanRandom(f"more of {seed}")
    world = _PlanRandom(f"grace of {seed}").graced(dice.world())
    acts = dice.acts(world)
    disorder = dice.choice((0, 5, 20, 60, 100, 100))
    return Plan(
        seed=seed,
        world=replace(
            world,
            snapshot_every=more.choice((0, 0, 1, 1, 3, 10)),
            stalls=more.choice((0, 0, 0, 5, 30)),
            asynchronous=_PlanRandom(f"event loop of {seed}").sometimes(4),
        ),
        acts=more.themed(acts) if more.sometimes(2) else acts,
        disorder=disorder,
    )


class _PlanRandom(Random):
    """Draws the parts of a plan."""

    _gaps: Sequence[int]
    """How many steps may lie between two things that happen."""

    def few(self, most: int) -> int:
        """Return a number from 0 to `most`, more often a small one."""
        return min(self.randint(0, most), self.randint(0, most))

    def sometimes(self, times: int) -> bool:
        """Come true once in so many times."""
        return self.randrange(times) == 0

    def some(self, of: Sequence[T], most: int) -> tuple[T, ...]:
        """Return a few of some things, perhaps none."""
        return tuple(self.sample(of, min(self.randint(0, most), len(of))))

    # -- the world ----------------------------------------------------------------------------

    def world(self) -> World:
        """Draw who and what there is."""
        tools = self.choice((0, 1, 1, 1, 1, 2, 2, 2, 3, 4))
        troubled, tight, hasty = self.sometimes(2), self.sometimes(4), self.sometimes(4)
        agents = [self._agent(tools, tight=tight, hasty=hasty) for _ in range(self.randint(1, 3))]
        words = [self._word(tools, troubled=troubled) for _ in range(self.randint(1, 4))]
        return World(
            agents=tuple(agents),
            tools=tuple(self._tool(hasty=hasty) for _ in range(tools)),
            words=tuple(words),
            sessions=2 if self.sometimes(4) else 1,
            mode=self.choice(("full_access",) * 12 + ("auto", "auto", "read_only")),
            tokens=self.choice((0, 60, 200)) if tight else 0,
            calls=self.choice((0, 2, 5)) if tight else 0,
            asks=self.choice((0, 0, 1)) if tight else 0,
            seconds=self.choice((0, 0, 5)) if tight else 0,
            idle_after=self.choice((60, 60, 5, 1)),
            lazy_disk=self.sometimes(2),
        )

    def graced(self, world: World) -> World:
        """Have some tools end soon once they are told to stop, by that word or by themselves."""
        if self.sometimes(2):
            return world
        tools = [
            replace(each, grace=self.choice((0, 1, 5)), deaf=self.sometimes(2))
            for each in world.tools
        ]
        return replace(world, tools=tuple(tools))

    def _agent(self, tools: int, *, tight: bool, hasty: bool) -> AgentPlan:
        return AgentPlan(
            tools=self.some(range(tools), tools) if self.sometimes(8) else tuple(range(tools)),
            retries=self.choice((3, 3, 1, 0)),
            on_crash=self.choice(("retry", "retry", "interrupt")),
            on_exhausted=self.choice(("suspend", "terminate")),
            turn_timeout=self.choice((1_800, 20, 3)) if hasty else 1_800,
            patience=self.choice((60, 5, 1)) if hasty else 60,
            tokens=self.choice((0, 50, 150)) if tight else 0,
            calls=self.choice((0, 1, 3)) if tight else 0,
            asks=self.choice((0, 0, 1)) if tight else 0,
            seconds=self.choice((0, 0, 3)) if tight else 0,
        )

    def _tool(self, *, hasty: bool) -> ToolPlan:
        return ToolPlan(
            kind=self.choice(TOOLS),
            approval=self.sometimes(5),
            parallel=self.sometimes(2),
            timeout=self.choice((120, 10, 1)) if hasty else 120,
            approval_timeout=self.choice((86_400, 30, 2)) if hasty else 86_400,
            runs=tuple(self.choice(RUNS) for _ in range(self.few(3))),
            agent=self.few(2),
        )

    def _word(self, tools: int, *, troubled: bool) -> Word:
        rounds = [
            self._round(tools, troubled=troubled) for _ in range(self.choice((0, 1, 1, 2, 2, 3)))
        ]
        return Word(rounds=tuple(rounds))

    def _round(self, tools: int, *, troubled: bool) -> Round:
        lines = [self._line(tools) for _ in range(self.choice((0, 1, 2, 2, 3, 4)))]
        if tools and self.sometimes(2):
            lines.insert(0, Line("call", self.randrange(tools)))
        troubles = []
        if troubled and self.sometimes(2):
            troubles = [(self.choice(TROUBLES), self.few(4)) for _ in range(self.randint(1, 3))]
        return Round(lines=tuple(lines), troubles=tuple(troubles))

    def _line(self, tools: int) -> Line:
        if self.sometimes(20):
            return Line(self.choice(("unknown_tool", "bad_arguments")), self.few(3))
        kind = self.choice(LINES)
        match kind:
            case "call":
                return Line(kind, self.randrange(max(tools, 1)))
            case "pause":
                return Line(kind, self.choice((1, 5, 30, 300)))
            case _:
                return Line(kind, self.few(4))

    # -- what happens -------------------------------------------------------------------------

    def acts(self, world: World) -> tuple[Act, ...]:
        """Draw what happens, in order."""
        kinds: list[ActKind] = []
        for some in self.sample(KINDS, self.choice((0, 1, 1, 2, 2, 3))):
            kinds += self.sample(some, self.randint(1, len(some)))
        if world.mode == "auto" or any(t.approval or t.kind == "asked" for t in world.tools):
            kinds += ASKED
        kinds += ["send"] * (1 + len(kinds) // 2)
        self._gaps = self.choice(GAPS)
        found = [Act("send", what=self.few(3), session=self.few(1))]
        found += [self._act(self.choice(kinds)) for _ in range(self.randint(0, 20))]
        if self.sometimes(4):
            found.insert(self.randint(1, len(found)), self._act("close"))
            if self.sometimes(4):
                found.append(self._act("archive"))
        return tuple(found)

    def themed(self, acts: Sequence[Act]) -> tuple[Act, ...]:
        """Add what happens in one order, at the beginning or somewhere in between."""
        found = [*acts]
        self._gaps = self.choice(GAPS)
        at = 0 if self.sometimes(2) else self.randint(0, len(found))
        for kind in self.choice(THEMES):
            found.insert(at, self._act(kind))
            at = self.randint(at + 1, min(at + 3, len(found)))
        return tuple(found)

    def with_app(self, plan: Plan, app: str) -> Plan:
        """Have an app's machines begun and given commands, among all that happens anyway."""
        hasty = self.sometimes(4)
        tools = tuple(
            replace(self._tool(hasty=hasty), kind=self.choice(APP_TOOLS))
            for _ in range(self.randint(1, 3))
        )
        self._gaps = self.choice(GAPS)
        acts = [*plan.acts] if self.sometimes(2) else [*plan.acts[:1]]
        for _ in range(self.randint(2, 16)):
            acts.insert(self.randint(1, len(acts)), self._wide_act(self.choice(OF_APPS)))
        world = replace(plan.world, app=app, app_tools=tools)
        return replace(plan, world=world, acts=tuple(acts))

    def _wide_act(self, kind: ActKind) -> Act:
        """Draw something of which there are many variants, all about as often."""
        act = self._act(kind)
        return replace(act, what=self.randrange(60), how=self.randrange(30))

    def _act(self, kind: ActKind) -> Act:
        return Act(
            kind,
            after=self.choice(self._gaps),
            session=self.few(1),
            who=self.randint(0, 9) if kind in {"crash", "kill"} else self.few(6),
            what=self.few(8),
            how=int(self.sometimes(6)) if kind == "send" else self.few(4),
        )
