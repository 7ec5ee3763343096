"""A process that has everything imported and one thread, and forks a child for each life.

It reads tasks from one pipe and writes answers to another, a line each. It ends when the first pipe
is closed.
"""

from __future__ import annotations

import faulthandler
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
import structlog as _structlog  # noqa: F401 -- else every process that is forked imports it

from runefold.testing.crash import app as apps
from runefold.testing.crash.app import CrashApp, Source
from runefold.testing.crash.plan.points import Aim, Point, Verdict
from runefold.testing.crash.running import baseline, disk_images, stacks, trial
from runefold.testing.crash.running.baseline import Recording
from runefold.testing.crash.running.disk_images import DiskImage
from runefold.testing.crash.running.in_process import InProcessScene
from runefold.testing.crash.running.trial import Result, Scene
from runefold.testing.crash.verdict.judge import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """What all work of a sweep has in common."""

    work: str
    keep: str
    baseline: str
    patience: float
    in_process: bool = False
    """Whether the app runs in this very process, on a stage, rather than in children."""
    order: int | None = None
    """On a stage: the seed by which things happen in another order; None is the order they come."""
    name: str = ""
    """An app by its name, `package.module:app`;"""
    parts: tuple[Source, Source, Source | None] | None = None
    """or its functions, one by one."""


class Record(msgspec.Struct, frozen=True, tag="record"):
    """Run the app undisturbed."""


class MakeImages(msgspec.Struct, frozen=True, tag="make_images"):
    """Copy its directory at each of some moments."""

    stops: tuple[Aim, ...]


class Attempt(msgspec.Struct, frozen=True, tag="attempt"):
    """Hit it at a point, or begin where it was hit."""

    point: Point
    aims: tuple[Aim, ...]
    warm: str = ""
    """A copy of what the first hit left."""


Task: TypeAlias = Record | MakeImages | Attempt


class Images(msgspec.Struct, frozen=True, tag="images"):
    """The copies that were made."""

    images: list[DiskImage]


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The app could not even be imported, or the kit itself failed."""

    message: str


class Recorded(msgspec.Struct, frozen=True, tag="recorded"):
    """The undisturbed run."""

    recording: Recording


class Tried(msgspec.Struct, frozen=True, tag="tried"):
    """What came of a point."""

    result: Result


Answer: TypeAlias = Recorded | Images | Tried | Broken

_tasks = msgspec.json.Decoder(Task)
_answers = msgspec.json.Decoder(Answer)


def encode(message: Setup | Task | Answer) -> bytes:
    """Write a line."""
    return msgspec.json.encode(message) + b"\n"


def answer_from(line: bytes) -> Answer:
    """Read an answer."""
    answer: Answer = _answers.decode(line)
    return answer


def app_of(setup: Setup) -> CrashApp:
    """Import the app."""
    if setup.parts is not None:
        build, scenario, check = setup.parts
        return CrashApp(
            apps.loaded(build),
            apps.loaded(scenario),
            None if check is None else apps.loaded(check),
            name=setup.name,
        )
    return apps.named(setup.name)


def serve(setup: Setup, app: CrashApp, reading: int, writing: int) -> None:
    """Do one task after the other, until the pipe is closed."""
    for line in _lines(reading):
        try:
            if setup.in_process:
                # The app runs here, so this is what ends if it hangs.
                faulthandler.dump_traceback_later(setup.patience, exit=True)
            answer = _done(setup, app, _tasks.decode(line))
            faulthandler.cancel_dump_traceback_later()
        except Exception as error:  # noqa: BLE001 -- it is the answer
            answer = Broken(f"{type(error).__name__}: {error}")
        content = memoryview(encode(answer))
        while content:
            content = content[os.write(writing, content) :]


def _lines(reading: int) -> Iterator[bytes]:
    waiting = b""
    while chunk := os.read(reading, 1 << 16):
        *whole, waiting = (waiting + chunk).split(b"\n")
        yield from whole


def _done(setup: Setup, app: CrashApp, task: Task) -> Answer:
    scene = Scene(app, Path(setup.work), Path(setup.keep), setup.patience, Path(setup.baseline))
    match task:
        case Record() if setup.in_process:
            return Recorded(InProcessScene(scene, setup.order).record())
        case Attempt(point, aims) if setup.in_process:
            return Tried(InProcessScene(scene, setup.order).attempt(point, aims))
        case Record():
            return Recorded(baseline.record(scene))
        case Attempt(point, aims, warm):
            return Tried(trial.attempt(scene, point, aims, Path(warm) if warm else None))
        case MakeImages(stops):
            return Images(disk_images.make_images(scene, stops))


def lost(task: Task | None, last_words: str) -> Answer:
    """Return what is known of a task whose server is gone: it hung and gave up, or it died."""
    # First of all of it: what it ends with may be the far end of a deep stack.
    hung = [found.start() for found in _HUNG.finditer(last_words)]
    verdict: Verdict = "hang" if hung else "died"
    place = ""
    if hung:
        last_words = stacks.in_order(last_words[hung[-1] :])
        place = stacks.where(last_words)
        last_words = last_words[:_STACKS]
    else:
        last_words = last_words[-_TAIL:].strip() or "without a word"
    told = f"it was not over in time{place}" if hung else f"its process died: {last_words}"
    wrong = [Finding(verdict, told)]
    match task:
        case Attempt(point):
            kept = last_words if hung else ""
            found = Result(point=str(point), status="failed", wrong=wrong, stacks=kept)
            return Tried(found)
        case Record():
            return Recorded(Recording(wrong=wrong, stacks=last_words))
        case _:
            return Broken(told)


_HUNG: Final = re.compile(r"^Timeout \(\d+:\d\d:\d\d", re.MULTILINE)
"""What the stacks of all threads begin with when a time is up."""
_STACKS: Final = 20_000
"""So much is kept of the stacks, from where the app's own come first,"""
_TAIL: Final = 2_000
"""and so much of what a process said last that died."""


def main(reading: int, writing: int) -> None:
    """Be a server: the first line is the setup."""
    del sys.argv[1:]
    first = b""
    while not first.endswith(b"\n"):
        chunk = os.read(reading, 1)
        if not chunk:
            return
        first += chunk
    setup = msgspec.json.decode(first, type=Setup)
    try:
        app = app_of(setup)
    except BaseException as error:  # noqa: BLE001 -- whatever importing an app does
        os.write(writing, encode(Broken(f"the app cannot be imported: {error!r}")))
        return
    serve(setup, app, reading, writing)
