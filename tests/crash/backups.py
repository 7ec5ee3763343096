"""A writer that does all that can be done to a log without a pause, backed up meanwhile."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runelog.repair.verify import verify
from runelog.rune import Change, State
from tests.crash.copies import Writer, say
from tests.crash.judge import observe
from tests.crash.moments import read_files
from tests.crash.runs import scratch
from tests.crash.story import CODEC, Noted, open_log

if TYPE_CHECKING:
    from tests.crash.story import World

SEED: Final = 31
_LARGE: Final = 1_100_000
"""More than a rune may hold in a segment: it goes to a blob."""
_LIVE: Final = 6


def text(name: str, count: int) -> str:
    """Return what the last rune of an append says; some are large."""
    told = f"{count} of {name} "
    return told.ljust(_LARGE, "=") if count % 9 == 4 else told


def write(directory: Path) -> None:
    """Append, roll, archive, restore and erase until killed; tell what is acknowledged."""
    chance = random.Random(SEED)
    with open_log(directory) as log:
        live: dict[str, int] = {}
        cold: dict[str, int] = {}
        for number in itertools.count():
            name = chance.choice([*live, f"conv_{number}"])
            live[name] = count = live.get(name, 0) + 1
            parts = [Noted(text="", part=1, of=2), Noted(text=text(name, count), part=2, of=2)]
            log.append(name, [Change("note_1", None, parts, ("book_1",))])
            say(f"append {name} {count}")
            if number % 7 == 6:
                log.roll()
            if len(live) > _LIVE:
                oldest = next(iter(live))
                cold[oldest] = live.pop(oldest)
                log.archive(oldest)
            if len(cold) > _LIVE:
                oldest = next(iter(cold))
                count = cold.pop(oldest)
                if chance.random() < 0.5:
                    log.restore(oldest)
                    live[oldest] = count
                else:
                    say(f"erase {oldest} 0")
                    log.erase(oldest)
                    say(f"erased {oldest} 0")


def try_backups(count: int) -> list[str]:
    """Back up a log that is being written so many times; return what is wrong with the backups."""
    wrong = []
    with scratch() as root, Writer(root / "log", "tests.crash.backups") as writer:
        writer.wait(40)
        with open_log(root / "log", readonly=True) as log:
            for number in range(count):
                writer.wait(15)
                writer.drain()
                before, gone = dict(writer.acknowledged), set(writer.gone)
                log.backup(root / "backup")
                writer.drain()
                if fault := judge(root / "backup", before, gone, writer.erased):
                    wrong.append(f"backup {number}: {fault}")
    return wrong


def judge(directory: Path, before: dict[str, int], gone: set[str], going: set[str]) -> str:
    """Say what is wrong with a backup; nothing if it holds all that was acknowledged before it."""
    report = verify(directory, codec=CODEC)
    if report.problems:
        return f"not sound: {report.problems}"
    files = read_files(directory)
    with open_log(directory) as log:
        world = observe(log)
        notices = log.notices
    if notices or read_files(directory) != files:
        return f"opening it changes it: {notices}"
    return _lacking(world, before, going) or _left(files, gone)


def _lacking(world: World, before: dict[str, int], going: set[str]) -> str:
    for name, (state, texts) in world.items():
        appends = len(texts) // 2
        if state is not State.ERASED and texts[1::2] != tuple(
            text(name, at) for at in range(1, appends + 1)
        ):
            return f"{name} has {[each[:20] for each in texts]}"
    for name, count in before.items():
        found = len(world.get(name, (State.LIVE, ()))[1]) // 2
        if name not in going and found < count:
            return f"{name} has {found} appends of the {count} that were acknowledged"
    return ""


def _left(files: dict[str, bytes], gone: set[str]) -> str:
    for name in gone:
        marks = (f"archive/{name}.runes", f"blobs/{name}/")
        if any(file.startswith(marks) for file in files):
            return f"{name} was erased, and its files are there"
        if any(f" of {name} ".encode() in data for data in files.values()):
            return f"{name} was erased, and its text is there"
    return ""


if __name__ == "__main__":
    write(Path(sys.argv[1]))
