"""The `Log` protocol: what every runelog can do, wherever it keeps its runes.

Held to by `runefold.testing.contract`; implemented on LMDB by `runelog.store.Runelog` and in memory
by `runelog.memory.MemoryLog`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Self

    from runelog.codec import Codec
    from runelog.rune import Appended, Change, Conversation, Envelope, Gap, Work
    from runelog.snapshot import Snapshots


class Log(Protocol):
    """An append-only, crash-safe store of runes: the only truth."""

    codec: Codec

    @property
    def snapshots(self) -> Snapshots | None:
        """Where states that were folded from it may be kept; None if it has no place for them."""
        ...

    def append(
        self,
        conversation: str,
        changes: Sequence[Change],
        *,
        durable: bool = True,
        timeout: float | None = None,
    ) -> Appended:
        """Append the runes of all changes as one: all there, with consecutive event ids, or none.

        Raises `WrongVersion` if a stream is not at the version its change expects. With `durable`
        it returns once the runes would survive a power cut; without, they are ordered before every
        later append and committed within 20 ms. If too much is waiting to be written the caller
        waits, at most `timeout` seconds, and is then refused with `Busy`.
        """
        ...

    def flush(self, conversation: str | None = None) -> int:
        """Wait until everything appended so far is durable; raise what kept any of it from that.

        If a `conversation` is named, only its own appends are waited for, and its last event is
        returned: what was appended behind that was lost, though the error was raised elsewhere. 0
        if there is none. After an append was lost, nothing follows it until this or the next append
        has raised its error.
        """
        ...

    def rest(self, conversation: str) -> None:
        """Drop what is cached of a conversation that nothing is appended to for a while.

        It changes nothing but the memory that it takes, and how long the next append does.
        """
        ...

    def read(
        self,
        conversation: str,
        after: int = 0,
        until: int | None = None,
        kinds: Collection[str] | None = None,
    ) -> Iterator[Envelope]:
        """Yield the conversation's committed runes with `after` < event id <= `until`, in order."""
        ...

    def stream(
        self, conversation: str, entity: str, after: int = 0, until: int | None = None
    ) -> Iterator[Envelope]:
        """Yield what an entity's fold sees, owned and observed.

        Versions from `after` + 1 on, event ids to `until`.
        """
        ...

    def version(self, conversation: str, entity: str) -> int:
        """Return how many committed runes the entity's stream holds, 0 if there is no such entity.

        What was appended with `durable=False`, by this handle too, may not be in it yet.
        """
        ...

    def read_all(self, after: int = 0) -> Iterator[Envelope | Gap]:
        """Yield the committed runes of all conversations behind position `after`.

        In the log's own order; a `Gap` stands where runes were archived or erased since.
        """
        ...

    def follow(
        self,
        conversation: str | None = None,
        after: int = 0,
        *,
        kinds: Collection[str] | None = None,
        max_behind: int | None = None,
        wait: float | None = None,
    ) -> Iterator[Envelope | Gap]:
        """Yield runes from a cursor on, those there are, then those to come, as they are committed.

        The cursor is an event id of `conversation`, or a position of the whole log if none is
        named. A reader that falls more than `max_behind` runes back is given a `Gap` and goes on
        behind it. Ends when the log is closed, or when nothing came for `wait` seconds; if the log
        fails, that is raised behind the last rune there is.
        """
        ...

    def conversation(self, conversation: str) -> Conversation:
        """Return what the index knows of one conversation, or raise `UnknownConversation`."""
        ...

    def conversations(self) -> Iterator[Conversation]:
        """Yield every conversation in order of id, archived and erased ones too.

        The log is not scanned for that.
        """
        ...

    def open_work(self, conversation: str | None = None) -> Iterator[Work]:
        """Yield the entities with something left to do, of one conversation or of all."""
        ...

    def may_hold(self, start: str) -> bool:
        """Return False if the index tells that no entity has an id that begins with `start`.

        The log is not scanned for that. True may be said of what it cannot tell, such as whose
        runes are in an archive.
        """
        ...

    @property
    def position(self) -> int:
        """The position of the last committed rune; 0 in an empty log."""
        ...

    def roll(self) -> None:
        """Seal the active segment and begin the next one."""
        ...

    def rolling(self) -> Iterator[None] | None:
        """Return the steps of beginning the next segment, if it is time; else None.

        To be asked after commits, by a caller that takes the steps beside appends, with a pause
        after each. Where none asks, an append begins the next segment.
        """
        ...

    def archive(self, *conversations: str) -> None:
        """Move conversations to cold storage: still listed and readable, no longer appended to."""
        ...

    def restore(self, *conversations: str) -> None:
        """Bring archived conversations back, so that they can be appended to again."""
        ...

    def erase(self, *conversations: str) -> None:
        """Remove every rune, blob and snapshot of conversations for good.

        A tombstone is left of each.
        """
        ...

    def close(self) -> None:
        """Make everything durable and let go of the log. Closing twice does nothing.

        The log is released in any case. If appends that were not waited for could not be written,
        and no `flush` has reported that, their error is raised.
        """
        ...

    def __enter__(self) -> Self:
        """Return the log itself; leaving the block closes it."""
        ...

    def __exit__(self, *exc: object) -> None:
        """Close the log."""
        ...
