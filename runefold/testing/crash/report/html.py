"""The report as a page: one file, nothing to load, a timeline of where each kill fell."""

from __future__ import annotations

import html
import json
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import msgspec

from actors.tool.output import plain

if TYPE_CHECKING:
    from runefold.testing.crash.report.report import Report


def page(report: Report) -> str:
    """Return the report as a page of its own."""
    template = resources.files(__package__).joinpath("page.html").read_text("utf-8")
    # In ASCII, so that a name that is no proper text can be told of as well.
    reruns = {result.point: report.rerun(result) for result in report.results}
    causes = msgspec.to_builtins(report.causes)
    data = json.dumps({**msgspec.to_builtins(report), "reruns": reruns, "causes": causes})
    # Within a script's text nothing may look like its end, or like the beginning of a comment.
    safe = data.replace("<", "\\u003c")
    title = html.escape(plain(f"Crash report: {report.app}"))
    return _Page(template).substitute(title=title, data=safe)


class _Page(Template):
    """A page with two holes in it; other dollars are its own."""

    pattern = r"\$(?P<named>title|data)\b|(?P<braced>(?!))|(?P<escaped>(?!))|(?P<invalid>(?!))"  # type: ignore[assignment]  # a pattern, as the class wants it
