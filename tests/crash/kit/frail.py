"""Apps that are in trouble once something has gone wrong, and well until then."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import threading
from typing import TYPE_CHECKING, Final, NoReturn

from actors.errors import Unanswered
from tests.crash.kit import bots

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.runtime import Runtime


def _was_asked_again(runtime: Runtime) -> bool:
    """Tell, the first time only, whether a model was asked again."""
    runtime.log.flush()
    kinds = [each.kind for each in runtime.log.read(bots.NAME)]
    flag: Path = runtime.log.directory / "flag"  # type: ignore[attr-defined]  # wherever it is
    if "turn.stream_restarted" not in kinds or flag.exists():
        return False
    flag.touch()
    return True


def scenario_ended(runtime: Runtime) -> None:
    """Be ended by somebody else, as by a system that is out of memory."""
    bots.scenario(runtime)
    if _was_asked_again(runtime):
        os.kill(os.getpid(), signal.SIGKILL)


def scenario_unwatched(runtime: Runtime) -> None:
    """Wait for ever, having called off whoever would have said so."""
    bots.scenario(runtime)
    if _was_asked_again(runtime):
        faulthandler.cancel_dump_traceback_later()
        threading.Event().wait()


def scenario_unanswered(runtime: Runtime) -> None:
    """Be told that there is no answer."""
    bots.scenario(runtime)
    if _was_asked_again(runtime):
        msg = "nobody answers"
        raise Unanswered(msg)


def build_raising(directory: Path) -> Runtime:
    """Open a runtime in which a job raises if there is something to go on with."""
    runtime = bots.build(directory)
    if any(each.id == bots.NAME for each in runtime.log.conversations()):
        runtime.scheduler.lane("conv_bot/session").run(_raise)
    return runtime


def _raise() -> NoReturn:
    msg = "a bug in what recovery does"
    raise RuntimeError(msg)


_turns: Final = itertools.count(1)


def scenario_every_other(runtime: Runtime) -> None:
    """Come to an end every other time."""
    bots.scenario(runtime)
    if next(_turns) % 2 == 0:
        msg = "not this time"
        raise ValueError(msg)
