"""Where a control socket is, by a name short enough for the system."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runefold.control.wire import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST: Final = 100
"""Bytes of a socket's path that every system takes: 107 on Linux, 103 elsewhere."""
_DESCRIPTORS: Final = Path("/proc/self/fd")


def socket_in(directory: Path) -> Path:
    """Return where the socket of a log is."""
    return directory / NAME


@contextlib.contextmanager
def short(directory: Path) -> Iterator[str]:
    """Give a path of the socket in a directory that is short enough to bind and to connect to."""
    path = str(socket_in(directory))
    if len(os.fsencode(path)) <= LONGEST:
        yield path
    elif _DESCRIPTORS.is_dir():
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"{_DESCRIPTORS}/{descriptor}/{NAME}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="rf") as folder:
            link = Path(folder) / "d"
            link.symlink_to(directory.absolute(), target_is_directory=True)
            yield str(link / NAME)
