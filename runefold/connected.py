"""A runtime as other processes have it: the same methods, while one process has the log open."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from actors.redaction.redactor import DEFAULT
from actors.scheduling.clock import SystemClock
from actors.scheduling.loop import Loop
from runefold import checks, open_hook
from runefold.control import wire
from runefold.control.client import Remote
from runefold.control.remote_core import PAUSE, RemoteCore
from runefold.observe.monitoring import Monitor
from runefold.runtime import Runtime
from runelog.errors import NotALog, Refused
from runelog.files import path_of
from runelog.forks import Home
from runelog.store import Runelog
from supervisors.tree_view import Node

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from actors.kind import Kind
    from runefold.observe.monitoring import Rules
    from runelog.codec import Codec

_FORKED: Final = (
    "this runtime was connected to before a fork: use Runtime.connect(directory) in the child"
)


class ConnectedRuntime(Runtime):
    """The runtime that another process has open: `Runtime.connect` gives one.

    Commands go to that process, and the log is read here. Its sessions and turns are used as those
    of any other.
    """

    def __init__(
        self,
        directory: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        *,
        kinds: Iterable[Kind] = (),
        wait: float | None = 0.0,
    ) -> None:
        """Read the log in a directory; see `Runtime.connect`."""
        self._home = Home(_FORKED)
        wait = checks.seconds(wait, "wait")
        self.kinds = open_hook.known_kinds(kinds)
        self.commands = self.kinds.commands
        self.redactor = DEFAULT
        self.clock = SystemClock()
        self.scheduler = self._threads = Loop(self.clock)
        self.log = log = _opened(path_of(directory, "a log"), self.kinds.codec, wait)
        remote = Remote(log.directory, commands=self.commands)
        self._remote = RemoteCore(self, self._home, log, remote, wait)
        self._core = self._remote  # type: ignore[assignment]  # what Runtime has beside, is replaced below
        self._closed = False

    def monitor(self, rules: Rules | None = None) -> Monitor:
        """Return a monitor of all sessions; alerts of views are known where the log is open."""
        self._home.check()
        return Monitor(self.log, rules, now=self.clock.now, kinds=self.kinds)

    def tree(self) -> Node:
        """Return the running actors and their supervisors, in the process that has them."""
        return _node(self._remote.request(wire.Tree()))

    def close(self, *, drain: bool = False, timeout: float = 30.0) -> None:
        """End this connection; the runtime goes on where it is."""
        del timeout
        if drain:
            msg = (
                "only the process that has the log open can end its turns first: send SIGTERM to "
                "`runefold serve`, or close it there; close() ends this connection"
            )
            raise Refused(msg)
        if self._closed:
            return
        self._closed = True
        self._remote.close()
        if not self._home.is_left:
            self._threads.close()
            self._core.watch.finish()
        self.log.close()


def _opened(directory: Path, codec: Codec, wait: float | None) -> Runelog:
    """Open a log for reading; if it is not there yet, wait for it."""
    since = time.monotonic()
    while True:
        try:
            return Runelog.open(directory, codec, readonly=True)
        except NotALog as error:
            if wait is not None and time.monotonic() - since >= wait:
                msg = (
                    f"{error}; a runtime makes it: start one, with `runefold serve` for instance, "
                    "or wait for it, with Runtime.connect(..., wait=seconds)"
                )
                raise NotALog(msg) from None
        time.sleep(PAUSE)


def _node(found: dict[str, Any]) -> Node:
    children = tuple(_node(each) for each in found["children"])
    return Node(found["id"], found["type"], found["state"], found["restarts"], children)
