"""Rules about the source itself, which no linter of ours knows."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("runelog", "actors", "supervisors", "runefold")
EVERYWHERE = (*PACKAGES, "bench", "examples", "tests")

LONGEST_FUNCTION = 70
LONGEST_MODULE = 500
LONGEST_LAW = 600

TOP_LEVEL = {
    ".ci",
    ".gitattributes",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "actors",
    "bench",
    "constraints.txt",
    "docs",
    "examples",
    "pyproject.toml",
    "runefold",
    "runelog",
    "supervisors",
    "tests",
}
LEFT_BEHIND = {
    ".bench",
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    "__pycache__",
    "build",
    "dist",
}


def sources(*folders: str) -> list[Path]:
    """Every Python file of these folders."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    """One file as a tree."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def shown(path: Path) -> str:
    """Name a file as it is named within the project."""
    return path.relative_to(ROOT).as_posix()


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function in a tree, methods and inner ones too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(tree: ast.AST) -> set[str]:
    """Name the modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.add(node.module)
    return names


def test_every_test_states_a_rule() -> None:
    """A test's docstring is a sentence: a capital at its beginning, a full stop at its end."""
    wrong = []
    for path in sources("tests"):
        for function in functions(parsed(path)):
            if function.name.startswith("test_"):
                rule = (ast.get_docstring(function) or "").split("\n\n")[0]
                if not rule.endswith(".") or rule[:1].islower():
                    wrong.append(f"{shown(path)}:{function.lineno} {function.name}")

    assert not wrong


def test_functions_fit_on_a_screen() -> None:
    """A function of more than 70 lines is two functions."""
    long = [
        f"{shown(path)}:{function.lineno} {function.name} has {length} lines"
        for path in sources(*EVERYWHERE)
        for function in functions(parsed(path))
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LONGEST_FUNCTION
    ]

    assert not long


def test_modules_can_be_read_in_one_go() -> None:
    """A module of more than 500 lines is two modules."""
    long = [
        f"{shown(path)} has {length} lines"
        for path in sources(*EVERYWHERE)
        if path.name != "lifecycle.py"
        and (length := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    ]

    assert not long


def test_a_law_is_one_module_of_600_lines_of_code() -> None:
    """A law is in one file; what is not its machine's business, or has rules of its own, is not.

    Docstrings do not count: every command, effect and field of a law has one.
    """
    long = [
        f"{shown(path)} has {length} lines of code"
        for path in sources("actors")
        if path.name == "lifecycle.py" and (length := lines_of_code(path)) > LONGEST_LAW
    ]

    assert not long


def lines_of_code(path: Path) -> int:
    """Count the lines of statements, without docstrings, comments and blank lines."""
    found: set[int] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            first = node.pattern if isinstance(node, ast.match_case) else node
            found.add(first.lineno)
    return len(found)


def test_only_one_package_knows_lmdb() -> None:
    """Not even a test or a lazy import of the product goes past `runelog.lmdb`."""
    users = [
        shown(path)
        for path in sources(*PACKAGES)
        if any(name.split(".")[0] == "lmdb" for name in imported(parsed(path)))
    ]

    assert users
    assert all(user.startswith("runelog/lmdb/") for user in users)


def test_the_product_does_not_import_its_tests() -> None:
    """What is shipped stands without what is not."""
    wrong = [
        (shown(path), name)
        for path in sources(*PACKAGES)
        for name in imported(parsed(path))
        if name.split(".")[0] in {"tests", "bench", "examples"}
    ]

    assert not wrong


def test_no_test_sleeps() -> None:
    """Whatever a test waits for, it waits for that and not for time to pass."""
    sleeping = [
        f"{shown(path)}:{node.lineno}"
        for path in sources("tests")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and not _is_zero(node.args)
    ]

    assert not sleeping


def _is_zero(given: list[ast.expr]) -> bool:
    """Tell whether others are let go first, and no time passes."""
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value == 0


def test_every_ignored_rule_says_why() -> None:
    """A `noqa` or `type: ignore` names its rule and gives its reason."""
    wrong = []
    for path in sources(*EVERYWHERE):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            _, noqa, reason = line.partition("# no" + "qa: ")
            if noqa and " -- " not in reason:
                wrong.append(f"{shown(path)}:{number}")
            _, ignore, reason = line.partition("# type: " + "ignore[")
            if ignore and "]  # " not in reason:
                wrong.append(f"{shown(path)}:{number}")

    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_and_says_what_it_is_for(package: str) -> None:
    """Each of the four has its marker for type checkers and its docstring."""
    assert (ROOT / package / "py.typed").is_file()
    assert ast.get_docstring(parsed(ROOT / package / "__init__.py"))


def test_every_folder_of_the_product_is_a_package() -> None:
    """A folder without `__init__` would not be told from a host's by the front door."""
    folders = {path.parent for path in sources(*PACKAGES, "tests")}

    assert not [shown(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_the_top_level_holds_what_is_expected() -> None:
    """What lies at the top is what a newcomer sees first; nothing gets there by accident."""
    assert {path.name for path in ROOT.iterdir()} - LEFT_BEHIND <= TOP_LEVEL


def test_constraints_are_names_and_numbers() -> None:
    """Exact versions, and nothing of the machine they were taken from."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]

    assert pins
    for pin in pins:
        name, _, version = pin.partition("==")
        assert name.replace("-", "").replace("_", "").replace(".", "").isalnum()
        assert version.replace(".", "").isalnum()


def test_types_are_read_by_decoders_that_were_made_one_at_a_time() -> None:
    """Two threads that have msgspec learn a type at once end the process: `runelog.decoders`."""
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in sources(*PACKAGES)
        if path.name != "decoders.py" and "testing" not in path.parts
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and _learns(node) and not _at_import(path, node)
    ]

    assert not found


def _learns(call: ast.Call) -> bool:
    """Tell whether a call has msgspec find out about a type."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    typed = any(keyword.arg == "type" for keyword in call.keywords)
    return name == "Decoder" or (name == "decode" and typed)


def _at_import(path: Path, call: ast.Call) -> bool:
    """Tell whether a call stands in no function: a module is imported by one thread."""
    return not any(
        function.lineno <= call.lineno <= (function.end_lineno or 0)
        for function in functions(parsed(path))
    )
