"""A repair that is killed: what was damaged is still there as it was found, and can be repaired."""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final

import pytest

from runelog.errors import Corrupt
from runelog.files import TEMPORARY
from runelog.repair.repair import repair
from runelog.repair.verify import verify
from runelog.rune import State, Tombstone
from runelog.store import Runelog
from tests.crash.calls import Saboteur, watch
from tests.crash.guard import survived
from tests.crash.ptrace import Kill, needs_tracer
from tests.crash.runs import scratch
from tests.crash.story import CODEC, KEEPING, Noted, play, worlds

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor
    from pathlib import Path

SEED: Final = 23
STORY: Final = KEEPING["archive"]
"""Leaves two conversations in cold storage and one in segments."""
LIVE: Final = "conv_c"
SPOILT: Final = b"8.2 of conv_c"
"""The rune that is lost."""


def damage(directory: Path) -> dict[str, bytes]:
    """Tell the story, and spoil a segment and an archive; return both as they are then."""
    play(directory, STORY, lambda _: None)
    segment = next(
        path for path in sorted(directory.glob("segments/*.mdb")) if SPOILT in path.read_bytes()
    )
    segment.write_bytes(segment.read_bytes().replace(SPOILT, b"#" + SPOILT[1:]))
    archive = directory / "archive" / "conv_a.runes"
    archive.write_bytes(archive.read_bytes()[:-40])
    return {path.name: path.read_bytes() for path in (segment, archive)}


def kept(directory: Path) -> set[bytes]:
    """Return all that was set aside."""
    return {path.read_bytes() for path in directory.glob("damaged/*")}


def look(directory: Path) -> None:
    """Open the log as somebody would who does not know of the damage, for writing."""
    try:
        with Runelog.open(directory, CODEC) as log:
            for name in worlds(STORY)[-1]:
                list(log.read(name))
    except Corrupt:
        return


def check(directory: Path, damaged: dict[str, bytes]) -> None:
    """Assert that the log can be opened and repaired, and that nothing found damaged is gone."""
    look(directory)
    there = {path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert there >= set(damaged.values()), "a damaged file was thrown away"
    repair(directory)
    assert kept(directory) >= set(damaged.values())
    assert verify(directory, codec=CODEC).problems == []
    with Runelog.open(directory, CODEC) as log:
        for name, (state, texts) in worlds(STORY)[-1].items():
            assert log.conversation(name).state is state
            found = [envelope.payload for envelope in log.read(name)]
            lost = [at for at, rune in enumerate(found) if isinstance(rune, Tombstone)]
            assert len(lost) == (state is State.LIVE and name == LIVE)
            assert [rune.text for rune in found if isinstance(rune, Noted)] == [
                text for at, text in enumerate(texts) if at not in lost
            ]
    assert not list(directory.rglob(f"*{TEMPORARY}")), "something half written is left"


def killed_at(number: int) -> str:
    """Kill a repair at its n-th change and look at what it left; return what is wrong."""
    with scratch() as root:
        damaged = damage(root / "log")
        saboteur = Saboteur(str(root), number, Kill())
        watch(partial(repair, root / "log"), saboteur)
        wrong = survived(partial(check, root / "log", damaged))
        return f"killed at change {number}, {saboteur.hit}: {wrong}" if wrong else ""


def count_changes() -> int:
    """Return how many changes the repair makes."""
    with scratch() as root:
        damage(root / "log")
        saboteur = Saboteur(str(root), 0, Kill())
        assert watch(partial(repair, root / "log"), saboteur) == 0
        return saboteur.count


@needs_tracer
def test_a_killed_repair_throws_nothing_away(warm: ProcessPoolExecutor) -> None:
    """Killed at a sample of its changes, the last ones among them, a repair can be made again."""
    count = warm.submit(count_changes).result()
    last = range(count - 9, count + 1)
    some = random.Random(SEED).sample(range(1, count - 9), 8)
    wrong = warm.map(killed_at, [*some, *last])

    assert list(filter(None, wrong)) == []


@needs_tracer
@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_a_repair_killed_anywhere_throws_nothing_away(warm: ProcessPoolExecutor) -> None:
    """Killed at each of its changes, a repair leaves what it found, and can be made again."""
    count = warm.submit(count_changes).result()
    wrong = warm.map(killed_at, range(1, count + 1))

    assert list(filter(None, wrong)) == []
