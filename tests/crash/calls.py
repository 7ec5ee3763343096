"""What a traced child does to the files under one directory: each change, in order.

`Recorder` notes the changes; `Saboteur` counts them, and at the chosen one kills the child or lets
the call fail.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.crash.ptrace import Fail, Kill, trace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tests.crash.ptrace import Entered

_NAMES: Final = {
    1: "write",
    2: "open",
    18: "pwrite64",
    20: "writev",
    74: "fsync",
    75: "fdatasync",
    77: "ftruncate",
    82: "rename",
    83: "mkdir",
    84: "rmdir",
    85: "creat",
    86: "link",
    87: "unlink",
    257: "openat",
    258: "mkdirat",
    263: "unlinkat",
    264: "renameat",
    265: "linkat",
    285: "fallocate",
    296: "pwritev",
    316: "renameat2",
}
_HERE: Final = -100
_vector = struct.Struct("<QQ")
WRITES: Final = frozenset({"write", "pwrite64", "writev", "pwritev"})
SYNCS: Final = frozenset({"fsync", "fdatasync"})


class Change(NamedTuple):
    """One change of a file or directory, or of what is durable of it."""

    call: str
    """The name of the system call."""
    what: str
    """make, mkdir, write, cut, grow, rename, link, remove, sync.

    Or ack: a write to the tester's pipe."""
    path: str
    target: str = ""
    offset: int = 0
    data: bytes = b""
    durable: bool = False
    """Whether the call returns only once the change is durable."""


class _Memory:
    """Reads a stopped child's memory and descriptors."""

    def __init__(self) -> None:
        self._file = -1

    def bytes(self, thread: int, address: int, size: int) -> bytes:
        if self._file < 0:
            self._file = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._file, size, address)

    def text(self, thread: int, address: int) -> str:
        found = b""
        while b"\0" not in found:
            # To the end of the page at most: the next one need not be there.
            found += self.bytes(thread, address + len(found), 4096 - (address + len(found)) % 4096)
        return os.fsdecode(found.partition(b"\0")[0])

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)


