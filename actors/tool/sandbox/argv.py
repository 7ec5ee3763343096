"""A command line with places for arguments, and paths that stay where they may lead.

An argument fills its place and nothing else: it is never read by a shell, never split into several,
and never taken for an option.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.tool.schema import Unfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_DASH: Final = "begins with '-', which would be taken for an option"


class Template:
    """A command line with `{places}`.

    >>> Template(["grep", "-c", "--max-count={most}", "--", "{pattern}", "{files}"]).fill(
    ...     {"pattern": "-v; rm -rf /", "most": 5, "files": ["a b", "c"]}
    ... )
    ['grep', '-c', '--max-count=5', '--', '-v; rm -rf /', 'a b', 'c']

    An argument that is None takes its whole entry away; one that is a list, alone in its entry,
    makes an entry of each of its items. `{{` and `}}` stand for braces.

    An entry that begins with a place must not begin with `-` once it is filled in, unless an entry
    `--` comes before: write `--lines={n}` for a number that may be negative.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        """Read the entries; raise `ValueError` at a place that is more than a name."""
        self._entries = [list(_parts(entry)) for entry in entries]
        self.names = {name for entry in self._entries for _, name in entry if name is not None}
        """The places that there are."""
        self.together = [{name for _, name in entry if name is not None} for entry in self._entries]
        """The same, entry by entry."""

    def fill(self, values: Mapping[str, Any]) -> list[str]:
        """Return the command line; raise `Unfit` at a value that would be more than an argument."""
        filled: list[str] = []
        options = True
        for entry in self._entries:
            names = [name for _, name in entry if name is not None]
            if any(values[name] is None for name in names):
                continue
            if len(entry) == 1 and names and isinstance(values[names[0]], list | tuple):
                rows: list[Mapping[str, Any]] = [{names[0]: item} for item in values[names[0]]]
            else:
                rows = [values]
            for row in rows:
                line = "".join(text + _text(row, name) for text, name in entry)
                if options and names and not entry[0][0] and line.startswith("-"):
                    # Whatever made it so: a value, a number, or one that is empty before another.
                    raise Unfit([f"{' and '.join(names)}: {_DASH}"])
                filled.append(line)
            options = options and filled[-1:] != ["--"]
        return filled


def _parts(entry: str) -> Iterable[tuple[str, str | None]]:
    for text, name, form, conversion in string.Formatter().parse(entry):
        if name is not None and (not name.isidentifier() or form or conversion):
            msg = f"{entry!r} has a place that is not just a name: write {{name}}"
            raise ValueError(msg)
        yield text, name


def _text(values: Mapping[str, Any], name: str | None) -> str:
    if name is None:
        return ""
    value = msgspec.to_builtins(values[name])
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if "\0" in text:
        raise Unfit([f"{name}: contains a NUL character, which no program can be given"])
    return text


def inside(name: str, path: str, base: Path, allowed: Sequence[Path]) -> Path:
    """Return where `path` really leads, seen from `base`; raise `Unfit` if that is outside.

    Links are followed first. Another process may change them between this look and the program's
    use: what writes there at the same time has to be trusted.
    """
    try:
        found = (base / path).resolve()
        roots = [root.resolve() for root in allowed]
    except (OSError, ValueError, RuntimeError):
        raise Unfit([f"{name}: {path[:200]!r} is not a path that can be followed"]) from None
    if not any(found.is_relative_to(root) for root in roots):
        where = " or ".join(str(root) for root in allowed)
        raise Unfit([f"{name}: {path[:200]!r} leads outside, use a path in {where}"])
    return found
