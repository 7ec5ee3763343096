"""Tools and models with a ledger around them: what is called is noted, and may be made to fail."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, cast

from actors.model.provider import Done, Failure, is_async
from actors.tool.spec import TeamTool
from runefold.agents import Bound
from runefold.testing.crash.instrumentation.journal import Execution, Over
from runefold.testing.crash.plan.faults import raising
from runefold.testing.crash.plan.points import MODEL_FAULTS, TOOL_FAULTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence

    from actors.model.provider import Event, Request
    from actors.tool.context import Call
    from actors.tool.outcome import Outcome
    from actors.tool.spec import Tool
    from runefold.testing.crash.instrumentation.journal import Journal
    from runefold.testing.crash.instrumentation.watch import Watch
    from runefold.testing.crash.plan.faults import Faults
    from runefold.testing.crash.plan.points import What
    from supervisors.tree import Tree


T = TypeVar("T")


class Ledger:
    """Notes each execution, and lets the watch strike when it is over."""

    def __init__(self, path: Journal, watch: Watch, faults: Faults) -> None:
        """Write to this file, which lies beside the log."""
        self._file = path
        self.watch = watch
        self.faults = faults
        self._numbers = itertools.count(1)

    def began(
        self, what: What, name: str, conversation: str, call_id: str, arguments: Mapping[str, Any]
    ) -> int:
        """Note that something is about to be done; return its number."""
        number = next(self._numbers)
        life = self.watch.life
        self._file.note(Execution(life, what, name, call_id, conversation, dict(arguments), number))
        return number

    def over(self, number: int, status: str) -> None:
        """Note that it was done."""
        self._file.note(Over(self.watch.life, number, status))

    def tools(self, tools: Iterable[Tool]) -> list[Tool]:
        """Return the same tools, watched."""
        return [self._watched(tool) for tool in tools]

    def _watched(self, tool: Tool) -> Tool:
        if not isinstance(tool, Bound):
            return WatchedTool(tool, self)
        return (WatchedTeamTool if isinstance(tool, TeamTool) else BoundTool)(tool, self)

    def models(self, models: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same models, watched."""
        return {
            name: (WatchedAsyncModel if is_async(model) else WatchedModel)(name, model, self)
            for name, model in models.items()
        }


def aside(run: Callable[[], T]) -> T:
    """Run something on a thread of its own if an event loop runs on this one, and wait for it.

    In one process tools run on the thread of the caller that waits, which may be an event loop's;
    an async tool has a loop of its own, and there is one at most on a thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(contextvars.copy_context().run, run).result()


class WatchedTool:
    """A tool whose executions are counted."""

    def __init__(self, inner: Tool, ledger: Ledger) -> None:
        """Stand in for a tool."""
        self._inner = inner
        self._ledger = ledger
        self.spec = inner.spec

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the tool takes them."""
        return self._inner.fit(arguments)

    @property
    def is_async(self) -> bool:
        """Whether it is awaited on the event loop, as the tool itself is."""
        return bool(getattr(self._inner, "is_async", False))

    async def run_async(self, call: Call) -> Outcome:
        """Do as `run` on the event loop; a fault is played by running it there, beside the loop."""
        ledger, inner = self._ledger, cast("Any", self._inner)
        fault = ledger.watch.fault_of(call.conversation, call.call_id, TOOL_FAULTS)
        if fault or call.cancellation.cancelled:
            return self._faulty(fault, call)
        where, name = call.conversation, self.spec.name
        number = ledger.began("tool", name, where, call.call_id, call.arguments)
        status = "raised"
        try:
            outcome: Outcome = await inner.run_async(call)
            status = outcome.status
        finally:
            ledger.over(number, status)
        ledger.watch.effect_done(where, call.call_id)
        return outcome

    def run(self, call: Call) -> Outcome:
        """Run the tool, note that, and have the watch look before anybody hears of the outcome."""
        watch = self._ledger.watch
        gone = call.cancellation.cancelled
        fault = "" if gone else watch.fault_of(call.conversation, call.call_id, TOOL_FAULTS)
        return self._faulty(fault, call)

    def _faulty(self, fault: str, call: Call) -> Outcome:
        """Run the tool here, with a fault if there is one."""
        ledger, spec = self._ledger, self.spec
        if call.cancellation.cancelled:
            return self._inner.run(call)  # which it will not do any more
        if fault in {"tool-raises", "tool-breaks"}:
            return self._run(raising(self._inner, late=fault == "tool-breaks"), call)
        if fault:
            return ledger.faults.of_tool(fault, lambda: self._run(self._inner, call), call, spec)
        return self._run(self._inner, call)

    def _run(self, tool: Tool, call: Call) -> Outcome:
        ledger = self._ledger
        number = ledger.began(
            "tool", self.spec.name, call.conversation, call.call_id, call.arguments
        )
        status = "raised"
        try:
            outcome = self._ran(tool, call)
            status = outcome.status
        finally:
            ledger.over(number, status)
        ledger.watch.effect_done(call.conversation, call.call_id)
        return outcome

    def _ran(self, tool: Tool, call: Call) -> Outcome:
        return aside(lambda: tool.run(call))


