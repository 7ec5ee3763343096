"""`python -m tests.laws.runes_page`: the page of all runes, from their classes, tables and logs."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from typing import TYPE_CHECKING, Final

import msgspec

from actors.catalogue import KINDS
from runelog.lifecycle import targets
from runelog.rune import Rune, Visibility, kind_of
from tests.laws.logs import played

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.kind import Kind, Kinds

_HEAD: Final = """\
# Runes

All that can be in a log: what happens to each sort of entity, when it is written, and whose folds
it is in. This page is made from the classes, the tables of the laws and the logs that the tests
play (`python -m tests.laws.runes_page > docs/RUNES.md`). [FORMAT.md](FORMAT.md) says how a rune is
stored; `runefold lifecycles` prints the tables.

Each rune belongs to one entity, its **owner**, whose table it moves. **Observers** are the other
entities whose state follows from it. A field with a default is left out where it has that value.
"""


def page(kinds: Kinds) -> str:
    """Return the page, in Markdown."""
    seen = observers()
    return "\n".join([_HEAD, *(line for kind in kinds for line in _kind(kind, seen))])


def observers() -> dict[type[Rune], set[str]]:
    """Return the kinds of entities that fold each rune, in all that is played."""
    found: dict[type[Rune], set[str]] = {}
    for stream in played().streams:
        for rune in stream.runes:
            found.setdefault(type(rune), set()).add(stream.kind.name)
    return found


def _kind(kind: Kind, seen: dict[type[Rune], set[str]]) -> Iterator[str]:
    yield f"## {kind.name}\n"
    for rune in kind.runes:
        yield f"### `{kind_of(rune)}`\n"
        yield f"{inspect.getdoc(rune)}\n"
        ours = {name for name in seen.get(rune, set()) if name in KINDS.by_name} - {kind.name}
        theirs = seen.get(rune, set()) - {each.name for each in KINDS}
        others = [*sorted(ours), *(["machines of an app"] if theirs else [])]
        told = [f"Owner: {kind.name}", f"observers: {', '.join(others) or 'none'}"]
        if rune.visibility is not Visibility.PUBLIC:
            told.append(f"visibility: {rune.visibility.name.lower()}")
        yield f"{'; '.join(told)}.\n"
        yield f"Written: {_when(kind, rune)}.\n"
        yield from _fields(rune)


def _when(kind: Kind, rune: type[Rune]) -> str:
    """Return in which phases a rune can be written, and where it leads."""
    if rune in kind.births:
        return f"at the birth of the {kind.name}"
    ways = [
        f"{phase.value} → {to.value}"
        for phase, row in kind.lifecycle.table.items()
        if rune in row
        for to in dict.fromkeys(targets(row[rune]))
    ]
    return ", ".join(ways) or "in any phase, which stays as it is"


def _fields(rune: type[Rune]) -> Iterator[str]:
    about = _about(rune)
    fields = msgspec.structs.fields(rune)
    for field in fields:
        type_, doc = about[field.name]
        given = "" if field.required else f", default `{_default(field)}`"
        yield f"- `{field.name}` (`{type_}`{given})" + (f": {doc}" if doc else "")
    if fields:
        yield ""


def _default(field: msgspec.structs.FieldInfo) -> str:
    made = field.default_factory
    found = field.default if made is msgspec.NODEFAULT else made()
    return f"{type(found).__name__}()" if isinstance(found, msgspec.Struct) else repr(found)


@functools.cache
def _about(cls: type) -> dict[str, tuple[str, str]]:
    """Return the type and the docstring of each field of a class, those that it inherits first."""
    found: dict[str, tuple[str, str]] = {}
    for base in cls.__mro__[1:]:
        if issubclass(base, Rune) and base is not Rune:
            found |= {name: at for name, at in _about(base).items() if name not in found}
    (tree,) = ast.parse(inspect.cleandoc("\n" + inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    for at, node in enumerate(tree.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            after = tree.body[at + 1] if at + 1 < len(tree.body) else None
            doc = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                doc = " ".join(str(after.value.value).split())
            found[node.target.id] = ast.unparse(node.annotation), doc
    return found


if __name__ == "__main__":
    sys.stdout.write(page(KINDS))
