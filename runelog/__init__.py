"""Remember: the append-only, crash-safe log of runes, and how runes become state.

A rune is an immutable record of something that happened; a conversation is the unit of order and of
isolation; a lifecycle is the law by which an entity's runes fold into its state. This package knows
no entity by name, and nothing outside the log is authoritative.

>>> import tempfile
>>> from runelog import Change, Codec, Rune, Runelog
>>> class Noted(Rune, frozen=True, tag="note.taken"):
...     text: str
>>> codec = Codec([Noted])
>>> with tempfile.TemporaryDirectory() as directory, Runelog.open(directory, codec) as log:
...     done = log.append("conv_a", [Change("note_1", 0, [Noted(text="hi")])])
...     [envelope.payload for envelope in log.read("conv_a")]
[Noted(text='hi')]

`MemoryLog` is the same without a disk. `runelog.replay` folds the runes of a log into states,
`runelog.errors` has the errors, `runelog.transfer` export, import and backup, and `runelog.repair`
verify, repair and restore.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from runelog import errors as errors  # as an attribute
    from runelog.codec import Codec
    from runelog.lifecycle import (
        ByField,
        Lifecycle,
        Table,
        Timeout,
        fold,
        refusal,
        state_hash,
        step,
    )
    from runelog.log import Log
    from runelog.memory import MemoryLog
    from runelog.replay import Replayed
    from runelog.rune import (
        SYSTEM,
        Appended,
        Change,
        Conversation,
        Envelope,
        Gap,
        Rune,
        State,
        Tombstone,
        Unknown,
        Visibility,
        Work,
    )
    from runelog.store import Runelog

__all__ = [
    "SYSTEM",
    "Appended",
    "ByField",
    "Change",
    "Codec",
    "Conversation",
    "Envelope",
    "Gap",
    "Lifecycle",
    "Log",
    "MemoryLog",
    "Replayed",
    "Rune",
    "Runelog",
    "State",
    "Table",
    "Timeout",
    "Tombstone",
    "Unknown",
    "Visibility",
    "Work",
    "fold",
    "refusal",
    "state_hash",
    "step",
]

_HOMES: Final = {
    "codec": ("Codec",),
    "lifecycle": (
        "ByField",
        "Lifecycle",
        "Table",
        "Timeout",
        "fold",
        "refusal",
        "state_hash",
        "step",
    ),
    "log": ("Log",),
    "memory": ("MemoryLog",),
    "replay": ("Replayed",),
    "store": ("Runelog",),
}
_MODULES: Final = {name: module for module, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:
    # A type checker knows the names above; any other one is an error.

    def __getattr__(name: str) -> Any:  # noqa: ANN401 -- any name above
        """Import a name at its first use.

        A child process that checks a file imports this package whenever a log was not closed well,
        and needs few of its modules.
        """
        if name == "errors":
            return importlib.import_module("runelog.errors")
        if name not in __all__:
            msg = f"module 'runelog' has no attribute {name!r}"
            raise AttributeError(msg)
        found = getattr(importlib.import_module(f"runelog.{_MODULES.get(name, 'rune')}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    """Return the public names, those not imported yet as well."""
    return __all__
