"""Logs with one thing wrong in one file: what can be read of them must be what was written."""

from __future__ import annotations

import contextlib
import random
import re
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from runelog.errors import Corrupt, RunefoldError
from runelog.lmdb.pages import BIG, META_SIZE, Meta, Page
from runelog.lmdb.salvage import SalvageView
from runelog.rune import Envelope, State
from runelog.store import Runelog
from tests.crash.runs import narrowed, scratch
from tests.crash.small import small_pages
from tests.crash.story import CODEC, SMALL, Noted, Step, play, streams, worlds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

SEED: Final = 17
TALE: Final = (
    Step("append", ("conv_a",), 2),
    Step("append", ("conv_e",), 1, 100),
    Step("append", ("conv_b",), 1, 300, open=True),
    Step("append", ("conv_c",), 2, 20, "note_3", open=True),
    Step("append", ("conv_a",), 1, 20, "note_3", open=True),
    Step("erase", ("conv_e",)),
    Step("roll"),
    Step("append", ("conv_a",), 2, 20, "note_3", open=False),
    Step("append", ("conv_c",), 2, open=True),
    Step("append", ("conv_b",), 2, 20, "note_3"),
    Step("append", ("conv_a",), 1),
)
"""One bit turns some of these names, numbers and counts into others of them.

Each step is a commit of its own: told again, the same story makes the same files.
"""
WORLD: Final = worlds(TALE)[-1]
LIVE: Final = sorted(name for name, (state, _) in WORLD.items() if state is State.LIVE)
STREAMS: Final = streams(tuple(step for step in TALE if "conv_e" not in step.names))
INDEX: Final = ("names", "heads", "events", "streams", "work", "holes")
"""What finds runes again in a segment."""
FILES: Final = {
    "active": "segments/000002.0.mdb",
    "sealed": "segments/000001.1.mdb",
    "catalog": "catalog.0.mdb",
    "clean": "CLEAN",
    "manifest": "MANIFEST",
}
SEGMENTS: Final = ("active", "sealed")
BRIEFLY: Final = ("all", "list", "work", "conv_a", "conv_a book_1")
"""Questions that between them read every rune, and something from each table."""
BATCH: Final = 2_000
"""So many damages are tried in one child."""
WALKED: Final = 20
"""The same where child processes walk through the files."""
PATIENCE: Final = 900

Answers = dict[str, list[object]]
"""What a log says to all there is to ask; what it did not get to say is missing at the end."""


class Damage(NamedTuple):
    """A bit to flip, or a length to cut the file to."""

    bit: int = -1
    length: int = -1

    def done(self, data: bytes) -> bytes:
        """Return what is left of a file."""
        if self.length >= 0:
            return data[: self.length]
        damaged = bytearray(data)
        damaged[self.bit // 8] ^= 1 << self.bit % 8
        return bytes(damaged)


class Scene(NamedTuple):
    """Which file is damaged, and how the log is then opened."""

    kind: str
    readonly: bool = False
    small: bool = False
    """Whether its files are of small pages."""
    unclean: bool = False
    """Whether it was not closed, so that nothing vouches for what changes in place."""
    brief: bool = False
    """Whether not all is asked, but `BRIEFLY`."""

    @property
    def walked(self) -> bool:
        """Whether child processes walk through the files, which takes its time."""
        return self.unclean or self.kind == "clean"


# -- asking ----------------------------------------------------------------------------------------


def _known(item: object) -> object:
    """Return all that is told of a rune; anything else is told as it is."""
    if not isinstance(item, Envelope):
        return item
    assert isinstance(item.payload, Noted)
    return item.position, item.conversation, item.event_id, item.owner, item.payload.text


def _questions(log: Runelog) -> Iterator[tuple[str, Callable[[], Iterable[object]]]]:
    """Yield each thing that can be asked, and how to ask it."""
    yield "all", log.read_all
    yield "list", log.conversations
    yield "work", log.open_work
    for name in LIVE:
        yield name, partial(log.read, name)
        yield f"{name} work", partial(log.open_work, name)
    for name, entity in STREAMS:
        yield f"{name} {entity}", partial(log.stream, name, entity)
    for name, entity in (("conv_a", "note_3"), ("conv_b", "note_1"), ("conv_c", "book_1")):
        yield f"{name} {entity} from 1", partial(log.stream, name, entity, after=1)
        yield f"{name} {entity} version", partial(_version, log, name, entity)


def _version(log: Runelog, name: str, entity: str) -> list[int]:
    return [log.version(name, entity)]


def ask(log: Runelog, *, brief: bool = False) -> tuple[Answers, set[str]]:
    """Ask a log everything, or briefly; return its answers, and which of them it broke off."""
    answers: Answers = {}
    broken = set()
    for question, asked in _questions(log):
        if brief and question not in BRIEFLY:
            continue
        found = answers[question] = []
        try:
            found.extend(map(_known, asked()))
        except RunefoldError:
            broken.add(question)
    return answers, broken


def opened(directory: Path, *, readonly: bool) -> Runelog:
    """Open the log of the tale."""
    return Runelog.open(directory, CODEC, readonly=readonly, segment_size=SMALL)


def look(directory: Path, expected: Answers, scene: Scene) -> None:
    """Ask a log that may be damaged: what it says must be right."""
    try:
        log = opened(directory, readonly=scene.readonly)
    except RunefoldError:
        return
    with log:
        answers, broken = ask(log, brief=scene.brief)
    for question, told in answers.items():
        right = expected[question]
        assert told == right[: len(told)], f"{question}: {told}"
        assert question in broken or len(told) == len(right), f"{question} ends with {told}"


# -- damaging --------------------------------------------------------------------------------------


class Stage:
    """A log in which the tale was told, to be damaged again and again."""

    def __init__(self, directory: Path, scene: Scene) -> None:
        """Tell the tale."""
        self.directory = directory
        self.scene = scene
        with self.pages():
            play(directory, TALE, lambda _: None)
            with opened(directory, readonly=True) as log:
                self.expected, broken = ask(log)
        assert not broken
        if scene.unclean:
            (directory / "CLEAN").unlink()
        self.kept = {path: path.read_bytes() for path in self._files()}
        self.target = directory / FILES[scene.kind]

    def pages(self) -> contextlib.AbstractContextManager[None]:
        """Have files made of the pages that this log has."""
        return small_pages() if self.scene.small else contextlib.nullcontext()

    def _files(self) -> Iterator[Path]:
        found = self.directory.rglob("*")
        return (path for path in found if path.is_file() and not path.name.endswith("-lock"))

    def try_each(self, damages: Sequence[Damage]) -> None:
        """Do each damage to the log and look at it; a writer's traces are removed again."""
        self.restore()  # whoever tried before may have ended before its time
        for damage in damages:
            self.target.write_bytes(damage.done(self.kept[self.target]))
            with self.pages():
                look(self.directory, self.expected, self.scene)
            self.miss_nothing()
            if not self.scene.readonly:
                self.restore()
        self.target.write_bytes(self.kept[self.target])
        assert {path: path.read_bytes() for path in self._files()} == self.kept

    def miss_nothing(self) -> None:
        """Assert that no file with runes was deleted, whatever was damaged."""
        gone = [
            path.name
            for path in self.kept
            if path.parent != self.directory
            and not path.exists()
            and not (self.directory / "damaged" / path.name).exists()
        ]
        assert not gone, f"{gone} was deleted"

    def restore(self) -> None:
        """Make the log whole again."""
        for path in [*self._files()]:
            if path not in self.kept:
                path.unlink()
        for path, data in self.kept.items():
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)


