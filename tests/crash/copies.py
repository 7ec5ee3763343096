"""A writer that appends, rolls, archives and erases without a pause, to be copied meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

from runelog.errors import Corrupt, RunefoldError
from runelog.rune import Change, State
from tests.crash.moments import missing, read_files
from tests.crash.runs import scratch
from tests.crash.story import Noted, content, open_log
from tests.crash.warm import walking_inside

SEED: Final = 23
_ROOT: Final = Path(__file__).parents[2]


def write(directory: Path) -> None:
    """Write until killed; print what is acknowledged, and what is about to be erased."""
    chance = random.Random(SEED)
    with open_log(directory) as log:
        live: dict[str, int] = {}
        for number in itertools.count():
            name = chance.choice([*live, f"conv_{number}"])
            live[name] = count = live.get(name, 0) + 1
            log.append(name, [Change("note_1", None, [Noted(text=f"{name} {count}")], ("book_1",))])
            say(f"append {name} {count}")
            if number % 7 == 6:
                log.roll()
            if len(live) > 6:
                oldest = next(iter(live))
                del live[oldest]
                if chance.random() < 0.3:
                    say(f"erase {oldest} 0")
                    log.erase(oldest)
                else:
                    log.archive(oldest)


def say(line: str) -> None:
    """Tell the tester something."""
    os.write(1, line.encode() + b"\n")


class Writer:
    """The process that writes, and what it has acknowledged so far."""

    def __init__(self, directory: Path, module: str = "tests.crash.copies") -> None:
        """Start it; what it writes is up to the `module`."""
        self.acknowledged: dict[str, int] = {}
        self.erased: set[str] = set()
        """What it has erased, or is about to."""
        self.gone: set[str] = set()
        """What it has erased."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(directory)],
            stdout=subprocess.PIPE,
            cwd=_ROOT,
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        self._rest = b""

    def __enter__(self) -> Self:
        """Return the writer itself; leaving the block kills it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.communicate()

    def wait(self, appends: int) -> None:
        """Wait until so many more appends are acknowledged."""
        while appends > 0:
            appends -= self._read()

    def drain(self) -> None:
        """Read all that it has said so far."""
        while select.select([self._pipe], [], [], 0)[0]:
            self._read()

    def _read(self) -> int:
        *lines, self._rest = (self._rest + os.read(self._pipe, 4_096)).split(b"\n")
        assert self._process.poll() is None, "the writer has ended"
        for line in lines:
            what, name, count = line.decode().split()
            if what == "append":
                self.acknowledged[name] = int(count)
            elif what == "erase":
                self.erased.add(name)
            else:
                self.gone.add(name)
        return len(lines)


def copy(source: Path, target: Path, chance: random.Random) -> None:
    """Copy a directory file by file, as `cp -r` does: files that go meanwhile are left out."""
    target.mkdir()
    names = sorted(path.name for path in source.iterdir())
    chance.shuffle(names)
    for name in names:
        place = source / name
        if place.is_dir():
            copy(place, target / name, chance)
        elif place.is_file():
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(place, target / name)


def judge(directory: Path, acknowledged: dict[str, int], erased: set[str]) -> tuple[bool, str]:
    """Open a copy; return whether it could be opened and read, and what is wrong with it."""
    before = read_files(directory)
    try:
        log = open_log(directory)
    except RunefoldError:
        lost = missing(before, read_files(directory))
        return False, f"refused, and {lost} changed or went" if lost else ""
    try:
        with log:
            found = {
                each.id: content(log, each.id)
                for each in log.conversations()
                if each.state is not State.ERASED
            }
    except RunefoldError as error:
        return False, "" if isinstance(error, Corrupt) else repr(error)
    for name, count in acknowledged.items():
        texts = found.get(name, ())
        if name not in erased and len(texts) < count:
            return True, f"{name} has {len(texts)} runes of the {count} that were acknowledged"
        if texts != tuple(f"{name} {number}" for number in range(1, len(texts) + 1)):
            return True, f"{name} has {texts}"
    return True, ""


def try_copies(count: int) -> tuple[int, list[str]]:
    """Copy a log that is being written so many times; return how many opened, and what is wrong."""
    chance = random.Random(SEED)
    opened, wrong = 0, []
    with scratch() as root, walking_inside(), Writer(root / "log") as writer:
        writer.wait(60)
        for number in range(count):
            writer.wait(20)
            before = dict(writer.acknowledged)
            target = root / f"copy_{number}"
            copy(root / "log", target, chance)
            writer.drain()
            could, fault = judge(target, before, writer.erased)
            opened += could
            if fault:
                wrong.append(f"copy {number}: {fault}")
            shutil.rmtree(target)
    return opened, wrong


if __name__ == "__main__":
    write(Path(sys.argv[1]))
