"""Stories that a child tells to a log, step by step, and what must be in the log after each step.

A story is told by one thread, so that a crash can leave only the state between two of its steps.
After each step the child says so on a pipe that outlives it.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from runelog.codec import Codec
from runelog.directory import maintenance
from runelog.memory import MemoryLog
from runelog.rune import Change, Rune, State, Work
from runelog.store import Durability, Runelog
from runelog.transfer.export_import import export, take_in

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from runelog.log import Log

SMALL: Final = 1 << 20
"""The smallest segment there is."""
NOTHING_ACKNOWLEDGED: Final = frozenset({"whisper", "reopen"})
"""Steps that return before, or without, making anything durable."""


class Noted(Rune, frozen=True, tag="note.taken"):
    """A rune that says which append it came with, and which of its runes it is."""

    text: str
    part: int = 1
    of: int = 1


CODEC: Final = Codec([Noted])


class Step(NamedTuple):
    """One thing to do to the log."""

    do: str
    """append, whisper (an append that nobody waits for), flush, roll, archive, compact (an archive
    that removes the runes from the segments at once), restore, erase, take_in, reopen or backup,
    which goes to a directory beside the log."""
    names: tuple[str, ...] = ()
    runes: int = 1
    size: int = 20
    entity: str = "note_1"
    """Who owns the runes; `book_1` observes all of them."""
    open: bool | None = None
    """Whether the owner has something left to do afterwards, and a deadline; None: as before."""


World = dict[str, tuple[State, tuple[str, ...]]]
"""Of each conversation where its runes are, and the texts of all of them."""
Streams = dict[tuple[str, str], tuple[str, ...]]
"""Of each conversation and entity, the texts of the runes that it owns or observes."""

_OPEN: Final = (
    Step("append", ("conv_a",), 3),
    Step("append", ("conv_b",), 1, 300),
    Step("whisper", ("conv_a",), 2),
    Step("whisper", ("conv_c",), 1),
    Step("append", ("conv_b",), 2),
)
SHORT: Final = (
    *_OPEN,
    Step("roll"),
    Step("append", ("conv_a",), 1, 2_000),
    Step("whisper", ("conv_b",), 4),
    Step("flush"),
    Step("reopen"),
    Step("append", ("conv_c",), 2),
)
"""Creates a log, rolls a segment, closes the log and goes on."""
PATIENT: Final = (
    *(Step("append", (name,), 2, 300) for name in ("conv_a", "conv_b", "conv_a")),
    Step("roll"),
    Step("append", ("conv_a",), 1, 2_000),
    Step("append", ("conv_b",), 3),
    Step("reopen"),
    *(Step("append", (name,)) for name in ("conv_c", "conv_a", "conv_c")),
)
"""Waits for each of its appends."""
BEFORE: Final = (
    *_OPEN,
    Step("roll"),
    Step("append", ("conv_a",), 2),
    Step("append", ("conv_c",), 2),
)
KEEPING: Final = {
    "archive": (*BEFORE, Step("archive", ("conv_a", "conv_b")), Step("append", ("conv_c",), 1)),
    "compact": (*BEFORE, Step("compact", ("conv_a", "conv_b")), Step("append", ("conv_c",), 1)),
    "restore": (
        *BEFORE,
        Step("archive", ("conv_a", "conv_b")),
        Step("restore", ("conv_a", "conv_b")),
        Step("append", ("conv_a",), 1),
    ),
    "erase": (*BEFORE, Step("erase", ("conv_a", "conv_b")), Step("append", ("conv_c",), 1)),
    "take_in": (*BEFORE, Step("take_in", ("conv_x", "conv_y"), 5), Step("append", ("conv_x",), 1)),
}
"""Each ends with one operation on whole conversations and an append behind it."""


def texts(step: Step, number: int, name: str) -> list[str]:
    """Return what a step adds to one conversation."""
    return [
        f"{number}.{part} of {name} ".ljust(step.size, "=") for part in range(1, step.runes + 1)
    ]


def runes(step: Step, number: int, name: str) -> list[Noted]:
    """Return the runes of one append."""
    return [
        Noted(text=text, part=part, of=step.runes)
        for part, text in enumerate(texts(step, number, name), 1)
    ]


def worlds(story: Sequence[Step]) -> list[World]:
    """Return what is there before the first step and after each."""
    world: World = {}
    found = [world]
    for number, step in enumerate(story, 1):
        world = dict(world)
        for name in step.names:
            state, before = world.get(name, (State.LIVE, ()))
            if step.do in ("append", "whisper", "take_in"):
                world[name] = (state, (*before, *texts(step, number, name)))
            elif step.do == "erase":
                world[name] = (State.ERASED, ())
            else:
                state = State.ARCHIVED if step.do in ("archive", "compact") else State.LIVE
                world[name] = (state, before)
        found.append(world)
    return found


def streams(story: Sequence[Step]) -> Streams:
    """Return every entity's stream after a story that only appends; also those with nothing."""
    names = sorted({name for step in story for name in step.names})
    entities = sorted({step.entity for step in story} | {"book_1"})
    found: Streams = {(name, entity): () for name in names for entity in entities}
    for number, step in enumerate(story, 1):
        for name in step.names:
            for entity in (step.entity, "book_1"):
                found[name, entity] += tuple(texts(step, number, name))
    return found


def work(story: Sequence[Step]) -> list[Work]:
    """Return what is left to do after a story."""
    found: dict[tuple[str, str], Work] = {}
    for number, step in enumerate(story, 1):
        for name in step.names:
            if step.open:
                found[name, step.entity] = Work(name, step.entity, number)
            elif step.open is not None:
                found.pop((name, step.entity), None)
    return [found[key] for key in sorted(found)]


