"""What every part of the contract needs: a log to test, runes to put in, ways to look at it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from runelog.codec import Codec
from runelog.rune import Change, Envelope, Gap, Rune, State, Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runelog.log import Log

A: Final = "conv_00000000000000aa"
B: Final = "conv_00000000000000bb"
C: Final = "conv_00000000000000cc"
LONG: Final = 3_000
"""More runes than any reader takes at a time, so that reading on from chunk to chunk is tested."""
PATIENCE: Final = 60.0
"""Seconds until a test that waits for another thread gives up; nothing that works waits for it."""


class NoteTaken(Rune, frozen=True, tag="note.taken"):
    """Someone wrote a note."""

    text: str


class NoteRevised(Rune, frozen=True, tag="note.revised"):
    """A note has a new text."""

    schema: ClassVar[int] = 3

    text: str
    revision: int = 1


class NoteJudged(Rune, frozen=True, tag="note.judged"):
    """A note was judged, among ourselves."""

    visibility: ClassVar[Visibility] = Visibility.INTERNAL

    verdict: str


class NoteAttached(Rune, frozen=True, tag="note.attached"):
    """A file came with a note: the rune that grows large."""

    content: bytes
    caption: str = ""
    pages: tuple[str, ...] = ()


class NoteNested(Rune, frozen=True, tag="note.nested"):
    """A note within notes: the rune that grows deep."""

    within: Any


class Stray(Rune, frozen=True, tag="stray.seen"):
    """A rune of a kind that the log's codec does not list."""

    where: str


KINDS: Final = (NoteTaken, NoteRevised, NoteJudged, NoteAttached, NoteNested)
CODEC: Final = Codec(KINDS)
"""What every log under test is opened with."""


class Base:
    """Makes the logs under test. A subclass says how."""

    def make_log(self, *, clock: Callable[[], int] = time.time_ns) -> Log:
        """Return a new and empty log that uses `CODEC` and `clock`; several may be open at once."""
        raise NotImplementedError

    @pytest.fixture
    def log(self) -> Iterator[Log]:
        """Provide an empty log, closed after the test."""
        with self.make_log() as log:
            yield log


def notes(entity: str, *texts: str, version: int | None = None, **rest: Any) -> Change:  # noqa: ANN401 -- any field of a change
    """Return a change that adds a note to `entity` for each text."""
    return Change(entity, version, [NoteTaken(text=text) for text in texts], **rest)


def fill(log: Log, conversation: str, count: int, entity: str = "note_1") -> None:
    """Append `count` notes that are numbered from 1, in a few appends."""
    texts = [str(number) for number in range(1, count + 1)]
    for start in range(0, count, 500):
        log.append(conversation, [notes(entity, *texts[start : start + 500])])


def some(log: Log) -> None:
    """Append to three conversations in turns: A at positions 1, 2 and 5; B at 3 and 6; C at 4."""
    log.append(A, [notes("note_1", "a1", "a2", observers=("book_1",))])
    log.append(B, [notes("note_1", "b1")])
    log.append(C, [notes("note_1", "c1")])
    log.append(A, [notes("book_1", "a3")])
    log.append(B, [notes("note_1", "b2")])


def check_untouched(log: Log, before: dict[str, object]) -> None:
    """Assert that a log looks as `before`, and that the next append brings nothing to light."""
    assert picture(log) == before

    appended = log.append("conv_probe", [notes("note_1", "probe", version=0)])
    probed = picture(log)

    assert appended.position == log.position
    assert before["position"] == log.position - 1
    assert probed["work"] == before["work"]
    for name, seen in before.items():
        if name.startswith("conv_"):
            assert probed[name] == seen


def ids(envelopes: Iterable[Envelope]) -> list[int]:
    """Return the event ids of runes."""
    return [envelope.event_id for envelope in envelopes]


def texts(items: Iterable[Envelope | Gap]) -> list[str]:
    """Return the texts of notes; a gap is shown as its reason, in brackets."""
    return [
        f"[{item.reason}]" if isinstance(item, Gap) else str(getattr(item.payload, "text", ""))
        for item in items
    ]


def facts(envelope: Envelope) -> tuple[object, ...]:
    """Return everything that a reader can tell of a rune, in a form that can be compared."""
    return (
        envelope.conversation,
        envelope.event_id,
        envelope.position,
        envelope.time,
        envelope.owner,
        envelope.observers,
        envelope.agent,
        envelope.turn,
        envelope.cause,
        envelope.visibility,
        envelope.tags,
        envelope.schema,
        envelope.kind,
        bytes(envelope.body),
        envelope.payload,
    )


def merged(items: Iterable[Envelope | Gap]) -> list[object]:
    """Return the facts of what a reader got; gaps that touch are one, however they were cut."""
    seen: list[object] = []
    for item in items:
        if isinstance(item, Envelope):
            seen.append(facts(item))
            continue
        before = seen[-1] if seen else None
        if (
            isinstance(before, Gap)
            and before.last + 1 == item.first
            and (before.reason, before.conversation) == (item.reason, item.conversation)
        ):
            seen[-1] = Gap(before.first, item.last, item.reason, item.conversation)
        else:
            seen.append(item)
    return seen


def picture(log: Log) -> dict[str, object]:
    """Return everything that can be seen of a log."""
    everything: dict[str, object] = {
        "position": log.position,
        "conversations": list(log.conversations()),
        "order": merged(log.read_all()),
        "work": sorted(log.open_work(), key=lambda work: (work.conversation, work.entity)),
    }
    for conversation in log.conversations():
        if conversation.state is State.ERASED:
            continue
        runes = list(log.read(conversation.id))
        everything[conversation.id] = [facts(rune) for rune in runes]
        for entity in sorted({name for rune in runes for name in (rune.owner, *rune.observers)}):
            everything[f"{conversation.id} {entity}"] = (
                log.version(conversation.id, entity),
                ids(log.stream(conversation.id, entity)),
            )
    return everything
