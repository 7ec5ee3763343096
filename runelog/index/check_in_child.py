"""Trying a file in a child process, which may die of it or wait for ever.

LMDB trusts its file: a damaged one can end the process that opens it. And LMDB waits for another
writer without a time-out. So a child process goes first, and what becomes of it is the answer.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runelog.decoders import from_msgpack
from runelog.errors import Corrupt, Fault
from runelog.index.child_check import Finding
from runelog.lmdb.environment import TABLES
from runelog.lmdb.salvage import check_size

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATIENCE: Final = 60.0
_BYTES_PER_SECOND: Final = 2 << 20
# Without `site` and what the environment may add: quicker, and nothing but our own code runs there.
_FLAGS: Final = ("-I", "-S", "-c")
_FROM_OUTSIDE: Final = {signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM}
"""Signals from a user, or from a machine that is out of memory. The file is not to blame."""
_CHILD: Final = (
    "import sys; end = 2 + 2 * int(sys.argv[1]); sys.path[:] = sys.argv[end:]; "
    "from runelog.index.child_check import main; main(sys.argv[2:end:2], sys.argv[3:end:2])"
)
_KNOCKER: Final = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from runelog.index.child_check import try_to_write as t; t(sys.argv[1]); t(sys.argv[2])"
)


def check_file(path: Path, tables: Sequence[str] = TABLES) -> None:
    """Raise `Corrupt` unless a child process finds every byte of a file sound, and lives.

    Raises `Fault` if the child does not start or is ended from outside, which says nothing about
    the file. A walk that takes more than a minute, or for a large file longer, counts as one that
    never ends.
    """
    check_size(path)
    (fault,) = _verdicts([(path, tables)])
    if fault is not None:
        raise fault


def check_files(*files: tuple[Path, Sequence[str]]) -> list[Corrupt | None]:
    """Return for each file, given with its tables, what a child process finds wrong with it.

    One child looks at all of them. Only if it dies is there one for each, to tell which it died of.
    """
    try:
        for path, _ in files:
            check_size(path)
        return _verdicts(files)
    except Corrupt:
        return [_found(path, tables) for path, tables in files]


def _found(path: Path, tables: Sequence[str]) -> Corrupt | None:
    try:
        check_file(path, tables=tables)
    except Corrupt as error:
        return error
    return None


def _verdicts(files: Sequence[tuple[Path, Sequence[str]]]) -> list[Corrupt | None]:
    """Return what one child finds wrong with each file; raise `Corrupt` if it dies of one."""
    timeout = _PATIENCE + sum(path.stat().st_size for path, _ in files) / _BYTES_PER_SECOND
    named = [word for path, tables in files for word in (str(path), " ".join(tables))]
    told = _judge(files[0][0], _command(_CHILD, str(len(files)), *named), timeout)
    found = from_msgpack(list[Finding | None])(told)
    return [
        None
        if finding is None
        else Corrupt(
            f"{path.name} is damaged: {finding.told}",
            conversation=finding.conversation,
            event_id=finding.event_id,
        )
        for (path, _), finding in zip(files, found, strict=True)
    ]


def may_write(one: Path, other: Path, timeout: float) -> bool:
    """Return True if a child process could write to two files in turn, in time.

    It cannot while another process is in the middle of that. Whatever else may be wrong with the
    files, there is no writer to wait for then.
    """
    try:
        subprocess.run(  # noqa: S603 -- starts this same Python with our own code
            _command(_KNOCKER, str(one), str(other)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    except OSError as error:
        msg = f"{one.name} cannot be tried: {sys.executable} does not start: {error}"
        raise Fault(msg) from error
    return True


def _command(code: str, *arguments: str) -> list[str]:
    places = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    return [sys.executable, *_FLAGS, code, *arguments, *places]


def _judge(path: Path, command: Sequence[str], timeout: float) -> bytes:
    """Run the child and return what it prints; raise what its death says of the file."""
    try:
        child = subprocess.run(  # noqa: S603 -- starts this same Python with our own code
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        msg = f"{path.name} is damaged: reading all of it did not end within {timeout:,.0f} s"
        raise Corrupt(msg) from None
    except OSError as error:
        msg = f"{path.name} cannot be examined: {sys.executable} does not start: {error}"
        raise Fault(msg) from error
    if child.returncode < 0:
        killer = signal.strsignal(-child.returncode) or f"signal {-child.returncode}"
        if -child.returncode in _FROM_OUTSIDE:
            msg = f"{path.name} could not be examined: the process that tried was ended ({killer})"
            raise Fault(msg)
        msg = f"{path.name} is damaged: reading all of it ended the process that tried ({killer})"
        raise Corrupt(msg)
    if child.returncode:
        told = _text(child.stderr).strip().rpartition("\n")[2]
        msg = f"{path.name} is damaged: reading all of it failed: {told}"
        raise Corrupt(msg)
    return child.stdout


def _text(output: bytes) -> str:
    return output.decode(errors="backslashreplace")
