"""What a reference knows of an actor that has ended."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from actors.errors import Dead
from tests.actors.players import RecordingProcess, rest

if TYPE_CHECKING:
    from actors.scheduling.manual_scheduler import ManualScheduler


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_dead_go_at_once(manual: ManualScheduler, how: str) -> None:
    """Not only when Python looks for circles; whoever refers to one still knows how it ended."""
    lane = manual.lane("a")
    actor = RecordingProcess("a", lane)
    ref = actor.launch()
    ref.tell("hello")
    rest(manual, lane)
    (ref.stop if how == "stop" else ref.kill)()
    rest(manual, lane)
    seen, ended = weakref.ref(actor), actor.exit
    gc.disable()
    del actor
    gone = seen() is None
    gc.enable()
    late = ref.ask_later("hello")
    ref.stop()
    ref.kill()

    assert gone
    assert not ref.is_alive()
    assert repr(ref) == f"<a: {ended}>"
    with pytest.raises(Dead, match="a has ended: str was not handled"):
        late.result()
