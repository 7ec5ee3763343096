"""A loop written by hand that only appends a turn's runes with bare lmdb.

Nothing decides, nothing recovers, nothing is told. It commits where a turn has to be durable: at
its start, at the tool call, at the tool's result and at its end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final
from zlib import crc32

import lmdb
import msgspec

from bench.peers import BareLmdb
from bench.scene import ANSWER, Ours
from bench.workload import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from runelog.rune import Envelope, Rune

COMMITS: Final = 4
_encode = msgspec.msgpack.Encoder().encode
_DELTA: Final = "turn.assistant_delta"


def record(path: Path) -> list[Envelope]:
    """Return the runes of one turn, as our runtime writes them."""
    ours = Ours(path)
    turn = ours.begin("recorded")
    turn()
    (session,) = ours.runtime.sessions()
    before = max(envelope.event_id for envelope in session.runes())
    turn()
    found = list(session.runes(after=before))
    ours.close()
    return found


class BareTurns:
    """The loop."""

    name = "a bare lmdb loop"

    def __init__(self, path: Path, envelopes: Sequence[Envelope]) -> None:
        """Make the environment; the turn is to have these runes."""
        self._bare = BareLmdb(path)
        self._count = 0
        self._commits = [_runs(part) for part in _split(envelopes)]
        assert len(self._commits) == COMMITS, [len(part) for part in self._commits]

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a conversation."""
        self._count += 1
        number, turns = self._count, 0

        def turn() -> str:
            nonlocal turns
            turns += 1
            name = f"turn_{turns}"
            for runs in self._commits:
                self._bare.commit(
                    [
                        # Of each turn's own entities; what lives longer keeps its name.
                        Part(
                            conversation, number, owner.replace("turn_2", name), agent, name, runes
                        )
                        for owner, agent, runes in runs
                    ]
                )
            return ANSWER

        return turn

    def settings(self) -> str:
        """Return the flags in force."""
        return self._bare.settings()

    def close(self) -> None:
        """Close the environment."""
        self._bare.close()


class Bare(BareTurns):
    """The loop, with the runes of a turn that it records itself."""

    def __init__(self, path: Path) -> None:
        """Record a turn, and make the environment."""
        super().__init__(path, record(path.with_name("recorded")))


class Plain:
    """A loop that only appends: a turn's runes in four frames, in one table, with no index at all.

    Nobody can find anything in it again. It is the least that LMDB writes for a commit.
    """

    name = "a bare lmdb loop without an index"

    def __init__(self, path: Path) -> None:
        """Record a turn, and make the environment."""
        envelopes = record(path.with_name("recorded"))
        self._env = lmdb.open(str(path), map_size=4 << 30, subdir=False, lib_version=0)
        self._frames = [
            [(each.owner, each.agent, each.turn, each.payload) for each in part]
            for part in _split(envelopes)
        ]
        assert len(self._frames) == COMMITS, [len(part) for part in self._frames]
        self._position = 0

    def begin(self, conversation: str) -> Callable[[], str]:
        """Begin a conversation."""

        def turn() -> str:
            for runes in self._frames:
                self._position += 1
                data = _encode((conversation, time.time_ns(), [_encode(rune) for rune in runes]))
                with self._env.begin(write=True) as txn:
                    key = self._position.to_bytes(8, "big")
                    txn.put(key, crc32(data).to_bytes(4, "big") + data, append=True)
            return ANSWER

        return turn

    def settings(self) -> str:
        """Return the flags in force."""
        flags = self._env.flags()
        shown = ", ".join(f"{name}={flags[name]}" for name in ("sync", "metasync", "writemap"))
        return f"one table, a frame for each of {COMMITS} commits, {shown}"

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _split(envelopes: Sequence[Envelope]) -> list[list[Envelope]]:
    """Cut a turn where it has to be durable: before something outside begins or is answered."""
    parts: list[list[Envelope]] = [[]]
    streaming = False
    for envelope in envelopes:
        begins = envelope.kind == _DELTA and not streaming
        if begins or envelope.kind == "tool.result":
            parts.append([])
        streaming = envelope.kind == _DELTA
        parts[-1].append(envelope)
    return parts


def _runs(envelopes: Sequence[Envelope]) -> list[tuple[str, str, list[Rune]]]:
    """Gather consecutive runes of one entity."""
    runs: list[tuple[str, str, list[Rune]]] = []
    for envelope in envelopes:
        if not runs or runs[-1][0] != envelope.owner:
            runs.append((envelope.owner, envelope.agent or "", []))
        runs[-1][2].append(envelope.payload)
    return runs
