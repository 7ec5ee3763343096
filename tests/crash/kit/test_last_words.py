"""Rules about servers that are gone: whether one hung or died, and where in the app it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runefold.testing.crash.plan.points import Point
from runefold.testing.crash.running.fork_server import Attempt, Tried, lost

if TYPE_CHECKING:
    from runefold.testing.crash.running.trial import Result

POINT = Attempt(Point(1, "after-commit"), ())
DEEP = "".join(f'  File "/opt/lib/site-packages/deep.py", line {n} in dig\n' for n in range(99))
STACK = f"Timeout (0:01:00)!\nThread 0x01 (most recent call first):\n{DEEP}"
OURS = '  File "/app/bot.py", line 7 in pay\n'


def found(last_words: str) -> Result:
    """Return what is said of a point whose server is gone."""
    answer = lost(POINT, last_words)
    assert isinstance(answer, Tried)
    return answer.result


def test_a_hang_with_a_deep_stack_is_a_hang() -> None:
    """However much was said: the app's own frame is found at its far end, and kept."""
    result = found(f"some warning\n{STACK}{OURS}")

    assert len(DEEP) > 4_000
    assert [str(each) for each in result.wrong] == [
        "hang: it was not over in time: in pay, line 7 of /app/bot.py"
    ]
    assert result.stacks.startswith("Timeout (0:01:00)!")
    assert OURS.strip() in result.stacks


@pytest.mark.parametrize(
    ("last_words", "said"),
    [("", "without a word"), ("a" * 9_000 + " the end\n", "the end"), ("Timeout (mine)", "mine")],
)
def test_what_did_not_hang_has_died_with_its_last_words(last_words: str, said: str) -> None:
    """As many as one reads, and also if they are about some other time-out."""
    (finding,) = found(last_words).wrong

    assert finding.verdict == "died"
    assert said in finding.message
    assert len(finding.message) < 2_100
