"""Other processes with a log of their own: they do what they are told, and answer."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any, Final

from runelog.rune import Change, Gap
from runelog.store import Runelog
from tests.crash.story import CODEC, SMALL, Noted, content

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path
    from typing import Self

PATIENCE: Final = 60.0
"""Seconds until a puppet that does not answer is given up; nothing that works waits for it."""


class Puppet:
    """A process that holds a log."""

    def __init__(self, directory: Path) -> None:
        """Start a process; it opens nothing yet."""
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_obey, args=(directory, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process.pid is not None
        return self._process.pid

    def tell(self, order: str, *arguments: object, **options: object) -> None:
        """Give an order, and do not wait for the answer."""
        self._line.send((order, arguments, options))

    def answer(self) -> Any:  # noqa: ANN401 -- whatever it was asked for
        """Wait for the answer to an order; an error comes as its name and message."""
        if not self._line.poll(PATIENCE):
            msg = f"process {self.pid} does not answer"
            raise TimeoutError(msg)
        return self._line.recv()

    def ask(self, order: str, *arguments: object, **options: object) -> Any:  # noqa: ANN401 -- whatever it was asked for
        """Give an order and wait for the answer."""
        self.tell(order, *arguments, **options)
        return self.answer()

    def freeze(self) -> None:
        """Stop the process in its tracks, and wait until it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process on the spot."""
        self._process.kill()
        self._process.join(PATIENCE)

    def __enter__(self) -> Self:
        """Return the puppet itself; leaving the block ends it."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the process."""
        self.kill()
        self._line.close()


def _obey(directory: Path, line: Connection) -> None:
    puppet = _Inside(directory, line)
    while True:
        order, arguments, options = line.recv()
        try:
            answer = getattr(puppet, order)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 -- whichever it is, that is the answer
            answer = (type(error).__name__, str(error))
        line.send(answer)


class _Inside:
    """What a puppet can do."""

    def __init__(self, directory: Path, line: Connection) -> None:
        self.directory = directory
        self.line = line
        self.log: Runelog
        self.holding: list[Any] = []

    def open(self, **options: Any) -> int:  # noqa: ANN401 -- what the log takes
        self.log = Runelog.open(self.directory, CODEC, segment_size=SMALL, **options)
        return os.getpid()

    def append(self, name: str, *texts: str) -> int:
        runes = [Noted(text=text) for text in texts]
        return self.log.append(name, [Change("note_1", None, runes, ("book_1",))]).last

    def read(self, name: str) -> tuple[str, ...]:
        return content(self.log, name)

    def hold(self) -> int:
        """Begin to read from the active segment, and do not end."""
        taken = self.log.log_directory.segments.take(
            self.log.log_directory.segments.manifest.active.number
        )
        self.holding.append((taken, taken.__enter__()))
        return os.getpid()

    def follow(self, name: str | None, stop: str) -> list[tuple[int, int, str]]:
        """Follow until a rune says `stop`; return first and last place and the text of each."""
        seen: list[tuple[int, int, str]] = []
        self.line.send("following")
        for item in self.log.follow(name, 0, wait=PATIENCE):
            if isinstance(item, Gap):
                seen.append((item.first, item.last, f"[{item.reason}]"))
                continue
            rune = item.payload
            assert isinstance(rune, Noted)
            place = item.position if name is None else item.event_id
            seen.append((place, place, rune.text))
            if rune.text == stop:
                return seen
        return seen

    def roll(self) -> None:
        self.log.roll()

    def archive(self, *names: str) -> None:
        self.log.archive(*names)

    def erase(self, *names: str) -> None:
        self.log.erase(*names)

    def close(self) -> None:
        self.log.close()