@contextlib.contextmanager
def staged(scene: Scene) -> Iterator[Stage]:
    """Give a log to damage."""
    with scratch() as root:
        yield Stage(root / "log", scene)


def try_all(scene: Scene, damages: Sequence[Damage]) -> list[str]:
    """Damage a log in each of these ways; return what went wrong."""
    with staged(scene) as stage:
        wrong = narrowed(stage.try_each, damages, PATIENCE)
    return [f"{scene} with {damage}: {told}" for damage, told in wrong]


def tried(pool: ProcessPoolExecutor, scene: Scene, damages: Sequence[Damage]) -> list[str]:
    """Try damages in batches, in several processes."""
    size = WALKED if scene.walked else BATCH
    batches = [damages[start : start + size] for start in range(0, len(damages), size)]
    return [wrong for batch in pool.map(partial(try_all, scene), batches) for wrong in batch]


# -- where to damage -------------------------------------------------------------------------------


def data_of(scene: Scene) -> bytes:
    """Return the file that is damaged here."""
    with staged(scene) as stage:
        return stage.kept[stage.target]


def size_of(scene: Scene) -> int:
    """Return the length of the file that is damaged here."""
    return len(data_of(scene))


def table_bits(scene: Scene, tables: Sequence[str] = INDEX, *, copies: bool = True) -> list[int]:
    """Return every bit of some tables: of their entries, and of copies left on free pages."""
    data = data_of(scene)
    view = SalvageView.of(data)
    entries = [key + value for table in tables for key, value in view.scan(table)]
    places = {at.start() for entry in entries for at in re.finditer(re.escape(entry), data)}
    if not copies:
        places = {at for at in places if at // view._file.page_size not in view._survey.free}
    ends = {at: max(len(e) for e in entries if data.startswith(e, at)) for at in places}
    return sorted({8 * at + bit for at, length in ends.items() for bit in range(8 * length)})


def visible_bits(scene: Scene) -> list[int]:
    """Return every bit of a segment that changes what is seen of its page when it is read.

    Most of a page is empty, and free pages are read by nobody but a repair.
    """
    data = data_of(scene)
    view = SalvageView.of(data)
    size, free = view._file.page_size, view._survey.free
    found: list[int] = []
    for number in sorted({*range(len(data) // size)} - free):
        page = data[number * size : (number + 1) * size]
        before = _seen(page, number)
        found += [
            8 * size * number + bit
            for bit in range(8 * size)
            if _seen(Damage(bit=bit).done(page), number) != before
        ]
    return found


def _seen(data: bytes, number: int) -> object:
    """Return all that is seen of a page when it is read with care."""
    if number < 2:
        return Meta.parse(data[:META_SIZE], number)
    try:
        page = Page.parse(data, number)
    except Corrupt:
        return data  # of a large value every byte is seen
    held = [0 if page.branch else 8 if node.flags == BIG else node.size for node in page.nodes]
    values = [data[node.at : node.at + size] for node, size in zip(page.nodes, held, strict=True)]
    return page.branch, page.fault, [node[:3] for node in page.nodes], values


def filled_bits(scene: Scene) -> list[int]:
    """Return every bit of the bytes of pages in use that are not zero, and some of all others."""
    data = data_of(scene)
    view = SalvageView.of(data)
    size, free = view._file.page_size, view._survey.free
    filled = {at for at, byte in enumerate(data) if byte and at // size not in free}
    return [bit for bit in range(8 * len(data)) if bit // 8 in filled or bit % 127 == 0]


def places_of(scene: Scene, what: bytes) -> list[int]:
    """Return where some bytes are in the file that is damaged here."""
    return [at.start() for at in re.finditer(re.escape(what), data_of(scene))]


def flips(size: int, count: int) -> list[Damage]:
    """Choose so many bits of a file."""
    return [Damage(bit=bit) for bit in random.Random(SEED).sample(range(8 * size), count)]
