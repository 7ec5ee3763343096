"""What holds for all tests."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

from actors.tool.sandbox import isolation

# How long an example takes depends on what else the machine does, and proves nothing.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell without job control has whatever it starts in the background ignore Ctrl-C, and children
# inherit that. Tests that interrupt their children would wait for them in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
