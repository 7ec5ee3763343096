"""The files of views: written so that a crash at any moment leaves what the next open can mend.

A small database beside the files records each file and how far its view has come. A file is named
there before it is made or changed ("dirty"), and described once it is durable: after a crash only
dirty files have to be looked at, and no file is left behind that nothing knows of. The database is
locked as long as a runtime has it open. Without it everything is made anew from the log.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from actors.view import LineFile, Mark, StateFile, Step, View
from runelog.errors import Fault
from runelog.files import TEMPORARY, replacing, sync_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from actors.kind import Kind

    Replay = Callable[[str, str], Iterator[Step]]
    """Gives all steps of an entity, as the log has them now."""

RECORD: Final = "views.sqlite"
_LAG: Final = 1_000
"""At most so many runes that change no file are read again after a crash."""
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS views(
    name TEXT PRIMARY KEY, version TEXT NOT NULL, position INTEGER NOT NULL, anchor TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files(
    path TEXT PRIMARY KEY, view TEXT NOT NULL, conversation TEXT NOT NULL, entity TEXT NOT NULL,
    size INTEGER NOT NULL DEFAULT 0, crc INTEGER NOT NULL DEFAULT 0,
    mtime INTEGER NOT NULL DEFAULT 0, event_id INTEGER NOT NULL DEFAULT 0,
    dirty INTEGER NOT NULL DEFAULT 1);
CREATE INDEX IF NOT EXISTS by_conversation ON files(conversation);
CREATE INDEX IF NOT EXISTS by_view ON files(view, dirty);
CREATE TABLE IF NOT EXISTS erased(
    view TEXT NOT NULL, conversation TEXT NOT NULL, PRIMARY KEY(view, conversation));
"""
_COLUMNS: Final = "path, conversation, entity, size, crc, mtime, event_id, dirty"


class _Row(NamedTuple):
    """What is recorded of a file: unless it is dirty, how it was when it was last written."""

    path: str
    conversation: str
    entity: str
    size: int = 0
    crc: int = 0
    mtime: int = 0
    event_id: int = 0
    """The last event of the entity that is in the file."""
    dirty: int = 1


class Record:
    """The database beside the files, opened when it is first needed."""

    def __init__(self, directory: Path) -> None:
        """Keep it in this directory, which is made if it is not there."""
        self.directory = directory
        self._found: sqlite3.Connection | None = None

    def ask(self, query: str, *values: object) -> list[Any]:
        """Return all rows that a query gives; what it changes is durable."""
        return self._connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Have all changes in the block be durable at its end, or none."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._found is None:
            make_directories(self.directory)
            path = self.directory / RECORD
            try:
                self._found = _connect(path)
            except sqlite3.OperationalError:
                raise  # locked by another runtime, or no room
            except sqlite3.DatabaseError:
                # What it held can be found in the log.
                for end in ("", "-wal", "-journal"):
                    path.with_name(path.name + end).unlink(missing_ok=True)
                self._found = _connect(path)
        return self._found

    def close(self) -> None:
        """Let another runtime use it."""
        found, self._found = self._found, None
        if found is not None:
            found.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.5, isolation_level=None, check_same_thread=False)
    try:
        path.chmod(0o600)
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(_TABLES)
        sound = connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
    except BaseException:
        connection.close()
        raise
    if not sound:
        connection.close()
        msg = f"{path} is damaged"
        raise sqlite3.DatabaseError(msg)
    return connection


