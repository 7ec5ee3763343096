"""Rules about who knows which machine: a kind's folder does, everything else asks the kind."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from actors.catalogue import KINDS
from runefold import machines
from tests.architecture.test_source import PACKAGES, ROOT, parsed, shown, sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.kind import Kind

LAW: Final = ("lifecycle", "state", "commands", "decide", "fold")
"""The modules that a law may be in."""
KNOWS_AN_ID: Final = {
    ("actors/session/queue.py", "turn"): "a session numbers the turns that it begins",
    ("actors/tool/sandbox/isolation.py", "system"): "files of the operating system, no entity",
    ("actors/turn/lifecycle.py", "system"): "who stopped a turn: the user, the system, a time-out",
    ("runefold/agents.py", "agt"): "an expert is named after its call: asked again, it is the same",
}
"""Who may spell out the prefix of another kind's ids, and why. What is not needed is an error."""
KNOWS_A_NAME: Final = {
    ("actors/agent/history.py", "tool"): "a role in what a model is told",
    ("actors/public_command.py", "session"): "an option of every verb of the command line",
    ("supervisors/tree.py", "session"): "what a supervisor calls the conversations that it keeps",
}
"""Who may spell out the name of another kind, and why. What is not needed is an error."""
SAID_OTHERWISE: Final = frozenset({"system"})
"""Names of kinds that are words of their own: `system` causes what no user and no clock does."""
KNOWS_LAWS: Final = {
    "actors/machine.py": "whichever machine calls: its calls are paid for, its questions answered",
}
"""Who beside a kind's folder may import the laws of two other kinds, and why."""
BELOW: Final = {
    ("model", "budget"): "a call sets aside what it may cost",
    ("turn", "budget"): "a turn asks the budget before it asks its model",
    ("turn", "tool"): "a turn cancels and releases its calls",
    ("turn", "model"): "a turn ends by the reasons that its model call ended by",
    ("tool", "budget"): "a call is charged for",
    ("tool", "approval"): "a call decides for its approval",
    ("session", "budget"): "a session opens, raises and closes accounts",
    ("system", "budget"): "the system opens the account of what belongs to no session",
    ("session", "agent"): "a session sums up turns as an agent does",
}
"""Whose law a kind's folder may import beside its own, and why."""


def home(kind: Kind) -> str:
    """Return the folder of a kind."""
    return kind.runes[0].__module__.rpartition(".")[0].replace(".", "/")


def product() -> list[Path]:
    """Return every module that is shipped, without the kit for tests."""
    return [path for path in sources(*PACKAGES) if not shown(path).startswith("runefold/testing/")]


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts in a module, without its docstrings and other texts that nothing uses."""
    unused = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in unused:
            yield node.value


def compared(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that something is compared with, or that an id is drawn for."""
    for node in ast.walk(tree):
        inner: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            inner = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "id":
            inner = node.args
        for each in inner:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def names(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that may name a kind: not keys, slots, types or declared parents."""
    apart: set[ast.AST] = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys):
                apart.update(key for key in keys if key is not None)
            case (
                ast.Subscript(ast.Name("Literal"), slice=inner)
                | ast.Assign([ast.Name("__slots__")], inner)
                | ast.keyword("parents", inner)
            ):
                apart.update(ast.walk(inner))
            case _:
                pass
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.value


def test_no_kind_names_another() -> None:
    """A law, a route, an audit or a shell that means another kind takes its name from that kind.

    Whatever is the root of a conversation is `ROOT`: the same law serves under any of them.
    """
    homes = {name: home(kind) for kind in KINDS for name in (kind.name, kind.prefix)}
    found = {
        (name, each)
        for path in sources("actors", "supervisors")
        for each in names(parsed(path))
        if each in set(homes) - SAID_OTHERWISE
        and not (name := shown(path)).startswith(f"{homes[each]}/")
    }

    assert found - set(KNOWS_A_NAME) == set(), "import its NAME, or say why in KNOWS_A_NAME"
    assert set(KNOWS_A_NAME) - found == set(), "no longer needed"


def test_only_a_kinds_folder_knows_what_its_ids_look_like() -> None:
    """Nothing else spells out the prefix of an id, be it to test or to make one, without reason."""
    homes = {prefix: home(kind) for kind in KINDS for prefix in (kind.prefix, *kind.streams)}
    spelt = re.compile(rf"(?:^|[^a-z_])({'|'.join(homes)})_(?:$|[\[\\(|])")
    found = set()
    for path in product():
        tree, name = parsed(path), shown(path)
        known = {prefix for text in texts(tree) for prefix in spelt.findall(text)}
        known |= set(compared(tree)) & set(homes)
        found |= {(name, each) for each in known if not name.startswith(f"{homes[each]}/")}

    assert found - set(KNOWS_AN_ID) == set(), "ask KINDS.of(entity), or say why in KNOWS_AN_ID"
    assert set(KNOWS_AN_ID) - found == set(), "no longer needed"


def laws(tree: ast.Module) -> set[str]:
    """Name the kinds whose laws a module imports."""
    modules = {
        f"{home(kind).replace('/', '.')}.{part}": kind.name for kind in KINDS for part in LAW
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            found |= {modules[name] for name in names & set(modules)}
        elif isinstance(node, ast.Import):
            found |= {modules[alias.name] for alias in node.names if alias.name in modules}
    return found


def test_only_the_catalogue_knows_two_laws() -> None:
    """Who imports the laws of two kinds would have to know of a third one too."""
    homes = {home(kind): kind.name for kind in KINDS}
    several, below = set(), set()
    for path in product():
        name = shown(path)
        mine = homes.get(name.rpartition("/")[0])
        found = laws(parsed(path)) - {mine}
        if mine is not None:
            below |= {(mine, other) for other in found}
        elif len(found) > 1 and name != "actors/catalogue.py":
            several.add(name)

    assert several - set(KNOWS_LAWS) == set(), "ask the kind, or say why in KNOWS_LAWS"
    assert set(KNOWS_LAWS) - several == set(), "no longer needed"
    assert below - set(BELOW) == set(), "ask the kind, or say why in BELOW"
    assert set(BELOW) - below == set(), "no longer needed"


def test_the_page_says_where_the_names_for_apps_are_from() -> None:
    """Whoever writes a machine of ours imports them from there, and reads of them there."""
    found = set()
    for node in parsed(ROOT / "runefold" / "machines.py").body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            place = node.module or ""
            for alias in node.names:
                inner = f"{place}.{alias.name}"
                whole = (ROOT / inner.replace(".", "/")).with_suffix(".py").exists()
                found.add((inner if whole else place, alias.asname or alias.name))
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("| module | names in `runefold.machines` |\n|---|---|\n")
    told = {
        (cells[0].replace("/", "."), name)
        for row in rest.partition("\n\n")[0].splitlines()
        if (cells := re.findall(r"`([^`]+)`", row))
        for name in cells[1:]
    }

    assert {name for _, name in found} == set(machines.__all__)
    assert told == found
