"""Power cuts after which the app does nothing: what was accepted comes to its end by itself."""

from __future__ import annotations

import random
from typing import Final

import pytest

from tests.crash.core.cuts import points, recover

SEED: Final = 7
NAMES: Final = ("charges", "fault", "parallel", "queue", "team")


@pytest.mark.parametrize("name", NAMES)
def test_nobody_has_to_ask_for_it(name: str) -> None:
    """After a power cut everything that was accepted comes to its end by being opened."""
    chosen = random.Random(SEED).sample(points(name), 8)

    assert [wrong for cut in chosen for wrong in recover(name, cut)] == []


@pytest.mark.crash
@pytest.mark.parametrize("name", NAMES)
def test_nobody_ever_has_to_ask_for_it(name: str) -> None:
    """So it is after a power cut at any moment."""
    assert [wrong for cut in points(name) for wrong in recover(name, cut)] == []
