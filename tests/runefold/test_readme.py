"""The README: what it shows works when pasted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def snippet() -> str:
    """Return the first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def run(directory: Path) -> list[str]:
    """Run the block as a program of its own in `directory`; return the lines it prints."""
    program = directory / "pasted.py"
    program.write_text(snippet())
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=directory,
        env={"PYTHONPATH": str(README.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_the_first_example_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Pasted and run twice, it prints what it appended, and the second time what came before."""
    first = run(tmp_path)
    second = run(tmp_path)

    assert first == [
        "1 ticket.asked Asked(text='Is it on disk?')",
        "2 ticket.answered Answered(text='Yes.')",
    ]
    assert second[:2] == first
    assert [line.split()[0] for line in second] == ["1", "2", "3", "4"]


def test_every_page_that_is_named_exists() -> None:
    """Links of the README and the pages under docs lead somewhere."""
    for page in [README, *sorted((README.parent / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}"
