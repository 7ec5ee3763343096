"""What a supervisor that gives up leaves behind: of what it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.process.process import Reason
from supervisors.child_spec import Flags
from tests.supervisors.cast import Boom, Fails, Manual, Worker

if TYPE_CHECKING:
    from actors.process.process import Down, Process


@pytest.mark.parametrize("then", [Worker, Fails])
def test_whoever_gives_up_says_what_it_could_not_mend(then: type[Process]) -> None:
    """It ends in order, as in OTP; and whoever is told of its end can tell an operator why."""
    manual = Manual()
    ends: list[Down] = []
    top = manual.supervisor(manual.spec("a", Worker, then), flags=Flags(intensity=1))
    top.watch(ends.append)
    top.launch()
    manual.tell("a", "crash")
    if then is Worker:
        manual.tell("a", "crash")
    [end] = ends
    error = end.exit.error

    assert end.exit.reason is Reason.SHUTDOWN
    assert isinstance(error if then is Worker else error and error.__cause__, Boom)