class FileView(View):
    """The files of one declared view."""

    def __init__(
        self, kind: Kind, declared: StateFile | LineFile, record: Record, replay: Replay
    ) -> None:
        """Keep them in the record's directory."""
        self.name = f"{kind.name}:{declared.path}"
        self._kind = kind
        self._declared = declared
        self._record = record
        self._replay = replay
        self._version = f"{declared.version}.{kind.lifecycle.version}"
        self._kept = 0
        """The position that the record has."""
        self._latest: Mark | None = None
        has_conversation = declared.names("conversation")
        self._by_entity = declared.names("entity") or (kind.single and has_conversation)
        self._by_conversation = has_conversation or self._by_entity

    # -- opening ------------------------------------------------------------------------------

    def mark(self) -> Mark | None:
        """Return how far the files are; None if they are to be made anew."""
        self._latest = None
        found = self._record.ask(
            "SELECT version, position, anchor FROM views WHERE name = ?", self.name
        )
        if not found or found[0][0] != self._version:
            return None
        for row in self._rows():
            if not self._fits(row):
                if not self._by_entity:
                    return None
                self._refresh(row)
        self._kept = found[0][1]
        return Mark(*found[0][1:])

    def _fits(self, row: _Row) -> bool:
        """Return True if a file is as it is recorded; what was appended to it since is cut off."""
        path = self._path(row.path)
        if row.dirty:
            for aside in path.parent.glob(f"{path.name}.*{TEMPORARY}"):
                aside.unlink(missing_ok=True)
        try:
            there = path.lstat()
            if (there.st_size, there.st_mtime_ns, row.dirty) == (row.size, row.mtime, 0):
                return True
            if row.size == 0:
                return not self._by_entity  # it is begun anew, or looked at when all is told
            if isinstance(self._declared, StateFile) or there.st_size < row.size:
                return False
            data = path.read_bytes()
        except FileNotFoundError:
            return row.size == 0 and not self._by_entity
        except IsADirectoryError:
            return False
        if zlib.crc32(data[: row.size]) != row.crc:
            return False
        mtime = write_behind(path, row.size, b"")
        self._save([row._replace(mtime=mtime, dirty=0)])
        return True

    def reset(self) -> None:
        """Make all files anew: those that nothing is written to by then are looked at last."""
        self._latest = None
        root, declared = self._record.directory, self._declared
        pattern = declared.pattern(self._kind.prefix)
        shape = declared.path.format(conversation="*", entity="*")
        there = [str(path.relative_to(root)) for path in root.glob(shape)]
        with self._record.together():
            self._record.ask(
                "UPDATE files SET size = 0, crc = 0, mtime = 0, event_id = 0, dirty = 1 "
                "WHERE view = ?",
                self.name,
            )
            for path in there:
                if match := pattern.fullmatch(path):
                    ids = match.groupdict()
                    self._record.ask(
                        "INSERT OR IGNORE INTO files(path, view, conversation, entity) "
                        "VALUES(?, ?, ?, ?)",
                        path,
                        self.name,
                        ids.get("conversation", ""),
                        ids.get("entity", self._kind.prefix if self._kind.single else ""),
                    )
            self._keep(Mark(0, ""))

    def caught_up(self) -> None:
        """Look at each file that is still dirty: write it by the log, or remove it."""
        for row in self._rows("AND dirty = 1"):
            self._refresh(row)

    def _refresh(self, row: _Row) -> None:
        """Write the whole file of an entity as the log has it now, or remove it."""
        steps: list[Step] = []
        if self._by_entity and row.conversation:
            steps = [*self._replay(row.conversation, row.entity)]
        last = steps[-1].event_id if steps else 0
        if not row.dirty:
            self._save([row._replace(dirty=1)])
        self._write(row._replace(size=0, crc=0), self._content(steps), last)

    def _content(self, steps: Sequence[Step]) -> bytes | None:
        """Return what the file of an entity holds after all its steps; None if there is no file."""
        if isinstance(self._declared, StateFile):
            return _json(self._declared.render(steps[-1]), pretty=True) if steps else None
        return b"".join(filter(None, map(self._line, steps))) or None

    def _line(self, step: Step) -> bytes | None:
        assert isinstance(self._declared, LineFile)
        return None if step.move is None else _json(self._declared.line(step), pretty=False)

    # -- going on -----------------------------------------------------------------------------

    def take(self, steps: Sequence[Step], mark: Mark) -> None:
        """Bring the files that the steps concern up to them."""
        self._latest = mark
        new: list[tuple[_Row, bytes | None, int]] = []
        for (conversation, entity), found in self._gathered(steps).items():
            path = self._declared.at(conversation, entity)
            there = self._row(path)
            row = there or _Row(path, conversation, entity)
            if row.conversation and row[1:3] != (conversation, entity):
                msg = f"{path} would be of {row.entity} in {row.conversation} and of {entity} in "
                msg += f"{conversation}: put {{conversation}} into the path of the view"
                raise Fault(msg)
            behind = row.event_id if self._by_entity else 0
            some = [step for step in found if step.event_id > behind]
            content = self._content(some) if some else None
            lines = isinstance(self._declared, LineFile)
            if content is None and (lines or not some or there is None):
                continue
            same = (len(content or b""), zlib.crc32(content or b""), 0)
            if content is not None and not lines and same == (row.size, row.crc, row.dirty):
                continue
            row = row._replace(conversation=conversation, entity=entity)
            new.append((row, content, found[-1].event_id))
        if new:
            with self._record.together():
                for row, _, _ in new:
                    self._save([row._replace(dirty=1)])
        done = [self._changed(row, content, last) for row, content, last in new]
        if done or mark.position - self._kept >= _LAG:
            with self._record.together():
                self._settle(done)
                self._keep(mark)

    def _gathered(self, steps: Sequence[Step]) -> dict[tuple[str, str], list[Step]]:
        """Return the steps by the file that they concern."""
        found: dict[tuple[str, str], list[Step]] = {}
        for step in steps:
            conversation = step.conversation if self._by_conversation else ""
            entity = step.entity if self._by_entity else ""
            found.setdefault((conversation, entity), []).append(step)
        return found

    def _changed(self, row: _Row, content: bytes | None, last: int) -> _Row | str:
        """Write or remove a file; return what is to be recorded of it, its path if it is gone."""
        path = self._path(row.path)
        if content is None:
            remove(path, self._record.directory)
            return row.path
        if isinstance(self._declared, LineFile):
            mtime = write_behind(path, row.size, content)
            size, crc = row.size + len(content), zlib.crc32(content, row.crc)
        else:
            mtime = replace(path, content)
            size, crc = len(content), zlib.crc32(content)
        return row._replace(size=size, crc=crc, mtime=mtime, event_id=last, dirty=0)

    def _write(self, row: _Row, content: bytes | None, last: int) -> None:
        with self._record.together():
            self._settle([self._changed(row, content, last)])

    def erase(self, conversation: str) -> None:
        """Remove the files of a conversation, and its lines in those that others are in too."""
        for path, entity in self._record.ask(
            "SELECT path, entity FROM files WHERE conversation = ?", conversation
        ):
            self._write(_Row(path, conversation, entity), None, 0)
        if self._by_conversation:
            return
        known = "SELECT 1 FROM erased WHERE view = ? AND conversation = ?"
        if not self._record.ask(known, self.name, conversation):
            with self._record.together():
                self._record.ask(
                    "INSERT OR IGNORE INTO erased VALUES(?, ?)", self.name, conversation
                )
                # Not known to any version: everything is made anew.
                self._record.ask("UPDATE views SET version = '' WHERE name = ?", self.name)

    def close(self) -> None:
        """Record how far the files are."""
        if self._latest is not None and self._latest.position > self._kept:
            self._keep(self._latest)

    # -- the record ---------------------------------------------------------------------------

    def _path(self, path: str) -> Path:
        return self._record.directory / path

    def _rows(self, more: str = "") -> list[_Row]:
        query = f"SELECT {_COLUMNS} FROM files WHERE view = ? {more}"  # noqa: S608 -- our own words
        return [_Row(*found) for found in self._record.ask(query, self.name)]

    def _row(self, path: str) -> _Row | None:
        query = f"SELECT {_COLUMNS} FROM files WHERE path = ?"  # noqa: S608 -- our own words
        found = self._record.ask(query, path)
        return _Row(*found[0]) if found else None

    def _settle(self, done: Sequence[_Row | str]) -> None:
        self._save([row for row in done if not isinstance(row, str)])
        for path in done:
            if isinstance(path, str):
                self._record.ask("DELETE FROM files WHERE path = ?", path)

    def _save(self, rows: Sequence[_Row]) -> None:
        query = f"INSERT OR REPLACE INTO files({_COLUMNS}, view) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"
        for row in rows:
            self._record.ask(query, *row, self.name)

    def _keep(self, mark: Mark) -> None:
        values = (self.name, self._version, mark.position, mark.anchor)
        self._record.ask("INSERT OR REPLACE INTO views VALUES(?, ?, ?, ?)", *values)
        self._kept = mark.position


