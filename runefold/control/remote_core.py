"""The inside of a runtime whose log another process has open.

What changes something goes to that process through its control socket. What can be read is read
from the log: states, results, and everything live.

The other process may go away at any moment, also between what it does and its answer. Then nobody
knows here if it was done. So each request has an id, of a message, an agent or its own, by which
it counts once; with patience it is sent again, with the same id, until there is an answer.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from actors.children import CreateChild
from actors.errors import Unanswered
from actors.process.process import ASK_TIMEOUT
from actors.public_command import Forward, Order
from actors.session.messages import Await, Look, Send, Sent, ended
from actors.session.public_commands import Archive
from actors.session.queue import message_entity
from runefold.chance import SystemChance
from runefold.control import wire
from runefold.control.client import NoRuntime
from runefold.core import Core
from runelog import manifest
from runelog.errors import Closed, Fault, Refused
from runelog.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actors.process.process import Answer
    from runefold.control.client import Remote
    from runefold.runtime import Runtime
    from runelog.forks import Home
    from runelog.store import Runelog

    T = TypeVar("T")

PAUSE: Final = 0.05
"""Seconds between two tries to reach a process that is not there."""
_NEWS: Final = frozenset(
    {"turn.completed", "turn.interrupted", "turn.error", "turn.started", "session.input_refused"}
)


class RemoteCore(Core):
    """Reaches the process that has the log open through its socket, and reads the log itself."""

    look_every: float = 1.0

    def __init__(
        self, runtime: Runtime, home: Home, log: Runelog, remote: Remote, wait: float | None
    ) -> None:
        """Wait up to `wait` seconds for a process that is not there; None: as long as it takes."""
        super().__init__(runtime, home, SystemChance())
        self._remote = remote
        self._directory = log.directory
        self._wait = wait
        # Shared by the core of callers that wait in event loops.
        self._closed = threading.Event()

    def close(self) -> None:
        """Ask nothing any more."""
        self._closed.set()

    def _check(self) -> None:
        self.home.check()
        if self._closed.is_set():
            msg = f"this connection to {self._directory} has been closed: connect again"
            raise Closed(msg)

    # -- commands -----------------------------------------------------------------------------

    async def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Answer from the log if it has the answer; otherwise have the other process answer."""
        del promised
        return await self.read(lambda: self._ask(conversation, message, timeout, before))

    def _ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = None,
        before: Callable[[], object] | None = None,
    ) -> Any:  # noqa: ANN401 -- as above
        self._check()
        found = None if before is None else before()
        if found is not None:
            return found
        match message:
            case Look():
                root = self.kinds.root(conversation)
                snapshots = self.log.snapshots
                return replay(
                    self.log, conversation, root.lifecycle, entity=root.prefix, snapshots=snapshots
                ).state
            case Await():
                return self._ended(conversation, message, timeout)
            case Order(command, _, request):
                return self._order(wire.Ask(conversation, command, "", request))
            case Forward(_, entity, Order(command, _, request)):
                return self._order(wire.Ask(conversation, command, entity, request))
            case CreateChild(_, entity, command):
                return self._order(wire.Ask(conversation, command, entity, ""))  # type: ignore[arg-type]  # a user's
            case Send(message_id):
                answer = self._told(conversation, message, message._replace(own_id=True))
                return Sent(message_id, answer["before"])
            case _:
                return self._told(conversation, message, message)

    def _order(self, ask: wire.Ask) -> None:
        self._patiently(lambda _: self._remote.order(ask))

    def _told(self, conversation: str, first: object, again: object) -> Any:  # noqa: ANN401 -- the answer
        """Send a message, and from the second time on in the form that counts once."""
        return self._patiently(
            lambda tried: self._remote.ask(wire.tell(conversation, again if tried else first))
        )

    def request(self, look: wire.AnyLook) -> Any:  # noqa: ANN401 -- the answer
        """Have the other process answer what is not in the log."""
        return self._patiently(lambda _: self._remote.ask(look))

    async def archive(self, conversation: str) -> None:
        """Have the other process archive a conversation that has ended."""
        command = Archive()
        await self.read(lambda: self._patiently(lambda _: self._remote.do(conversation, command)))

    def _patiently(self, request: Callable[[int], T]) -> T:
        """Send a request until it is answered, or until that took too long; it counts once."""
        since, tried, in_doubt = time.monotonic(), 0, False
        while True:
            self._check()
            try:
                return request(tried)
            except (NoRuntime, wire.Broken, Unanswered, Closed) as error:
                in_doubt = in_doubt or not isinstance(error, NoRuntime)
                if self._wait is not None and time.monotonic() - since >= self._wait:
                    raise self._unheard(error, in_doubt=in_doubt) from None
            except Refused as refusal:
                if in_doubt:
                    refusal.add_note(_AGAIN)
                raise
            tried += 1
            time.sleep(PAUSE)

    def _unheard(self, error: Fault | Refused, *, in_doubt: bool) -> Exception:
        if not isinstance(error, NoRuntime):
            return error
        if in_doubt:
            return wire.Broken(f"{error} any more: {_MAYBE}")
        return self._gone()

    def _gone(self) -> NoRuntime:
        if manifest.writer_alive(self._directory):
            return NoRuntime(
                f"{self._directory} is held by {manifest.holder(self._directory)}, which takes no "
                "commands yet: wait for it, with Runtime.connect(..., wait=seconds)"
            )
        return NoRuntime(
            f"no runtime has {self._directory} open: start one, such as by `runefold serve`, or "
            "wait for it, with Runtime.connect(..., wait=seconds)"
        )

    # -- waiting for what the log will have ---------------------------------------------------

    def watch_owner(self) -> Callable[[], bool]:
        """Return what raises `NoRuntime` once no process had the log open for too long."""
        gone_since: float | None = None

        def check() -> bool:
            nonlocal gone_since
            self._check()
            if manifest.writer_alive(self._directory):
                gone_since = None
            else:
                now = time.monotonic()
                gone_since = now if gone_since is None else gone_since
                if self._wait is not None and now - gone_since >= self._wait:
                    raise self._gone()
            return True

        return check

    def _ended(self, conversation: str, message: Await, timeout: float | None) -> object:
        """Wait until the log has the end of a message's turn."""
        name, halt = message
        if not self.log.version(conversation, message_entity(name)):
            msg = f"{conversation} has no message {name}"
            raise Refused(msg)

        def look() -> object:
            return ended(self.log, conversation, name)

        def again() -> None:
            if halt is not None:
                self._ask(conversation, halt)

        found = self.found(conversation, _NEWS, look, timeout, again)
        if found is None:
            msg = f"{conversation} gave no answer to {name} within {timeout} s: it goes on"
            raise Unanswered(msg)
        return found

    def found(
        self,
        conversation: str,
        kinds: Collection[str],
        look: Callable[[], object],
        timeout: float | None,
        again: Callable[[], object] = tuple,
    ) -> object:
        """Look in the log each time that it has news, until there is something, or time is up.

        Where another process has opened the log meanwhile, what was asked for is asked `again`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        check, owner = self.watch_owner(), manifest.holder(self._directory)
        while True:
            # The cursor comes first, so that nothing comes unseen between the look and the wait.
            cursor = self.log.conversation(conversation).head
            if (found := look()) is not None:
                return found
            left = (
                self.look_every if until is None else min(until - time.monotonic(), self.look_every)
            )
            if left <= 0:
                return None
            if next(self.log.follow(conversation, cursor, kinds=kinds, wait=left), None) is None:
                try:
                    check()
                except NoRuntime:
                    if (found := look()) is None:
                        raise
                    return found
                if (now := manifest.holder(self._directory)) != owner:
                    owner = now
                    again()


_MAYBE: Final = "what was asked may have been done; asked again under the same id it counts once"
_AGAIN: Final = (
    "it was asked before, and the runtime went away before it answered: it may have been done then"
)
