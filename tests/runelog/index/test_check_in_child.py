"""Rules about walking through files in a child process: it may die of them, this one may not."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from runelog.errors import Corrupt, Fault
from runelog.index import check_in_child, frame
from runelog.index.index_check import IndexCheck
from runelog.index.records import Head, Tail, encode_head, stream_prefix
from runelog.index.unwritten import INDEXED, encode_indexed
from runelog.lmdb.environment import TABLES
from tests.runelog.lmdb_file import (
    BRANCH,
    PAGE,
    build,
    changed,
    content,
    flipped,
    leaf_of,
    pages_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONVERSATIONS = ("conv_a", "conv_b")
FRAMES = 12
RUNES = 5


def number_key(number: int) -> bytes:
    """Return the key or value that stands for a conversation."""
    return number.to_bytes(4, "big")


def texts_of(index: int) -> list[bytes]:
    """Return what is in the `index`-th frame, of which some is found again by it."""
    return [b"event %d of frame %d" % (n, index) * 8 for n in range(RUNES)]


def frame_of(index: int, bodies: list[bytes]) -> tuple[str, bytes, bytes]:
    """Return the `index`-th frame, with its place."""
    number, turn, position = index % 2, index // 2, 1 + index * RUNES
    seed = frame.seed_of(CONVERSATIONS[number])
    data = frame.pack(number, seed, position, 1 + turn * RUNES, 1_700_000_000, bodies)
    return "runes", frame.POSITION.pack(position), data


def frame_at(index: int) -> tuple[str, bytes, bytes]:
    """Return the frame that is written as the `index`-th, as far as a walk looks into it."""
    encode = msgspec.msgpack.encode
    return frame_of(index, [encode(["note_1", [], text.decode()]) for text in texts_of(index)])


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """Give a segment of a few frames of two conversations."""
    return built(tmp_path)


def built(directory: Path, since: int = 1) -> Path:
    """Build that segment; its streams begin with version `since`."""
    path = directory / "000001.0.mdb"
    names = [("names", name.encode(), number_key(n)) for n, name in enumerate(CONVERSATIONS)]
    frames = ([frame_at(index)] for index in range(FRAMES))
    build(path, TABLES, [names, *frames, [*index_of(since)]])
    return path


def index_of(since: int = 1) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield what leads to the frames: a head, postings, and those of a stream that sees all."""
    for number, name in enumerate(CONVERSATIONS):
        frames = [frame_at(index) for index in range(number, FRAMES, 2)]
        size = sum(frame.header(data)[-1] for _, _, data in frames)
        time = 1_700_000_000
        yield (
            "heads",
            number_key(number),
            encode_head(number_key(number), Head(name, 1, len(frames) * RUNES, size, time, time)),
        )
        for table, prefix, first in (
            ("events", number_key(number), 1),
            ("streams", stream_prefix(number, "note_1"), since),
        ):
            tail = Tail(prefix, first)
            for _, key, _ in frames:
                tail.add(int.from_bytes(key, "big"), RUNES)
            for key, chunk in tail.chunks():
                yield table, key, chunk
    yield "meta", INDEXED, encode_indexed(FRAMES * RUNES)


def last_leaf(data: bytes) -> int:
    """Return where the last leaf with frames begins."""
    return leaf_of(data, frame.POSITION.pack(1 + (FRAMES - 1) * RUNES)) * PAGE


def test_a_sound_file_passes(segment: Path) -> None:
    """Nothing is raised, and neither the file nor what lies beside it is changed."""
    before = segment.read_bytes()
    Path(f"{segment}-lock").unlink()

    check_in_child.check_file(segment)

    assert segment.read_bytes() == before
    assert list(segment.parent.iterdir()) == [segment]


def test_a_file_that_is_cut_short_is_not_even_opened(segment: Path) -> None:
    """Its size is looked at first."""
    segment.write_bytes(segment.read_bytes()[: 4 * PAGE])

    with pytest.raises(Corrupt, match="cut short"):
        check_in_child.check_file(segment)


