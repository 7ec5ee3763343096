"""Small file systems of a child's own: nobody else sees them, and they go with it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

_NEW_MOUNTS: Final = 0x0002_0000
_NEW_USERS: Final = 0x1000_0000
_READ_ONLY: Final = 1
_REMOUNT: Final = 32
_PRIVATE: Final = 1 << 18
_RECURSIVE: Final = 1 << 14
_libc = ctypes.CDLL(None, use_errno=True)


class NotPermitted(Exception):
    """This machine does not let us mount anything."""


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments):
        error = ctypes.get_errno()
        raise NotPermitted(f"{name}: {os.strerror(error)}")  # noqa: EM102 -- one line


def alone() -> None:
    """Have mounts of our own from now on. To be called in a child."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        _call("unshare", _NEW_MOUNTS)
    else:
        _call("unshare", _NEW_MOUNTS | _NEW_USERS)
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")
    _call("mount", None, b"/", None, ctypes.c_ulong(_PRIVATE | _RECURSIVE), None)


def mount(directory: Path, size: int) -> None:
    """Put an empty file system of so many bytes in memory over a directory."""
    options = f"size={size}".encode()
    _call("mount", b"none", bytes(directory), b"tmpfs", ctypes.c_ulong(0), options)


def forbid_writing(directory: Path) -> None:
    """Make a mounted file system read-only."""
    _call("mount", None, bytes(directory), None, ctypes.c_ulong(_REMOUNT | _READ_ONLY), None)
