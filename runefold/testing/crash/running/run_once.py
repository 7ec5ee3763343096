"""One life of an app in a process of its own: opened, played, and, if it gets that far, judged."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from unittest import mock

import msgspec

from actors.errors import Unanswered
from actors.tool.output import plain
from runefold import open_hook
from runefold.testing.crash.effects import Effects
from runefold.testing.crash.instrumentation.clock import SkewedClock
from runefold.testing.crash.instrumentation.journal import Journal, Wrong
from runefold.testing.crash.instrumentation.logs import DiskLog
from runefold.testing.crash.instrumentation.open_runtime import DiskRig, Kill
from runefold.testing.crash.instrumentation.operator_errors import report_errors_to
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.plan.faults import UNTOLD, Faults
from runefold.testing.crash.plan.points import BY_MESSAGE, FAULTS, MOMENTS, Aim, parse
from runefold.testing.crash.running import forked_checks
from runefold.testing.crash.running.stacks import OWN
from runefold.testing.crash.verdict import comparison, judge, outcome
from runefold.testing.crash.verdict.judge import Finding
from runelog.errors import Refused, RunefoldError
from runelog.writer import leader
from supervisors.recovery import at_work

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kinds
    from runefold.runtime import Runtime
    from runefold.testing.crash.app import CrashApp
    from runelog.log import Log

APP: Final = "app"
"""What a point's directory holds: the app's own directory, which `build` is given,"""
JOURNAL: Final = "journal"
"""what was appended and told,"""
LEDGER: Final = "effects"
"""what was executed,"""
OUTPUT: Final = "output"
"""what was printed,"""
STACKS: Final = "stacks"
"""and what every thread was doing when the time was up."""
TRIES: Final = 4
"""So often an app tries that is told of an error."""
_LONGEST: Final = 20_000
"""Characters of a traceback that are kept."""
_LOCALS: Final = 8
_WIDE: Final = 200
"""So many variables of a frame are shown, and so much of each."""
_HELD_BACK: Final = 0.1
"""Seconds that unsynced appends stay in memory, where a kill is to lose them."""
_REST: Final = 5.0
"""Seconds that turns have to end for which the scenario does not wait."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told to do."""

    root: str
    life: int
    aim: Aim | None = None
    stops: tuple[Aim, ...] = ()
    """The moments at which to halt, and to go on afterwards."""
    judged: bool = True
    """Whether to say what it came to, if it gets to the end."""
    baseline: str = ""
    """The file with what the undisturbed run came to."""
    strict: bool = True
    """Whether it must come to the same."""
    point: str = ""
    patience: float = 60.0
    check: bool = True
    messages: bool = False
    """Whether to write down the messages that actors handle."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a process says of itself at its end."""

    status: str
    """`finished`, `raised`, or `failed` if the log gave out under it."""
    wrong: list[Finding] = []
    outcome: outcome.LogOutcome | None = None
    seconds: float = 0


def live(app: CrashApp, order: Order) -> Report:
    """Live one life in this process."""
    root = Path(order.root)
    journal, ledger = Journal(root / JOURNAL), Journal(root / LEDGER)
    clock = SkewedClock() if _fault(order) else None
    faults = Faults(clock)
    kill = Kill(faults, signal.SIGSTOP if order.stops else signal.SIGKILL)
    watch = Watch(order.life, journal, order.aim, kill, order.stops, messages=order.messages)
    rig = DiskRig(watch, ledger, faults, clock)
    if order.stops or (order.aim is not None and order.aim.kind in MOMENTS):
        # Whether it comes before the kill would be a matter of luck. For good: until then.
        mock.patch.object(leader, "FLUSH_AFTER", _HELD_BACK).start()
    begun = time.monotonic()
    try:
        with report_errors_to(watch):
            report = _lived(app, order, rig, watch)
    except Exception as error:  # noqa: BLE001 -- whatever an app's code does is a verdict
        if watch.was_hit and has_failed(watch.log):
            return Report(status="failed")
        return Report(status="raised", wrong=[raised(error)])
    return msgspec.structs.replace(report, seconds=time.monotonic() - begun)


