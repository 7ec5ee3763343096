"""Whether a log that was crashed is what it must be: whole, in order, and fit to go on with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runelog.directory import garbage
from runelog.files import TEMPORARY
from runelog.manifest import read_manifest
from runelog.repair.verify import verify
from runelog.rune import Change, Envelope, Gap, State
from tests.crash.story import CODEC, Noted, content, open_log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runelog.log import Log
    from tests.crash.story import World

PROBE = "conv_probe"


def observe(log: Log) -> World:
    """Return what is in a log, having checked that all ways to look at it agree."""
    world: World = {}
    everything: dict[str, list[int]] = {}
    last = 0
    for item in log.read_all():
        if isinstance(item, Gap):
            assert item.first > last, f"{item} comes behind position {last}"
            last = item.last
        else:
            assert item.position > last, f"position {item.position} comes behind {last}"
            last = item.position
            everything.setdefault(item.conversation, []).append(item.event_id)
    for found in log.conversations():
        if found.state is State.ERASED:
            world[found.id] = (State.ERASED, ())
            continue
        runes = list(log.read(found.id))
        _check_conversation(log, found.id, runes, found.head)
        in_order = everything.get(found.id, [])
        assert in_order == sorted(set(in_order)), f"{found.id}: {in_order} in the order of all"
        world[found.id] = (found.state, content(log, found.id))
    return world


def _check_conversation(log: Log, name: str, runes: Sequence[Envelope], head: int) -> None:
    """Assert that ids are gap-free, appends are whole, and every index says the same."""
    ids = [envelope.event_id for envelope in runes]
    assert ids == list(range(1, head + 1)), f"{name} up to {head} has events {ids}"
    expected = 1
    for envelope in runes:
        rune = envelope.payload
        assert isinstance(rune, Noted), f"{name} holds {rune}"
        assert rune.part == expected, f"{name} has half an append at event {envelope.event_id}"
        expected = 1 if rune.part == rune.of else rune.part + 1
    assert expected == 1, f"{name} ends with half an append"
    for entity in ("note_1", "book_1"):
        seen = [envelope.event_id for envelope in log.stream(name, entity)]
        assert seen == ids, f"the stream of {entity} in {name} has events {seen}"
        assert log.version(name, entity) == len(ids)


def check(directory: Path, allowed: Sequence[World]) -> None:
    """Assert that the log opens, is in a state that is allowed, and goes on from there."""
    with open_log(directory) as log:
        found = observe(log)
        assert found in allowed, f"the log is {_short(found)}, not one of {[*map(_short, allowed)]}"
        sound(directory)
        probe(log)
    with open_log(directory) as log:
        again = observe(log)
        assert again.pop(PROBE) == (State.LIVE, ("probe",))
        assert again == found, "the log is another one after it was closed and opened again"
    sound(directory)
    unnamed = garbage.unnamed_segments(directory, read_manifest(directory))
    assert not unnamed, f"{unnamed} was left behind"
    half = [path.name for path in directory.rglob(f"*{TEMPORARY}")]
    assert not half, f"{half} was being written, and nobody has removed it"


def _short(world: World) -> str:
    return ", ".join(
        f"{name} {state.name.lower()} {[text[:8].strip() for text in runes]}"
        for name, (state, runes) in world.items()
    )


def probe(log: Log) -> None:
    """Append one rune, as somebody would who goes on."""
    log.append(PROBE, [Change("note_1", 0, [Noted(text="probe")], ("book_1",))])


def sound(directory: Path) -> None:
    """Assert that verifying finds nothing, not even something to warn of."""
    problems = verify(directory, codec=CODEC).problems
    assert not problems, problems
