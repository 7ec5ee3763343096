"""Exit codes. Nothing else is imported: a command may be interrupted before the libraries are."""

import enum


class Exit(enum.IntEnum):
    """The exit codes."""

    OK = 0
    PROBLEMS = 1
    REFUSED = 2
    DAMAGED = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130
    """As a shell reports a process that was ended by Ctrl-C."""
    UNREAD = 141
    """As a shell reports a process whose reader went away, as `head` does."""
