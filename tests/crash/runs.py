"""Crashes as jobs: a story is told to a log in a child, something happens, what is left is judged.

All of it runs in the processes of the `pool` fixture, which are fit to be forked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tests.crash.calls import Change, Recorder, Saboteur, watch
from tests.crash.disk import cuts
from tests.crash.guard import survived
from tests.crash.judge import check
from tests.crash.ptrace import PATIENCE, Fail, Kill
from tests.crash.story import Pipe, acknowledged, begun, play, possible, promised, worlds
from tests.crash.warm import walking_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from runelog.store import Durability
    from tests.crash.disk import Case, Cuts
    from tests.crash.story import Step

Story = tuple["Step", ...]
T = TypeVar("T")


@contextlib.contextmanager
def scratch(place: Path | None = None) -> Iterator[Path]:
    """Give a directory, in memory if possible: nothing here depends on a real disk."""
    memory = Path("/dev/shm")
    if place is None and os.access(memory, os.W_OK):
        place = memory
    root = Path(tempfile.mkdtemp(prefix="runelog-", dir=place))
    try:
        yield root
    finally:
        shutil.rmtree(root)


class Recording(NamedTuple):
    """What a story did to the disk, and what it told."""

    root: str
    changes: list[Change]
    told: list[str]
    left: dict[str, bytes]
    """The files as they were in the end."""


def record(story: Story, durability: Durability = "commit") -> Recording:
    """Tell a story to a new log and note every change of its files."""
    with scratch() as root:
        pipe = Pipe()
        recorder = Recorder(str(root), pipe.writing)
        job = partial(play, root / "log", story, pipe.tell, durability=durability)
        status = watch(job, recorder)
        told = pipe.told()
        assert status == 0, f"the child ended with {status} after {told}"
        left = {
            str(path.relative_to(root)): path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        return Recording(str(root), recorder.changes, told, left)


def power_cuts(
    story: Story,
    recording: Recording,
    seed: int,
    sure: Callable[[Story, list[str]], int] = acknowledged,
) -> Cuts:
    """Return the states that a power cut at any moment of a recording can leave.

    `sure` tells from what was told up to which step all must be there.
    """
    durable = [0]
    told: list[str] = []
    for change in recording.changes:
        if change.what == "ack":
            told += change.data.decode().split("\n")[:-1]
        durable.append(sure(story, told))
    return cuts(recording.root, recording.changes, durable, seed)


def narrowed(
    attempt: Callable[[Sequence[T]], None], things: Sequence[T], patience: float = PATIENCE
) -> list[tuple[T, str]]:
    """Try things one after the other in one child; return those that went wrong, and how.

    If it fails, or ends before its time, others find out by halves of which of them that comes.
    """
    told = survived(partial(attempt, things), patience)
    if not told:
        return []
    if len(things) == 1:
        return [(things[0], told)]
    half = len(things) // 2
    return [
        *narrowed(attempt, things[:half], patience),
        *narrowed(attempt, things[half:], patience),
    ]


def open_after(story: Story, chosen: Sequence[Case], *, inside: bool = False) -> list[str]:
    """Make states real and open them; return what is wrong with which of them.

    That is done in a child: if opening a state ends it, that is what is wrong with this one. With
    `inside` it walks the files, too, which is quicker, and spares no process that they might end.
    """
    how = walking_inside() if inside else contextlib.nullcontext()
    with scratch() as root, how:
        wrong = narrowed(partial(_open_each, root, story), chosen)
    return [f"power cut before {case.where}: {told}" for case, told in wrong]


def _open_each(root: Path, story: Story, chosen: Sequence[Case]) -> None:
    for case in chosen:
        with scratch(root) as place:
            case.state.build(place)
            for path in place.rglob("*-lock"):
                # Nobody syncs what LMDB keeps there: anything may be left of it.
                path.write_bytes(os.urandom(path.stat().st_size))
            check(place / "log", worlds(story)[case.required : case.limit + 1])


def kill_at(story: Story, number: int, skip: int = 0) -> str:
    """Kill a child at its n-th change and open what it left; return what is wrong.

    The first `skip` steps are told undisturbed.
    """
    with scratch() as root:
        told, saboteur = _sabotage(root, story, skip, Saboteur(str(root), number, Kill()))
        done = max(skip, acknowledged(story, told))
        limit = max(skip + 1, begun(told))
        wrong = survived(partial(check, root / "log", worlds(story)[done : limit + 1]))
        return f"killed at change {number}, {saboteur.hit}, after {told}: {wrong}" if wrong else ""


def count_changes(story: Story, skip: int = 0) -> int:
    """Return how many changes a story makes behind its first `skip` steps."""
    with scratch() as root:
        _, saboteur = _sabotage(root, story, skip, Saboteur(str(root), 0, Kill()))
        return saboteur.count


def _sabotage(
    root: Path, story: Story, skip: int, saboteur: Saboteur
) -> tuple[list[str], Saboteur]:
    if skip:
        wrong = survived(partial(play, root / "log", story[:skip], _ignore))
        assert not wrong, wrong
    pipe = Pipe()
    status = watch(partial(play, root / "log", story, pipe.tell, skip), saboteur)
    told = pipe.told()
    assert status in (0, -9), f"the child ended with {status} after {told}"
    return told, saboteur


def _ignore(line: str) -> None:
    """Hear, and forget."""


class Failed(NamedTuple):
    """What came of a call that failed."""

    told: list[str]
    call: str
    path: str
    wrong: str
    """What is wrong with the log afterwards."""


def fail_at(story: Story, number: int, errno: int, calls: Sequence[str], skip: int = 0) -> Failed:
    """Let the n-th of some calls fail, tell the story to its end, and open what is left."""
    with scratch() as root:
        saboteur = Saboteur(str(root), number, Fail(errno), calls)
        told, _ = _sabotage(root, story, skip, saboteur)
        hit = saboteur.hit
        if hit is None:
            return Failed(told, "", "", "")
        sure = {*range(1, skip + 1), *promised(story, told)}
        maybe = {n for n, step in enumerate(story, 1) if step.names}
        wrong = survived(partial(check, root / "log", possible(story, sure, maybe)))
        return Failed(told, hit.call, hit.path[len(str(root)) :], wrong)
