"""Directories put together from two moments of one log: a backup, a plain copy, a mistake.

A story is told to a log, and its files are kept as they are after each step. Then some files of a
later moment are replaced by those of an earlier one.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.errors import RunefoldError
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import State
from tests.crash.judge import observe
from tests.crash.runs import scratch
from tests.crash.story import Step, open_log, perform, worlds
from tests.crash.warm import walking_inside

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.story import World

Files = dict[str, bytes]

STORY: Final = (
    Step("append", ("conv_a", "conv_b", "conv_e"), 2, 300),
    Step("reopen"),
    Step("append", ("conv_a",), 1),
    Step("roll"),
    Step("append", ("conv_b", "conv_e"), 2, open=True),
    Step("append", ("conv_b", "conv_e"), 1, open=False),
    Step("archive", ("conv_a",)),
    Step("append", ("conv_b",), 1),
    Step("take_in", ("conv_x",), 3),
    Step("append", ("conv_x",), 1),
    Step("erase", ("conv_e",)),
    Step("reopen"),
    Step("restore", ("conv_a",)),
    Step("append", ("conv_a",), 2),
    Step("roll"),
    Step("append", ("conv_a", "conv_b"), 1),
    Step("archive", ("conv_b",)),
    Step("reopen"),
)
"""All that changes MANIFEST, CLEAN or a catalog, with appends before and behind it."""
MIXED: Final = {
    "an old MANIFEST": ("MANIFEST",),
    "an old CLEAN": ("CLEAN",),
    "an old catalog": ("catalog.*",),
    "an old MANIFEST and CLEAN": ("MANIFEST", "CLEAN"),
    "an old MANIFEST and catalog": ("MANIFEST", "catalog.*"),
    "old files beside the segments": ("MANIFEST", "CLEAN", "catalog.*"),
}
"""Which files come from the earlier moment."""
_KEPT: Final = ("segments/*.mdb", "archive/*", "blobs/*", "MANIFEST", "damaged/*")


class Moment(NamedTuple):
    """The files of a log after a step, and what must be in it."""

    step: int
    files: Files
    world: World


def moments(root: Path) -> list[Moment]:
    """Tell the story; return the files after each step, while the log is open and at the end."""
    directory = root / "log"
    expected = worlds(STORY)
    log = open_log(directory)
    found = []
    for number, step in enumerate(STORY, 1):
        log = perform(log, step, number)
        found.append(Moment(number, read_files(directory), expected[number]))
    log.close()
    found.append(Moment(len(STORY) + 1, read_files(directory), expected[-1]))
    return found


def read_files(directory: Path) -> Files:
    """Return all files of a directory but those of locks."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("-lock") and path.name != "LOCK"
    }


def write_files(directory: Path, files: Files) -> None:
    """Lay files out as a directory."""
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def mixed(later: Moment, earlier: Moment, patterns: tuple[str, ...]) -> Files:
    """Return the files of the later moment, with those that match as they were before."""

    def old(name: str) -> bool:
        return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)

    kept = {name: data for name, data in later.files.items() if not old(name)}
    return kept | {name: data for name, data in earlier.files.items() if old(name)}


def judge(files: Files, world: World) -> str:
    """Open a directory of these files, repair it if that is refused; return what is wrong then."""
    with scratch() as root, walking_inside():
        directory = root / "log"
        write_files(directory, files)
        try:
            return _judged(directory, files, world)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is what is wrong
            return f"{type(error).__name__}: {error}"


def _judged(directory: Path, files: Files, world: World) -> str:
    try:
        with open_log(directory) as log:
            found = observe(log)
    except RunefoldError:
        if lost := missing(files, read_files(directory)):
            return f"refused, and {lost} changed or went"
        done = repair(directory)
        if done.runes_lost or done.more_lost:
            return f"repaired, and lost: {done}"
        report = verify(directory)
        if not report.ok:
            return f"repaired, and not sound: {report.problems}"
        with open_log(directory) as log:
            found = observe(log)
    if found != world:
        return f"has {found} instead of {world}"
    erased = [name for name, (state, _) in world.items() if state is State.ERASED]
    left = b"".join(read_files(directory).values())
    if back := [name for name in erased if f"of {name} ".encode() in left]:
        return f"{back} was erased, and is still there"
    return ""


def missing(before: Files, after: Files) -> list[str]:
    """Return the files of runes that are not what they were."""
    return [
        name
        for name, data in before.items()
        if any(fnmatch.fnmatch(name, kept) for kept in _KEPT) and after.get(name) != data
    ]
