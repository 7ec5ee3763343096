"""Rules about streams: what is written comes back, from any event on."""

from __future__ import annotations

import errno
import io
import random
from typing import TYPE_CHECKING, BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runelog.blobs import MemoryBlobs
from runelog.codec import Codec, digest_of
from runelog.errors import BadStream, Corrupt, LogFull, UnknownConversation
from runelog.files import replacing
from runelog.memory import MemoryLog
from runelog.rune import Change, Tombstone, Visibility
from runelog.stream.block_format import Block, Kind
from runelog.stream.stream_blocks import TARGET, Entry, pack_runes, unpack_runes
from runelog.stream.stream_check import check_stream, spooled
from runelog.stream.streams import Source, StreamReader, entry_of, write_stream
from tests.runelog.streams import Filed, Said, bodies, entries, said, sample, written

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import ReadableBuffer, WriteableBuffer

WORDS = [
    *("the", "log", "is", "only", "truth", "and", "a", "fold", "over", "its", "runes", "state"),
    *("that", "an", "actor", "believes", "in", "after", "crash", "it", "replayed", "what", "due"),
    *("done", "again", "never", "twice", "tool", "has"),
]


def prose(count: int, seed: int = 7) -> list[Entry]:
    """Return fragments of words."""
    pick = random.Random(seed)
    return said(*(" ".join(pick.choices(WORDS, k=9)) for _ in range(count)))


numbers = st.integers(1, 2**40)
positions = st.lists(numbers, min_size=1, max_size=30).map(
    lambda steps: [sum(steps[: n + 1]) for n in range(len(steps))]
)
times = st.integers(-(2**63), 2**63 - 1)


@st.composite
def stretches(draw: st.DrawFn) -> list[Entry]:
    """Any consecutive runes, with any bytes for bodies."""
    first = draw(st.integers(1, 2**62))
    return [
        Entry(event_id, position, draw(times), draw(st.binary(max_size=40)))
        for event_id, position in enumerate(draw(positions), first)
    ]


@given(stretches())
def test_a_block_of_runes_round_trips(stretch: list[Entry]) -> None:
    """Whatever the numbers and bodies, a block gives back what was put in."""
    content = pack_runes(stretch)

    assert unpack_runes(Block(Kind.RUNES, 0, 0, content)) == stretch


texts = st.text(max_size=50)
conversations = st.dictionaries(
    st.from_regex(r"\A[A-Za-z0-9_-]{1,64}\Z"),
    st.tuples(st.integers(1, 1000), st.lists(texts, min_size=1, max_size=20)),
    max_size=4,
)


@settings(max_examples=50)
@given(conversations)
def test_a_stream_round_trips(content: dict[str, tuple[int, list[str]]]) -> None:
    """Any conversations come back as they were, in order of id, and the check agrees."""
    sources = {
        name: said(*texts, conversation=name, first=first)
        for name, (first, texts) in sorted(content.items())
    }
    data = written(*(Source(name, runes) for name, runes in sources.items()))
    checked = check_stream(io.BytesIO(data))
    reader = StreamReader(io.BytesIO(data))

    assert {section.conversation: list(runes) for section, runes in reader} == sources
    assert [section.conversation for section in reader.sections()] == sorted(sources)
    assert checked.totals == reader.totals
    assert checked.totals.runes == sum(map(len, sources.values()))
    assert checked.size == len(data)


def test_a_section_says_what_is_known() -> None:
    """First and last event, first and last time and the size are known without reading runes."""
    runes = said("one", "two", "three", first=5)
    section = StreamReader(io.BytesIO(written(Source("conv_a", runes)))).section("conv_a")

    assert (section.first, section.last, section.count) == (5, 7, 3)
    assert (section.first_time, section.last_time) == (5_000, 7_000)
    assert section.size == sum(map(len, bodies(runes)))


@pytest.mark.parametrize(("after", "until"), [(0, None), (0, 1), (4_000, None), (8_999, 9_003)])
def test_reading_begins_anywhere(after: int, until: int | None) -> None:
    """Exactly the runes behind `after` up to `until` are read."""
    runes = prose(10_000)
    reader = StreamReader(io.BytesIO(written(Source("conv_a", runes))))

    assert list(reader.read("conv_a", after, until)) == runes[after:until]


def test_every_boundary_is_read_right() -> None:
    """At the edges of blocks, and beyond the ends, no rune is lost or given twice."""
    runes = prose(6_000)
    reader = StreamReader(io.BytesIO(written(Source("conv_a", runes))))
    edges = [first for first, _ in reader.section("conv_a").places()]
    points = {0, 1, 5_999, 6_000, 7_000, *(edge + by for edge in edges for by in (-2, -1, 0, 1))}

    assert len(edges) > 2
    for after in points:
        assert list(reader.read("conv_a", after)) == runes[max(after, 0) :]
        assert list(reader.read("conv_a", after, after + 2)) == runes[max(after, 0) : after + 2]


