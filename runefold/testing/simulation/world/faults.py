"""Faults of the machine and of actors: power cuts, disks, crashes, clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from runefold.testing.simulation import actor_states
from runefold.testing.simulation.world.users import SimulationContext, name_of
from runefold.testing.stage import PowerCut
from runelog.rune import SYSTEM, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from runefold.testing.simulation.plan.plans import Act
    from runefold.testing.simulation.simulation_scheduler import SimClock
    from runelog.rune import Envelope


MOMENTS: Final = (
    "tool.started",
    "tool.started",
    "model.called",
    "tool.approved",
    "tool.result",
    "tool.approval_requested",
    "turn.tool_calls_received",
    "tool.doubted",
    "tool.retried",
    "model.completed",
    "turn.started",
    "session.closing",
    "agent.spawning",
    "model.failed",
)
"""Runes at which something goes wrong as soon as they are on disk."""
OF_APPS: Final = (
    *("child.started", "child.ended", "request.sent", "request.answered"),
    *("approval.awaiting", "approval.approved"),
)
"""More of them, where an app's machines are played."""


class FaultContext(SimulationContext, Protocol):
    """What faults need of the world they happen in."""

    clock: SimClock
    reopens: bool
    """Whether the runtime was closed and is to be opened again."""
    set_back: int
    """By how many seconds the clock was set back, all in all."""


