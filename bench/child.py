"""What must happen in a process of its own: measuring memory, and dying in the middle.

python -m bench.child memory DIRECTORY CONVERSATION
python -m bench.child crash DIRECTORY
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from bench.measure import anonymous_memory
from bench.workload import CODEC, LIFECYCLE, State, Talk
from runelog.replay import replay
from runelog.store import Runelog

if TYPE_CHECKING:
    from runelog.rune import Rune

SAMPLE_EVERY = 5_000


def memory(directory: str, conversation: str) -> None:
    """Replay a conversation and print how much memory that took at its highest."""
    peak = 0

    def evolve(state: State, rune: Rune) -> State:
        nonlocal peak
        if state.fragments % SAMPLE_EVERY == 0:
            peak = max(peak, anonymous_memory())
        return LIFECYCLE.evolve(state, rune)

    watched = dataclasses.replace(LIFECYCLE, evolve=evolve)
    with Runelog.open(directory, CODEC) as log:
        empty = anonymous_memory()
        done = replay(log, conversation, watched)
        peak = max(peak, anonymous_memory())
    print(json.dumps({"empty": empty, "peak": peak, "runes": done.version}))


def crash(directory: str) -> None:
    """Append something durably and die without closing the log."""
    log = Runelog.open(directory, CODEC)
    part = Talk(0).part(1)
    log.append(part.conversation, [part.change()])
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "memory":
        memory(*sys.argv[2:])
    else:
        crash(*sys.argv[2:])
