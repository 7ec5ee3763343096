"""Commands from another process, for the runtime that has a log open."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final

from actors.catalogue import COMMANDS
from actors.errors import Unanswered
from runefold.control import peers, socket_path, wire
from runefold.handles import Commander
from runelog.errors import Refused
from runelog.files import path_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.public_command import Command, Commands

TIMEOUT: Final = 30.0
"""How many seconds an answer may take."""


_PAUSE: Final = 0.01
"""How long to wait at a door where too many wait."""


class NoRuntime(Refused):
    """No runtime takes commands for this log: it is not open, or not in a runtime."""


class Remote(Commander):
    """The runtime that has a log open, wherever it runs on this machine.

    Each command is one request and its answer: `remote.entity("session", ID).pause()`. What the
    runtime refuses is raised here as it would be there. `Unanswered` and `Broken` leave open if it
    was done; a message that is sent again with the same `message_id` is accepted once.
    """

    def __init__(
        self, directory: str | Path, *, timeout: float = TIMEOUT, commands: Commands = COMMANDS
    ) -> None:
        """Name the log's directory; nothing is asked yet."""
        self.commands = commands
        self.directory = path_of(directory, "a log")
        self._timeout = timeout

    def do(self, conversation: str, command: Command, entity: str = "") -> Any:  # noqa: ANN401 -- the answer
        """Give a command to an entity of a conversation, the session itself if none is named."""
        ask = wire.Ask(conversation, command, entity)
        return self._asked(lambda: wire.encode_command(self.commands, ask), conversation)

    def order(self, ask: wire.Ask) -> None:
        """Have an entity decide on a command, and nothing else."""
        self._asked(lambda: wire.encode_command(self.commands, ask), ask.conversation)

    def ask(self, look: wire.AnyLook) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask what is no command; raise `NoRuntime` if no runtime takes commands."""
        return self._asked(lambda: wire.encode(look), getattr(look, "conversation", ""))

    def _asked(self, encode: Callable[[], bytes], conversation: str) -> Any:  # noqa: ANN401 -- as above
        try:
            data = encode()
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            msg = f"that cannot be sent: {error}"
            raise Refused(msg) from None
        if len(data) > wire.MAX_REQUEST:
            msg = f"that is {len(data):,} bytes, and at most {wire.MAX_REQUEST:,} can be sent"
            raise Refused(msg)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            self._connect(peer)
            reply = self._exchange(peer, data)
        if reply.error:
            raise wire.raised(reply, conversation)
        return reply.value

    def _connect(self, peer: socket.socket) -> None:
        peer.settimeout(self._timeout)
        try:
            with socket_path.short(self.directory) as path:
                _connect(peer, path, time.monotonic() + self._timeout)
        except TimeoutError:
            msg = f"the runtime in {self.directory} is too busy to be asked: try again"
            raise Unanswered(msg) from None
        except PermissionError as error:
            msg = f"{error.strerror}: only the user who runs {self.directory} can talk to it"
            raise Refused(msg) from None
        except OSError:
            # Not there, or left behind by a process that is gone.
            msg = f"no runtime takes commands in {self.directory}"
            raise NoRuntime(msg) from None
        if not peers.trusts(peer):
            msg = f"the socket in {self.directory} belongs to another user: nothing was sent"
            raise Refused(msg)

    def _exchange(self, peer: socket.socket, data: bytes) -> wire.Reply:
        try:
            wire.transmit(peer, data, wire.MAX_REQUEST, self._timeout)
            answer = wire.receive(peer, wire.MAX_ANSWER, self._timeout)
        except TimeoutError:
            msg = (
                f"the runtime in {self.directory} did not answer within {self._timeout:g} s; "
                "it may do what was asked all the same"
            )
            raise Unanswered(msg) from None
        except (OSError, wire.Broken) as error:
            msg = f"the runtime in {self.directory} went away before it answered ({error})"
            raise wire.Broken(msg) from None
        return wire.reply_from(answer)

    def tree(self) -> dict[str, Any]:
        """Return the tree of actors: id, type, state, restarts and children of each."""
        found: dict[str, Any] = self.ask(wire.Tree())
        return found


def _connect(peer: socket.socket, path: str, until: float) -> None:
    """Connect; where too many wait at the door, wait as well."""
    while True:
        try:
            peer.connect(path)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise TimeoutError from None
            time.sleep(_PAUSE)
        else:
            return
