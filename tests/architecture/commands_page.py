"""`python -m tests.architecture.commands_page`: the page of all commands, from their classes."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from actors.catalogue import COMMANDS
from actors.public_command import noun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.kind import Kind
    from actors.public_command import Command, Commands

_HEAD: Final = """\
# Commands

What users may ask of a session and of what is in it. This page is made from the commands themselves
(`python -m tests.architecture.commands_page`), and so are the ways to give one: in Python the
methods of a `Session`, `session.do(COMMAND, ENTITY)` and `session.entity(KIND, ID).NAME(...)`; from
another process the same, with `Runtime.connect(directory)`; on the command line `runefold NAME`, or
`runefold KIND NAME` for kinds other than session and tool.
If no runtime has the log open, a command is recorded, and the next one acts on it; some are refused
then.
"""
_OFFLINE: Final = {
    "at_once": "taken, with all that follows from it without a runtime",
    "later": "recorded; what follows from it is left to the next runtime",
}


def page(commands: Commands) -> str:
    """Return the page, in Markdown."""
    return "\n".join([_HEAD, *_lines(commands)])


def _lines(commands: Commands) -> Iterator[str]:
    for kind in commands.kinds.values():
        yield f"## {kind.name}\n"
        for command in kind.commands:
            yield from _command(kind, command)


def _command(kind: Kind, command: type[Command]) -> Iterator[str]:
    whose = noun(kind, command)
    article = "an" if whose[0] in "aeiou" else "a"
    takes = "" if kind.single else f", of {article} {whose} by its id"
    if command.begins:
        takes = f", which begins {article} {whose}"
    yield f"### `{command.verb()}`{takes}\n"
    yield f"{inspect.getdoc(command)}\n"
    fields = msgspec.structs.fields(command)
    for field in fields:
        about = described(field.type)
        given = "required" if field.required else f"default `{field.default!r}`"
        yield f"- `{field.name}` ({given}): {about}"
    if fields:
        yield ""
    yield f"Offline: {_OFFLINE.get(command.offline) or f'refused; {command.way_out}'}.\n"


def described(of: object) -> str:
    """Return what is said of a field."""
    found = msgspec.inspect.type_info(of)
    extra = found.extra_json_schema if isinstance(found, msgspec.inspect.Metadata) else None
    return str((extra or {}).get("description", ""))


if __name__ == "__main__":
    sys.stdout.write(page(COMMANDS))
