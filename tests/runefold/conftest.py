"""What the tests of this folder stand on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tmp_path(memory_path: Path) -> Path:
    """Work in memory: what is synced here is read back through the log, never from the disk."""
    return memory_path