class Watched(io.BytesIO):
    """A file that counts what is read of it."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read, and count."""
        data = super().read(size)
        self.taken += len(data)
        return data


def test_what_precedes_is_not_read() -> None:
    """To read the last rune of a long conversation, only a small part of the file is touched."""
    data = written(Source("conv_a", prose(30_000)))
    file = Watched(data)
    found = list(StreamReader(file).read("conv_a", 29_999))

    assert [entry.event_id for entry in found] == [30_000]
    assert file.taken < len(data) / 4


def test_large_fields_travel_along() -> None:
    """The blobs that runes name are in the stream, each once, and decode to what was appended."""
    blobs = MemoryBlobs()
    long = Filed(name="a", content=b"x" * 1_500_000)
    many = Filed(name="b", lines=tuple(f"line {n}" for n in range(150_000)))
    runes = entries([long, Said(text="and"), long, many], blobs=blobs)
    reader = StreamReader(io.BytesIO(written(Source("conv_a", runes, blobs))))
    taken = MemoryBlobs()
    for digest, content in reader.blobs("conv_a"):
        assert taken.put("conv_a", content) == digest
    codec = Codec([Said, Filed], blobs=taken)

    assert taken.list("conv_a") == blobs.list("conv_a")
    assert reader.totals.blobs == 2
    assert [
        codec.envelope(
            entry.body, conversation="conv_a", event_id=entry.event_id, position=1, time=1
        ).payload
        for entry in reader.read("conv_a")
    ] == [long, Said(text="and"), long, many]


def test_a_blob_that_is_not_there_is_named() -> None:
    """Neither the writer nor the reader passes over a missing blob."""
    blobs = MemoryBlobs()
    runes = entries([Filed(name="a", content=b"x" * 1_500_000)], blobs=blobs)

    with pytest.raises(Corrupt, match="is missing"):
        written(Source("conv_a", runes, MemoryBlobs()))
    with pytest.raises(Corrupt, match="names blobs that are not here"):
        written(Source("conv_a", runes))
    with pytest.raises(Corrupt, match="not in the stream"):
        StreamReader(io.BytesIO(sample())).blob("conv_b", digest_of(b""))


def test_a_secret_rune_has_a_tombstone_in_its_place() -> None:
    """Unless asked for, what is secret stays: who, when and why are told, and ids stay gap-free."""
    blobs = MemoryBlobs()
    hidden = [Said(text="password"), Filed(name="key", content=b"k" * 1_500_000)]
    runes = [
        *said("before"),
        *entries(hidden, first=2, visibility=Visibility.SECRET, blobs=blobs),
        *said("after", first=4),
    ]
    data = written(Source("conv_a", runes, blobs))
    reader = StreamReader(io.BytesIO(data))
    found = list(reader.read("conv_a"))
    shown = Codec().envelope(found[1].body, conversation="conv_a", event_id=2, position=1, time=1)

    assert check_stream(io.BytesIO(data)).totals.runes == 4
    assert [found[0], found[3]] == [runes[0], runes[3]]
    assert shown.payload == Tombstone(reason="secret", was="turn.assistant_delta")
    assert [entry[:3] for entry in found] == [entry[:3] for entry in runes]
    assert b"password" not in b"".join(bodies(found))
    assert reader.totals.blobs == 0
    assert not reader.header.secret


def test_cold_storage_keeps_what_is_secret() -> None:
    """With `secret`, every rune is written as it is, and the header says so."""
    runes = entries([Said(text="password")], visibility=Visibility.SECRET)
    data = written(Source("conv_a", runes), secret=True)
    reader = StreamReader(io.BytesIO(data))

    assert list(reader.read("conv_a")) == runes
    assert reader.header.secret
    assert check_stream(io.BytesIO(data)).header.secret


def test_what_a_log_gives_out_is_written_as_it_was_stored() -> None:
    """An envelope is turned back into the very bytes that the codec had made, blobs or not."""
    log = MemoryLog(Codec([Said, Filed]))
    runes = [Said(text="hi"), Filed(name="a", content=b"x" * 1_200_000), Said(text="é")]
    change = Change("call_1", 0, runes, ("turn_1",), "agt_1", "turn_1", 7, None, ("tag",))
    log.append("conv_a", [change])
    found = [entry_of(envelope) for envelope in log.read("conv_a")]

    assert bodies(found) == log.codec.encode("conv_a", change)
    assert [entry.event_id for entry in found] == [1, 2, 3]


@pytest.mark.parametrize(
    "broken",
    [
        [*said("a"), *said("b", first=3)],
        [*said("a"), *said("b", first=1)],
        [*said("a"), said("b", first=2)[0]._replace(position=3)],
        said("a", first=0),
    ],
    ids=["gap", "twice", "position", "zero"],
)
def test_a_source_with_a_gap_is_corruption(broken: list[Entry]) -> None:
    """A log that gives out events with a gap is damaged: it is not written as if it were sound."""
    with pytest.raises(Corrupt, match="not where it should be") as caught:
        written(Source("conv_a", broken))
    assert caught.value.conversation == "conv_a"