class FaultInjector:
    """Injects every fault that is not an answer of a model or a tool."""

    def __init__(self, context: FaultContext) -> None:
        """Begin with nothing wrong."""
        self._context = context
        self._cut_in_tool: tuple[int, str] | None = None
        self._at_rune: dict[str, str] = {}
        """What strikes as soon as a rune of some kind is on disk."""
        self._doings: dict[str, Callable[[Act], str]] = {
            "cut": self._cut,
            "cut_at_append": self._cut_at_append,
            "cut_in_tool": self._cut_tool,
            "cut_at_rune": self._cut_at_rune,
            "crash_at_rune": self._crash_at_rune,
            "no_room": self._no_room,
            "turn_away": self._turn_away,
            "fail_sync": self._fail_sync,
            "overload": self._overload,
            "crash": self._crash,
            "kill": self._kill,
            "jump": self._jump,
            "doze": self._doze,
            "forget": self._forget,
            "reopen": self._reopen,
        }

    def can(self, kind: str) -> bool:
        """Return True if acts of this kind are faults."""
        return kind in self._doings

    def do(self, act: Act) -> str:
        """Inject a fault; return what it is, for the story."""
        return self._doings[act.kind](act)

    # -- power --------------------------------------------------------------------------------

    def _cut(self, _act: Act) -> str:
        disk = self._context.disk
        lost = "nothing is lost" if disk.is_settled else "what is not on disk is lost"
        disk.is_cut = True
        return f"POWER CUT: {lost}"

    def _cut_at_append(self, act: Act) -> str:
        disk = self._context.disk
        disk.cut_in = 1 + act.what % 12
        disk.cut_after = act.how % 2 == 1
        when = "just after" if disk.cut_after else "just before"
        return f"the power will fail {when} the append {disk.cut_in} from now"

    def _cut_tool(self, act: Act) -> str:
        when = "after" if act.how % 2 else "before"
        self._cut_in_tool = (1 + act.what // 4, when)
        return f"the power will fail {when} the effect {1 + act.what // 4} from now"

    def _cut_at_rune(self, act: Act) -> str:
        kind = self._moment(act)
        self._at_rune[kind] = "cut"
        return f"the power will fail as soon as the next {kind} is on disk"

    def _crash_at_rune(self, act: Act) -> str:
        kind = self._moment(act)
        self._at_rune[kind] = "kill" if act.how % 3 == 2 else "crash"
        return f"whose the next {kind} is will {self._at_rune[kind]} once it is on disk"

    def _moment(self, act: Act) -> str:
        """Return one of the runes at which something goes wrong, an app's among them."""
        own = [kind_of(rune) for kind in self._context.app.kinds for rune in kind.runes]
        moments = (*MOMENTS, *own, *OF_APPS) if own else MOMENTS
        return moments[act.what % len(moments)]

    def written(self, envelope: Envelope) -> None:
        """Have something go wrong now that a rune is on disk, if that is the plan."""
        match self._at_rune.pop(envelope.kind, ""):
            case "cut":
                self._context.disk.is_cut = True
            case "crash":
                for one in self._owner(envelope):
                    one.shell.tell(actor_states.Poison())
            case "kill":
                for one in self._owner(envelope):
                    one.shell.ref.kill()

    def _owner(self, envelope: Envelope) -> list[actor_states.Live]:
        alive = actor_states.living(self._context.runtime, envelope.conversation)
        return [one for one in alive if one.entity == envelope.owner]

    def effect(self, when: str) -> None:
        """Have the power fail in a tool, if that is the plan."""
        if self._cut_in_tool is None or self._cut_in_tool[1] != when:
            return
        left = self._cut_in_tool[0] - 1
        self._cut_in_tool = (left, when) if left else None
        if not left:
            self._context.disk.is_cut = True
            raise PowerCut

    # -- the disk -----------------------------------------------------------------------------

    def _no_room(self, act: Act) -> str:
        self._context.disk.no_room_for = 1 + act.what % 10
        return f"the disk has no room for the next {1 + act.what % 10} appends"

    def _turn_away(self, _act: Act) -> str:
        self._context.disk.turns_away = True
        return "the next commit will find no room for what was taken already"

    def _fail_sync(self, act: Act) -> str:
        disk = self._context.disk
        disk.fails, disk.fails_late = True, act.how % 2 == 1
        return "the next commit fails, " + ("and is there" if disk.fails_late else "and is not")

    # -- actors and clocks --------------------------------------------------------------------

    def _overload(self, act: Act) -> str:
        self._context.scheduler.refuses = 1 + act.what % 3
        return f"there is no thread for the next {1 + act.what % 3} streams or tools"

    def _crash(self, act: Act) -> str:
        alive = self._alive(act)
        if not alive:
            return "nobody there to crash"
        one = alive[act.who % len(alive)]
        one.shell.tell(actor_states.Poison())
        return f"{one.entity} of {one.conversation} will crash"

    def _kill(self, act: Act) -> str:
        alive = self._alive(act)
        if not alive:
            return "nobody there to kill"
        one = alive[act.who % len(alive)]
        one.shell.ref.kill()
        return f"{one.entity} of {one.conversation} is killed"

    def _alive(self, act: Act) -> list[actor_states.Live]:
        of_system = self._context.app.kinds and act.how % 2
        name = SYSTEM if of_system else name_of(self._context, act)
        return [*actor_states.living(self._context.runtime, name)]

    def _jump(self, act: Act) -> str:
        seconds = (1, 30, 400, 4_000, 100_000)[act.what % 5]
        if act.how % 2:
            self._context.clock.set_back(seconds)
            self._context.set_back += seconds
            return f"the clock is set back by {seconds} s"
        self._context.clock.advance(seconds)
        return f"the clock jumps ahead by {seconds} s"

    def _doze(self, act: Act) -> str:
        seconds = (1, 10, 70, 3_700)[act.what % 4]
        self._context.scheduler.doze(seconds)
        return f"{seconds} s pass"

    # -- the app ------------------------------------------------------------------------------

    def _forget(self, act: Act) -> str:
        self._context.forgotten = act.what if self._context.world.tools else None
        return "the app will be opened without one of its tools"

    def _reopen(self, act: Act) -> str:
        self._context.reopens = True
        self._context.runtime.close(drain=act.how % 2 == 1, timeout=10)
        return "the runtime is closed" + (" when its turns have ended" if act.how % 2 else "")

    def calm(self) -> None:
        """Inject nothing any more, and take back what is planned."""
        self._cut_in_tool = None
        self._at_rune.clear()
        self._context.forgotten = None
        self._context.disk.calm()
        self._context.scheduler.refuses = 0
