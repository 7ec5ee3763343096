"""How it is measured: ours and the peer by turns, and the best round of each counts.

The best, because whatever else the machine does can only make a round slower. By turns, so that a
slow minute is slow for both.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Sizes(NamedTuple):
    """How much is measured."""

    rounds: int
    batches: int
    """Batches of 1,024 a round."""
    singles: int
    """Durable appends of one rune a round, one thread or all 32 together."""
    read: int
    rebuilt: int
    """Events that the eventsourcing aggregate is rebuilt from."""
    states: int
    open_runes: int
    open_conversations: int
    opens: int
    replayed: int
    stored: int
    """Batches of 1,024 whose bytes on disk are counted."""
    archived: int
    """Conversations that are archived one by one."""
    turn_rounds: int
    turns: int
    """Turns of each of 32 sessions a round: how long a conversation gets shows in the peers."""
    alone: int
    """Turns of a single session a round."""
    grown: int
    """Conversations that are followed as they grow."""
    growth: int
    """How many turns they grow to."""
    idle: int
    """Sessions that are open and have nothing to do."""
    reopens: int
    """How often a runtime with unfinished work is opened."""
    simulated: int
    """Seeds of the simulation that are played a round."""
    swept: int
    """Points at which a runtime is cut off in one process, a round."""
    killed: int
    """Points at which it is killed for real, a round."""
    soak: tuple[int, ...]
    """After how many turns, and how many sessions, the memory of a runtime is looked at."""
    streams: int
    """Sessions that stream at once from an async provider."""
    streaming: float
    """For so many seconds."""
    followers: int
    """Streams that have a follower each."""
    firsts: int
    """First fragments whose way is timed."""
    woken: int
    """Runes of a session that wakes while others have turns."""
    quiet: float
    """Seconds of turns with nothing else going on."""
    web: int
    """How often a web app is measured beside its peers."""
    asked: int
    """How often it is asked, fifty times at once."""
    large: int
    """Bytes of a log that is opened after a kill."""
    crowds: tuple[int, ...]
    """So many sessions at once, for a plot."""
    lengths: tuple[int, ...]
    """So many fragments in a turn, for a plot."""


FULL = Sizes(
    rounds=24,
    batches=10,
    singles=200,
    read=200_000,
    rebuilt=200_000,
    states=15,
    open_runes=1_000_000,
    open_conversations=20_000,
    opens=15,
    replayed=1_000_000,
    stored=400,
    archived=1_000,
    turn_rounds=4,
    turns=20,
    alone=20,
    grown=5,
    growth=200,
    idle=20_000,
    reopens=7,
    simulated=60,
    swept=200,
    killed=20,
    soak=(5_000, 10_000, 25_000, 50_000),
    streams=1_000,
    streaming=20.0,
    followers=200,
    firsts=200,
    woken=200_000,
    quiet=6.0,
    web=5,
    asked=40,
    large=200_000_000,
    crowds=(1, 2, 4, 8, 16, 32, 64, 128),
    lengths=(1, 10, 100, 1_000, 10_000, 50_000),
)
QUICK = Sizes(
    rounds=5,
    batches=3,
    singles=60,
    read=60_000,
    rebuilt=5_000,
    states=4,
    open_runes=30_000,
    open_conversations=1_000,
    opens=5,
    replayed=60_000,
    stored=50,
    archived=100,
    turn_rounds=2,
    turns=1,
    alone=5,
    grown=1,
    growth=40,
    idle=500,
    reopens=2,
    simulated=8,
    swept=16,
    killed=2,
    soak=(200, 400),
    streams=100,
    streaming=3.0,
    followers=50,
    firsts=40,
    woken=4_000,
    quiet=1.5,
    web=3,
    asked=10,
    large=20_000_000,
    crowds=(1, 8, 32),
    lengths=(1, 100, 1_000),
)


def race(rounds: int, ours: Callable[[], float], *peers: Callable[[], float]) -> tuple[float, ...]:
    """Let all run by turns; each returns its rate. Return the best of each."""
    runners = (ours, *peers)
    rates: list[list[float]] = [[] for _ in runners]
    for number in range(rounds):
        # Every other round the other way about: nobody always runs in the other's wake.
        order = list(zip(runners, rates, strict=True))
        for run, found in order if number % 2 == 0 else reversed(order):
            gc.collect()
            found.append(run())
    return tuple(max(found) for found in rates)


def rate(count: int, run: Callable[[], object]) -> float:
    """Return how many of `count` things a second `run` does."""
    start = time.perf_counter()
    run()
    return count / (time.perf_counter() - start)


def anonymous_memory() -> int:
    """Return this process's RssAnon in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    msg = "this kernel does not tell RssAnon"
    raise OSError(msg)


def written() -> int:
    """Return how many bytes this process has given the system to write.

    A program that syncs each commit has them all written to the device, and the journal of the file
    system besides. The kernel's own count of that, `write_bytes`, is of whole folios, which are
    larger than what is written to them.
    """
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    msg = "this kernel does not tell wchar"
    raise OSError(msg)


class Use(NamedTuple):
    """What this process has used so far."""

    cpu: float
    """Seconds, of its own and of the system for it."""
    switches: int
    """How often one of its threads has let another one go on, because it had to wait."""
    written: int
    """Bytes."""


def used() -> Use:
    """Return what this process has used so far."""
    now = resource.getrusage(resource.RUSAGE_SELF)
    return Use(now.ru_utime + now.ru_stime, now.ru_nvcsw, written())


_META: Final = struct.Struct("<II")
"""The magic number and the version of LMDB's meta pages, 16 bytes into each of the first two."""
_MAGIC: Final = 0xBEEFC0DE
_HEADER: Final = 16
_TRANSACTION: Final = _HEADER + 4 + 4 + 8 + 8 + 2 * 48 + 8
_PAGE: Final = 4096


def commits(place: Path) -> int:
    """Return how many transactions the LMDB files in a directory, or one such file, have had.

    Each is a sync of its file. The number is read off the files: nothing has to be asked or hooked.
    """
    files = [place] if place.is_file() else [*place.rglob("*")]
    return sum(_transactions(file) for file in files if file.is_file())


def _transactions(file: Path) -> int:
    with contextlib.suppress(OSError), file.open("rb") as opened:
        pages = [opened.read(_PAGE) for _ in range(2)]
        if all(
            len(page) == _PAGE and _META.unpack_from(page, _HEADER)[0] == _MAGIC for page in pages
        ):
            return max(
                int.from_bytes(page[_TRANSACTION : _TRANSACTION + 8], "little") for page in pages
            )
    return 0


def threads() -> int:
    """Return how many threads this process has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("Threads:")[2].split()[0])


def bytes_on_disk(path: Path) -> int:
    """Return what the files of a directory take: by length or by blocks, whichever is more."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    states = [file.stat() for file in files]
    return max(sum(s.st_size for s in states), sum(s.st_blocks * 512 for s in states))


def child(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run something in a child process to its end: one of `bench.child`, or `module:function`."""
    return subprocess.run(
        [sys.executable, "-m", "bench.child", *arguments],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
