"""Where a command's words go: results to standard output, everything else to standard error.

Colours and progress are for terminals. What is piped is plain, one record a line, never wrapped.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import IO, TYPE_CHECKING, Final, NoReturn, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from runefold.cli.wording import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.progress import TaskID

Part: TypeAlias = str | tuple[str, str]
"""A piece of a line: plain, or with a style."""
_STEP: Final = 500
"""How many runes pass before a bar is moved: telling it of each would take longer than the work."""


class _Pen(Console):
    """A console that lets the caller know when nobody reads any more."""

    def on_broken_pipe(self) -> NoReturn:
        """Leave it to whoever guards the command."""
        raise BrokenPipeError


class Screen:
    """Standard output and standard error as one command uses them."""

    def __init__(self) -> None:
        """Look at the streams as they are now."""
        self._out = _Pen(file=sys.stdout, highlight=False, soft_wrap=True)
        self._err = _Pen(file=sys.stderr, highlight=False, soft_wrap=True)
        # Asked once: to ask a console takes longer than to write a line.
        self._colours = {pen: _has_colours(pen) for pen in (self._out, self._err)}

    @property
    def width(self) -> int | None:
        """How wide a line may be, None if nobody looks at it on a terminal."""
        return self._out.width if self._out.is_terminal else None

    def line(self, *parts: Part) -> None:
        """Write one line of the result. Its parts must be safe already."""
        self._write(self._out, sys.stdout, parts)

    def json(self, record: object) -> None:
        """Write one line of JSON, in ASCII: whatever is in it cannot act on a terminal."""
        sys.stdout.write(json.dumps(record) + "\n")

    def note(self, *parts: Part) -> None:
        """Tell the user something that is not part of the result."""
        self._write(self._err, sys.stderr, parts)

    def ask(self, question: str) -> str:
        """Ask the user something and return the answer, nothing at the end of the input."""
        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            self.note()
        return answer.strip()

    def error(self, message: str) -> None:
        """Tell the user what went wrong, in one or two sentences."""
        self.note(("error:", "bold red"), " " + safe(message))

    def _write(self, pen: _Pen, file: IO[str], parts: Sequence[Part]) -> None:
        if self._colours[pen]:
            pen.print(Text.assemble(*parts))
        else:
            file.write("".join(map(_text, parts)) + "\n")

    def flush(self) -> None:
        """Let readers have what was written so far."""
        sys.stdout.flush()

    @contextlib.contextmanager
    def progress(
        self, what: str, total: int | None = None, told: Callable[[int], str] | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal while the block runs; give what to tell of runes done.

        With `told` it is something else than runes, which `told` puts into words.
        """
        if not self._err.is_terminal:
            yield lambda _: None
            return
        columns = [
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
        ]
        with Progress(*columns, console=self._err, transient=True) as bar:
            yield _Meter(bar, bar.add_task(what, total=total, told=""), total, told).add


class _Meter:
    """Moves a bar, now and then."""

    def __init__(
        self,
        bar: Progress,
        task: TaskID,
        total: int | None,
        told: Callable[[int], str] | None,
    ) -> None:
        self._bar = bar
        self._task = task
        self._total = total
        self._words = told or "{:,}".format
        self._unit = "" if told else " runes"
        self._done = 0
        self._told = 0

    def add(self, count: int) -> None:
        self._done += count
        if self._done - self._told >= _STEP or self._done == self._total:
            self._told = self._done
            of = f" of {self._words(self._total)}" if self._total else ""
            told = f"{self._words(self._done)}{of}{self._unit}"
            self._bar.update(self._task, completed=self._done, told=told)


def _has_colours(console: Console) -> bool:
    return console.is_terminal and console.color_system is not None and not console.no_color


def table(
    rows: Sequence[Sequence[Part]], right: frozenset[int] = frozenset()
) -> Iterator[list[Part]]:
    """Yield the rows with their cells in columns; those whose number is in `right` end together."""
    columns = len(rows[0]) if rows else 0
    widths = [max(len(_text(row[at])) for row in rows) for at in range(columns)]
    for row in rows:
        line: list[Part] = []
        for at, cell in enumerate(row):
            space = " " * (widths[at] - len(_text(cell)))
            gap = "" if at == columns - 1 else "  "
            line += [space, cell, gap] if at in right else [cell, space if gap else "", gap]
        yield line


def _text(part: Part) -> str:
    return part if isinstance(part, str) else part[0]
