"""Which process is at the other end of a control socket, and whether it may give commands.

A program that a command tool runs may not: it would approve what a human is asked about. Where it
is isolated it does not see the socket. But there are other directories, and machines where it
cannot be isolated. So it is told by what every such program has, and can never get rid of, nor can
anything that it starts: the kernel's mark that it gains no privileges (`no_new_privs`), or a
process namespace within ours.

A token in a file would be no help: what a user's shell can read, a program of that user can too.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator

_CREDENTIALS: Final = struct.Struct("3i")
_PEER_PIDFD: Final = 77
"""The option of Linux 6.5 and later that holds on to the process, so that its id stays its own."""
_MOST_SHOWN: Final = 160


def credentials(peer: socket.socket) -> tuple[int, int] | None:
    """Return the process id and the user id of the other side; None where no system says so."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    found = peer.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(found)
    return pid, user


def trusts(peer: socket.socket) -> bool:
    """Return True if the other side is our own user, or root, or the system does not say."""
    found = credentials(peer)
    # Without a word from the system, the socket's permissions alone keep others out.
    return found is None or found[1] == os.geteuid() or 0 in {found[1], os.geteuid()}


def process_of(peer: socket.socket) -> str:
    """Return what to call the process at the other side; refuse one that is kept in a sandbox."""
    found = credentials(peer)
    if found is None:
        return "another process"
    pid, user = found
    if pid == 0:
        return f"a process of user {user} outside this container"
    with _held(peer) as is_alive:
        try:
            confined = _is_confined(_status(pid), _status(os.getpid()))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            if not Path("/proc/self/status").exists():
                return f"process {pid} of user {user}"
            words, confined = [], None
        if confined is None or not is_alive():
            msg = f"process {pid} ended before it was clear which it was: ask again, and wait"
            raise Refused(msg)
    if confined:
        msg = (
            f"process {pid} runs in a sandbox, as programs do that agents start, and may not give "
            "commands: give them from a shell outside"
        )
        raise Refused(msg)
    line = " ".join(words).strip()
    shown = "".join(one if one.isprintable() else "\ufffd" for one in line[:_MOST_SHOWN])
    return f"process {pid} of user {user}: {shown}"


@contextlib.contextmanager
def _held(peer: socket.socket) -> Iterator[_Alive]:
    """Give what says whether the process that connected is still there."""
    try:
        data = peer.getsockopt(socket.SOL_SOCKET, _PEER_PIDFD, 4)
    except OSError:
        yield _Alive(None)
        return
    handle = int.from_bytes(data, "little")
    try:
        yield _Alive(handle)
    finally:
        os.close(handle)


class _Alive:
    def __init__(self, handle: int | None) -> None:
        self._handle = handle

    def __call__(self) -> bool:
        if self._handle is None:
            return True
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return not poll.poll(0)


def _status(pid: int) -> dict[str, list[str]]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}


def _is_confined(theirs: dict[str, list[str]], ours: dict[str, list[str]]) -> bool:
    """Return True if a process has a mark of confinement that we do not have ourselves."""
    if ours.get("NoNewPrivs") != ["1"]:
        return theirs.get("NoNewPrivs") == ["1"]
    return len(theirs.get("NSpid", [])) > len(ours.get("NSpid", []))