class BoundTool(WatchedTool, Bound):
    """One that reaches into its runtime."""

    def __init__(self, inner: Bound, ledger: Ledger) -> None:
        """Stand in for a tool that is bound."""
        self._bound = inner
        WatchedTool.__init__(self, inner, ledger)  # type: ignore[arg-type]  # all of them can run

    def _ran(self, tool: Tool, call: Call) -> Outcome:
        return tool.run(call)  # which has other actors go on: that is for this thread to do

    def bind(self, tree: Tree) -> None:
        """Belong to a runtime."""
        self._bound.bind(tree)


class WatchedTeamTool(BoundTool):
    """One that reaches the agents of its session, or some of them."""

    def narrowed(self, names: Sequence[str]) -> WatchedTeamTool:
        """Return one that reaches those of these names only."""
        return WatchedTeamTool(cast("Any", self._bound).narrowed(names), self._ledger)


class _Watched:
    """A model whose calls are counted."""

    def __init__(self, name: str, inner: Any, ledger: Ledger) -> None:  # noqa: ANN401 -- async or not
        """Stand in for a model: an async one, or one that is not."""
        self._name = name
        self._inner = inner
        self._ledger = ledger

    def _fault_of(self, request: Request) -> str:
        """Return the fault to be played on this answer, if there is one; a refusal is raised."""
        ledger = self._ledger
        fault = ledger.watch.fault_of(request.conversation, request.call_id, MODEL_FAULTS)
        if fault == "provider-refuses":
            ledger.faults.refuse()
        return fault

    @contextlib.contextmanager
    def _noted(self, request: Request) -> Iterator[Callable[[Event], None]]:
        """Note an execution; have the watch look before a follower is told that it is complete.

        Within the block each event is to be handed to what this gives, before it is passed on.
        """
        ledger, where, entity = self._ledger, request.conversation, request.call_id
        # The same attempt of the same turn is the same call.
        number = ledger.began("model", self._name, where, f"{where}/{entity}", {})

        def over(status: str) -> None:
            ledger.over(number, status)
            ledger.watch.effect_done(where, entity)

        def hear(event: Event) -> None:
            if isinstance(event, Done | Failure):
                over("completed" if isinstance(event, Done) else "failed")

        try:
            yield hear
        except Exception:
            over("raised")
            raise


class WatchedModel(_Watched):
    """One that is read on a thread, as a fault may hold that up."""

    def stream(self, request: Request) -> Iterator[Event]:
        """Pass the answer on, with a fault if there is one."""
        fault = self._fault_of(request)
        if fault:
            return self._ledger.faults.of_model(fault, lambda: self._stream(request), request)
        return self._stream(request)

    def _stream(self, request: Request) -> Iterator[Event]:
        with self._noted(request) as hear:
            for event in self._inner.stream(request):
                hear(event)
                yield event


class WatchedAsyncModel(_Watched):
    """One that is read on the event loop."""

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        """Pass the answer on; before a fault is played on one, all of it is read."""
        fault = self._fault_of(request)
        if fault:
            said = _Replay([event async for event in self._inner.stream(request)])
            real = WatchedModel(self._name, said, self._ledger)
            for event in self._ledger.faults.of_model(fault, lambda: real.stream(request), request):
                yield event
            return
        with self._noted(request) as hear:
            async for event in self._inner.stream(request):
                hear(event)
                yield event


class _Replay:
    """A model that says again what another one has said."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = events

    def stream(self, request: Request) -> Iterator[Event]:
        """Say it, whatever is asked."""
        del request
        yield from self._events
