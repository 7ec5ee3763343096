"""A machine of an app that belongs to no session, so that the system's own root is played too."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from actors import children
from actors.budget import runes as budgets
from actors.catalogue import KINDS
from actors.errors import Dead, Unanswered
from actors.scheduling.clock import SECOND
from actors.system import runes as system
from actors.tool.adapters.function import tool
from runefold.machines import (
    Abandon,
    CallTool,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Rune,
    Table,
    about,
    refusal,
    tools,
)
from runefold.testing.stage import PowerCut, Stage
from runelog.memory import MemoryLog
from runelog.rune import SYSTEM, Change

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from runefold.testing.stage import FragileLog

NAME: Final = "errand"


class Begun(Rune, frozen=True, tag="errand.begun"):
    """Somebody is sent: the errand's birth."""

    what: str


class Done(Moved, frozen=True, tag="errand.done"):
    """It came to its end."""

    result: str


class Lost(Moved, frozen=True, tag="errand.lost"):
    """It never came back. Earlier versions wrote this; now `Done` says it."""


class Phase(StrEnum):
    """What an errand can be."""

    OUT = "out"
    BACK = "back"


TABLE: Final[Table[Phase]] = {
    Phase.OUT: {Done: Phase.BACK, Lost: Phase.BACK},
    Phase.BACK: {},
}


class State(msgspec.Struct, frozen=True):
    """What an errand's runes add up to."""

    phase: Phase = Phase.OUT
    what: str = ""
    result: str = ""


class Send(Command, frozen=True):
    """Send somebody on an errand."""

    begins = True

    what: Annotated[str, about("What is to be fetched.")]


class Settle(msgspec.Struct, frozen=True):
    """End it, as soon as its call has."""


def decide(state: State, command: object) -> list[Rune]:
    """Begin it, end it, or refuse what is asked."""
    match command:
        case Send(what) if not state.what:
            return [Begun(what)]
        case Settle():
            return [Done(state.result)]
        case Cancel(reason) | Abandon(reason):
            return [] if state.phase is Phase.BACK else [Done(reason)]
        case _:
            raise refusal(NAME, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Begun(what):
            return replace(state, what=what)
        case tools.Result(status=status):
            return replace(state, result=status)
        case Lost():
            return replace(state, result="lost")
        case _:
            return state


def due(state: State) -> list[Any]:
    """Call the tool, then settle."""
    if not state.what or state.phase is Phase.BACK:
        return []
    return [Settle()] if state.result else [CallTool("fetch", "fetch", {"what": state.what})]


ERRAND: Final = Kind(
    lifecycle=Lifecycle(
        name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
    ),
    prefix=NAME,
    runes=(Begun, Done),
    retired=(Lost,),
    external=frozenset({CallTool}),
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Send,),
)


@tool(idempotent=True)
def fetch(what: str) -> str:
    """Fetch something."""
    return what


def send(runtime: Runtime, name: str, what: str) -> None:
    """Send somebody; asked for again it is the same errand."""
    runtime.do(SYSTEM, Send(what), name)


def errands(*, cut_at: int | None = None, goes_on: bool = True) -> FragileLog:
    """Have two errands run, cut off after an append if one is named; return the log.

    Unless it `goes_on` then, what was cut off stays so.
    """
    stage = Stage(kinds=[ERRAND], tools=[fetch])
    stage.log.cut_at, stage.log.cut_after = cut_at, True
    for again in (False, True):
        with contextlib.suppress(PowerCut, Dead, Unanswered):
            for name, what in (("errand_1", "bread"), ("errand_2", "milk")):
                send(stage.runtime, name, what)
            stage.run()
        if not stage.log.is_cut:
            break
        if not goes_on:
            stage.log.mend()
            break
        assert not again, "it is cut off once"
        stage.reopen()
    stage.log.flush()
    return stage.log


def errands_of_old() -> MemoryLog:
    """Return a log as an earlier version wrote it, with a rune that is retired since."""
    log = MemoryLog(KINDS.plus([ERRAND]).codec, lambda: 1_700_000_000 * SECOND)
    opened = [system.Opened(SYSTEM), budgets.Opened(scope="system")]
    started = children.Started("errand_old", NAME, "cancel")
    ended = children.Ended("errand_old", "done")
    log.append(
        SYSTEM,
        [
            Change("system", 0, [opened[0], started]),
            Change("budget", 0, [opened[1]]),
            Change("errand_old", 0, [Begun("bread")]),
        ],
    )
    log.append(SYSTEM, [Change("errand_old", 1, [Lost()]), Change("system", 2, [ended])])
    return log
