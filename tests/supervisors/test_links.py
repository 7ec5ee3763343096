"""What comes too late for a supervisor that has just been killed."""

from __future__ import annotations

import pytest

from actors.errors import Dead
from actors.process.process import KILLED, Answer, Down
from supervisors.links import Links
from tests.supervisors.cast import Manual, Worker


def test_what_is_bound_to_the_dead_ends_at_once() -> None:
    """A child that was being started, and a question that was being taken, as it was killed."""
    manual = Manual()
    links = Links()
    child, top = Worker("a", manual.lane), Worker("top", manual.lane)
    question = Answer()
    links.end(Down("top", top.ref, KILLED))

    links.add_child(child.ref)
    links.add_question(question, "top")

    assert child.exit == KILLED
    with pytest.raises(Dead):
        question.result()
    assert len(links) == 0
