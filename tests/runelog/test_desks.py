"""The writer keeps few conversations in mind, and knows of the others all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runelog import desks, inscribe
from runelog.codec import Codec
from runelog.errors import WrongVersion
from runelog.rune import Change, Rune
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path


class Said(Rune, frozen=True, tag="desk.said"):
    """Something was said."""

    text: str


def said(entity: str, expected: int | None, count: int = 1) -> list[Change]:
    """Return what an entity adds."""
    return [Change(entity, expected, [Said(f"{entity} {number}") for number in range(count)])]


@pytest.mark.parametrize("durable", [True, False])
def test_conversations_that_are_not_kept_in_mind_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, durable: bool
) -> None:
    """However many there are by turns, each goes on where it was, and is refused what is stale."""
    monkeypatch.setattr(desks, "MAX_DESKS", 2)
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for turn in range(4):
            for name in ("conv_a", "conv_b", "conv_c", "conv_d", "conv_e"):
                done = log.append(name, said("note_1", 2 * turn, 2), durable=durable)
                assert (done.first, done.last) == (2 * turn + 1, 2 * turn + 2)
        with pytest.raises(WrongVersion):
            log.append("conv_a", said("note_1", 2))


def test_streams_that_are_not_kept_in_mind_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation of very many entities still knows the version of each."""
    monkeypatch.setattr(inscribe, "MAX_ENTITIES", 3)
    monkeypatch.setattr(inscribe, "MAX_TAILS", 2)
    names = [f"note_{number}" for number in range(10)]
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for turn in range(3):
            for name in names:
                log.append("conv_a", said(name, turn))
        with pytest.raises(WrongVersion):
            log.append("conv_a", said(names[0], 0))
        streams = {name: len(list(log.stream("conv_a", name))) for name in names}

    assert streams == dict.fromkeys(names, 3)


@pytest.mark.parametrize("most", [2, 4])
@pytest.mark.parametrize("durable", [True, False])
def test_streams_of_many_conversations_are_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, *, durable: bool
) -> None:
    """Only so many are kept in mind of all conversations together, and none is mistaken for new."""
    monkeypatch.setattr(desks, "MAX_STREAMS", most)
    names = [f"note_{number}" for number in range(3)]
    places = ("conv_a", "conv_b", "conv_c")
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for turn in range(3):
            for place in places:
                every = [change for name in names for change in said(name, turn)]
                log.append(place, every, durable=durable)
        log.flush()
        for place in places:
            with pytest.raises(WrongVersion):
                log.append(place, said(names[0], 0))
        streams = {(place, name): log.version(place, name) for place in places for name in names}

    assert set(streams.values()) == {3}


def test_a_long_conversation_is_not_looked_up_again_and_again(tmp_path: Path) -> None:
    """What begins in a conversation of thousands of streams is known to be new."""
    asked: list[str] = []
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_0", 0))
        writer = log._writer
        assert writer is not None
        index = writer._desks._index
        known = index.version

        def version(conversation: str, entity: str) -> int:
            asked.append(entity)
            return known(conversation, entity)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(index, "version", version)
            for start in range(1, 3_000, 100):
                changes = [said(f"note_{number}", 0)[0] for number in range(start, start + 100)]
                log.append("conv_a", changes)

    assert asked == []
