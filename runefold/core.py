"""What a runtime shares with its sessions, turns and commands. Apps use those, and not this.

Sessions and turns are the same whichever process they are used in: all that differs is behind
`Core`. `LocalCore` is in the process that has the log open; `runefold.control.remote_core` is that
of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.process.process import ASK_TIMEOUT
from runefold.agents import AgentTool
from runefold.observe.async_notify import Watch
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.ports import Chance
    from actors.process.process import Answer
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runelog.forks import Home
    from supervisors.tree import Tree


class Core:
    """The inside of a runtime, in any process. It is the `CommandRuntime` of public commands.

    It asks the actors of a session, and reads the log.
    """

    look_every: float | None = None
    """After how many seconds without a rune it is to be asked what `watch_owner` gives."""

    def __init__(self, runtime: Runtime, home: Home, chance: Chance) -> None:
        """Belong to a runtime."""
        self._runtime = runtime
        self._chance = chance
        self.home = home
        """The process that it is used in: a forked child can do nothing with it but close it."""
        self.watch = Watch(runtime.log, runtime.scheduler)
        """Wakes what waits for news in an event loop."""
        self.log = runtime.log
        self.kinds = runtime.kinds
        self.redactor = runtime.redactor
        self.scheduler = runtime.scheduler

    def new_id(self, prefix: str) -> str:
        """Return a new id."""
        self.home.check()
        return self._chance.id(prefix)

    def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask a session, awake or not, unless `before` gives the answer or it is `promised`."""
        raise NotImplementedError

    def watch_owner(self) -> Callable[[], bool]:
        """Return what says, each time that none came for a while, whether more runes will come.

        It raises once that is not to be waited for any longer.
        """
        return lambda: False

    def session(self, conversation: str) -> Session:
        """Return a session that is there, or raise `UnknownConversation`."""
        return self._runtime.session(conversation)

    def wait_for(self, conversation: str, kind: str, timeout: float | None) -> None:
        """Wait until the log has a rune of this kind in a conversation."""
        self._runtime.wait_for(conversation, kind, timeout)

    def archive(self, conversation: str) -> None:
        """Move a conversation that has ended to cold storage."""
        self._runtime.archive(conversation)


class LocalCore(Core):
    """The inside of the runtime that has the log open: it runs the actors."""

    def __init__(self, runtime: Runtime, home: Home, tree: Tree, chance: Chance) -> None:
        """Belong to a runtime."""
        super().__init__(runtime, home, chance)
        self.tree = tree
        """All conversations whose actors run."""

    def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask a session, awake or not, unless `before` gives the answer or it is `promised`."""
        self.home.check()
        found = None if before is None else before()
        if found is not None:
            return found
        if not self.scheduler.goes_on:
            self._runtime.views.wake()
        return self.tree.ask(conversation, message, timeout, before, promised)

    def check_known(self, model: str, tools: Iterable[str]) -> None:
        """Refuse a model, or tools, that are not registered here."""
        seen, ahead = set[str](), [(model, tools, "")]
        while ahead:
            model, tools, through = ahead.pop()
            self._check_known(model, tools, through)
            # Two agents that can ask each other are looked at once.
            for name in {*tools} - seen:
                seen.add(name)
                if isinstance(tool := self.tree.services.tools.get(name), AgentTool):
                    agent = tool.agent
                    ahead.append((agent.model, agent.tools, f"{name} asks {agent.role}, and "))

    def _check_known(self, model: str, tools: Iterable[str], through: str) -> None:
        services = self.tree.services
        if model not in services.models:
            known = ", ".join(sorted(services.models)) or "none"
            msg = (
                f"{through}there is no model {model!r}: pass "
                f"providers={{{model!r}: ...}} to Runtime.open; registered: {known}"
            )
            raise Refused(msg)
        for name in tools:
            if name not in services.tools:
                known = ", ".join(tool.spec.name for tool in services.tools) or "none"
                msg = (
                    f"{through}there is no tool {name!r}: pass it in tools=[...] to Runtime.open; "
                    f"registered: {known}"
                )
                raise Refused(msg)


def core_of(runtime: Runtime) -> LocalCore:
    """Return the inside of a runtime."""
    return runtime._core  # noqa: SLF001 -- for the front door's own modules
