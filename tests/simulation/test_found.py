"""What simulations have found stays found."""

from __future__ import annotations

import pytest

from runefold.testing.simulation import decode, play
from tests.simulation.found import FOUND


@pytest.mark.parametrize("name", FOUND)
def test_what_was_wrong_once_is_right(name: str) -> None:
    """A plan that has broken a rule breaks none any more."""
    assert play(decode(FOUND[name])).wrong == ()
