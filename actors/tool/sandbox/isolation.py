"""What keeps a program in: bubblewrap where it works, else the watchdog alone, which is weaker.

Bubblewrap is asked for a world that holds nothing but what is chosen here:

    /usr /bin /lib* /etc /opt …      the system, read-only
    the interpreter that runs us     read-only, for the watchdog, and for programs in Python
    the program's own file, `reads`  read-only
    `root`, `paths`                  as they are
    /tmp /var/tmp $TMPDIR /dev/shm   empty, gone with the program
    /proc /dev                       its own processes, the usual devices

The log's directory is not among them, nor the control socket in it. If it lies within one that is,
an empty one covers it.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from actors.tool.sandbox import watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
    *("/nix", "/gnu", "/run/current-system"),
)
"""What programs of the system are made of, on the distributions that there are."""
_RESOLVER: Final = "/etc/resolv.conf"
_SCRATCH: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 -- empty ones
_PATIENCE: Final = 10.0
"""Seconds that a trial may take."""
_OWN_COUNT: Final = (5, 14)
"""The first Linux that counts the processes of a user namespace apart from others."""
INSTALL: Final = "install bubblewrap 0.7 or later (such as: apt-get install bubblewrap)"


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What a program is kept from on this machine.

    >>> Isolation(by="watchdog", network=True, reason="bwrap is not installed").missing
    ('files', 'processes')
    """

    by: Literal["bubblewrap", "watchdog"]
    """What does it: bubblewrap, or a watchdog process alone."""
    files: bool = False
    """Whether it sees only the system's files, read-only, and those that its tool declares.

    The log and its control socket are never among them.
    """
    network: bool = False
    """Whether it has no network, unless its tool declares that it uses one."""
    processes: bool = False
    """Whether it sees only its own processes, and none of them can outlive it."""
    reason: str = ""
    """Why bubblewrap does not do it; empty if it does."""

    @property
    def missing(self) -> tuple[str, ...]:
        """What it is not kept from: some of `files`, `network` and `processes`."""
        return tuple(name for name in ("files", "network", "processes") if not getattr(self, name))


def found(*, network: bool) -> Isolation:
    """Return what can be had here, for a program that may use the network or may not."""
    program = shutil.which("bwrap")
    reason = "bwrap is not installed" if program is None else _tried(program)
    if not reason:
        return Isolation(by="bubblewrap", files=True, network=True, processes=True)
    return Isolation(by="watchdog", network=network or _can_block(), reason=reason)