# -- files ---------------------------------------------------------------------------------------


def _json(value: object, *, pretty: bool) -> bytes | None:
    if value is None:
        return None
    data = msgspec.json.encode(value)
    return (msgspec.json.format(data) if pretty else data) + b"\n"


def replace(path: Path, content: bytes) -> int:
    """Put a file in the place of another, durably; return when it was written."""
    make_directories(path.parent)
    if path.is_dir() and not path.is_symlink():
        msg = f"{path} is a directory: move it away"
        raise Fault(msg)
    with replacing(path) as file:
        file.write(content)
    return path.lstat().st_mtime_ns


def write_behind(path: Path, size: int, content: bytes) -> int:
    """Cut a file to a size and write behind that, durably; return when it was written."""
    make_directories(path.parent)
    is_new = not path.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        there = os.fstat(descriptor).st_size
        if there < size:
            msg = f"{path} has {there} bytes and should have {size}: it is made anew"
            raise Fault(msg)
        os.ftruncate(descriptor, size)
        at = size
        while content:
            written = os.pwrite(descriptor, content, at)
            content, at = content[written:], at + written
        os.fsync(descriptor)
        mtime = os.fstat(descriptor).st_mtime_ns
    finally:
        os.close(descriptor)
    if is_new:
        sync_directory(path.parent)
    return mtime


def remove(path: Path, root: Path) -> None:
    """Remove a file, durably, and the directories that are empty then."""
    for aside in [*path.parent.glob(f"{path.name}.*{TEMPORARY}"), path]:
        aside.unlink(missing_ok=True)
    folder = path.parent
    while folder != root:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            break
        folder = folder.parent
    sync_directory(folder)


def make_directories(folder: Path) -> None:
    """Have a directory, and its name durable, as those of all that had to be made for it."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        sync_directory(each.parent)
