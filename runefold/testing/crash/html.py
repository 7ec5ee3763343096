"""The report as a page: one file, nothing to load, a timeline of where each kill fell."""

from __future__ import annotations

import html
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from runefold.testing.crash.report import Report


def page(report: Report) -> str:
    """Return the report as a page of its own."""
    template = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    data = msgspec.json.encode(report).decode()
    # Within a script's text nothing may look like its end, or like the beginning of a comment.
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return _Page(template).substitute(title=html.escape(f"Crash report: {report.app}"), data=safe)


class _Page(Template):
    """A page with two holes in it; other dollars are its own."""

    pattern = r"\$(?P<named>title|data)\b|(?P<braced>(?!))|(?P<escaped>(?!))|(?P<invalid>(?!))"  # type: ignore[assignment]  # a pattern, as the class wants it