@functools.cache
def _tried(program: str) -> str:
    """Return why bubblewrap does not work here; nothing if it does."""
    command = [program, *World().arguments(), "--", *interpreter(), "-c", "import os; os.getpid()"]
    try:
        done = subprocess.run(  # noqa: S603 -- no shell, and the line is ours
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not work here: {error}"
    if done.returncode == 0:
        return ""
    said = done.stderr.decode(errors="replace").strip()[:300] or f"it exited with {done.returncode}"
    return f"bwrap does not work here: {said}"


@functools.cache
def _can_block() -> bool:
    """Return True if the watchdog can block the network: tried in a child, as it is for good."""
    command = [*interpreter(), watchdog.__file__, "probe=", "--"]
    try:
        done = subprocess.run(  # noqa: S603 -- as above
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def interpreter() -> list[str]:
    """Return how the watchdog is run: apart from all that an environment would have Python load."""
    return [os.path.realpath(sys.executable), "-I", "-S"]


def counts_processes() -> bool:
    """Return True if the kernel counts the processes inside bubblewrap apart from all others."""
    release = platform.release().split(".")[:2]
    return tuple(int(part) for part in release if part.isdigit()) >= _OWN_COUNT


# -- the world inside ------------------------------------------------------------------------------

_Kind = Literal["hidden", "rw", "ro", "alias", "system", "scratch", "proc", "dev"]


@dataclass(frozen=True, kw_only=True)
class World:
    """The files and the network that a program is given by bubblewrap."""

    writable: Sequence[Path] = ()
    reads: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    """Directories that it does not see, wherever they are."""
    scratch: Sequence[Path] = ()
    """Where else programs put what they need for a while, beside `/tmp` and the like."""
    room: int | None = None
    """Bytes for each of those."""
    network: bool = False
    _entries: dict[Path, tuple[_Kind, Path]] = field(default_factory=dict, init=False)

    def arguments(self) -> list[str]:
        """Return what bubblewrap is told."""
        told = ["--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"]
        if self.network:
            told.append("--share-net")
        sealed = [Path("/dev")]
        for path, kind, source in self._mounts():
            told += self._mounted(path, kind, source)
            if kind == "hidden":
                sealed.append(path)
        if Path("/") not in self._entries:
            sealed.append(Path("/"))
        for path in sealed:
            told += ["--remount-ro", str(path)]
        return told

    def empty_places(self) -> list[str]:
        """Return where the program finds empty directories of its own, to write what it likes."""
        return [str(path) for path, kind, _ in self._mounts() if kind == "scratch"]

    def _mounted(self, path: Path, kind: _Kind, source: Path) -> list[str]:
        match kind:
            case "scratch" if self.room is not None:
                return ["--size", str(self.room), "--tmpfs", str(path)]
            case "scratch":
                return ["--tmpfs", str(path)]
            case "hidden":
                return ["--tmpfs", str(path)]
            case "rw" if path.is_relative_to("/dev"):
                return ["--dev-bind-try", str(source), str(path)]
            case "rw":
                return ["--bind-try", str(source), str(path)]
            case "ro" | "system":
                return ["--ro-bind-try", str(source), str(path)]
            case "alias":
                return ["--symlink", str(source), str(path)]
            case _:
                return [f"--{kind}", str(path)]

    def _mounts(self) -> Iterator[tuple[Path, _Kind, Path]]:
        """Yield what is to be seen where, parents before what is in them."""
        if not self._entries:
            self._collect()
        kept: dict[Path, _Kind] = {}
        for path in sorted(self._entries, key=lambda path: len(path.parts)):
            kind, source = self._entries[path]
            above = next((kept[one] for one in path.parents if one in kept), None)
            seen = above in {"ro", "rw", "system"}
            if kind in {"ro", "alias", "scratch"} and seen:
                continue  # as it is, as a part of that
            if kind == "system" and above == "rw":
                continue  # declared to be written to
            if kind == "hidden" and not seen:
                continue  # not there anyway
            kept[path] = kind
            yield path, kind, source

    def _collect(self) -> None:
        """Put together what is to be seen; what comes first counts."""
        self._add("hidden", self.hidden)
        self._add("rw", self.writable)
        self._add("ro", [*self.reads, *_needed()])
        if self.network:
            self._add("ro", [Path(_RESOLVER)])
        for path in map(Path, SYSTEM):
            if path.is_symlink():
                self._entries.setdefault(path, ("alias", path.readlink()))
            elif path.exists():
                self._entries.setdefault(path, ("system", path))
        for path in (*_SCRATCH, *self.scratch):
            self._entries.setdefault(path, ("scratch", path))
        self._entries[Path("/proc")] = ("proc", Path("/proc"))
        self._entries[Path("/dev")] = ("dev", Path("/dev"))

    def _add(self, kind: _Kind, paths: Iterable[Path]) -> None:
        for path in paths:
            real = Path(os.path.realpath(path))
            self._entries.setdefault(real, (kind, real))
            if kind != "hidden" and real != path and not _leads_by_system(path):
                self._entries.setdefault(path, ("alias", real))


def _leads_by_system(path: Path) -> bool:
    """Return True if the first step of a path is a link of the system's, such as `/bin`."""
    first = "/" + path.parts[1] if len(path.parts) > 1 else "/"
    return first in SYSTEM and Path(first).is_symlink()


@functools.cache
def _needed() -> tuple[Path, ...]:
    """Return what the watchdog is made of."""
    home = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), watchdog.__file__)
    return tuple(Path(one) for one in home)
