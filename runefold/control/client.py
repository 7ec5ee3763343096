"""Commands from another process, for the runtime that has a log open."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from actors.errors import Unanswered
from runefold.control import peers, socket_path, wire
from runelog.errors import Refused
from runelog.files import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from runefold.spec import Budget

TIMEOUT: Final = 30.0
"""How many seconds an answer may take."""


_PAUSE: Final = 0.01
"""How long to wait at a door where too many wait."""


class NobodyThere(Refused):
    """No runtime takes commands for this log: it is not open, or not in a runtime."""


class Remote:
    """The runtime that has a log open, wherever it runs on this machine.

    Each call is one request and its answer. What the runtime refuses is raised here as it would be
    there. `Unanswered` and `Broken` leave open whether it was done; a message that is sent again
    with the same `message_id` is accepted once.
    """

    def __init__(self, directory: str | Path, *, timeout: float = TIMEOUT) -> None:
        """Name the log's directory; nothing is asked yet."""
        self.directory = path_of(directory, "a log")
        self._timeout = timeout

    def ask(self, request: wire.AnyRequest) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask, and return the answer; raise `NobodyThere` if there is nobody to ask."""
        try:
            data = wire.encode(request)
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
            raise wire.raised(reply, request)
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
            raise NobodyThere(msg) from None
        if not peers.trusts(peer):
            msg = f"the socket in {self.directory} belongs to another user: nothing was sent"
            raise Refused(msg)

    def _exchange(self, peer: socket.socket, data: bytes) -> wire.Reply:
        try:
            wire.transmit(peer, data, wire.MAX_REQUEST, self._timeout)
            return wire.reply_from(wire.receive(peer, wire.MAX_ANSWER, self._timeout))
        except TimeoutError:
            msg = (
                f"the runtime in {self.directory} did not answer within {self._timeout:g} s; "
                "it may do what was asked all the same"
            )
            raise Unanswered(msg) from None
        except OSError as error:
            msg = f"the runtime in {self.directory} went away before it answered ({error})"
            raise wire.Broken(msg) from None

    # -- messages and words ---------------------------------------------------------------------

    def send(
        self,
        session: str,
        content: str,
        *,
        mode: Literal["queue", "steer"] = "queue",
        to: str = "",
        message_id: str | None = None,
    ) -> str:
        """Send a message; return its id once it is on disk."""
        request = wire.Send(
            session=session, content=content, mode=mode, to=to, message_id=message_id
        )
        sent: Mapping[str, str] = self.ask(request)
        return sent["message_id"]

    def approve(self, session: str, call: str, *, approver: str) -> None:
        """Let a call run that waits for a human."""
        self.ask(wire.Approve(session=session, call=call, approver=approver))

    def deny(self, session: str, call: str, *, approver: str, reason: str = "") -> None:
        """Have a call not run that waits for a human."""
        self.ask(wire.Deny(session=session, call=call, approver=approver, reason=reason))

    def answer(
        self,
        session: str,
        call: str,
        verdict: Literal["rerun", "happened", "give_up"],
        *,
        approver: str,
        output: object = None,
    ) -> None:
        """Say what is to become of a call in doubt."""
        plain = msgspec.to_builtins(output, builtin_types=(bytes,))
        self.ask(
            wire.Answer(
                session=session, call=call, verdict=verdict, approver=approver, output=plain
            )
        )

    def interrupt(self, session: str, reason: str = "interrupt") -> int:
        """Stop what runs now; return how many turns were stopped."""
        return int(self.ask(wire.Interrupt(session=session, reason=reason)))

    # -- a session's course ---------------------------------------------------------------------

    def pause(self, session: str, reason: str = "", *, finish: bool = True) -> None:
        """Begin no more turns; running ones finish, or are interrupted."""
        self.ask(wire.Pause(session=session, reason=reason, finish=finish))

    def resume(self, session: str) -> None:
        """Go on after a pause."""
        self.ask(wire.Resume(session=session))

    def unsuspend(self, session: str, reason: str = "") -> None:
        """Go on: somebody has seen to what it was suspended for."""
        self.ask(wire.Unsuspend(session=session, reason=reason))

    def replenish(self, session: str, more: Budget, *, agent: str | None = None) -> None:
        """Raise the limits of a session's budget, or of an agent's, by so much."""
        given = {name: value for name, value in vars(more).items() if value is not None}
        self.ask(wire.Replenish(session=session, agent=agent, **given))

    def close(self, session: str, reason: str = "") -> None:
        """Bring a session to its end; return once it is there."""
        self.ask(wire.Close(session=session, reason=reason))

    # -- looking --------------------------------------------------------------------------------

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
