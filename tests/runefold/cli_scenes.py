"""Logs for the command line to look at, and ways to run it: in this process and as a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typer.testing import CliRunner

from runefold.cli.app import app
from runelog.codec import Codec
from runelog.rune import Change, Rune, Visibility
from runelog.store import Runelog

if TYPE_CHECKING:
    from typer.testing import Result

ROOT: Final = Path(__file__).parents[2]
START: Final = 1_700_000_000_000_000_000
SMALL: Final = 1 << 20
"""A segment size with which a log takes little room."""

ESCAPES: Final = "\x1b]0;owned\x07\x1b[31mred\x9b2J\u202etxet\u2066\r\n\x00\x7f [bold]loud[/bold]"
"""A title, colours, a cleared screen, writing turned around, and rich's own markup."""
SECRET: Final = "sk-0123456789"


class Said(Rune, frozen=True, tag="turn.assistant_delta"):
    """What a model said."""

    text: str


class Done(Rune, frozen=True, tag="turn.completed"):
    """A payload with some depth."""

    usage: dict[str, Any]
    raw: bytes = b""


class Odd(Rune, frozen=True, tag="odd\x1b[2Jkind"):
    """A kind that is itself an attack."""

    text: str
    more: dict[str, Any]


class Given(Rune, frozen=True, tag="key.given"):
    """What nobody may see."""

    visibility: ClassVar[Visibility] = Visibility.SECRET
    value: str


class Found(Rune, frozen=True, tag="plan.critique"):
    """What clients do not see and operators do."""

    visibility: ClassVar[Visibility] = Visibility.INTERNAL
    findings: list[str]


CODEC: Final = Codec([Said, Done, Odd, Given, Found])


class Ticking:
    """A clock that goes on by a second each time it is asked."""

    def __init__(self) -> None:
        """Begin at a fixed time."""
        self._now = START

    def __call__(self) -> int:
        """Return the time."""
        self._now += 1_000_000_000
        return self._now


def opened(directory: Path) -> Runelog:
    """Open a log for writing, as the app that owns it would."""
    return Runelog.open(directory, CODEC, clock=Ticking(), segment_size=SMALL)


def make_log(directory: Path) -> Path:
    """Make a log of three conversations: an ordinary one, a hostile one, and one with work left."""
    with opened(directory) as log:
        said = [Said(text=f"word {number}") for number in range(1, 11)]
        log.append(
            "conv_a",
            [Change("turn_1", 0, said, observers=("agt_1",), agent="agt_1", tags=("t",))],
        )
        log.append(
            "conv_a",
            [Change("turn_2", 0, [Done(usage={"tokens": 12}, raw=b"\x00\xff")], cause=10)],
        )
        log.append("conv_hostile", [Change("x", 0, [Odd(text=ESCAPES, more={ESCAPES: [ESCAPES]})])])
        log.append("conv_hostile", [Change("k", 0, [Given(value=SECRET)], tags=("hush",))])
        log.append("conv_hostile", [Change("p", 0, [Found(findings=["weak"])])])
        log.roll()
        log.append(
            "conv_work",
            [Change("turn_1", 0, [Said(text="x" * 5_000)], open=True, deadline=START)],
        )
    return directory


def run(*arguments: str | Path, feed: bytes | str | None = None) -> Result:
    """Run a command in this process. What it raises, other than its exit, is raised here."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(app, words, input=feed, catch_exceptions=False)


def command(*arguments: str | Path) -> list[str]:
    """Return the command line that runs a command for real."""
    return [sys.executable, "-m", "runefold.cli", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which nothing decides about colours but the stream itself."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLUMNS", "TERM"}
    }
    return {**kept, "TERM": "xterm-256color", **more}


def real(
    *arguments: str | Path, feed: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command as a process of its own, with pipes for its streams."""
    return subprocess.run(
        command(*arguments),
        input=feed,
        capture_output=True,
        check=False,
        timeout=60,
        cwd=ROOT,
        env=environment(**more),
    )


def sealed(directory: Path) -> Path:
    """Return the file of the sealed segment."""
    return min((directory / "segments").glob("*.mdb"))


def flip(path: Path, marker: bytes) -> None:
    """Change one bit of a file wherever `marker` is: also in older copies of its page."""
    path.write_bytes(path.read_bytes().replace(marker, bytes([marker[0] ^ 1]) + marker[1:]))