def possible(story: Sequence[Step], sure: Collection[int], maybe: Collection[int]) -> list[World]:
    """Return what may be there if some steps were taken for sure, and any of some others."""
    open_ends = sorted(set(maybe) - set(sure))
    found = []
    for mask in range(1 << len(open_ends)):
        taken = {*sure, *(step for at, step in enumerate(open_ends) if mask >> at & 1)}
        part = [step if n in taken else Step("flush") for n, step in enumerate(story, 1)]
        found.append(worlds(part)[-1])
    return found


def play(
    directory: Path,
    story: Sequence[Step],
    tell: Callable[[str], None],
    skip: int = 0,
    durability: Durability = "commit",
) -> None:
    """Tell a story to the log in `directory`, from behind the first `skip` steps on.

    Tells of each step when it is over: its number, or its number and the name of the error.
    Opening the log is step 0, of which only an error is told.
    """
    try:
        log = open_log(directory, durability)
    except Exception as error:  # noqa: BLE001 -- whichever it is, that is what is told
        tell(f"0 {type(error).__name__}")
        return
    for number, step in enumerate(story, 1):
        if number <= skip:
            continue
        try:
            log = perform(log, step, number, durability)
        except Exception as error:  # noqa: BLE001 -- whichever it is, that is what is told
            tell(f"{number} {type(error).__name__}")
        else:
            tell(f"{number}")
    try:
        log.close()
    except Exception as error:  # noqa: BLE001 -- whichever it is, that is what is told
        tell(f"{len(story) + 1} {type(error).__name__}")


def open_log(
    directory: Path, durability: Durability = "commit", *, readonly: bool = False
) -> Runelog:
    """Open the log of a story."""
    return Runelog.open(
        directory, CODEC, segment_size=SMALL, durability=durability, readonly=readonly
    )


def perform(log: Runelog, step: Step, number: int, durability: Durability = "commit") -> Runelog:
    """Take one step; return the log to go on with."""
    if step.do in ("append", "whisper"):
        for name in step.names:
            change = Change(
                step.entity,
                None,
                runes(step, number, name),
                observers=("book_1",),
                open=step.open,
                deadline=number if step.open else None,
            )
            log.append(name, [change], durable=step.do == "append")
    elif step.do == "reopen":
        log.close()
        return open_log(log.directory, durability)
    elif step.do == "backup":
        log.backup(log.directory.parent / "backup")
    elif step.do == "take_in":
        take_in(log, io.BytesIO(parcel(step, number)))
    elif step.do in ("flush", "roll"):
        getattr(log, step.do)()
    elif step.do == "compact":
        with compacting():
            log.archive(*step.names)
    else:
        getattr(log, step.do)(*step.names)
    return log


@contextlib.contextmanager
def compacting() -> Iterator[None]:
    """Have runes that are archived removed from their segments at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance, "MIN_DEAD", 1)
        patch.setattr(maintenance, "MAX_DEAD", 0)
        yield


def parcel(step: Step, number: int) -> bytes:
    """Return an export stream with the conversations of a step."""
    file = io.BytesIO()
    with MemoryLog(CODEC, lambda: 1) as source:
        for name in step.names:
            source.append(name, [Change("note_1", 0, runes(step, number, name), ("book_1",))])
        export(source, file)
    return file.getvalue()


class Pipe:
    """Where a child says what it has done, kept by whoever outlives it."""

    def __init__(self) -> None:
        """Make a pipe with room for everything a story has to tell."""
        self.reading, self.writing = os.pipe()

    def tell(self, line: str) -> None:
        """Say something; called in the child."""
        os.write(self.writing, line.encode() + b"\n")

    def told(self) -> list[str]:
        """Return everything that was said, once nobody can say more."""
        os.close(self.writing)
        with open(self.reading, "rb") as file:  # noqa: PTH123 -- a descriptor, not a path
            return file.read().decode().splitlines()


def acknowledged(story: Sequence[Step], told: Sequence[str]) -> int:
    """Return up to which step all must be there: the last one that promised to be durable."""
    done = [int(line) for line in told if " " not in line]
    return max((n for n in done if story[n - 1].do not in NOTHING_ACKNOWLEDGED), default=0)


def but_the_last(story: Sequence[Step], told: Sequence[str]) -> int:
    """Return up to which step all must be there if the last commit may be lost.

    Of stories that wait for each of their appends: so each of those is a commit of its own.
    """
    done = acknowledged(story, told)
    return max((n for n in range(1, done + 1) if story[n - 1].do == "append"), default=1) - 1


def promised(story: Sequence[Step], told: Sequence[str]) -> set[int]:
    """Return the steps that must be there although others failed: those that became durable.

    What nobody waited for is durable once a later step is that was taken through the same handle.
    """
    sure: set[int] = set()
    waiting: set[int] = set()
    for line in told:
        number, _, error = line.partition(" ")
        step = story[int(number) - 1] if 0 < int(number) <= len(story) else Step("close")
        if error:
            waiting.clear()
            continue
        waiting.add(int(number))
        if step.do != "whisper":
            sure |= waiting
            waiting.clear()
    return sure


def begun(told: Sequence[str]) -> int:
    """Return the last step of which anything may be there."""
    return max((int(line.split()[0]) for line in told), default=0) + 1


def content(log: Log, name: str) -> tuple[str, ...]:
    """Return the texts of a conversation."""
    return tuple(_text(envelope.payload) for envelope in log.read(name))


def stream(log: Log, name: str, entity: str) -> tuple[str, ...]:
    """Return the texts of an entity's stream."""
    return tuple(_text(envelope.payload) for envelope in log.stream(name, entity))


def _text(rune: Rune) -> str:
    assert isinstance(rune, Noted)
    return rune.text
