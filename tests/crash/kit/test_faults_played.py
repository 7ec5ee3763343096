"""Rules about each fault: what is played is really something else than what would have been."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from actors.model.provider import Done, Failure, Pause, Request, Text, ToolCall
from actors.scheduling import clock as clocks
from actors.scheduling.clock import ManualClock, SystemClock
from actors.tool.adapters.function import tool
from actors.tool.context import Call
from actors.tool.runes import Progress
from actors.units import SECOND
from runefold.testing.crash.instrumentation.clock import SkewedClock
from runefold.testing.crash.instrumentation.journal import Execution, Memory
from runefold.testing.crash.instrumentation.logs import InProcessLog
from runefold.testing.crash.instrumentation.open_runtime import Kill
from runefold.testing.crash.instrumentation.tools_and_models import Ledger
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.plan.faults import RAISED, UNNOTICED, WORDS, Faults, MadeToFail
from runefold.testing.crash.plan.points import FAULTS, LOG_FAULTS, MODEL_FAULTS, TOOL_FAULTS, Aim
from runefold.testing.crash.running import in_process
from runelog.errors import LogFailed, LogFull, UnknownConversation
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.model.provider import Event

DAY: Final = 86_400.0
HOUR: Final = 3_600.0


class Noted:
    """A clock that says what was done to it."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self.said: list[str] = []

    def hurry(self) -> None:
        """Say so."""
        self.said.append("hurry")

    def hasten(self) -> None:
        """Say so."""
        self.said.append("hasten")

    def jump(self, seconds: float) -> None:
        """Say how far."""
        self.said.append(f"jump {seconds}")

    def outlast(self, call: Call) -> None:
        """Say which call."""
        self.said.append(f"outlast {call.call_id}")

    def hang(self, is_over: Callable[[], bool]) -> None:
        """Say whether anybody waits."""
        self.said.append(f"hang {is_over()}")


class Aimed(Watch):
    """One that has come to where a fault is to be played."""

    def __init__(self, fault: str) -> None:
        """Play it on whatever is next."""
        super().__init__(1, Memory())
        self._fault = fault

    def fault_of(self, _conversation: str, _entity: str, kinds: Sequence[str]) -> str:
        """Give the fault to whom it is meant for."""
        return self._fault if self._fault in kinds else ""


class Played(NamedTuple):
    """What came of a fault."""

    got: list[Any]
    """What was answered, or raised."""
    clock: tuple[str, ...] = ()
    executed: int = 0
    """How often the real thing was called."""


# -- models ----------------------------------------------------------------------------------------

ANSWER: Final[list[Event]] = [Text("I "), Text("pay"), Text("."), ToolCall("pay"), Done()]
HALF: Final = ANSWER[:2]
UNHEARD: Final = Failure("timeout", "nobody waited for this", retryable=True)
HURRIED: Final = ("hurry", "hasten")


class Model:
    """A model that always says the same."""

    def stream(self, _request: Request) -> Iterator[Event]:
        """Answer."""
        yield from ANSWER


def of_model(fault: str) -> Played:
    """Ask a model on which a fault is played."""
    book, time = Memory(), Noted()
    model = Ledger(book, Aimed(fault), Faults(time)).models({"bot": Model()})["bot"]
    got: list[Any] = []
    try:
        # One by one: what was said before it raises was said.
        got.extend(iter(model.stream(Request("bot", "", (), round=1))))
    except MadeToFail as error:
        got.append(str(error))
    return Played(got, tuple(time.said), executions(book))


def executions(book: Memory) -> int:
    """Return how often something was really called."""
    return sum(isinstance(line, Execution) for line in book.lines())


OF_MODELS: Final[Mapping[str, Played]] = {
    "provider-429": Played([Failure("rate_limited", "429 Too Many Requests", retryable=True)]),
    "provider-500": Played([Failure("server_error", "500 Internal Server Error", retryable=True)]),
    "provider-timeout": Played([Pause(DAY), UNHEARD], HURRIED),
    "provider-cut": Played([*HALF], (), 1),
    "provider-slow": Played([x for each in ANSWER for x in (Pause(10.0), each)], HURRIED, 1),
    "provider-hangs": Played([*HALF, Pause(DAY), UNHEARD], ("hurry", "hang False", "hasten"), 1),
    "provider-raises": Played([*HALF, WORDS], (), 1),
    "provider-refuses": Played([WORDS]),
    "provider-garbage": Played(
        [Text("\ud800 \x00 <|im_end|>"), ToolCall("no such tool \x1b[2J", "{{{"), Done("\x00")]
    ),
}


