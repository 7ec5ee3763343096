"""The writer keeps few conversations and streams in mind, and knows the others all the same."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from runelog.codec import Codec
from runelog.errors import WrongVersion
from runelog.index.follow import Trail
from runelog.reader import segments
from runelog.rune import Change, Gap, Rune
from runelog.store import Runelog
from runelog.writer import append_cache, segment_writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runelog.writer.segment_writer import CachedConversation


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
    monkeypatch.setattr(append_cache, "MAX_CONVERSATIONS", 2)
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for turn in range(4):
            for name in ("conv_a", "conv_b", "conv_c", "conv_d", "conv_e"):
                done = log.append(name, said("note_1", 2 * turn, 2), durable=durable)
                assert (done.first, done.last) == (2 * turn + 1, 2 * turn + 2)
        with pytest.raises(WrongVersion):
            log.append("conv_a", said("note_1", 2))


@pytest.mark.parametrize("most", [1, 4, 7, 2_048])
def test_streams_that_are_not_kept_in_mind_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A conversation of very many entities still knows the version of each."""
    monkeypatch.setattr(segment_writer, "MAX_ENTITIES", 3)
    monkeypatch.setattr(segment_writer, "MAX_RUNES", most)
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
    monkeypatch.setattr(append_cache, "MAX_STREAMS", most)
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


def desk_of(log: Runelog, conversation: str) -> CachedConversation:
    """Return what the writer keeps in mind of a conversation."""
    writer = log._writer
    assert writer is not None
    return writer._cache._cache[conversation]


@contextlib.contextmanager
def asked_for(log: Runelog) -> Iterator[list[str]]:
    """Give the streams that are looked up in the index meanwhile."""
    asked: list[str] = []
    writer = log._writer
    assert writer is not None
    index = writer._cache._index
    known = index.version

    def version(conversation: str, entity: str, *, frames: bool) -> int:
        asked.append(entity)
        return known(conversation, entity, frames=frames)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "version", version)
        yield asked


def test_a_long_conversation_is_not_looked_up_again_and_again(tmp_path: Path) -> None:
    """Of thousands of streams, nearly each that begins is known to be new."""
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_0", 0))
        with asked_for(log) as asked:
            for start in range(1, 3_000, 100):
                changes = [said(f"note_{number}", 0)[0] for number in range(start, start + 100)]
                log.append("conv_a", changes)

    assert len(asked) < 300


@pytest.mark.parametrize("most", [50, 2_048])
def test_an_append_reads_no_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """What it must know is cached or in tables, though most streams are of long ago, or new."""
    monkeypatch.setattr(segment_writer, "MAX_RUNES", most)
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_0", 0))
        with monkeypatch.context() as patch, asked_for(log) as asked:
            patch.setattr(Trail, "take", None)
            for number in range(1, 1_500):
                name = f"conv_{number % 40}" if number % 4 else "conv_a"
                log.append(name, [*said(f"note_{number}", 0), *said("boss", None)])
            for number in range(4, 400, 4):
                log.append("conv_a", said(f"note_{number}", 1))

    assert (len(asked) > 50) == (most == 50)


def test_streams_that_ended_do_not_stay_in_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there were, only those are cached that the tables of the index lack."""
    monkeypatch.setattr(segment_writer, "MAX_RUNES", 20)
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for number in range(500):
            log.append("conv_a", said(f"note_{number}", 0))
        cached = desk_of(log, "conv_a")

        assert len(cached.versions) + len(cached.older) <= 2 * 64
        assert len(cached.here) <= 64


def test_many_conversations_share_what_is_kept_in_mind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those appended to longest ago are dropped, however few streams each of them has."""
    monkeypatch.setattr(append_cache, "MAX_STREAMS", 20)
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for number in range(40):
            log.append(f"conv_{number}", said("note_1", 0))
        writer = log._writer
        assert writer is not None
        kept = writer._cache._cache

        assert sum(len(cached.versions) for cached in kept.values()) <= 20
        assert "conv_39" in kept


@pytest.mark.parametrize("streams", [3, 200])
def test_a_conversation_at_rest_is_not_kept_in_mind(tmp_path: Path, streams: int) -> None:
    """Nothing but which streams there are; it goes on where it was, and new ones are known."""
    names = [f"note_{number}" for number in range(streams)]
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for name in names:
            log.append("conv_a", said(name, 0, 2))
        log.rest("conv_a")
        cached = desk_of(log, "conv_a")
        kept = {**cached.versions}, {*cached.here}, cached.number, cached.record
        with asked_for(log) as asked:
            log.append("conv_a", [*said("note_new", 0), *said(names[0], 2)])
        with pytest.raises(WrongVersion):
            log.append("conv_a", said(names[-1], 0))
        streams_of = {name: log.version("conv_a", name) for name in (*names, "note_new")}

    assert kept == ({}, set(), None, None)
    assert asked == [names[0]]
    assert streams_of == {**dict.fromkeys(names, 2), names[0]: 3, "note_new": 1}


def test_a_conversation_at_rest_goes_on_in_another_segment(tmp_path: Path) -> None:
    """With its next event, and with the size and the time of its beginning that it had."""
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_1", 0, 3))
        before = log.conversation("conv_a")
        log.rest("conv_a")
        log.roll()
        done = log.append("conv_a", said("note_1", 3))
        after = log.conversation("conv_a")

    assert (done.first, done.last) == (4, 4)
    assert after.head == 4
    assert after.first_time == before.first_time
    assert after.size > before.size


def test_what_is_not_written_yet_is_not_forgotten(tmp_path: Path) -> None:
    """A conversation with appends under way does not rest: the next one goes behind them."""
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_1", 0))
        writer = log._writer
        assert writer is not None
        with writer._lock:
            cached = writer._cache._cache["conv_a"]
            cached.pending += 1
            writer._cache.rest("conv_a")
            cached.pending -= 1

        assert cached.versions == {"note_1": 1}


def test_names_of_conversations_are_kept_of_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many conversations are read, each is found under its own name."""
    monkeypatch.setattr(segments, "MAX_NAMES", 3)
    names = [f"conv_{number}" for number in range(10)]
    with Runelog.open(tmp_path, Codec([Said])) as log:
        for name in names:
            log.append(name, said("note_1", 0))
        read = [item.conversation for item in log.read_all() if not isinstance(item, Gap)]
        segment = log.log_directory.segments.segment(1)

        assert read == names
        assert len(segment._ids) <= 3


def test_few_runes_of_a_conversation_are_held_at_a_time(tmp_path: Path) -> None:
    """However long it is, whoever reads it is given a small part after the other."""
    with Runelog.open(tmp_path, Codec([Said])) as log:
        log.append("conv_a", said("note_1", 0, 2_000))
        place = log._reader._look("conv_a")
        parts = [len(chunk) for chunk in log._reader._chunks(place, 0, 2_000)]

    assert sum(parts) == 2_000
    assert max(parts) <= 256
