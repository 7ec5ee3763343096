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
    names = [f"note_{number}" for number in range(10)]
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for turn in range(3):
            for name in names:
                log.append("conv_a", said(name, turn))
        with pytest.raises(WrongVersion):
            log.append("conv_a", said(names[0], 0))
        streams = {name: len(list(log.stream("conv_a", name))) for name in names}

    assert streams == dict.fromkeys(names, 3)