def test_a_damaged_rune_is_named(segment: Path) -> None:
    """A rune that does not match its checksum is reported with conversation and event id."""
    data = segment.read_bytes()
    place = data.index(b"event 3 of frame 11", last_leaf(data))
    segment.write_bytes(changed(data, {place: b"E"}))

    with pytest.raises(Corrupt, match="checksum") as raised:
        check_in_child.check_file(segment)

    assert raised.value.conversation == "conv_b"
    assert raised.value.event_id == 5 * RUNES + 4


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (("runes", frame.POSITION.pack(58), frame_at(3)[2]), "not where they were written"),
        (("runes", b"short", frame_at(3)[2]), "not where they were written"),
        (("names", b"conv_b", number_key(7)), "not listed"),
        (("names", b"conv_c", number_key(1)), "checksum"),
        (("runes", frame.POSITION.pack(1 << 40), b""), "position 61 are missing"),
    ],
)
def test_entries_that_cannot_be_are_damage(
    segment: Path, entry: tuple[str, bytes, bytes], said: str
) -> None:
    """A frame in a wrong place, or of a conversation that is not its own, is not taken over."""
    build(segment, TABLES, [[entry]])

    with pytest.raises(Corrupt, match=said):
        check_in_child.check_file(segment)


def test_a_rune_that_is_nested_too_deeply_to_be_decoded_is_damage() -> None:
    """Its frame matches its checksum, and reading who sees the rune raises no other error."""
    body = msgspec.msgpack.encode(["note_1", []])
    _, key, data = frame_of(0, [b"\x93" + body[1:] + b"\x91" * 100_000 + b"\xc0"])

    with pytest.raises(Corrupt, match="the runes at position 1 cannot be decoded"):
        IndexCheck().read(frame.POSITION.unpack(key)[0], data)


@pytest.mark.parametrize(
    "entry",
    [
        ("heads", number_key(0), encode_head(number_key(0), Head("conv_a", 1, 25, 9, 0, 0))),
        ("names", b"conv_c", number_key(2)),
        ("events", number_key(0) + frame.POSITION.pack(1), bytes(8)),
        ("events", number_key(2) + frame.POSITION.pack(1), bytes(8)),
        ("streams", stream_prefix(0, "note_1") + frame.POSITION.pack(1), bytes(8)),
        ("streams", stream_prefix(0, "note_1") + frame.POSITION.pack(99), bytes(14)),
        ("streams", stream_prefix(1, "note_2") + frame.POSITION.pack(1), bytes(8)),
    ],
)
def test_an_index_that_tells_other_than_the_runes_is_damage(
    segment: Path, entry: tuple[str, bytes, bytes]
) -> None:
    """Whatever of the index does not lead to the runes, or leads to others, is not taken over."""
    build(segment, TABLES, [[entry]])

    with pytest.raises(Corrupt, match="000001"):
        check_in_child.check_file(segment)


def test_a_stream_that_begins_before_its_first_rune_is_damage(tmp_path: Path) -> None:
    """It may go on from an earlier segment, but nothing has a version of 0: one rune would be lost.

    One bit makes a 1 a 0, and all else of it is as it was.
    """
    (tmp_path / "later").mkdir()
    check_in_child.check_file(built(tmp_path / "later", since=5))

    with pytest.raises(Corrupt, match="before the first rune there can be"):
        check_in_child.check_file(built(tmp_path, since=0))


def flip_and_walk(path: Path, data: bytes, bit: int) -> None:
    """Change one bit: the walk must find it, or every rune must still be as it was written."""
    path.write_bytes(data)
    runes = content(path, TABLES)["runes"]
    path.write_bytes(flipped(data, bit))
    with contextlib.suppress(Corrupt):
        check_in_child.check_file(path)

        assert content(path, TABLES)["runes"] == runes


def test_a_changed_bit_is_found_or_harmless(segment: Path) -> None:
    """What passes the walk is safe to open, and right."""
    chance = random.Random(1)
    data = segment.read_bytes()
    for _ in range(16):
        flip_and_walk(segment, data, chance.randrange(8 * len(data)))


@pytest.mark.crash
@pytest.mark.parametrize("seed", range(8))
def test_any_changed_bit_is_found_or_harmless(segment: Path, seed: int) -> None:
    """The same for many more bits."""
    chance = random.Random(seed)
    data = segment.read_bytes()
    for _ in range(400):
        flip_and_walk(segment, data, chance.randrange(8 * len(data)))


