"""Rules about blobs: what is kept is durable, and what comes back is what was kept."""

from __future__ import annotations

import resource
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from runelog.blobs import FileBlobs, MemoryBlobs
from runelog.codec import digest_of
from runelog.errors import BadId, Corrupt, Fault, LogFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONTENTS = [b"", b"short", "größer".encode(), bytes(range(256)) * 5_000]


BlobStore = FileBlobs | MemoryBlobs


@pytest.fixture(params=["memory", "files"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """Each implementation in turn: all keep the same contract."""
    return MemoryBlobs() if request.param == "memory" else FileBlobs(tmp_path / "blobs")


@pytest.fixture
def files(tmp_path: Path) -> FileBlobs:
    """Blobs as files."""
    return FileBlobs(tmp_path / "blobs")


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Let no file grow beyond 64 KiB, as on a disk without room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("content", CONTENTS, ids=len)
def test_what_was_put_comes_back(blobs: BlobStore, content: bytes) -> None:
    """Content is named by its hash and comes back unchanged."""
    digest = blobs.put("conv_a", content)

    assert digest == digest_of(content)
    assert blobs.get("conv_a", digest) == content


def test_putting_twice_keeps_one(blobs: BlobStore) -> None:
    """Equal content is kept once."""
    assert blobs.put("conv_a", b"same") == blobs.put("conv_a", b"same")
    assert len(blobs.list("conv_a")) == 1


def test_conversations_are_apart(blobs: BlobStore) -> None:
    """One conversation's blobs are neither seen nor dropped with another's."""
    digest = blobs.put("conv_a", b"mine")

    with pytest.raises(Corrupt, match=f"{digest} of conv_b is missing"):
        blobs.get("conv_b", digest)
    blobs.put("conv_b", b"mine")
    blobs.drop("conv_b")

    assert blobs.list("conv_b") == ()
    assert blobs.get("conv_a", digest) == b"mine"


def test_a_missing_blob_is_corruption(blobs: BlobStore) -> None:
    """What a rune names and is not there was lost: the error names it and its conversation."""
    digest = digest_of(b"never put")

    with pytest.raises(Corrupt, match=digest) as caught:
        blobs.get("conv_a", digest)
    assert caught.value.conversation == "conv_a"


@pytest.mark.parametrize("digest", ["", "..", "../conv_b/x", "A" * 64, "0" * 63])
def test_what_is_no_hash_names_no_blob(blobs: BlobStore, digest: str) -> None:
    """A name that is no hash leads nowhere, whatever lies there."""
    blobs.put("conv_a", b"here")

    with pytest.raises(Corrupt, match="is missing"):
        blobs.get("conv_a", digest)


@pytest.mark.parametrize("conversation", ["", "..", "a/b", "a\0b", "x" * 65])
def test_ids_from_outside_are_checked(blobs: BlobStore, conversation: str) -> None:
    """An id that could lead out of the log's directory is refused by every call."""
    calls: list[Callable[[], object]] = [
        lambda: blobs.put(conversation, b""),
        lambda: blobs.get(conversation, digest_of(b"")),
        lambda: blobs.list(conversation),
        lambda: blobs.drop(conversation),
    ]
    for call in calls:
        with pytest.raises(BadId):
            call()


def test_all_blobs_of_a_conversation_are_listed(blobs: BlobStore) -> None:
    """Listing gives the hash of every blob, in order."""
    digests = sorted(blobs.put("conv_a", content) for content in CONTENTS)

    assert list(blobs.list("conv_a")) == digests
    assert [blobs.get("conv_a", digest) for digest in digests] == sorted(CONTENTS, key=digest_of)
    assert blobs.list("conv_b") == ()


def test_dropping_takes_all_and_may_be_repeated(blobs: BlobStore) -> None:
    """After a drop nothing is left, and the conversation can have blobs again."""
    for content in CONTENTS:
        blobs.put("conv_a", content)
    blobs.drop("conv_a")
    blobs.drop("conv_a")

    assert blobs.list("conv_a") == ()
    assert blobs.get("conv_a", blobs.put("conv_a", b"again")) == b"again"


def test_blobs_survive_a_new_handle(files: FileBlobs) -> None:
    """What one process kept, another finds."""
    digest = files.put("conv_a", b"kept")

    assert FileBlobs(files.root).get("conv_a", digest) == b"kept"


def test_only_the_owner_can_read(files: FileBlobs) -> None:
    """Blobs may hold anything a conversation does: nobody else may read them."""
    path = files.root / "conv_a" / files.put("conv_a", b"private")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"shorT", b"short and more"])
def test_a_damaged_blob_is_corruption(files: FileBlobs, damage: bytes) -> None:
    """Content that does not match its name is never given out."""
    digest = files.put("conv_a", b"short")
    (files.root / "conv_a" / digest).write_bytes(damage)

    with pytest.raises(Corrupt, match=f"{digest} of conv_a is damaged"):
        files.get("conv_a", digest)


def test_putting_mends_a_damaged_blob(files: FileBlobs) -> None:
    """Only a sound blob is left alone: a damaged one is written anew."""
    digest = files.put("conv_a", b"short")
    path = files.root / "conv_a" / digest
    inode = path.stat().st_ino
    files.put("conv_a", b"short")

    assert path.stat().st_ino == inode
    path.write_bytes(b"shorT")
    files.put("conv_a", b"short")
    assert files.get("conv_a", digest) == b"short"


@pytest.mark.usefixtures("full_disk")
def test_no_room_is_said_and_leaves_nothing(files: FileBlobs) -> None:
    """On a full disk a put is refused by name, leaves nothing behind, and the next may succeed."""
    with pytest.raises(LogFull, match="free some disk space"):
        files.put("conv_a", b"x" * 100_000)

    assert list((files.root / "conv_a").iterdir()) == []
    assert files.get("conv_a", files.put("conv_a", b"small")) == b"small"


def test_a_place_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    """A file where the directory should be is the machine's fault, named as such."""
    (tmp_path / "blobs").write_bytes(b"")

    with pytest.raises(Fault, match="could not be stored"):
        FileBlobs(tmp_path / "blobs").put("conv_a", b"x")


def test_what_a_crash_left_is_no_blob(files: FileBlobs) -> None:
    """A blob half written when the process died is not listed, and harms no other."""
    digest = files.put("conv_a", b"whole")
    (files.root / "conv_a" / f"{digest_of(b'half')}.17-0.new").write_bytes(b"ha")

    assert files.list("conv_a") == (digest,)
    assert files.get("conv_a", digest) == b"whole"


def test_many_threads_may_put_the_same(blobs: BlobStore) -> None:
    """Threads that keep the same content at once get one sound blob."""
    threads = [threading.Thread(target=blobs.put, args=("conv_a", CONTENTS[-1])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert blobs.list("conv_a") == (digest_of(CONTENTS[-1]),)
    assert blobs.get("conv_a", digest_of(CONTENTS[-1])) == CONTENTS[-1]
