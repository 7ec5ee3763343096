"""What is measured with: stream-fragment runes of about 130 bytes, the same in every run.

Their text is cut, in order, from the help topics that ship with Python: natural text that everybody
has, the same for one version of Python. Every conversation starts at another place of it.
"""

from __future__ import annotations

import itertools
from enum import StrEnum
from functools import cache
from hashlib import blake2b
from pydoc_data.topics import topics
from typing import TYPE_CHECKING, Final, NamedTuple, Never

import msgspec

from runelog.codec import Codec
from runelog.lifecycle import Lifecycle, Table
from runelog.rune import Change, Rune
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONVERSATIONS: Final = 100
BATCH: Final = 1_024
FRAGMENT: Final = 40
"""Bytes of text in a fragment: with its envelope a rune is then stored in about 130."""
CALL: Final = 10
"""A model call answers in this many appends; the next ones belong to another call."""


class Delta(Rune, frozen=True, tag="turn.assistant_delta"):
    """A fragment of a model's answer."""

    text: str


class Part(NamedTuple):
    """One append: some fragments of one call of one conversation."""

    conversation: str
    number: int
    """Of the conversation, counted from 0."""
    call: str
    agent: str
    turn: str
    runes: list[Rune]

    def change(self) -> Change:
        """Return what the log is given."""
        return Change(self.call, None, self.runes, agent=self.agent, turn=self.turn)


CODEC: Final = Codec([Delta])


@cache
def fragments() -> list[Rune]:
    """Cut the corpus into fragments."""
    text = "\n".join(topics[name] for name in sorted(topics))
    data = text.encode("ascii", "replace").decode()
    return [Delta(text=data[at : at + FRAGMENT]) for at in range(0, len(data), FRAGMENT)]


@cache
def identity(prefix: str, number: int) -> str:
    """Return an id that looks like a random one and is the same in every run."""
    return f"{prefix}_{blake2b(number.to_bytes(8, 'big'), digest_size=8).hexdigest()}"


class Talk:
    """One conversation as it goes on: gives its next fragments."""

    def __init__(self, number: int) -> None:
        """Begin the conversation with this number."""
        self.number = number
        self.id = identity("conv", number)
        self._agent = identity("agt", number)
        self._at = number * 7_919 % len(fragments())
        self._parts = 0

    def part(self, count: int) -> Part:
        """Return the next `count` fragments."""
        everything = fragments()
        call = self._parts // CALL
        self._parts += 1
        runes: list[Rune] = []
        while len(runes) < count:
            taken = everything[self._at : self._at + count - len(runes)]
            self._at = (self._at + len(taken)) % len(everything)
            runes += taken
        name = identity("call", self.number * 1_000_003 + call)
        return Part(self.id, self.number, name, self._agent, f"turn_{call + 1}", runes)


def batches(conversations: int = CONVERSATIONS, size: int = BATCH) -> Iterator[list[Part]]:
    """Yield batches of `size` runes without end, each about evenly from all conversations."""
    talks = [Talk(number) for number in range(conversations)]
    share, more = divmod(size, conversations)
    shares = [share + (place < more) for place in range(conversations)]
    while True:
        yield [talk.part(count) for talk, count in zip(talks, shares, strict=True) if count]


def singles(conversations: int = CONVERSATIONS) -> Iterator[Part]:
    """Yield appends of one rune without end, from all conversations in turn."""
    talks = [Talk(number) for number in range(conversations)]
    for talk in itertools.cycle(talks):
        yield talk.part(1)


def append_batch(log: Runelog, parts: list[Part]) -> None:
    """Append a batch durably: the last append is waited for, and with it all before it."""
    *others, last = parts
    for part in others:
        log.append(part.conversation, [part.change()], durable=False)
    log.append(last.conversation, [last.change()])


def build(directory: Path, rounds: int, conversations: int, count: int) -> int:
    """Make a closed log: `rounds` times `count` runes a conversation. Return how many in all."""
    talks = [Talk(number) for number in range(conversations)]
    with Runelog.open(directory, CODEC) as log:
        for _ in range(rounds):
            for talk in talks:
                part = talk.part(count)
                log.append(part.conversation, [part.change()], durable=False)
    return rounds * conversations * count


def build_long(directory: Path, runes: int) -> str:
    """Make a closed log of one long conversation, with others in between. Return its id."""
    long, *others = (Talk(number) for number in range(CONVERSATIONS))
    between = itertools.cycle(others)
    with Runelog.open(directory, CODEC) as log:
        for _ in range(runes // 10):
            for part in (long.part(10), next(between).part(1)):
                log.append(part.conversation, [part.change()], durable=False)
    return long.id


# -- a small law to fold by ---------------------------------------------------------------------


class Phase(StrEnum):
    """What an answer can be."""

    STREAMING = "streaming"


TABLE: Table[Phase] = {Phase.STREAMING: {Delta: Phase.STREAMING}}


class State(msgspec.Struct, frozen=True):
    """What the fragments of a conversation add up to."""

    phase: Phase = Phase.STREAMING
    fragments: int = 0
    characters: int = 0


def _decide(_state: State, _command: Never) -> list[Rune]:
    return []


def _evolve(state: State, rune: Rune) -> State:
    if isinstance(rune, Delta):
        return State(state.phase, state.fragments + 1, state.characters + len(rune.text))
    return state


def _due(_state: State) -> list[Never]:
    return []


LIFECYCLE: Final = Lifecycle(
    name="answer", table=TABLE, initial=State(), decide=_decide, evolve=_evolve, due=_due
)
