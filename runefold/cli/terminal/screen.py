"""The output of a command: results on standard output, everything else on standard error.

Colours and progress are for terminals. Output to a pipe is plain, one record a line, not wrapped.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import IO, TYPE_CHECKING, Final, NoReturn, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from runefold.cli.terminal.wording import record, safe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

Part: TypeAlias = str | tuple[str, str]
"""A piece of a line: plain, or with a style."""
_STEP: Final = 500
"""A bar is moved after this many runes: moving it for each takes longer than the work."""


class _Output(Console):
    """A console that raises `BrokenPipeError` when its reader is gone."""

    def on_broken_pipe(self) -> NoReturn:
        """Let `guarded` end the command."""
        raise BrokenPipeError


class Screen:
    """Standard output and standard error as one command uses them."""

    def __init__(self) -> None:
        """Look at the streams as they are now."""
        self._out = _Output(file=sys.stdout, highlight=False, soft_wrap=True)
        self._err = _Output(file=sys.stderr, highlight=False, soft_wrap=True)
        # Asked once: to ask a console takes longer than to write a line.
        self._colours = {each: _has_colours(each) for each in (self._out, self._err)}

    @property
    def width(self) -> int | None:
        """How wide a line may be; None if standard output is no terminal."""
        return self._out.width if self._out.is_terminal else None

    def line(self, *parts: Part) -> None:
        """Write one line of the result. Its parts must be safe already."""
        self._write(self._out, sys.stdout, parts)

    def json(self, value: object) -> None:
        """Write one line of JSON, in ASCII: nothing in it can act on a terminal."""
        sys.stdout.write(json.dumps(value) + "\n")

    def record(self, item: object, **more: object) -> None:
        """Write the fields of a struct as one line of JSON, and what else is given."""
        self.json({**record(item), **more})

    def table(
        self, heads: Sequence[str], rows: Iterable[Sequence[Part]], right: Collection[int] = ()
    ) -> None:
        """Write rows in columns below their heads; the columns in `right` are right-aligned."""
        for line in table(headed(heads, rows), right):
            self.line(*line)

    def note(self, *parts: Part) -> None:
        """Write a line to standard error: it is not part of the result."""
        self._write(self._err, sys.stderr, parts)

    def ask(self, question: str) -> str:
        """Ask the user a question and return the answer; empty at the end of the input."""
        sys.stderr.write(f"{question}: ")
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            self.note()
        return answer.strip()

    def error(self, message: str) -> None:
        """Write what went wrong, in one or two sentences."""
        self.note(("error:", "bold red"), " " + safe(message))

    def _write(self, output: _Output, file: IO[str], parts: Sequence[Part]) -> None:
        if self._colours[output]:
            output.print(Text.assemble(*parts))
        else:
            file.write("".join(map(text_of, parts)) + "\n")

    def flush(self) -> None:
        """Flush standard output."""
        sys.stdout.flush()

    @contextlib.contextmanager
    def bar(self, what: str) -> Iterator[Callable[[int, int | None, str], object]]:
        """Show a bar on a terminal while the block runs.

        Give a function that moves it: how much is done, of how much, and that in words.
        """
        if not self._err.is_terminal or self._err.is_dumb_terminal:
            yield lambda _done, _total, _told: None
            return
        columns = [
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
        ]
        with Progress(*columns, console=self._err, transient=True) as bar:
            task = bar.add_task(what, total=None, told="")
            yield lambda done, total, told: bar.update(task, completed=done, total=total, told=told)

    @contextlib.contextmanager
    def progress(
        self, what: str, total: int | None = None, told: Callable[[int], str] | None = None
    ) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal while the block runs; give a function that adds runes done.

        If other things than runes are counted, `told` puts a number of them into words.
        """
        words, unit = (told, "") if told else ("{:,}".format, " runes")
        done = shown = 0
        with self.bar(what) as move:

            def add(count: int) -> None:
                nonlocal done, shown
                done += count
                if done - shown >= _STEP or done == total:
                    shown = done
                    of = f" of {words(total)}" if total else ""
                    move(done, total, f"{words(done)}{of}{unit}")

            yield add


def _has_colours(console: Console) -> bool:
    return console.is_terminal and console.color_system is not None and not console.no_color


def headed(heads: Sequence[str], rows: Iterable[Sequence[Part]]) -> list[Sequence[Part]]:
    """Return rows of a table with a first one of heads."""
    return [[(head, "bold") for head in heads], *rows]


def table(
    rows: Sequence[Sequence[Part]], right: Collection[int] = frozenset()
) -> Iterator[list[Part]]:
    """Yield the rows with their cells in columns; those in `right` are right-aligned."""
    columns = len(rows[0]) if rows else 0
    widths = [max(len(text_of(row[at])) for row in rows) for at in range(columns)]
    for row in rows:
        line: list[Part] = []
        for at, cell in enumerate(row):
            space = " " * (widths[at] - len(text_of(cell)))
            gap = "" if at == columns - 1 else "  "
            line += [space, cell, gap] if at in right else [cell, space if gap else "", gap]
        yield line


def text_of(part: Part) -> str:
    """Return the text of a part of a line."""
    return part if isinstance(part, str) else part[0]
