"""Rules about opening and closing one environment."""

from __future__ import annotations

from pathlib import Path

import lmdb
import pytest

from runelog.lmdb import environment
from runelog.lmdb.environment import Environment
from runelog.lmdb.space import identity


def test_an_environment_that_cannot_be_opened_is_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever opening it fails, no descriptor stays open and the file is not in use."""

    def failing(_: Environment) -> int:
        msg = "the map is gone"
        raise lmdb.Error(msg)

    path = tmp_path / "000001.0.mdb"
    Environment(path, map_size=1 << 20, create=True).close()
    before = sorted(Path("/proc/self/fd").iterdir())
    monkeypatch.setattr(Environment, "_measure", failing)
    with pytest.raises(lmdb.Error):
        Environment(path, map_size=1 << 20)

    assert sorted(Path("/proc/self/fd").iterdir()) == before
    assert identity(path) not in environment._open