# -- several files at once -------------------------------------------------------------------------


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Give the commands of the children that are started, as they come."""
    started: list[Sequence[str]] = []
    run = subprocess.run

    def counted(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:  # noqa: ANN401 -- passed on
        started.append(command)
        found: subprocess.CompletedProcess[bytes] = run(command, **options)
        return found

    monkeypatch.setattr(subprocess, "run", counted)
    return started


def test_one_child_says_of_each_file_what_is_wrong(
    tmp_path: Path, children: list[Sequence[str]]
) -> None:
    """Sound or damaged, two files are walked by one child, which blames the right one."""
    files = []
    for name in ("sound", "damaged"):
        (tmp_path / name).mkdir()
        files.append((built(tmp_path / name), TABLES))
    data = files[1][0].read_bytes()
    place = data.index(b"event 3 of frame 11", last_leaf(data))
    files[1][0].write_bytes(changed(data, {place: b"E"}))

    first, second = check_in_child.check_files(*files)

    assert len(children) == 1
    assert first is None
    assert second is not None
    assert "checksum" in str(second)
    assert (second.conversation, second.event_id) == ("conv_b", 5 * RUNES + 4)


def test_a_child_that_dies_is_followed_by_one_for_each_file(
    tmp_path: Path, children: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of the files it died of is found out, and the others are not blamed for it."""
    files = []
    for name in ("sound", "deadly"):
        (tmp_path / name).mkdir()
        files.append((built(tmp_path / name), TABLES))
    dying = "import os, sys; 'deadly' in ' '.join(sys.argv[:-1]) and os.abort(); "
    monkeypatch.setattr(check_in_child, "_CHILD", dying + check_in_child._CHILD)

    first, second = check_in_child.check_files(*files)

    assert len(children) == 3
    assert first is None
    assert "ended the process that tried" in str(second)


# -- what becomes of the child ---------------------------------------------------------------------


def judge(path: Path, code: str, *arguments: str, timeout: float = 60) -> None:
    """Let a child with another errand go instead."""
    check_in_child._judge(path, [sys.executable, "-c", code, *arguments], timeout)


def test_a_file_that_kills_lmdb_kills_only_the_child(tmp_path: Path) -> None:
    """LMDB itself dies of a branch that says it is longer than it is; here that is an error."""
    segment = tmp_path / "000001.0.mdb"
    # It does not always: what happens to lie in free space makes the difference.
    names = [("names", name.encode(), number_key(n)) for n, name in enumerate(CONVERSATIONS)]
    frames = [[frame_of(index, texts_of(index))] for index in range(FRAMES)]
    build(segment, TABLES, [names, *frames])
    data = segment.read_bytes()
    lengths = {n * PAGE + 12: b"\xff" for n in pages_of(data, BRANCH)}
    segment.write_bytes(changed(data, lengths))
    only_lmdb = (
        "import sys, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
        "sys.path[:] = sys.argv[3:]; from pathlib import Path; "
        "from runelog.lmdb.environment import Environment; "
        "env = Environment(Path(sys.argv[1]), map_size=1 << 26, readonly=True, lock=False); "
        "env.view().__enter__().scan('runes')"
    )

    with pytest.raises(Corrupt, match=r"ended the process that tried \((Abort|Segm|Bus)"):
        judge(segment, only_lmdb, str(segment), "", *sys.path)
    with pytest.raises(Corrupt, match="damaged header"):
        check_in_child.check_file(segment)


def test_a_child_that_does_not_end_is_ended(segment: Path) -> None:
    """A file that cannot be read to its end in time is damaged."""
    with pytest.raises(Corrupt, match=r"000001\.0\.mdb is damaged: .* did not end"):
        judge(segment, "import signal; signal.pause()", timeout=0.2)


def test_a_child_that_fails_says_why(segment: Path) -> None:
    """Whatever else goes wrong there is in the message."""
    with pytest.raises(Corrupt, match="ValueError: so it goes"):
        judge(segment, "raise ValueError('so it goes')")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_ended_from_outside_says_nothing_about_the_file(
    segment: Path, number: signal.Signals
) -> None:
    """A machine out of memory must not make a sound file look damaged."""
    # Whoever started us may have SIGINT ignored, and children inherit that.
    default = "" if number == signal.SIGKILL else f"signal.signal({number:d}, signal.SIG_DFL); "

    with pytest.raises(Fault, match="could not be examined"):
        judge(segment, f"import os, signal; {default}os.kill(os.getpid(), {number:d})")


def test_a_child_that_cannot_start_says_nothing_about_the_file(segment: Path) -> None:
    """Without a Python to run there is no verdict."""
    with pytest.raises(Fault, match="does not start"):
        check_in_child._judge(segment, [str(segment.parent / "no-python")], 60)


def test_the_child_needs_nothing_from_the_environment(
    segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds its modules wherever the parent found them, whatever directory it runs in."""
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")

    check_in_child.check_file(segment)
