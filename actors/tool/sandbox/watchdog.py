"""The watchdog: a small process between us and a program, which sees to it that all of it ends.

Run as a script, with nothing of ours imported, and little else: it is started for every run. It
puts the program into a session of its own, takes its privileges away, sets its limits, and then
waits for one of these: the program ends; it takes more than it may; a word comes down the control
socket (stop it); the socket is closed (we are dead). In the end nothing of the program is left.

    runtime ──control socket──> watchdog ──> program ──> its children
                                  ^                       │
                                  └── orphans come here ──┘

Inside bubblewrap the watchdog is process 1 of a world of its own: the program cannot kill it, stop
it or look into it, and when it ends the kernel kills all others there. Without bubblewrap it is a
process like any other (Linux: PR_SET_CHILD_SUBREAPER brings it the orphans). If the program kills
it, the kernel kills the program (PR_SET_PDEATHSIG), but not what the program had started. Elsewhere
than on Linux, what leaves the program's group survives it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

TYPE_CHECKING = False  # what `typing` says, without the time that it takes to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_CAPABILITY_VERSION = 0x20080522
_LINUX = sys.platform == "linux"
_ALONE = os.getpid() == 1
"""Whether all processes that there are here are the program's."""
_GONE = (ProcessLookupError, PermissionError)

LOOK = 0.025
"""Seconds between two looks at how much the program has taken."""


def main(settings: dict[str, str], command: list[str]) -> None:
    """Run `command` until it ends or has to, and tell how that came."""
    if "probe" in settings:
        _isolate()
        return
    control = int(settings["control"])
    os.set_inheritable(control, False)  # noqa: FBT003 -- as the standard library has it
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    look = _Look(settings)
    if _ALONE:
        # The program shall not look into us. It cannot be had where a child becomes another user.
        _prctl(_PR_SET_DUMPABLE, 0)
    else:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    child, problem = _start(settings, command)
    if problem:
        _tell(control, "failed", problem)
        return
    if not _ALONE:
        _tell(control, "pid", str(child))
    excess = _watch(control, waking, child, float(settings["grace"]), look)
    # The child is not reaped yet, so its group's number cannot be another's by now.
    _signal_group(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _sweep()
    if excess:
        _tell(control, "excess", excess)
    _tell(control, "code", str(code))


def _tell(control: int, name: str, value: str) -> None:
    with contextlib.suppress(OSError):  # the runtime is dead
        os.write(control, f"{name}={' '.join(value.splitlines())}\n".encode(errors="replace"))


# -- starting -------------------------------------------------------------------------------------


def _start(settings: dict[str, str], command: list[str]) -> tuple[int, str]:
    """Start the program; return its process id, and what went wrong if it could not be."""
    reading, writing = os.pipe()
    watchdog = os.getpid()
    child = os.fork()
    if child == 0:
        _become(settings, command, writing, watchdog)
    os.close(writing)
    with open(reading, "rb") as problems:  # noqa: PTH123 -- a descriptor, not a path
        problem = problems.read().decode(errors="replace")
    if problem:
        os.waitpid(child, 0)
    return child, problem


def _become(settings: dict[str, str], command: list[str], problems: int, watchdog: int) -> NoReturn:
    try:
        os.setsid()
        # Python ignores these; a program expects them as they are by default.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        if settings["isolate"]:
            _isolate()
        _drop_privileges()
        # After the change of namespace, which would undo it.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != watchdog:
            os._exit(1)
        # Bubblewrap has set it to where it started us.
        os.environ.pop("PWD", None)
        if "PWD" in settings:
            os.environ["PWD"] = settings["PWD"]
        os.chdir(settings["cwd"])
        for name, value in settings.items():
            if name.startswith("RLIMIT_"):
                _limit(getattr(resource, name), int(value))
        os.execvp(command[0], command)  # noqa: S606 -- no shell is what we want
    except FileNotFoundError as error:
        if error.filename == settings["cwd"]:
            _explain(problems, command, error)
        else:
            way_out = settings["missing"]
            os.write(problems, f"there is no program {command[0]!r}: {way_out}".encode())
    except BaseException as error:  # noqa: BLE001 -- told to the watchdog, whatever it is
        _explain(problems, command, error)
    os._exit(1)


def _explain(problems: int, command: list[str], error: BaseException) -> None:
    os.write(problems, f"{command[0]!r} cannot be started: {error}".encode(errors="replace"))


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # Past its soft limit of CPU time a program is told, a second later it is killed.
    spare = 1 if which == resource.RLIMIT_CPU and value != hard else 0
    resource.setrlimit(which, (value, value + spare))


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
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 -- see above
            file.write(text)


def _drop_privileges() -> None:
    """Have no privileges and get none by running a program, also as root."""
    if not _LINUX:
        return
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    header = _CAPABILITY_VERSION.to_bytes(4, sys.byteorder) + bytes(4)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "its privileges cannot be taken away")


