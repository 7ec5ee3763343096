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
from actors.model.providers.scripted import Scripted, pause
from actors.model.providers.scripted import call as ask_for
from actors.system import runes as system
from actors.tool.adapters.function import tool
from actors.units import SECOND
from runefold import AgentSpec
from runefold.machines import (
    Abandon,
    Answered,
    AskedCall,
    CallModel,
    CallTool,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Message,
    Moved,
    NotAnswered,
    Rune,
    StopCall,
    Table,
    about,
    refusal,
    tools,
)
from runefold.testing.stage import PowerCut, Stage
from runelog.memory import MemoryLog
from runelog.rune import SYSTEM, Change

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.runtime import Runtime
    from runefold.testing.stage import FragileLog

NAME: Final = "errand"


ADVISER: Final = "adviser"
TRIES: Final = 3
"""So often a model is asked for advice."""


class Begun(Rune, frozen=True, tag="errand.begun"):
    """Somebody is sent: the errand's birth."""

    what: str


class Advised(Rune, frozen=True, tag="errand.advised"):
    """A model has said how to go about it."""

    text: str
    calls: tuple[AskedCall, ...] = ()


class Missed(Rune, frozen=True, tag="errand.missed"):
    """A model gave no advice, and may be asked again."""

    error_type: str


class Recalled(Rune, frozen=True, tag="errand.recalled"):
    """It is to end: what is under way is stopped first."""

    reason: str


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
    Phase.OUT: {
        Advised: Phase.OUT,
        Missed: Phase.OUT,
        Recalled: Phase.OUT,
        Done: Phase.BACK,
        Lost: Phase.BACK,
    },
    Phase.BACK: {},
}


class State(msgspec.Struct, frozen=True):
    """What an errand's runes add up to."""

    phase: Phase = Phase.OUT
    what: str = ""
    missed: int = 0
    """How often a model was asked in vain."""
    advice: Advised | None = None
    recalled: str = ""
    result: str = ""


class Send(Command, frozen=True):
    """Send somebody on an errand."""

    begins = True

    what: Annotated[str, about("What is to be fetched.")]


class CallBack(Command, frozen=True):
    """Call somebody back who is on an errand."""

    reason: Annotated[str, about("Why.")] = "called back"


class Settle(msgspec.Struct, frozen=True):
    """End it, as soon as its call has."""


def decide(state: State, command: object) -> list[Rune]:
    """Begin it, end it, or refuse what is asked."""
    out = state.phase is Phase.OUT
    match command:
        case Send(what) if not state.what:
            return [Begun(what)]
        case Answered(key, text, calls) if out and key == _awaited(state):
            return [Advised(text, calls)]
        case NotAnswered(key, error_type, retryable=retryable) if out and key == _awaited(state):
            again = retryable and state.missed + 1 < TRIES and not state.recalled
            return [Missed(error_type)] if again else [Done(error_type)]
        case Answered() | NotAnswered():
            return []
        case Settle():
            return [Done(state.result or state.recalled or "advice")]
        case Cancel(reason) | CallBack(reason):
            return [] if not out or state.recalled else [Recalled(reason)]
        case Abandon(reason):
            return [Done(reason)] if out else []
        case _:
            raise refusal(NAME, state.phase, command)


def _awaited(state: State) -> str:
    """Return the key of the model call whose end is awaited; empty once there was advice."""
    return f"advice-{state.missed}" if state.advice is None else ""


def evolve(state: State, rune: Rune) -> State:
    """Take a rune's data into the state."""
    match rune:
        case Begun(what):
            return replace(state, what=what)
        case Advised():
            return replace(state, advice=rune)
        case Missed():
            return replace(state, missed=state.missed + 1)
        case Recalled(reason):
            return replace(state, recalled=reason)
        case tools.Result(status=status):
            return replace(state, result=status)
        case Lost():
            return replace(state, result="lost")
        case _:
            return state


def due(state: State) -> list[Any]:
    """Ask a model what to do, call the tool that it asks for, then settle."""
    if not state.what or state.phase is Phase.BACK:
        return []
    call: CallModel | CallTool
    if state.advice is None:
        said = (Message("user", state.what),)
        call = CallModel(_awaited(state), ADVISER, "Say what to do.", said, tools=("fetch",))
    elif state.advice.calls and not state.result:
        asked = state.advice.calls[0]
        call = CallTool("fetch", asked.tool_name, asked.arguments, asked.raw)
    else:
        return [Settle()]
    return [call, StopCall(call.key, state.recalled)] if state.recalled else [call]


ERRAND: Final = Kind(
    lifecycle=Lifecycle(
        name=NAME, table=TABLE, initial=State(), decide=decide, evolve=evolve, due=due
    ),
    prefix=NAME,
    runes=(Begun, Advised, Missed, Recalled, Done),
    retired=(Lost,),
    external=frozenset({CallTool}),
    internal=frozenset({Settle}),
    actor=Machine,
    commands=(Send, CallBack),
    outcome=lambda state: (state.phase.value, state.what, state.result),
)


def advise(request: Request) -> Reply:
    """Say to fetch what was asked for."""
    return ["Fetch it: ", ask_for("fetch", what=request.messages[-1].text)]


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
    stage = Stage(kinds=[ERRAND], tools=[fetch], providers={ADVISER: Scripted(advise)})
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


def recalled() -> FragileLog:
    """Close a session while the model is asked what an errand of it is to do; return the log."""
    slow, bot = Scripted([[pause(60), "Fetch it."]]), Scripted(["Hello!"])
    stage = Stage(kinds=[ERRAND], tools=[fetch], providers={ADVISER: slow, "bot": bot})
    name = "conv_recalled"
    spec = AgentSpec(role="bot", model="bot")
    session = stage.runtime.create_session(spec, conversation_id=name)
    stage.runtime.do(name, Send("bread"), "errand_3")
    stage.run()
    session.close()
    stage.run()
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
