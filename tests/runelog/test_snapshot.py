"""Rules about snapshots: a cache that shares what is alike, and is not used where it is unsound."""

from __future__ import annotations

import hashlib
import multiprocessing
import resource
import stat
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runelog.errors import BadId
from runelog.snapshot import Kept, Key, Snapshot, Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TURN = Key("turn", 1, "turn_1")
TOOL = Key("tool", 1, "call_1")
ANCHOR = b"a" * 16


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """Return snapshots in a directory that is not there yet."""
    return Snapshots(tmp_path / "snapshots")


@pytest.fixture
def path(snapshots: Snapshots) -> Path:
    """Return where the snapshots of conv_a are."""
    return snapshots.root / "conv_a.snap"


def kept(version: int, state: bytes) -> Kept:
    """Return a state to be kept."""
    return Kept(version, ANCHOR, state)


def fill(snapshots: Snapshots, count: int = 5) -> dict[int, bytes]:
    """Save a few states of one entity and return them by event."""
    states = {10 * n: b"state %d " % n * 20 for n in range(1, count + 1)}
    for event_id, state in states.items():
        assert snapshots.save("conv_a", event_id, {TURN: kept(event_id, state)})
    return states


def test_the_newest_at_or_before_is_found(snapshots: Snapshots) -> None:
    """A snapshot serves all events from its own to just before the next one."""
    states = fill(snapshots)

    assert snapshots.load("conv_a", TURN, 9) is None
    for until in range(10, 70):
        event_id = min(until // 10, 5) * 10
        expected = Snapshot(event_id, event_id, ANCHOR, states[event_id])
        assert snapshots.load("conv_a", TURN, until) == expected


def test_another_handle_finds_the_same(snapshots: Snapshots) -> None:
    """What was saved is on disk, and what is saved later is seen by a handle opened before."""
    other = Snapshots(snapshots.root)
    snapshots.save("conv_a", 1, {TURN: kept(1, b"one")})
    assert other.load("conv_a", TURN, 9) == (1, 1, ANCHOR, b"one")
    snapshots.save("conv_a", 2, {TURN: kept(2, b"two")})

    assert other.load("conv_a", TURN, 9) == (2, 2, ANCHOR, b"two")
    other.save("conv_a", 3, {TURN: kept(3, b"three")})
    assert snapshots.load("conv_a", TURN, 9) == (3, 3, ANCHOR, b"three")


def test_a_file_that_was_replaced_is_read_anew(
    snapshots: Snapshots, path: Path, tmp_path: Path
) -> None:
    """What a handle remembers of a file is not taken for what another in its place holds."""
    fill(snapshots, count=2)
    assert snapshots.load("conv_a", TURN, 99) is not None
    other = Snapshots(tmp_path / "other")
    other.save("conv_a", 1, {TOOL: kept(1, bytes(2 * path.stat().st_size))})
    for event_id in range(1, 30):
        other.save("conv_a", event_id, {TURN: kept(event_id, b"%d" % event_id)})
    (other.root / path.name).replace(path)

    assert snapshots.load("conv_a", TURN, 99) == (29, 29, ANCHOR, b"29")
    assert snapshots.load("conv_a", TURN, 7) == (7, 7, ANCHOR, b"7")
    assert snapshots.save("conv_a", 30, {TURN: kept(30, b"30")})
    assert Snapshots(snapshots.root).load("conv_a", TURN, 29) == (29, 29, ANCHOR, b"29")
    assert not snapshots.problems


def test_states_are_apart_by_key(snapshots: Snapshots) -> None:
    """Another entity, lifecycle, version of it, or conversation has nothing to do with this one."""
    fill(snapshots)

    for key in (TOOL, TURN._replace(version=2), TURN._replace(lifecycle="x"), Key("turn", 1, "")):
        assert snapshots.load("conv_a", key, 99) is None
    assert snapshots.load("conv_b", TURN, 99) is None


def test_order_of_saving_does_not_matter(snapshots: Snapshots) -> None:
    """Snapshots of earlier events may be saved later."""
    for event_id in (30, 10, 20):
        snapshots.save("conv_a", event_id, {TURN: kept(event_id, b"%d" % event_id)})

    for until, state in ((10, b"10"), (29, b"20"), (30, b"30")):
        found = snapshots.load("conv_a", TURN, until)
        assert found is not None
        assert found.state == state


def test_a_later_word_about_one_event_counts(snapshots: Snapshots) -> None:
    """Of two snapshots of one entity at one event the one saved later is used."""
    for anchor in (b"b" * 16, b"a" * 16):
        snapshots.save("conv_a", 1, {TURN: Kept(1, anchor, anchor)})

    for handle in (snapshots, Snapshots(snapshots.root)):
        assert handle.load("conv_a", TURN, 1) == (1, 1, b"a" * 16, b"a" * 16)


def test_unchanged_states_are_not_written_again(snapshots: Snapshots, path: Path) -> None:
    """Saving what is kept already adds nothing; a state that comes back is stored once."""
    large = b"x" * 10_000
    snapshots.save("conv_a", 1, {TURN: kept(1, large), TOOL: kept(1, b"small")})
    size = path.stat().st_size
    snapshots.save("conv_a", 1, {TURN: kept(1, large)})
    snapshots.save("conv_a", 2, {TURN: kept(1, large), TOOL: kept(1, b"small")})
    assert path.stat().st_size == size

    snapshots.save("conv_a", 3, {TURN: kept(2, large), TOOL: kept(2, large)})
    assert path.stat().st_size < size + 300
    assert snapshots.load("conv_a", TOOL, 3) == (3, 2, ANCHOR, large)


def test_size_is_linear_in_what_changed(snapshots: Snapshots, path: Path) -> None:
    """With ever more entities of which one changes at a time, each mark takes the same room."""
    states: dict[Key, Kept] = {}
    sizes = [0]
    for n in range(1, 101):
        states[Key("tool", 1, f"call_{n:03}")] = kept(1, b"%03d" % n * 100)
        snapshots.save("conv_a", 1_000 + n, states)
        sizes.append(path.stat().st_size)
    steps = {after - before for before, after in pairwise(sizes[1:])}

    assert len(steps) == 1
    assert snapshots.load("conv_a", Key("tool", 1, "call_001"), 9_999) == (
        1_001,
        1,
        ANCHOR,
        b"001" * 100,
    )


def test_a_missing_file_means_none(snapshots: Snapshots, path: Path) -> None:
    """Deleting all snapshots, while a handle is open too, only means that there are none."""
    assert snapshots.load("conv_a", TURN, 9) is None
    fill(snapshots)
    path.unlink()

    assert snapshots.load("conv_a", TURN, 99) is None
    assert snapshots.verify("conv_a") == []
    assert fill(snapshots)
    assert snapshots.load("conv_a", TURN, 99) is not None


def test_dropping_takes_all_and_may_be_repeated(snapshots: Snapshots, path: Path) -> None:
    """After a drop nothing is left of a conversation, and it can have snapshots again."""
    fill(snapshots)
    snapshots.drop("conv_a")
    snapshots.drop("conv_a")

    assert not path.exists()
    assert snapshots.load("conv_a", TURN, 99) is None
    fill(snapshots)
    assert snapshots.load("conv_a", TURN, 99) is not None


def sound(found: Snapshot | None, states: dict[int, bytes]) -> bool:
    """Tell whether what was loaded is the truth, or nothing."""
    return found is None or found == (
        found.event_id,
        found.event_id,
        ANCHOR,
        states[found.event_id],
    )


def test_every_flipped_bit_costs_snapshots_and_nothing_else(
    snapshots: Snapshots, path: Path
) -> None:
    """Whichever bit is flipped, what is loaded is sound, the rest is said, and saving goes on."""
    states = fill(snapshots, 3)
    whole = path.read_bytes()
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        fresh = Snapshots(snapshots.root)
        assert fresh.verify("conv_a")
        found = [fresh.load("conv_a", TURN, until) for until in (10, 20, 30)]
        assert all(sound(one, states) for one in found)
        assert any(one is None or one.event_id != n * 10 for n, one in enumerate(found, 1))
        assert fresh.problems
        fill(fresh, 3)
        for handle in (fresh, Snapshots(snapshots.root)):
            for event_id, state in states.items():
                assert handle.load("conv_a", TURN, event_id) == (event_id, event_id, ANCHOR, state)


def test_every_torn_tail_is_passed_over(snapshots: Snapshots, path: Path) -> None:
    """Wherever a crash cut the file, what precedes is used, and what is saved next is found."""
    states = fill(snapshots, 3)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        fresh = Snapshots(snapshots.root)
        assert sound(fresh.load("conv_a", TURN, 99), states)
        assert fresh.save("conv_a", 40, {TURN: kept(40, b"next")})
        for handle in (fresh, Snapshots(snapshots.root)):
            assert handle.load("conv_a", TURN, 99) == (40, 40, ANCHOR, b"next")
            assert handle.verify("conv_a") == []


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_file_is_survived(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    """A file of anything is not used, and replaced by the next save."""
    snapshots = Snapshots(tmp_path_factory.mktemp("noise"))
    (snapshots.root / "conv_a.snap").write_bytes(noise)

    assert snapshots.load("conv_a", TURN, 99) is None
    assert bool(snapshots.verify("conv_a")) == bool(noise)
    fill(snapshots, 1)
    assert snapshots.load("conv_a", TURN, 99) is not None
    assert snapshots.verify("conv_a") == []


def test_another_version_is_not_used(snapshots: Snapshots, path: Path) -> None:
    """A file of another format is as good as none."""
    fill(snapshots)
    data = bytearray(path.read_bytes())
    data[8] += 1
    path.write_bytes(data)

    assert Snapshots(snapshots.root).load("conv_a", TURN, 99) is None


def test_a_state_damaged_under_an_open_handle_is_not_used(snapshots: Snapshots, path: Path) -> None:
    """Hashes are checked at each load, not only when a file is first seen."""
    states = fill(snapshots, 2)
    data = path.read_bytes()
    path.write_bytes(data.replace(states[20], b"?" * len(states[20])))

    assert snapshots.load("conv_a", TURN, 99) == (10, 10, ANCHOR, states[10])
    assert "has another hash" in snapshots.problems[-1]


def test_a_place_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    """A cache that cannot be kept is a problem, not a failure."""
    (tmp_path / "snapshots").write_bytes(b"")
    snapshots = Snapshots(tmp_path / "snapshots")

    assert not snapshots.save("conv_a", 1, {TURN: kept(1, b"one")})
    assert snapshots.load("conv_a", TURN, 1) is None
    assert snapshots.problems


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let no file grow beyond 4 KiB, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_costs_only_the_snapshot(snapshots: Snapshots) -> None:
    """What there is no room for is not kept; what was kept stays, and smaller ones may follow."""
    assert snapshots.save("conv_a", 1, {TURN: kept(1, b"one")})
    assert not snapshots.save("conv_a", 2, {TURN: kept(2, b"x" * 10_000)})

    assert snapshots.load("conv_a", TURN, 9) == (1, 1, ANCHOR, b"one")
    assert snapshots.save("conv_a", 3, {TURN: kept(3, b"three")})
    assert snapshots.load("conv_a", TURN, 9) == (3, 3, ANCHOR, b"three")


def test_only_the_owner_can_read(snapshots: Snapshots, path: Path) -> None:
    """States may hold anything a conversation does: nobody else may read them."""
    fill(snapshots)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("conversation", ["", "..", "a/b", "a\0b", "x" * 65])
def test_ids_from_outside_are_checked(snapshots: Snapshots, conversation: str) -> None:
    """An id that could lead out of the log's directory is refused by every call."""
    calls: list[Callable[[], object]] = [
        lambda: snapshots.save(conversation, 1, {}),
        lambda: snapshots.load(conversation, TURN, 1),
        lambda: snapshots.drop(conversation),
        lambda: snapshots.verify(conversation),
    ]
    for call in calls:
        with pytest.raises(BadId):
            call()


def test_memory_is_bounded(tmp_path: Path) -> None:
    """However many conversations are used, only the latest are remembered; all can be loaded."""
    snapshots = Snapshots(tmp_path, max_cached=10)
    for conversation in range(20):
        for event_id in (1, 2, 3):
            snapshots.save(f"conv_{conversation}", event_id, {TURN: kept(event_id, b"s")})
    remembered = sum(index.weight for index in snapshots._indexes.values())

    assert remembered <= 10
    for conversation in range(20):
        assert snapshots.load(f"conv_{conversation}", TURN, 9) is not None


def test_few_conversations_are_remembered(snapshots: Snapshots) -> None:
    """However short they are: a conversation is looked at when it wakes, and most sleep."""
    for conversation in range(100):
        snapshots.save(f"conv_{conversation}", 1, {TURN: kept(1, b"s")})

    assert len(snapshots._indexes) <= 64
    assert snapshots.load("conv_0", TURN, 9) is not None


def test_threads_share_a_handle(snapshots: Snapshots) -> None:
    """Many threads that save and load at once lose nothing."""

    def work(number: int) -> None:
        key = Key("tool", 1, f"call_{number}")
        for event_id in range(1, 30):
            snapshots.save("conv_a", event_id, {key: kept(event_id, b"%d" % event_id)})
            assert snapshots.load("conv_a", key, event_id) is not None

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not snapshots.problems
    for number in range(4):
        found = Snapshots(snapshots.root).load("conv_a", Key("tool", 1, f"call_{number}"), 99)
        assert found == (29, 29, ANCHOR, b"29")


def save_many(root: Path, name: str) -> None:
    """Save from another process."""
    snapshots = Snapshots(root)
    for event_id in range(1, 60):
        key = Key("tool", 1, name)
        state = hashlib.sha256(b"%d" % event_id).digest() * 50
        snapshots.save("conv_a", event_id, {key: kept(event_id, state)})


def test_processes_share_a_file(snapshots: Snapshots) -> None:
    """Two processes that save at once leave a sound file with all that either saved."""
    context = multiprocessing.get_context("spawn")
    names = ("call_1", "call_2")
    workers = [context.Process(target=save_many, args=(snapshots.root, name)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert snapshots.verify("conv_a") == []
    for name in names:
        for event_id in range(1, 60):
            found = snapshots.load("conv_a", Key("tool", 1, name), event_id)
            assert found is not None
            assert found.event_id == event_id