def _fault(order: Order) -> str:
    return order.aim.kind if order.aim is not None and order.aim.kind in FAULTS else ""


def _lived(app: CrashApp, order: Order, rig: DiskRig, watch: Watch) -> Report:
    """Open, play and judge."""
    root = Path(order.root)
    directory = root / APP
    directory.mkdir(exist_ok=True)
    told = watch.journal.lines() if order.life > 1 else []
    with open_hook.through(rig), forked_checks.forked():
        runtime = app.opened(directory)
    _check_watched(runtime, rig)
    for each in judge.forgotten(told, runtime.log):
        # Noted at once: this life may be cut short, and the next one finds it mended.
        watch.journal.note(Wrong(order.life, each.verdict, each.message))
    play(app, runtime, watch, lambda: has_failed(runtime.log))
    if not order.judged:
        return Report(status="finished")
    rest(runtime, _REST)
    want = outcome.decoded(Path(order.baseline).read_bytes()) if order.baseline else None
    case = Case(order.point, directory, want, strict=order.strict, check=order.check)
    wrong, found = judged(app, runtime, watch, Journal(root / LEDGER), case)
    runtime.close()
    wrong += judge.noted(watch.journal.lines())
    return Report(status="finished", wrong=wrong, outcome=found)


def has_failed(log: Log) -> bool:
    """Return True if nothing more can be written through a log."""
    return isinstance(log, DiskLog) and log.failed is not None


def play(app: CrashApp, runtime: Runtime, watch: Watch, is_over: Callable[[], bool]) -> None:
    """Have the app do what it does.

    Where its process lives on after something went wrong, it may be told so: that its message could
    not be kept, that no answer came in time. Then it does what any app would, and tries again. But
    that an actor died is no reason to get no answer, and of some faults an app hears nothing.
    """
    kind = "" if watch.aim is None else watch.aim.kind
    untold = kind in MOMENTS or kind in UNTOLD
    for left in reversed(range(TRIES)):
        try:
            app.played(runtime)
        except RunefoldError as error:
            unanswered = kind in BY_MESSAGE and isinstance(error, Unanswered)
            if not left or not watch.was_hit or untold or unanswered or is_over():
                raise
        else:
            _check_open(runtime)
            return


def _check_open(runtime: Runtime) -> None:
    if runtime._closed:  # noqa: SLF001 -- apps have no need to ask
        msg = (
            "the scenario closed the runtime: leave it open, also at the end of a `with` block, "
            "as the crash kit looks at it then, and closes it itself"
        )
        raise Refused(msg)


def _check_watched(runtime: Runtime, rig: DiskRig) -> None:
    if rig.runtime is not runtime:
        msg = (
            "build returned a runtime that the crash kit did not see opened: "
            "open it with Runtime.open, in the thread that calls build"
        )
        raise Refused(msg)


class Case(NamedTuple):
    """What a life is judged by that came to its end."""

    point: str
    directory: Path
    """The app's own."""
    want: outcome.LogOutcome | None
    """What the undisturbed run came to, if there has been one,"""
    strict: bool = True
    """and whether this one must have come to the same."""
    check: bool = True


def judged(
    app: CrashApp, runtime: Runtime, watch: Watch, ledger: Journal, case: Case
) -> tuple[list[Finding], outcome.LogOutcome]:
    """Say what is wrong with an app that is at its end and still alive, and what it came to.

    But for what was noted on the way: there may be more of that until all is closed.
    """
    watch.leave_off()
    # A fault may have ended the life before this one: then it is still why things are as they are.
    kind = parse(case.point).kind if case.point else ""
    fault = kind if kind in FAULTS else ""
    effects = Effects(ledger.lines(), point=case.point, fault=fault, directory=case.directory)
    wrong = _verdicts(app, runtime, effects, check=case.check)
    log, lines = runtime.log, watch.journal.lines()
    wrong += judge.misdone(log, effects)
    wrong += judge.lost(lines, log)
    wrong += judge.untold(log, fault, lines)
    found = outcome.outcome_of(log, runtime.kinds)
    if case.want is not None:
        wrong += comparison.differences(case.want, found, strict=case.strict)
    return wrong, found


