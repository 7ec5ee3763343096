"""Long conversations wake quickly: their states are kept, and never believed blindly."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from actors.invariants import violations
from actors.model.providers.scripted import Scripted, call
from actors.session.runes import Reopened
from actors.tool.adapters.function import tool
from runefold import AgentSpec, Runtime
from runefold.errors import Refused
from runelog.rune import Change
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Request
    from runelog.rune import Envelope

EVERY = 25
NAME = "conv_a"


def opened(directory: Path, **options: Any) -> Runtime:  # noqa: ANN401 -- those of Runtime
    """Open a runtime with a model that says how often it was asked."""
    model = Scripted(lambda request: f"answer to {request.messages[-1].text}")
    return Runtime.open(directory, providers={"m": model}, snapshot_every=EVERY, **options)


def say(runtime: Runtime, count: int) -> None:
    """Have so many turns, each answered as it must be."""
    session = runtime.session(NAME)
    for number in range(count):
        assert session.send(f"{number}").result(30).output == f"answer to {number}"


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Return the directory of a runtime that was closed after many turns."""
    directory = tmp_path / "data"
    with opened(directory) as runtime:
        runtime.create_session(AgentSpec(role="helper", model="m"), conversation_id=NAME)
        say(runtime, 60)
    return directory


def waking(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Open it and have one more turn; return how many runes of each stream that has read."""
    read: Counter[str] = Counter()
    with opened(directory) as runtime:
        stream = runtime.log.stream

        def counted(
            conversation: str, entity: str, after: int = 0, until: int | None = None
        ) -> Iterator[Envelope]:
            for envelope in stream(conversation, entity, after, until):
                read[entity] += 1
                yield envelope

        monkeypatch.setattr(runtime.log, "stream", counted)
        say(runtime, 1)
        assert list(violations(runtime.log.read(NAME))) == []
    return read


def test_opening_reads_no_stream_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left to do, and how often it was opened in vain, is known from the last runes."""

    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    def answer(request: Request) -> Any:  # noqa: ANN401 -- a reply of either sort
        text = request.messages[-1].text
        return [call("pay")] if text == "pay" else f"answer to {text}"

    directory = tmp_path / "data"
    options: dict[str, Any] = {"providers": {"m": Scripted(answer)}, "tools": [pay]}
    with Runtime.open(directory, snapshot_every=EVERY, **options) as runtime:
        spec = AgentSpec(role="helper", model="m", tools=["pay"])
        session = runtime.create_session(spec, conversation_id=NAME)
        say(runtime, 60)
        session.send("pay")
        runtime.wait_for(NAME, "approval.awaiting", 10)
        runtime.log.flush(NAME)
        runtime.log.append(NAME, [Change("session", None, [Reopened(unclean=1, epoch=7)])])
        length = runtime.log.version(NAME, "session")
    read: Counter[str] = Counter()
    stream = Runelog.stream

    def counted(
        self: Runelog, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        for envelope in stream(self, conversation, entity, after, until):
            read[entity] += 1
            yield envelope

    monkeypatch.setattr(Runelog, "stream", counted)
    with Runtime.open(directory, snapshot_every=EVERY, **options):
        pass

    assert length > 5 * EVERY
    assert 0 < read["session"] < 4 * EVERY


def longest(directory: Path) -> int:
    """Return how many runes the longest stream has."""
    with opened(directory) as runtime:
        return max(runtime.log.version(NAME, entity) for entity in ("session", "budget"))


def test_a_long_conversation_is_not_read_from_its_beginning(
    long: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wakes reads what came behind the last snapshot."""
    read = waking(long, monkeypatch)

    assert longest(long) > 5 * EVERY
    assert 0 < max(read.values()) < 2 * EVERY


def test_without_snapshots_it_is(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are a cache: with none left, the log tells the same, and the next one finds some."""
    shutil.rmtree(long / "snapshots")

    read = waking(long, monkeypatch)
    again = waking(long, monkeypatch)

    assert max(read.values()) > 5 * EVERY
    assert max(again.values()) < 2 * EVERY


def test_a_damaged_snapshot_is_not_used(long: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is in the file, the state is the one that the runes lead to."""
    [file] = (long / "snapshots").iterdir()
    content = bytearray(file.read_bytes())
    for place in range(64, len(content), 97):
        content[place] ^= 0x10
    file.write_bytes(content)

    read = waking(long, monkeypatch)

    assert max(read.values()) > 5 * EVERY


def test_it_is_kept_while_the_session_lives(long: Path) -> None:
    """Not only when somebody replays: a process that dies at last leaves few runes to read."""
    size = (long / "snapshots" / f"{NAME}.snap").stat().st_size
    with opened(long) as runtime:
        say(runtime, 30)
        assert (long / "snapshots" / f"{NAME}.snap").stat().st_size > size


def test_snapshots_cannot_be_kept_more_often_than_each_rune(tmp_path: Path) -> None:
    """What makes no sense is refused, and says what would."""
    with pytest.raises(Refused, match="snapshot_every is 0: give a whole number, 1 or more"):
        Runtime.open(tmp_path / "data", snapshot_every=0)
