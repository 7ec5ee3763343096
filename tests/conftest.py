"""What holds for all tests."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from actors.tool.sandbox import isolation
from runefold.testing.crash.running.work_directory import workplace

if TYPE_CHECKING:
    from collections.abc import Iterator

# How long an example takes depends on what else the machine does, and proves nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell without job control has whatever it starts in the background ignore Ctrl-C, and children
# inherit that. Tests that interrupt their children would wait for them in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """Provide a directory in memory, or on the disk where memory has no room."""
    with workplace() as place:
        yield place


@pytest.fixture
def memory_path(memory: Path) -> Iterator[Path]:
    """Provide an empty directory in memory, where to sync takes no time.

    It is the `tmp_path` of folders whose tests sync often and do not depend on a real disk.
    """
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as place:
        yield Path(place)


@pytest.fixture
def bubblewrap() -> None:
    """Need bubblewrap."""
    if (found := isolation.found(network=False)).by != "bubblewrap":
        pytest.skip(f"needs bubblewrap: {found.reason}")


@pytest.fixture
def guard_alone(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no bubblewrap: a PATH on which there is none."""
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("bin")))


@pytest.fixture(params=["bubblewrap", "watchdog"])
def way(request: pytest.FixtureRequest) -> str:
    """Isolate programs the one way and then the other."""
    request.getfixturevalue("bubblewrap" if request.param == "bubblewrap" else "guard_alone")
    return str(request.param)
