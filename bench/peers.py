"""The peers, each at its strongest documented durability and none slower than it has to be."""

from __future__ import annotations

import sqlite3
import struct
import threading
import time
from importlib.metadata import version as version_of
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import lmdb
import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event

from bench.workload import Delta

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from uuid import UUID

    from eventsourcing.sqlite import SQLiteDatastore

    from bench.workload import Part

_encode = msgspec.msgpack.Encoder().encode
_SYNCHRONOUS: Final = ("OFF", "NORMAL", "FULL", "EXTRA")


def _encoded(part: Part, rune: object) -> bytes:
    """Encode what the log stores of a rune, by the shortest way there is."""
    return _encode((part.call, (), part.agent, part.turn, 0, 0, (), 1, rune))


# -- lmdb ---------------------------------------------------------------------------------------


class Stored(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A rune as the log stores it, envelope and payload."""

    owner: str
    observers: tuple[str, ...]
    agent: str | None
    turn: str | None
    cause: int
    visibility: int
    tags: tuple[str, ...]
    schema: int
    payload: Delta


class BareLmdb:
    """LMDB with nothing around it: encode, checksum, put the runes and their index, commit.

    The index says what the log's says: where a conversation's events are, where an entity's stream
    is, and the conversation's head. With `by_rune` it has an entry for each rune; without, one for
    each run of consecutive runes, which is less to write.
    """

    def __init__(self, path: Path, *, by_rune: bool = False) -> None:
        """Make the environment."""
        self.env = lmdb.open(str(path), map_size=4 << 30, subdir=False, max_dbs=4, lib_version=0)
        self._runes = self.env.open_db(b"runes")
        self._events = self.env.open_db(b"events")
        self._streams = self.env.open_db(b"streams")
        self._heads = self.env.open_db(b"heads")
        self._by_rune = by_rune
        self._position = 0
        self._events_of: dict[int, int] = {}
        self._versions: dict[str, int] = {}

    def commit(self, parts: Sequence[Part]) -> None:
        """Write some appends in one transaction."""
        key, value, place = struct.Struct(">Q").pack, struct.Struct("<IQqI").pack, struct.pack
        with self.env.begin(write=True) as txn:
            put = txn.put
            now = time.time_ns()
            for part in parts:
                number, position = part.number, self._position
                event = first = self._events_of.get(number, 0)
                version = self._versions.get(part.call, 0)
                for rune in part.runes:
                    position += 1
                    event += 1
                    body = _encoded(part, rune)
                    data = value(number, event, now, crc32(body)) + body
                    put(key(position), data, append=True, db=self._runes)
                run = [(first + 1, version + 1, self._position + 1, len(part.runes))]
                if self._by_rune:
                    steps = range(1, len(part.runes) + 1)
                    run = [(first + n, version + n, self._position + n, 1) for n in steps]
                for at, seen, where, count in run:
                    entry = place("<QH", where, count)
                    put(place(">IQ", number, at), entry, db=self._events)
                    stream = place(">I", number) + part.call.encode() + place(">Q", seen)
                    put(stream, entry, db=self._streams)
                put(place(">I", number), place("<Qq", event, now), db=self._heads)
                self._position = position
                self._events_of[number] = event
                self._versions[part.call] = version + len(part.runes)

    def read(self) -> int:
        """Decode everything with a cursor and a typed decoder; return how many runes there were."""
        decode = msgspec.msgpack.Decoder(Stored).decode
        count = 0
        with self.env.begin() as txn, txn.cursor(self._runes) as cursor:
            for data in cursor.iternext(keys=False):
                decode(data[24:])
                count += 1
        return count

    def settings(self) -> str:
        """Return the flags in force."""
        flags = self.env.flags()
        shown = ", ".join(f"{name}={flags[name]}" for name in ("sync", "metasync", "writemap"))
        return f"py-lmdb {lmdb.__version__}, LMDB {'.'.join(map(str, lmdb.version()))}, {shown}"

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


# -- SQLite -------------------------------------------------------------------------------------


class Sqlite:
    """SQLite with a write-ahead log, synced at each commit, and a connection for each thread."""

    def __init__(self, path: Path, threads: int) -> None:
        """Make the database and the connections."""
        self.connections = [self._connect(path) for _ in range(threads)]
        self.connections[0].execute(
            "CREATE TABLE runes (position INTEGER PRIMARY KEY, conversation TEXT, event INTEGER,"
            " owner TEXT, body BLOB, UNIQUE (conversation, event))"
        )
        self._events = [0] * threads
        # Waiting for its lock SQLite sleeps, longer and longer: threads that queue here are faster.
        self._turn = threading.Lock()

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, isolation_level=None, timeout=60, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def append(self, thread: int, part: Part) -> None:
        """Insert an append on the thread's own connection, and commit; threads take turns."""
        rows = self._rows(thread, part)
        with self._turn:
            self._insert(thread, rows)

    def append_unaided(self, thread: int, part: Part) -> None:
        """Do the same, and leave it to SQLite to keep the threads apart."""
        self._insert(thread, self._rows(thread, part))

    def _rows(self, thread: int, part: Part) -> list[tuple[str, int, str, bytes]]:
        rows = []
        for rune in part.runes:
            self._events[thread] += 1
            body = _encoded(part, rune)
            rows.append((part.conversation, self._events[thread], part.call, body))
        return rows

    def _insert(self, thread: int, rows: list[tuple[str, int, str, bytes]]) -> None:
        connection = self.connections[thread]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO runes (conversation, event, owner, body) VALUES (?, ?, ?, ?)", rows
        )
        connection.execute("COMMIT")

    def settings(self) -> str:
        """Return what each connection says of itself."""
        return f"SQLite {sqlite3.sqlite_version}, {pragmas(self.connections)}"

    def close(self) -> None:
        """Close all connections."""
        for connection in self.connections:
            connection.close()


