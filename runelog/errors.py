"""What can go wrong, by name: who is at fault, and what to do about it.

Three failures, three mechanisms. A *refusal* is an answer: the caller asked for something that
cannot be done here, nothing was written, and the message says why and what to do instead. A *fault*
comes from outside, a disk or another process, and costs the handle or the call. *Corruption* and
*bugs* are `AssertionError`s: nothing should catch them except the edge of the program.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return a text that can be encoded: what cannot, as the bytes of a name that are no UTF-8.

    >>> printable("caf\udce9")
    'caf\\udce9'
    """
    return text.encode(errors="backslashreplace").decode()


class RunefoldError(Exception):
    """Base of every error this project raises on purpose."""


class Refused(RunefoldError):
    """The request cannot be carried out here; nothing was written."""


class BadId(Refused):
    """An id from outside that does not match `[A-Za-z0-9_-]{1,64}`."""


class WrongVersion(Refused):
    """A stream gained a rune since the writer last looked.

    Fold what was missed and decide again.
    """

    def __init__(self, conversation: str, entity: str, expected: int, actual: int) -> None:
        """Name the stream, and how far apart the writer's view and the log are."""
        super().__init__(
            f"{entity} in {conversation} is at version {actual}, not {expected}: "
            "fold the runes you missed, decide again and append again"
        )
        self.conversation = conversation
        self.entity = entity
        self.expected = expected
        self.actual = actual


class TooLarge(Refused):
    """A rune over the size or depth limit."""


class UnknownConversation(Refused):
    """No rune was ever appended to this conversation here."""

    def __init__(self, conversation: str) -> None:
        """Name the conversation that is not here."""
        super().__init__(
            f"no conversation {conversation} in this log; `runefold log list` shows those there are"
        )
        self.conversation = conversation


class Gone(Refused):
    """The conversation was erased; only its tombstone is left."""


class Cold(Refused):
    """The conversation is archived: it can be read, but not appended to until it is restored."""


class Busy(Refused):
    """Others are in the way, and the caller chose not to wait, or waited long enough.

    The queue of appends is full, or a writer to be taken over is in the middle of a write.
    """


class Held(Refused):
    """Another process is the log's writer."""


class NotALog(Refused):
    """The directory holds something else, or nothing."""


class ReadOnly(Refused):
    """The log was opened for reading, or its directory cannot be written."""


class Closed(Refused):
    """The log handle has been closed."""


class NewerFormat(Refused):
    """The log, or a rune in it, was written by a later version than this one can read."""


class BadStream(Refused):
    """An export stream that is damaged, truncated or hostile. Nothing of it was taken over."""


class LogFull(RunefoldError):
    """The disk has no room for this append.

    Nothing acknowledged is lost; make room and try again.
    """


class Fault(RunefoldError):
    """Something outside failed; this handle, or this call, cannot go on."""


class Fenced(Fault):
    """Another writer took the log over. Nothing more can be written through this handle."""


class LogFailed(Fault):
    """A commit failed, so whether its runes are on disk is unknown.

    Close this handle and open the log again.
    """


class Forked(Fault):
    """A log handle was used in a forked child. Open the log again there, for reading."""


class Corrupt(RunefoldError, AssertionError):
    """Stored bytes are not what was written.

    Names the conversation and event where they are known.
    """

    def __init__(
        self, message: str, *, conversation: str | None = None, event_id: int | None = None
    ) -> None:
        """Name what is damaged.

        `runefold log verify` tells how far it goes, `repair` sets it aside.
        """
        super().__init__(message)
        self.conversation = conversation
        self.event_id = event_id


class OldManifest(Corrupt):
    """MANIFEST is older than the segments beside it: a backup or a copy took its place.

    Nothing was changed. `runefold log repair` makes a new one from the segments.
    """


class IllegalTransition(RunefoldError, AssertionError):
    """A rune that its entity's table does not allow in this phase.

    It is a bug in `decide`, or a foreign log.
    """
