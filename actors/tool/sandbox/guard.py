"""The guard: a small process between us and a program, which sees to it that all of it ends.

Run as a script, with nothing of ours imported. It puts the program into a session of its own, sets
its limits, and then waits for one of three things: the program ends; a byte comes down the control
socket (stop it); the socket is closed (we are dead). In the end nothing of the program is left:

    runtime ──control socket──> guard ──> program ──> its children
                                  ^                       │
                                  └── orphans come here ──┘   (Linux: PR_SET_CHILD_SUBREAPER)

Whoever left the program's group, or was orphaned, becomes a child of the guard and is killed too.
If the guard itself is killed, the kernel kills the program (Linux: PR_SET_PDEATHSIG). Elsewhere
than on Linux, what leaves the program's group survives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_NO_NEW_PRIVS: Final = 38
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_LINUX: Final = sys.platform == "linux"


def main(settings: dict[str, Any], command: list[str]) -> None:
    """Run `command` until it ends or has to, and tell how that came."""
    control: int = settings["control"]
    os.set_inheritable(control, False)  # noqa: FBT003 -- as the standard library has it
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)

    network = "open"
    if not settings["network"]:
        network = "blocked" if _can_isolate() else "not blocked"
        if network == "not blocked" and settings["strict"]:
            _tell(control, failed="network access cannot be blocked here, and the tool insists")
            return
    child, problem = _start(command, settings["limits"], isolate=network == "blocked")
    if problem:
        _tell(control, failed=problem)
        return
    _tell(control, pid=child, network=network)
    _watch(control, waking, child, settings["grace"])
    # The child is not reaped yet, so its group's number cannot be another's by now.
    _signal_group(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _sweep()
    _tell(control, code=code)


def _tell(control: int, **what: object) -> None:
    with contextlib.suppress(OSError):
        os.write(control, json.dumps(what).encode() + b"\n")


# -- starting -------------------------------------------------------------------------------------


def _start(command: list[str], limits: dict[str, int], *, isolate: bool) -> tuple[int, str]:
    """Start the program; return its process id, and what went wrong if it could not be."""
    reading, writing = os.pipe()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _become(command, limits, writing, guard, isolate=isolate)
    os.close(writing)
    with open(reading, "rb") as problems:  # noqa: PTH123 -- a descriptor, not a path
        problem = problems.read().decode(errors="replace")
    if problem:
        os.waitpid(child, 0)
    return child, problem


def _become(
    command: list[str], limits: dict[str, int], problems: int, guard: int, *, isolate: bool
) -> NoReturn:
    try:
        os.setsid()
        # Python ignores these; a program expects them as they are by default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if isolate:
            _isolate()
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
        # After the change of namespace, which would undo it.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)
        for name, value in limits.items():
            _limit(getattr(resource, name), value)
        os.execvp(command[0], command)  # noqa: S606 -- no shell is what we want
    except FileNotFoundError:
        os.write(problems, f"there is no program {command[0]!r}: install it, or mend PATH".encode())
    except BaseException as error:  # noqa: BLE001 -- told to the guard, whatever it is
        os.write(problems, f"{command[0]!r} cannot be started: {error}".encode(errors="replace"))
    os._exit(1)


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # Past its soft limit of CPU time a program is told, a second later it is killed.
    spare = 1 if which == resource.RLIMIT_CPU and value != hard else 0
    resource.setrlimit(which, (value, value + spare))


def _can_isolate() -> bool:
    """Try it in a child: half of it done cannot be undone."""
    trial = os.fork()
    if trial == 0:
        try:
            _isolate()
        except BaseException:  # noqa: BLE001 -- for whatever reason
            os._exit(1)
        os._exit(0)
    return os.waitpid(trial, 0)[1] == 0


def _isolate() -> None:
    """Move to a network that has no way out, with privileges or without."""
    if not _LINUX:
        raise OSError
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) == 0:
        return
    if libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# -- ending ---------------------------------------------------------------------------------------


def _watch(control: int, waking: int, child: int, grace: float) -> None:
    """Return when the program has ended; end it when told to, or when nobody is there to tell."""
    listening = [control, waking]
    kill_at = None
    while not _ended(child):
        patience = None if kill_at is None else max(0, kill_at - time.monotonic())
        ready, _, _ = select.select(listening, [], [], patience)
        if waking in ready:
            os.read(waking, 4096)
        if control in ready:
            listening = [waking]
            _signal_group(child, signal.SIGTERM)
            # Those that are stopped would not hear it.
            _signal_group(child, signal.SIGCONT)
            kill_at = time.monotonic() + grace
        if kill_at is not None and time.monotonic() >= kill_at:
            _signal_group(child, signal.SIGKILL)
            kill_at = None


def _ended(child: int) -> bool:
    """Tell whether the program has ended, which leaves it unreaped; reap orphans that have."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        if found.si_pid == child:
            return True
        os.waitpid(found.si_pid, 0)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _sweep() -> None:
    """Kill and reap whoever is left: as parents die, their children come to us."""
    while (orphans := _children()) is not None:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int] | None:
    """Return our children; None where nobody can say who they are."""
    try:
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return None
    return [int(pid) for pid in listed.split()]


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