def pragmas(connections: Sequence[sqlite3.Connection]) -> str:
    """Read the settings in force back from connections."""
    found = set()
    for connection in connections:
        journal = connection.execute("PRAGMA journal_mode").fetchone()[0]
        synchronous = _SYNCHRONOUS[connection.execute("PRAGMA synchronous").fetchone()[0]]
        found.add(f"journal_mode={journal}, synchronous={synchronous}")
    return f"{' and '.join(sorted(found))} on {len(connections)} connections"


# -- eventsourcing ------------------------------------------------------------------------------


class Conversation(Aggregate):
    """A conversation as the eventsourcing library has it: an aggregate that hears fragments."""

    def __init__(self) -> None:
        """Begin a conversation."""
        self.fragments = 0
        self.characters = 0

    @event("Delta")
    def hear(self, owner: str, agent: str, turn: str, text: str) -> None:  # noqa: ARG002 -- kept in the event
        """Take a fragment in."""
        self.fragments += 1
        self.characters += len(text)


class Eventsourcing:
    """The eventsourcing library on SQLite."""

    def __init__(self, path: Path) -> None:
        """Make the application and its database."""
        self.app = Application[Any](
            env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
        )
        self._conversations: dict[int, Conversation] = {}
        # It sets the journal mode itself; how often to sync it leaves as SQLite was built.
        with self._datastore.get_connection(commit=True) as connection:
            connection.cursor().execute("PRAGMA synchronous=FULL")

    @property
    def _datastore(self) -> SQLiteDatastore:
        return cast("Any", self.app.recorder).datastore  # type: ignore[no-any-return]  # the library does not say

    def prepare(self, parts: Sequence[Part]) -> list[Conversation]:
        """Let the aggregates hear the fragments; nothing is saved yet."""
        heard = []
        for part in parts:
            conversation = self._conversations.get(part.number)
            if conversation is None:
                conversation = self._conversations[part.number] = Conversation()
            for rune in part.runes:
                text = cast("Delta", rune).text
                conversation.hear(owner=part.call, agent=part.agent, turn=part.turn, text=text)
            heard.append(conversation)
        return heard

    def save(self, conversations: Sequence[Conversation]) -> None:
        """Save what aggregates have heard, in one transaction."""
        self.app.save(*conversations)

    def rebuild(self, aggregate: UUID) -> int:
        """Rebuild an aggregate from its events; return how many fragments it heard."""
        found = cast("Conversation", self.app.repository.get(aggregate))
        return found.fragments

    def settings(self) -> str:
        """Return what its own connections say of themselves, the writing and the reading one."""
        seen: dict[int, sqlite3.Connection] = {}
        for commit in (True, False):
            with self._datastore.get_connection(commit=commit) as connection:
                raw = cast("Any", connection)._sqlite_conn  # noqa: SLF001 -- nothing else tells
                seen[id(raw)] = raw
        found = pragmas(list(seen.values()))
        version = version_of("eventsourcing")
        return f"eventsourcing {version}, SQLiteApplicationRecorder, {found}"

    def close(self) -> None:
        """Close the application."""
        self.app.close()