def test_a_model_without_a_fault_is_left_alone() -> None:
    """What is compared with below is what it says."""
    assert of_model("") == Played(ANSWER, (), 1)


@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_each_fault_of_a_model_is_played(fault: str) -> None:
    """It says something else, or nothing, or later; and is asked only where it says something."""
    assert of_model(fault) == OF_MODELS[fault]
    assert of_model(fault) != of_model("")


def test_a_model_that_raises_in_the_middle_has_said_something() -> None:
    """One that refuses raises before there is anything to read."""
    ledger = Ledger(Memory(), Aimed("provider-raises"), Faults())
    stream = iter(ledger.models({"bot": Model()})["bot"].stream(Request("bot", "", ())))

    assert list(itertools.islice(stream, 2)) == HALF
    with pytest.raises(MadeToFail):
        next(stream)
    refusing = Ledger(Memory(), Aimed("provider-refuses"), Faults()).models({"bot": Model()})
    with pytest.raises(MadeToFail):
        refusing["bot"].stream(Request("bot", "", ()))


def test_every_other_time_garbage_is_not_even_an_event() -> None:
    """A word that no model can say, in place of an end that none would give."""
    *_, last = Faults().of_model("provider-garbage", lambda: iter(ANSWER), Request("bot", "", ()))

    assert type(last) is object


# -- tools -----------------------------------------------------------------------------------------


def of_tool(fault: str) -> tuple[Played, list[str], list[str]]:
    """Run a tool on which a fault is played; return what it did, and what it said on the way."""
    done: list[str] = []
    said: list[str] = []

    @tool
    def pay(cents: int) -> str:
        """Pay somebody."""
        done.append(f"{cents} paid")
        return done[-1]

    def progress(stream: str, chunk: str, /) -> None:
        said.append(f"{stream} {len(chunk)}")

    book, time = Memory(), Noted()
    (watched,) = Ledger(book, Aimed(fault), Faults(time)).tools([pay])
    outcome = watched.run(Call(call_id="call_1", arguments={"cents": 5}, progress=progress))
    got = [
        outcome.status,
        outcome.error or len(str(outcome.output)) > pay.spec.max_output_bytes // 2,
    ]
    return Played(got, tuple(time.said), executions(book)), done, said


RAISES: Final = Played(["error", f"MadeToFail: {WORDS}"], (), 1)
OUTLASTS: Final = ("hurry", "outlast call_1", "hasten")
OF_TOOLS: Final[Mapping[str, tuple[Played, list[str], list[str]]]] = {
    "tool-raises": (RAISES, [], []),
    "tool-breaks": (RAISES, ["5 paid"], []),
    "tool-hangs": (Played(["cancelled", "it was told to stop"], OUTLASTS), [], []),
    "tool-floods": (Played(["success", True], (), 1), ["5 paid"], ["stdout 1000"] * 100),
}


def test_a_tool_without_a_fault_is_left_alone() -> None:
    """What is compared with below is what it does."""
    assert of_tool("") == (Played(["success", False], (), 1), ["5 paid"], [])


@pytest.mark.parametrize("fault", TOOL_FAULTS)
def test_each_fault_of_a_tool_is_played(fault: str) -> None:
    """It fails before or after it has done its work, or does not come back, or says too much."""
    assert of_tool(fault) == OF_TOOLS[fault]
    assert of_tool(fault) != of_tool("")


# -- the log and the clock -------------------------------------------------------------------------


