"""Copies of directories, byte for byte and without their holes: sockets and all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

_CHUNK = 1 << 20


def copy(source: Path, target: Path) -> int:
    """Copy everything in a directory into another, made if it is not there; tell how many bytes."""
    target.mkdir(parents=True, exist_ok=True)
    copied = 0
    for entry in os.scandir(source):
        to = target / entry.name
        if entry.is_symlink():
            to.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            copied += copy(Path(entry.path), to)
        elif entry.is_file():
            copied += _copy_file(entry.path, to)
        elif stat.S_ISSOCK(entry.stat().st_mode):
            # No process listens there, as with what a dead process leaves. Where only root may
            # make one, there is none: so it is with what a process leaves that was closed.
            with contextlib.suppress(OSError):
                os.mknod(to, stat.S_IFSOCK | 0o600)
    return copied


def _copy_file(source: str, target: Path) -> int:
    with contextlib.ExitStack() as stack:
        reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, reading)
        status = os.fstat(reading)
        mode = stat.S_IMODE(status.st_mode)
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        stack.callback(os.close, writing)
        os.ftruncate(writing, status.st_size)
        at = copied = 0
        while at < status.st_size:
            try:
                begin = os.lseek(reading, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break  # nothing but a hole is left
                raise
            at = os.lseek(reading, begin, os.SEEK_HOLE)
            _copy_range(reading, writing, begin, at)
            copied += at - begin
        return copied


def _copy_range(reading: int, writing: int, begin: int, end: int) -> None:
    while begin < end:
        chunk = os.pread(reading, min(_CHUNK, end - begin), begin)
        if not chunk:
            return
        view = memoryview(chunk)
        while view:
            done = os.pwrite(writing, view, begin)
            begin += done
            view = view[done:]
