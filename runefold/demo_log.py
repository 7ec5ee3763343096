"""`python -m runefold.demo_log`: a busy writer is killed, and nothing it acknowledged is missing.

A child process appends to several conversations at once and tells us, over a pipe, of each append
that the log acknowledged as durable. In the middle of that it gets SIGKILL. The log is opened again
and everything in it is compared with what was acknowledged, outside of the process that died.
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.codec import Codec
from runelog.errors import RunefoldError
from runelog.repair.verify import verify
from runelog.rune import Change, Rune
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import NoReturn

    from rich.console import Console
    from rich.status import Status

ROUNDS: Final = 3
WRITERS: Final = 4
AT_LEAST, AT_MOST = 150, 500
"""Between so many acknowledged appends the writer is killed; where, is up to chance."""
PATIENCE: Final = 60.0
"""A writer that takes so many seconds is stuck: it is ended, and the demo has failed."""
WORDS: Final = "the log keeps what it says it keeps; what it does not say it may lose"


class Said(Rune, frozen=True, tag="demo.said"):
    """One of the `of` runes of an append; `text` follows from the rest, so it can be checked."""

    serial: int
    part: int
    of: int
    text: str


class Ack(NamedTuple):
    """What the log acknowledged: an append, and the events its runes are."""

    conversation: str
    serial: int
    first: int
    last: int


class Seen(NamedTuple):
    """A rune as it was found afterwards."""

    event_id: int
    rune: Rune


class Round(NamedTuple):
    """One life of the writer: what it acknowledged, and how it ended."""

    pid: int
    acks: list[Ack]
    code: int
    told: str


def text_of(conversation: str, serial: int, part: int) -> str:
    """Return the text that this rune has, and no other."""
    start = (serial * 7 + part) % len(WORDS)
    return f"{conversation} {serial}.{part} {WORDS[start:]} {WORDS[:start]}"


def append_of(conversation: str, serial: int) -> list[Said]:
    """Return the runes of one append: from one to four."""
    of = 1 + serial % 4
    return [Said(serial, part, of, text_of(conversation, serial, part)) for part in range(of)]


# -- the writer, which gets killed ---------------------------------------------------------------


def write(directory: Path, number: int) -> NoReturn:
    """Append from several threads for as long as we live, telling of what was acknowledged."""
    log = Runelog.open(directory, Codec([Said]))
    for writer in range(WRITERS):
        name = f"conv_{number:08x}{writer:08x}"
        threading.Thread(target=_write_one, args=(log, name), daemon=True).start()
    sys.stdin.read()
    # Whoever started us is gone: nobody listens any more.
    os._exit(1)


def _write_one(log: Runelog, conversation: str) -> None:
    try:
        for serial in range(1 << 30):
            durable = serial % 3 != 0
            changes = [Change("turn_1", None, append_of(conversation, serial))]
            done = log.append(conversation, changes, durable=durable)
            if durable:
                # One write, shorter than a pipe takes at once: it arrives whole or not at all.
                ack = f"{conversation} {serial} {done.first} {done.last}\n"
                os.write(sys.stdout.fileno(), ack.encode())
    except (RunefoldError, OSError):
        # Not this thread alone: the others would make it look as if all were well.
        traceback.print_exc()
        os._exit(1)


# -- the judge -----------------------------------------------------------------------------------


def compare(acks: Iterable[Ack], there: Mapping[str, Sequence[Seen]]) -> list[str]:
    """Return what a log must not do: lose what it acknowledged, or keep half of an append."""
    wrong = []
    for ack in acks:
        expected = append_of(ack.conversation, ack.serial)
        seen = there.get(ack.conversation, ())[ack.first - 1 : ack.last]
        if [found.rune for found in seen] != expected:
            wrong.append(
                f"append {ack.serial} of {ack.conversation} was acknowledged as events "
                f"{ack.first} to {ack.last} and is not there"
            )
    for conversation, seen in there.items():
        wrong += _incomplete(conversation, seen)
    return wrong


def _incomplete(conversation: str, seen: Sequence[Seen]) -> list[str]:
    wrong = []
    parts: dict[int, list[Rune]] = defaultdict(list)
    for place, found in enumerate(seen, 1):
        if found.event_id != place:
            wrong.append(f"event {place} of {conversation} is missing, {found.event_id} is there")
        if isinstance(found.rune, Said):
            parts[found.rune.serial].append(found.rune)
        else:
            wrong.append(f"event {place} of {conversation} is something that nobody appended")
    for serial, runes in parts.items():
        if runes != append_of(conversation, serial):
            wrong.append(f"append {serial} of {conversation} is only half there")
    return wrong


def look(directory: Path) -> dict[str, list[Seen]]:
    """Open the log as its next writer would, and return every rune in it."""
    with Runelog.open(directory, Codec([Said])) as log:
        return {
            found.id: [Seen(envelope.event_id, envelope.payload) for envelope in log.read(found.id)]
            for found in log.conversations()
        }


# -- the story -----------------------------------------------------------------------------------


def live_and_die(
    directory: Path, number: int, kill_at: int, heard: Callable[[int], None] | None = None
) -> Round:
    """Start a writer, kill it at its `kill_at`-th acknowledgement, and return what it told us."""
    command = [sys.executable, "-m", "runefold.demo_log", "--write", str(directory), str(number)]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        ) as child,
    ):
        patience = threading.Timer(PATIENCE, child.terminate)
        patience.start()
        try:
            assert child.stdout is not None
            acks = []
            for line in child.stdout:
                acks.append(_ack(line))
                if heard is not None:
                    heard(len(acks))
                if len(acks) == kill_at:
                    child.send_signal(signal.SIGKILL)
                    # What it had told before it died is still in the pipe, and counts.
            code = child.wait()
        finally:
            patience.cancel()
            child.kill()
        complaints.seek(0)
        told = complaints.read().decode(errors="backslashreplace")
    return Round(child.pid, acks, code, told)


def _ack(line: bytes) -> Ack:
    conversation, *numbers = line.decode().split()
    serial, first, last = map(int, numbers)
    return Ack(conversation, serial, first, last)


class _Teller:
    """Says on the terminal how far a round is."""

    def __init__(self, status: Status, number: int) -> None:
        self._status = status
        self._number = number

    def hear(self, count: int) -> None:
        self._status.update(f"round {self._number}: {count:,} appends acknowledged")


def perform(console: Console, directory: Path, chance: random.Random) -> list[str]:
    """Kill a writer several times over, and return what is wrong with what it left."""
    acks: list[Ack] = []
    for number in range(1, ROUNDS + 1):
        kill_at = chance.randint(AT_LEAST, AT_MOST)
        with console.status(f"round {number}: {WRITERS} threads append") as status:
            ended = live_and_die(directory, number, kill_at, _Teller(status, number).hear)
        if ended.code != -signal.SIGKILL:
            return [f"the writer ended by itself ({ended.code}): {ended.told.strip()}"]
        acks += ended.acks
        console.print(
            f"[bold]{number}[/]  process {ended.pid} appended to {WRITERS} conversations at once\n"
            f"   [red]killed with SIGKILL[/] after {len(ended.acks):,} acknowledged appends"
        )
        with console.status("opening the log again"):
            begun = time.monotonic()
            there = look(directory)
            took = time.monotonic() - begun
            report = verify(directory)
        wrong = compare(acks, there)
        wrong += [f"{problem.where}: {problem.message}" for problem in report.problems]
        runes = sum(ack.last - ack.first + 1 for ack in acks)
        console.print(
            f"   opened again in {took:.2f} s: {runes:,} runes were acknowledged so far, "
            f"{sum(map(len, there.values())):,} are there\n"
            f"   verified: {report.runes:,} runes, {len(report.problems)} problems"
        )
        if wrong:
            return wrong
    return []


def main(arguments: Sequence[str] = ()) -> int:
    """Tell the story; return 0 if the log kept its promise, 1 if not."""
    if len(arguments) == 3 and arguments[0] == "--write":
        write(Path(arguments[1]), int(arguments[2]))
    if importlib.util.find_spec("rich") is None:
        sys.stderr.write("the demo needs rich: pip install 'runefold[cli]'\n")
        return 2
    from rich.console import Console  # noqa: PLC0415 -- was just found to be there

    console = Console(highlight=False, soft_wrap=True)
    console.print(f"[bold]A busy writer is killed {ROUNDS} times, in the middle of its work.[/]")
    directory = Path(tempfile.mkdtemp(prefix="runefold-demo-"))
    try:
        wrong = perform(console, directory / "log", random.Random())  # noqa: S311 -- no secret
    except RunefoldError as error:
        wrong = [f"{type(error).__name__}: {error}"]
    if wrong:
        for message in wrong[:10]:
            console.print(message, style="red", markup=False)
        console.print("[bold red]FAILED:[/] the log broke its promise. It is left in", end=" ")
        console.print(str(directory), markup=False)
        return 1
    shutil.rmtree(directory)
    console.print(
        "[bold green]Kept:[/] nothing acknowledged was missing, nothing was half there, every time."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
