"""What pages show is what users import: never from the inside."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSIDE = re.compile(
    r"^(?:>>> |\.\.\. )?\s*(?:from|import) (?:actors|supervisors)\b.*", re.MULTILINE
)


def test_pages_and_examples_import_nothing_from_the_inside() -> None:
    """An app that copies from them stands on runefold and runelog alone."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    found = {
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in pages
        for line in INSIDE.findall(page.read_text(encoding="utf-8"))
    }

    assert len(pages) > 20
    assert found == set()
