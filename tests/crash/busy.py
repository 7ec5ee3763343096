"""A busy writer: several threads append, roll, archive, restore and erase until they are killed.

What it acknowledges it says on a pipe, after the fact; what it is about to do to a whole
conversation, before.
"""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Final

from runelog.errors import UnknownConversation
from runelog.rune import Change, State
from tests.crash.guard import survived
from tests.crash.judge import observe, sound
from tests.crash.ptrace import PATIENCE, end
from tests.crash.runs import scratch
from tests.crash.story import Noted, open_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runelog.store import Runelog

THREADS: Final = 3
MOST_ACKNOWLEDGEMENTS: Final = 90
_AFTER: Final = {"archive": State.ARCHIVED, "restore": State.LIVE, "erase": State.ERASED}


def text(name: str, event_id: int, size: int) -> str:
    """Return what a rune says: where it belongs, and then nothing for a while."""
    return f"{name}:{event_id}:".ljust(size, "=")


def write(directory: Path, seed: int, tell: Callable[[str], None]) -> None:
    """Write until killed."""
    log = open_log(directory)
    jobs = [partial(_append, log, seed, number, tell) for number in range(THREADS)]
    jobs.append(partial(_keep, log, seed, tell))
    threads = [threading.Thread(target=_complaining, args=(job, tell)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _complaining(job: Callable[[], None], tell: Callable[[str], None]) -> None:
    try:
        job()
    except BaseException:
        tell(f"broke {traceback.format_exc()!r}")
        raise


def _head(log: Runelog, name: str) -> int:
    try:
        return log.conversation(name).head
    except UnknownConversation:
        return 0


def _add(log: Runelog, rng: random.Random, name: str, head: int, *, durable: bool) -> int:
    count = rng.randint(1, 5)
    size = rng.choice([10, 200, 3_000, 30_000])
    runes = [
        Noted(text=text(name, head + part, size), part=part, of=count)
        for part in range(1, count + 1)
    ]
    return log.append(name, [Change("note_1", None, runes, ("book_1",))], durable=durable).last


def _append(log: Runelog, seed: int, number: int, tell: Callable[[str], None]) -> None:
    rng = random.Random(f"{seed} {number}")
    names = [f"conv_{number}_{which}" for which in range(2)]
    heads = {name: _head(log, name) for name in names}
    while True:
        name = rng.choice(names)
        durable = rng.random() < 0.6
        heads[name] = _add(log, rng, name, heads[name], durable=durable)
        if durable:
            # What nobody waited for came before it, and is durable with it.
            for each, head in heads.items():
                tell(f"appended {each} {head}")
        if rng.random() < 0.05:
            log.roll()


def _keep(log: Runelog, seed: int, tell: Callable[[str], None]) -> None:
    rng = random.Random(f"{seed} keep")
    while True:
        kept = {
            one.id: one
            for one in log.conversations()
            if one.id.startswith("keep") and one.state is not State.ERASED
        }
        name = rng.choice([*kept, f"keep_{rng.getrandbits(32)}"])
        head = kept[name].head if name in kept else 0
        state = kept[name].state if name in kept else State.LIVE
        if state is State.LIVE and (not head or rng.random() < 0.5):
            head = _add(log, rng, name, head, durable=True)
            tell(f"appended {name} {head}")
            continue
        steps = ["restore"] if state is State.ARCHIVED else ["archive", "archive", "erase"]
        step = rng.choice(steps)
        tell(f"begin {step} {name}")
        getattr(log, step)(name)
        tell(f"done {step} {name}")


class Witness:
    """What a writer has acknowledged, as remembered by somebody who outlives it."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.heads: dict[str, int] = {}
        self.states: dict[str, State] = {}
        self.begun: dict[str, State] = {}

    def hear(self, line: str) -> None:
        """Remember an acknowledgement."""
        match line.split():
            case ["appended", name, head]:
                self.heads[name] = max(self.heads.get(name, 0), int(head))
            case ["broke", *why]:
                raise AssertionError(" ".join(why))
            case ["begin", step, name]:
                self.begun[name] = _AFTER[step]
            case ["done", step, name]:
                self.states[name] = _AFTER[step]
                self.begun.pop(name)

    def check(self, directory: Path) -> None:
        """Assert that everything acknowledged is there, and nothing is by halves."""
        with open_log(directory) as log:
            world = observe(log)
            for name, head in self.heads.items():
                state, runes = world.get(name, (State.LIVE, ()))
                known = self.states.get(name, State.LIVE)
                allowed = {known, self.begun.get(name, known)}
                assert state in allowed, f"{name} is {state.name} and may be {allowed}"
                found = len(runes)
                assert state is State.ERASED or found >= head, f"{name} has {found} of {head}"
            for name, (_, runes) in world.items():
                for event_id, found_text in enumerate(runes, 1):
                    assert found_text.startswith(f"{name}:{event_id}:"), f"{name} at {event_id}"
        sound(directory)

    def settle(self, directory: Path) -> None:
        """Take what is there now for acknowledged: it was read, so it must stay."""
        with open_log(directory) as log:
            for name, (state, runes) in observe(log).items():
                self.states[name] = state
                self.heads[name] = len(runes)
        self.begun.clear()


def killed_at_random(seed: int, kills: int) -> str:
    """Let a busy writer be killed several times over the same log; return what is wrong."""
    rng = random.Random(seed)
    witness = Witness()
    with scratch() as root:
        for kill in range(kills):
            _one_life(root / "log", rng, witness)
            wrong = survived(partial(witness.check, root / "log"))
            if wrong:
                return f"seed {seed}, kill {kill}: {wrong}"
            witness.settle(root / "log")
    return ""


def _one_life(directory: Path, rng: random.Random, witness: Witness) -> None:
    """Start a writer, hear so many acknowledgements, and kill it; hear what it had still to say."""
    reading, writing = os.pipe()
    seed, enough = rng.getrandbits(32), rng.randint(1, MOST_ACKNOWLEDGEMENTS)
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        end(lambda: write(directory, seed, lambda line: _tell(writing, line)))
    os.close(writing)
    heard, data, deadline = 0, b"", time.monotonic() + PATIENCE
    alive = True
    while True:
        ready, _, _ = select.select([reading], [], [], max(0, deadline - time.monotonic()))
        chunk = os.read(reading, 4096) if ready else b""
        *lines, data = (data + chunk).split(b"\n")
        for line in lines:
            witness.hear(line.decode())
        heard += len(lines)
        if alive and (heard >= enough or not chunk):
            os.kill(pid, signal.SIGKILL)
            alive = False
        if not chunk:
            break
    os.close(reading)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == -signal.SIGKILL, f"the writer ended by itself: {status}"
    assert heard, "the writer did not say anything"


def _tell(descriptor: int, line: str) -> None:
    os.write(descriptor, line.encode() + b"\n")