def test_the_writer_is_held_to_the_format() -> None:
    """Conversations out of order or without runes, or no such level, are a caller's mistakes."""
    with pytest.raises(ValueError, match="order of id"):
        written(Source("conv_b", said("b")), Source("conv_a", said("a")))
    with pytest.raises(ValueError, match="order of id"):
        written(Source("conv_a", said("a")), Source("conv_a", said("a")))
    with pytest.raises(ValueError, match="no runes"):
        written(Source("conv_a", []))
    with pytest.raises(ValueError, match="level"):
        written(level=20)


def test_an_unknown_conversation_is_refused() -> None:
    """Asking for a conversation that is not in the stream names it."""
    reader = StreamReader(io.BytesIO(sample()))

    for missing in ("conv_0", "conv_aa", "conv_z"):
        with pytest.raises(UnknownConversation, match=missing):
            reader.section(missing)
    with pytest.raises(UnknownConversation):
        StreamReader(io.BytesIO(written())).read("conv_a")


def test_progress_is_told() -> None:
    """Writer and check tell how many runes they have done, all of them in the end."""
    wrote: list[int] = []
    seen: list[int] = []
    file = io.BytesIO()
    write_stream(file, [Source("conv_a", prose(9_000))], progress=wrote.append)
    file.seek(0)
    check_stream(file, seen.append)

    assert len(wrote) > 2
    assert wrote == seen
    assert sum(seen) == 9_000


class Full(io.BytesIO):
    """A file on a disk with little room."""

    def write(self, data: ReadableBuffer, /) -> int:
        """Take a little, then nothing."""
        if self.tell() > 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(memoryview(data)[:50])


def test_a_full_disk_is_said() -> None:
    """Running out of room in the middle is `LogFull`, whatever part was taken before."""
    with pytest.raises(LogFull, match="free some disk space"):
        write_stream(Full(), [Source("conv_a", said("x" * 1000))])


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """What fails half way leaves neither a stream nor a trace."""
    path = tmp_path / "conv_a.runes"
    with pytest.raises(ValueError, match="no runes"), replacing(path) as file:
        write_stream(file, [Source("conv_a", said("one")), Source("conv_b", [])])

    assert list(tmp_path.iterdir()) == []
    with replacing(path) as file:
        write_stream(file, [Source("conv_a", said("one"))])
    with StreamReader(path.open("rb")) as reader:
        assert list(reader.read("conv_a")) == said("one")
    assert list(tmp_path.iterdir()) == [path]


class Pipe(io.RawIOBase):
    """A file that cannot be sought in and gives little at a time."""

    def __init__(self, data: bytes) -> None:
        """Hold what will come through."""
        self._left = io.BytesIO(data)

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Give at most 100 bytes."""
        return self._left.readinto(memoryview(buffer)[:100])


def test_what_comes_through_a_pipe_can_be_taken_in() -> None:
    """A stream that cannot be sought in is checked as it is, or copied to disk and then read."""
    data = sample()
    first, second = (cast("BinaryIO", Pipe(data)) for _ in range(2))

    assert check_stream(first).size == len(data)
    with spooled(second) as file:
        assert file.read() == data
        assert StreamReader(file).totals.conversations == 2
    whole = io.BytesIO(data)
    with spooled(whole) as file:
        assert file is whole


def test_natural_text_takes_little_room() -> None:
    """Fragments take at most 0.35 of their encoded size: what they have in common is said once."""
    pick = random.Random(11)
    letters = ["".join(pick.choices("etaoinshrdlu", k=pick.randint(2, 9))) for _ in range(4_000)]
    runes = said(*(" ".join(pick.choices(letters, k=8)) for _ in range(5_000)))
    data = written(Source("conv_a", runes), level=9)

    assert sum(map(len, bodies(runes))) > 2 * TARGET
    assert len(data) <= 0.35 * sum(map(len, bodies(runes)))


def test_a_reader_refuses_what_it_touches_and_is_damaged() -> None:
    """Each block that is read is checked: a reader never gives out a wrong rune."""
    runes = prose(3_000)
    data = bytearray(written(Source("conv_a", runes)))
    places = StreamReader(io.BytesIO(data)).section("conv_a").places()
    data[places[1][1] + 100] ^= 4
    reader = StreamReader(io.BytesIO(data))

    assert list(reader.read("conv_a", 0, places[1][0] - 1)) == runes[: places[1][0] - 1]
    with pytest.raises(BadStream, match=f"at byte {places[1][1]:,}, a runes block"):
        list(reader.read("conv_a", places[1][0] - 1))