class Recorder:
    """Notes every change under a directory."""

    def __init__(self, root: str, ack: int = -1) -> None:
        """Watch what lies under `root`, and writes to the descriptor `ack`."""
        self.root = root
        self.ack = ack
        self.changes: list[Change] = []
        self._memory = _Memory()
        self._under_way: dict[int, Change] = {}

    def enter(self, call: Entered) -> Fail | Kill | None:
        """Note what is about to change."""
        name = _NAMES.get(call.number)
        change = self._decode(name, call) if name else None
        if change is None:
            return None
        verdict = self.judge(change)
        if verdict is None:
            self._under_way[call.thread] = change
        return verdict

    def judge(self, change: Change) -> Fail | Kill | None:  # noqa: ARG002 -- for others to decide
        """Let everything happen."""
        return None

    def leave(self, thread: int, result: int) -> None:
        """Note what did change."""
        change = self._under_way.pop(thread, None)
        if change is None or result < 0:
            return
        if change.what in ("write", "ack"):
            change = change._replace(data=change.data[:result])
        self.changes.append(change)

    def close(self) -> None:
        """Let go of the child's memory."""
        self._memory.close()

    # -- decoding -----------------------------------------------------------------------------

    def _decode(self, name: str, call: Entered) -> Change | None:
        if name in ("open", "openat", "creat"):
            return self._opening(name, call)
        if name in WRITES:
            return self._writing(name, call)
        if name in SYNCS or name in ("ftruncate", "fallocate"):
            return self._on_file(name, call)
        return self._on_names(name, call)

    def _ours(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _path(self, call: Entered, place: int, folder: int | None = None) -> str:
        text = self._memory.text(call.thread, call.arguments[place])
        base = _signed(call.arguments[folder]) if folder is not None else _HERE
        if text.startswith("/"):
            return os.path.normpath(text)
        where = "cwd" if base == _HERE else f"fd/{base}"
        return os.path.normpath(Path(f"/proc/{call.thread}/{where}").readlink() / text)

    def _file(self, call: Entered) -> str:
        try:
            return str(Path(f"/proc/{call.thread}/fd/{_signed(call.arguments[0])}").readlink())
        except FileNotFoundError:
            return ""

    def _opening(self, name: str, call: Entered) -> Change | None:
        at = 1 if name == "openat" else 0
        path = self._path(call, at, 0 if at else None)
        flags = os.O_CREAT | os.O_TRUNC if name == "creat" else call.arguments[at + 1]
        if not self._ours(path):
            return None
        if os.path.lexists(path):
            return Change(name, "cut", path) if flags & os.O_TRUNC else None
        return Change(name, "make", path) if flags & os.O_CREAT else None

    def _writing(self, name: str, call: Entered) -> Change | None:
        descriptor = _signed(call.arguments[0])
        path = self._file(call)
        what = "ack" if descriptor == self.ack else "write"
        if what == "write" and not self._ours(path):
            return None
        if name in ("writev", "pwritev"):
            raw = self._memory.bytes(call.thread, call.arguments[1], 16 * call.arguments[2])
            parts = list(_vector.iter_unpack(raw))
        else:
            parts = [(call.arguments[1], call.arguments[2])]
        data = b"".join(self._memory.bytes(call.thread, *part) for part in parts)
        with open(f"/proc/{call.thread}/fdinfo/{descriptor}", encoding="ascii") as info:  # noqa: PTH123 -- not a real path
            facts = dict(line.split(":", 1) for line in info if ":" in line)
        flags = int(facts["flags"], 8)
        if name.startswith("p"):
            offset = call.arguments[3]
        elif flags & os.O_APPEND:
            offset = os.stat(path).st_size  # noqa: PTH116 -- as the kernel sees it
        else:
            offset = int(facts["pos"])
        return Change(name, what, path, "", offset, data, bool(flags & (os.O_DSYNC | os.O_SYNC)))

    def _on_file(self, name: str, call: Entered) -> Change | None:
        path = self._file(call)
        if not self._ours(path):
            return None
        if name == "fallocate":
            return Change(name, "grow", path, "", call.arguments[2] + call.arguments[3])
        if name == "ftruncate":
            return Change(name, "cut", path, "", call.arguments[1])
        return Change(name, "sync", path)

    def _on_names(self, name: str, call: Entered) -> Change | None:
        if name.startswith(("link", "rename")):
            what = "link" if name.startswith("link") else "rename"
            at = name != what
            path = self._path(call, 1 if at else 0, 0 if at else None)
            target = self._path(call, 3 if at else 1, 2 if at else None)
            return Change(name, what, path, target) if self._ours(path) else None
        at = name.endswith("at")
        path = self._path(call, 1 if at else 0, 0 if at else None)
        if not self._ours(path):
            return None
        making = name.startswith("mkdir")
        if os.path.lexists(path) == making:
            return None
        return Change(name, "mkdir" if making else "remove", path)


class Saboteur(Recorder):
    """At the n-th change under a directory, kills the child or lets the call fail."""

    def __init__(
        self,
        root: str,
        number: int,
        verdict: Fail | Kill,
        calls: Collection[str] | None = None,
    ) -> None:
        """Count changes from 1, those made by `calls` only if given; 0 is none of them."""
        super().__init__(root)
        self.number = number
        self.verdict = verdict
        self.calls = calls
        self.count = 0
        self.hit: Change | None = None

    def judge(self, change: Change) -> Fail | Kill | None:
        """Strike when it is time."""
        if change.what == "ack" or (self.calls is not None and change.call not in self.calls):
            return None
        self.count += 1
        if self.count != self.number:
            return None
        self.hit = change
        return self.verdict


def watch(function: Callable[[], object], recorder: Recorder) -> int:
    """Run a function in a traced child; return its exit status, negative if a signal ended it."""
    try:
        return trace(function, recorder)
    finally:
        recorder.close()


def _signed(value: int) -> int:
    """Read the lower half of a register as the C int that it is."""
    value &= 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value