def _verdicts(app: CrashApp, runtime: Runtime, effects: Effects, *, check: bool) -> list[Finding]:
    """Say what the app's own check finds wrong, and what its live sessions say of themselves."""
    wrong: list[Finding] = []
    try:
        if check:
            app.checked(runtime, effects)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 -- as above
        wrong.append(Finding("check", _told(error)))
    try:
        wrong += judge.alive(runtime)
    except Exception as error:  # noqa: BLE001 -- as above
        wrong.append(Finding("finished", f"a session gives no answer: {_told(error)}"))
    runtime.log.flush()
    return wrong


def raised(error: BaseException) -> Finding:
    """Say that an app's code ended with an error."""
    return Finding("finished", _told(error))


def _told(error: BaseException) -> str:
    """Return what an error says, and where in the app it happened, with what variables held."""
    found = traceback.TracebackException.from_exception(error, capture_locals=True, compact=True)
    text = plain("\n".join(_traced(found)))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def _traced(found: traceback.TracebackException) -> list[str]:
    """Return the lines that tell of an error, of those in it if it is a group, and of its cause."""
    lines = ["".join(found.format_exception_only()).strip()]
    for frame in found.stack:
        if frame.filename.startswith(OWN):
            continue
        lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
        lines.append(f"    {frame.line}")
        told = [
            f"      {name} = {value[:_WIDE]}"
            for name, value in (frame.locals or {}).items()
            if " object at 0x" not in value
        ]
        lines += told[:_LOCALS]
    for each in found.exceptions or ():
        lines += [f"  {line}" for line in _traced(each)]
    if found.__cause__ is not None:
        lines += ["caused by", *(f"  {line}" for line in _traced(found.__cause__))]
    return lines


def rest(runtime: Runtime, seconds: float) -> None:
    """Give work that the scenario did not wait for some time to end."""
    end = time.monotonic() + seconds
    runtime.log.flush()
    for name in outcome.conversations(runtime.log):
        while is_busy(runtime.log, name, runtime.kinds) and time.monotonic() < end:
            head = runtime.log.conversation(name).head
            for _ in runtime.log.follow(name, head, wait=0.1):
                break
            runtime.log.flush()


def is_busy(log: Log, conversation: str, kinds: Kinds) -> bool:
    """Return True if a turn or a machine has work left and does not wait for a human."""
    entities = {
        work.entity
        for work in log.open_work(conversation)
        if (kind := kinds.of(work.entity)) is not None and not kind.is_root
    }
    return bool(at_work(log, conversation, entities, kinds))


# -- as a process ----------------------------------------------------------------------------------


def process(app: CrashApp, order: Order, told: int) -> None:
    """Live in a process that was just forked; what came of it is written to the pipe `told`."""
    root = Path(order.root)
    report = Report(status="raised", wrong=[Finding("died", "it ended without a word")])
    try:
        _redirect(root / OUTPUT)
        stacks = (root / STACKS).open("w")
        faulthandler.enable(stacks)
        faulthandler.dump_traceback_later(order.patience, exit=True, file=stacks)
        gc.enable()
        report = live(app, order)
    except BaseException as error:  # noqa: BLE001 -- told to the one who forked us
        report = Report(status="raised", wrong=[raised(error)])
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        content = memoryview(msgspec.json.encode(report))
        while content:
            content = content[os.write(told, content) :]
        os._exit(0)


def _redirect(path: Path) -> None:
    """Have everything that is printed go to a file."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for stream in (1, 2):
        os.dup2(file, stream)
    sys.stdout = open(1, "w", buffering=1, closefd=False, encoding="utf-8")  # noqa: SIM115 -- for good
    sys.stderr = open(2, "w", buffering=1, closefd=False, encoding="utf-8")  # noqa: SIM115 -- for good


def decode(content: bytes) -> Report | None:
    """Read what a process said of itself; None if it was ended before."""
    try:
        return msgspec.json.decode(content, type=Report)
    except msgspec.DecodeError:
        return None
