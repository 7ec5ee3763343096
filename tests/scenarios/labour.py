"""Work that takes its time: tools that speak on the way, that somebody stops, that are programs.

Whoever passes by while such work goes on acts of themselves, beside the app: on threads on one of
their own, by hand as a piece of work among others. So it is the same interrupt in both worlds, and
it always falls into the middle of the work.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.agent.public_commands import Terminate
from actors.public_command import Forward
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.session.messages import Interrupt, Send
from actors.tool.adapters.command import CommandTool
from actors.tool.adapters.function import tool
from actors.tool.context import CallId, Cancellation, cancelled, progress, stop_if_cancelled
from actors.tool.outcome import Happened
from runefold.agents import AgentTool, Bound, HandOver
from runefold.spec import AgentSpec
from runefold.testing.stage import PowerCut
from runelog.errors import RunefoldError
from tests.scenarios.app import Sooner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from actors.tool.context import Call
    from actors.tool.outcome import Outcome
    from actors.tool.spec import Tool
    from supervisors.tree import Tree
    from tests.scenarios.world import Till

LONG: Final = 30.0
"""Seconds that work takes where it is meant to be cut short: nobody ever waits for them."""
STEER: Final = "m2"
"""The message with which somebody who passes by takes over."""
HAULED: Final = ("I lift. ", "I carry. ", "I put it down.")
"""What is said on the way."""
RECEIPTS: Final = "receipts"
"""Where programs write what they did."""

EXPERT: Final = AgentSpec(role="expert", model="clerk", tools=("charge", "dig"), retries=5)


def pass_by(tree: Tree, call: Call) -> Iterator[None]:
    """Do what somebody does who passes by: what the work is to go on until."""
    yield
    name, agent = call.conversation, call.agent_id
    # Played again, it may be too late for it. Then it was done before.
    with contextlib.suppress(RunefoldError):
        match call.arguments["until"]:
            case "interrupted":
                tree.ask(name, Interrupt("enough"))
            case "steered":
                tree.ask(name, Send(STEER, "hello", "steer", own_id=True))
            case "dismissed":
                end = Terminate("killed", force=True)
                tree.ask(name, Forward("agent", agent, end))


class Attended(Bound):
    """A tool with people around: once it says something, somebody passes by."""

    def __init__(self, inner: Tool) -> None:
        """Stand in for a tool."""
        super().__init__()
        self._inner = inner
        self.spec = inner.spec

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the tool takes them."""
        return self._inner.fit(arguments)

    def run(self, call: Call) -> Outcome:
        """Run it, and have somebody pass by."""
        tree = self._reached()
        passed: list[str] = []

        def say(stream: str, chunk: str, /) -> None:
            call.progress(stream, chunk)
            if not passed:
                passed.append(chunk)
                tree.services.scheduler.work("passer-by", pass_by(tree, call))

        outcome = self._ran(replace(call, progress=say))
        self._check_power()
        return outcome

    def _ran(self, call: Call) -> Outcome:
        return self._inner.run(call)

    def lull(self, is_over: Callable[[], bool]) -> None:
        """Let everybody else get on, until it is over or took too long."""
        self._reached().services.scheduler.wait(Sooner(is_over), LONG)
        self._check_power()

    def _check_power(self) -> None:
        """Do nothing more without power: by hand, a thread outlives the process it stands for."""
        log = self._reached().log
        if getattr(log, "is_cut", False) or getattr(log, "failed", None) is not None:
            raise PowerCut


class AttendedProgram(Attended):
    """The same of a program. By hand, the one thread there is must not wait for it."""

    def _ran(self, call: Call) -> Outcome:
        if not isinstance(self._reached().services.scheduler, ManualScheduler):
            return self._inner.run(call)
        said: queue.SimpleQueue[tuple[str, str] | None] = queue.SimpleQueue()
        outcomes: list[Outcome] = []
        stop = Cancellation()
        inside = replace(call, cancellation=stop, progress=lambda *word: said.put(word))

        def run() -> None:
            outcomes.append(self._inner.run(inside))
            said.put(None)

        thread = threading.Thread(target=run)
        thread.start()
        while (word := said.get()) is not None:
            call.progress(*word)
            try:
                self.lull(lambda: call.cancellation.cancelled)
            finally:
                # Told to stop, out of time, or without power: in each case it ends now.
                stop.cancel()
                thread.join()
        return outcomes[0]


def labours(till: Till) -> list[Tool]:
    """Return tools that take their time, those that are programs included."""

    def was_booked(call_id: str, _arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("charged") if call_id in till.entries() else None

    @tool(idempotent=True, on_doubt="probe", probe=was_booked)
    def dig(until: str, call_id: CallId) -> str:  # noqa: ARG001 -- what a model would say
        """Dig, until somebody says that it is enough: then nothing was done."""
        progress("I dig.")
        digging.lull(cancelled)
        stop_if_cancelled()
        if call_id not in till.entries():
            till.book(call_id)
        return "charged"

    @tool(on_doubt="probe", probe=was_booked)
    def haul(call_id: CallId) -> str:
        """Haul something, and say how it goes."""
        for word in HAULED:
            progress(word)
        till.book(call_id)
        return "charged"

    @tool(requires_approval=True, approval_timeout=100, on_doubt="probe", probe=was_booked)
    def refund_soon(call_id: CallId) -> str:
        """Pay a customer back, if a human agrees before long."""
        till.book(call_id)
        return "charged"

    digging = Attended(dig)
    expert = AgentTool("ask_expert", EXPERT, "Ask somebody who knows.")
    return [digging, haul, refund_soon, expert, HandOver(), *programs(till.place)]


_WRITE: Final = f'echo "$1" >>{RECEIPTS}; echo done'
_CHURN: Final = f'echo go; sleep {LONG}; echo "$1" >>{RECEIPTS}'


def programs(place: Path) -> list[Tool]:
    """Return tools that are programs: what they do is written down in a directory."""

    def was_written(_call_id: str, arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("done\n") if arguments["receipt"] in written(place) else None

    write = CommandTool(
        "write",
        ["sh", "-c", _WRITE, "sh", "{receipt}"],
        description="Write a receipt.",
        root=place,
        network=True,
        on_doubt="probe",
        probe=was_written,
    )
    churn = CommandTool(
        "churn",
        ["sh", "-c", _CHURN, "sh", "{until}"],
        description="Work without end, until somebody says that it is enough.",
        root=place,
        network=True,
        idempotent=True,
    )
    return [write, AttendedProgram(churn)]


def written(place: Path) -> list[str]:
    """Return what programs did, as often as they did it."""
    path = place / RECEIPTS
    return path.read_text("utf-8").split() if path.exists() else []