def _prctl(option: int, value: int) -> None:
    if _LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


# -- ending ---------------------------------------------------------------------------------------


def _watch(control: int, waking: int, child: int, grace: float, look: _Look) -> str:
    """Return once the program has ended, or has to at once; say what it took too much of, if so.

    Told to stop it, ask the program to end first, and wait as long as it may take to.
    """
    kill_at = None
    while not _ended(child):
        if excess := look.excess():
            return excess
        patience = LOOK
        if kill_at is not None:
            patience = max(0, min(LOOK, kill_at - time.monotonic()))
        ready, _, _ = select.select([control, waking], [], [], patience)
        if waking in ready:
            os.read(waking, 4096)
        if control in ready:
            try:
                word = os.read(control, 64)
            except ConnectionError:
                word = b""
            if not word:
                return ""  # the runtime is dead, and the next one may run this again
            _signal_group(child, signal.SIGTERM)
            # Those that are stopped would not hear it.
            _signal_group(child, signal.SIGCONT)
            kill_at = time.monotonic() + grace
        if kill_at is not None and time.monotonic() >= kill_at:
            return ""
    return ""


def _ended(child: int) -> bool:
    """Return True if the program has ended, which leaves it unreaped; reap orphans that have."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None:
            return False
        if found.si_pid == child:
            return True
        os.waitpid(found.si_pid, 0)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(*_GONE):
        os.killpg(group, number)


def _sweep() -> None:
    """Kill and reap what is left."""
    if _ALONE:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return  # with our own end, the kernel sees to the rest
    known: set[int] = set()
    # First none of them may start another; then, as parents die, their children come to us.
    while found := {*_members()} - known:
        known |= found
        _signal_each(found, signal.SIGSTOP)
    while found := {*_members()}:
        _signal_each(found, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _signal_each(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(*_GONE):
            os.kill(pid, number)


# -- looking --------------------------------------------------------------------------------------


class _Look:
    """Finds out how much the program has taken by now."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._processes = int(settings["processes"] or 0)
        self._bytes = int(settings["written"] or 0)
        self._scratch = [path for path in settings["scratch"].split("\n") if path]
        self._places = [path for path in settings["places"].split("\n") if path]
        self._before = self._used(self._places)
        try:
            # Once we cannot be looked into any more, we could not open it either.
            self._own = os.open("/proc/self/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._own = -1

    def excess(self) -> str:
        """Return what it has taken more of than it may; nothing if there is nothing."""
        if not self._processes and not self._bytes:
            return ""
        members = [*_members()]
        if self._processes and len(members) > self._processes:
            return "processes"
        if self._bytes and self._written(members) > self._bytes:
            return "bytes written"
        return ""

    def _written(self, members: list[int]) -> int:
        """Return the bytes that its processes, and those they waited for, have written."""
        total = self._used(self._scratch)
        hides = False
        for pid in (os.getpid(), *members):
            try:
                lines = self._account(pid).splitlines()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            except OSError:
                hides = True
                continue
            total += sum(int(one.split()[1]) for one in lines if one.startswith(b"write_bytes:"))
        if hides:
            # It does not let us look. Then it answers for all that the disks have filled up by.
            total += max(0, self._used(self._places) - self._before)
        return total

    def _account(self, pid: int) -> bytes:
        if pid == os.getpid() and self._own != -1:
            return os.pread(self._own, 4096, 0)
        return _read(f"/proc/{pid}/io")

    @staticmethod
    def _used(paths: list[str]) -> int:
        """Return the bytes in use on the file systems of some paths."""
        found: dict[int, int] = {}
        for path in paths:
            try:
                used = os.statvfs(path)
                found[os.stat(path).st_dev] = (used.f_blocks - used.f_bfree) * used.f_frsize  # noqa: PTH116 -- see below
            except OSError:
                continue
        return sum(found.values())


def _members() -> Iterator[int]:
    """Yield the processes of the program; none where the system does not say which they are."""
    if _ALONE:
        yield from (int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1")  # noqa: PTH208 -- see above
        return
    ahead = [os.getpid()]
    while ahead:
        pid = ahead.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 -- see above
                found = [int(one) for one in _read(f"/proc/{pid}/task/{thread}/children").split()]
                yield from found
                ahead += found
        except OSError:
            continue


def _read(path: str) -> bytes:
    # Not `pathlib`, which takes longer to import than all the rest.
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 -- see above
        return file.read()


if __name__ == "__main__":
    _given = sys.argv[1:]
    _mark = _given.index("--")
    main(dict(one.split("=", 1) for one in _given[:_mark]), _given[_mark + 1 :])
