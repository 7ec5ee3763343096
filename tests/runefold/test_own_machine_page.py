"""Rules about the page on machines of one's own: copied and typed as it stands, it works."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.runefold.cli_scenes import ROOT, run

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = (ROOT / "docs" / "your-own-machine.md").read_text("utf-8")
EXAMPLES: Final = tuple(ROOT / "examples" / name for name in ("order_desk", "order_basket"))
LAW_AND_SHELL: Final = ("order_runes.py", "order.py", "app.py")
LIMIT: Final = 250
"""The lines that the three files have less than."""


def files() -> dict[str, str]:
    """Return the files that the page shows, put together from their parts."""
    found: dict[str, list[str]] = {}
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL):
        found.setdefault(name, []).append(text.rstrip("\n"))
    return {name: "\n\n\n".join(parts) + "\n" for name, parts in found.items()}


def session() -> Iterator[tuple[list[str], str]]:
    """Yield each command that the page types, and what it shows below it."""
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield shlex.split(command), shown


def fits(shown: str, found: str) -> bool:
    """Return True if an output is what is shown, with anything in the place of an ellipsis."""
    pattern = re.escape(shown.strip()).replace("…", ".*")
    lines = "\n".join(line.rstrip() for line in found.splitlines())
    return re.fullmatch(pattern, lines, re.DOTALL) is not None


def test_every_block_of_code_is_in_a_file() -> None:
    """None is left out of what the other tests compare and run."""
    assert PAGE.count("```python") == len(re.findall(r"```python\n# \S+\n", PAGE))


def test_the_page_shows_the_example() -> None:
    """Every file but its README, line for line."""
    found = {each.name: each for example in EXAMPLES for each in example.glob("*.py")}
    shown = files()

    assert set(shown) == set(found)
    for name, text in shown.items():
        assert text == found[name].read_text("utf-8"), name


def test_law_and_shell_are_short() -> None:
    """An order is described in fewer lines than a page of rules would have."""
    lines = sum(len((EXAMPLES[0] / name).read_text().splitlines()) for name in LAW_AND_SHELL)

    assert lines < LIMIT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with what was copied from the page, and nothing else."""
    for name, text in files().items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


def test_what_the_page_types_gives_what_it_shows(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From top to bottom, with the app running where the page runs it in another terminal.

    Its tests are run where the example is: they are the same files.
    """
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    typed = [each for each in session() if each[0][0] != "pytest"]
    with contextlib.ExitStack() as stack:
        for command, shown in typed:
            if command[0] == "runefold" and command[1] != "serve":
                result = run(*command[1:])
                found = result.stdout + result.stderr
            else:
                process = stack.enter_context(
                    subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                )
                assert process.stdout is not None
                if command[0] == "runefold":
                    stack.callback(process.terminate)
                    found = process.stdout.readline()
                else:
                    found = process.stdout.read()
            assert fits(shown, found), f"{shlex.join(command)}:\n{found}\nnot\n{shown}"

    assert len(typed) > 10