def of_log(fault: str) -> tuple[list[type[Exception] | None], int, list[str]]:
    """Append twice to a log of which the first commit is struck.

    Returns what each append is refused with, how much there is in the next life, and what was done
    to the clock.
    """
    time = Noted()
    log = InProcessLog(lambda: 0)
    log.watch = Watch(1, Memory(), Aim(fault, number=1), Kill(Faults(time)))
    refused: list[type[Exception] | None] = []
    for number in range(2):
        try:
            rune = Progress(call_id="call_1", stream="stdout", chunk=f"{number}")
            log.append("conv_a", [Change("call_1", None, (rune,))])
            refused.append(None)
        except (LogFull, LogFailed) as error:
            refused.append(type(error))
    log.failed = None
    log.mend()
    try:
        left = log.conversation("conv_a").head
    except UnknownConversation:
        left = 0
    return refused, left, time.said


OF_LOGS: Final[Mapping[str, tuple[list[type[Exception] | None], int, list[str]]]] = {
    "disk-full": ([LogFull, None], 1, ["hasten"]),
    "sync-eio": ([LogFailed, LogFailed], 1, []),
    "sync-lost": ([LogFailed, LogFailed], 0, []),
    "clock-forward": ([None, None], 2, [f"jump {HOUR}"]),
    "clock-back": ([None, None], 2, [f"jump {-HOUR}"]),
}


def test_a_log_without_a_fault_is_left_alone() -> None:
    """What is compared with below is what it takes."""
    assert of_log("") == ([None, None], 2, [])


@pytest.mark.parametrize("fault", LOG_FAULTS)
def test_each_fault_of_the_log_is_played(fault: str) -> None:
    """A commit is refused, for once or for good, and is there or is gone; or the clock is set."""
    assert of_log(fault) == OF_LOGS[fault]
    assert of_log(fault) != of_log("")


def test_the_clock_of_a_machine_is_really_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward at once for everybody; back for whoever begins a clock from then on."""
    monkeypatch.setitem(vars(clocks), "time", vars(clocks)["time"])  # for it to be put back
    clock, older = SkewedClock(), SystemClock()
    before = clock.now()
    clock.jump(HOUR)
    ahead = clock.now()
    clock.jump(-HOUR)
    younger = SystemClock()

    assert HOUR * SECOND <= ahead - before < 2 * HOUR * SECOND
    assert clock.now() >= ahead
    assert HOUR * SECOND / 2 < older.now() - younger.now() < 2 * HOUR * SECOND


def test_a_clock_by_hand_is_really_moved() -> None:
    """Forward, and beyond the time limit of a call that hangs; back it cannot go."""
    stage = in_process.InProcess(None)
    stage.clock, time = ManualClock(0), in_process.ManualTime(stage)
    moved: list[float] = []
    moves: list[Callable[[], None]] = [
        lambda: time.jump(HOUR),
        lambda: time.jump(-HOUR),
        lambda: time.outlast(Call(call_id="call_1", timeout=30)),
    ]
    for move in moves:
        before = stage.clock.now()
        move()
        moved.append((stage.clock.now() - before) / SECOND)

    assert moved == [HOUR, 0, 31]


def test_a_thread_is_held_up_until_nobody_waits_for_it() -> None:
    """A model that hangs comes back when it was called off; a tool when it is told to stop."""
    clock, looks = SkewedClock(), iter([False, False, True])
    call = Call(call_id="call_1")
    call.cancellation.cancel()
    clock.outlast(call)
    clock.hang(lambda: next(looks))

    assert next(looks, None) is None


# -- all of them -----------------------------------------------------------------------------------


def test_no_fault_is_left_out() -> None:
    """One that is listed and not in these tables is played by nobody, as far as is known."""
    assert {*OF_MODELS, *OF_TOOLS, *OF_LOGS} == {*FAULTS}
    assert len(FAULTS) == len({*FAULTS}) == 18


def test_what_an_app_must_not_notice_is_named() -> None:
    """After these it must come to the same end; the others are told to whoever asks."""
    noticed = {*FAULTS} - UNNOTICED

    assert noticed == RAISED | {
        "provider-garbage",
        "tool-hangs",
        "tool-floods",
        "clock-forward",
    }
    assert {"tool-raises", "tool-breaks", "provider-raises", "provider-refuses"} == RAISED
