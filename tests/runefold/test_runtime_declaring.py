"""Rules about declaring tools: what cannot be meant is refused where it is said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from actors.tool.adapters.command import CommandTool
from actors.tool.adapters.function import tool
from actors.tool.spec import BadTool

if TYPE_CHECKING:
    from pathlib import Path


def put(x: int) -> int:
    """Put."""
    return x


def test_an_option_that_there_is_not_is_named() -> None:
    """With those that there are."""
    odd: Any = {"retry": True}

    with pytest.raises(BadTool, match=r"@tool takes no option 'retry'; it takes desc.*, .*probe"):
        tool(**odd)(put)
    with pytest.raises(BadTool, match=r"tool list takes no option 'retry'; .*side_effects"):
        CommandTool("list", ["ls"], root="/", **odd)


def test_a_tool_is_declared_once() -> None:
    """Its options could not be told apart from those it has already."""
    with pytest.raises(BadTool, match="<tool put> is a tool already: say @tool once"):
        tool(timeout=5)(tool(put))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"paths": "/srv/texts"}, "paths is '/srv/texts': give a list"),
        ({"inherit": "PATH"}, "inherit is 'PATH': give a list"),
        ({"env": ["TOKEN"]}, "env is no dict of texts"),
        ({"env": {"DEPTH": 5}}, "env is no dict of texts"),
        ({"limits": {"cpu": 5}}, r"limits is \{'cpu': 5\}: give Limits"),
        ({"cwd": "/etc"}, "cwd: '/etc' leads outside"),
        ({"cwd": "sub/../.."}, "cwd: 'sub/../..' leads outside"),
    ],
)
def test_what_a_program_may_not_be_told_is_refused_when_it_is_declared(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """A text in the place of a list would allow each of its letters: a slash is everything."""
    with pytest.raises(BadTool, match=message):
        CommandTool("list", ["ls"], root=tmp_path, **options)


def test_a_directory_of_work_in_its_root_need_not_be_there_yet(tmp_path: Path) -> None:
    """Whether a model's choice leads out is looked at when it is made."""
    CommandTool("list", ["ls"], root=tmp_path, cwd="later")
    chosen = CommandTool("list", ["ls"], root=tmp_path, cwd="{where}")

    assert chosen.fit({"where": "later"}) == {"where": "later"}
