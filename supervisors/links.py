"""What ends with a supervisor, however it ends: its children, and requests it has not answered.

A supervisor that is killed cannot stop its children itself. This does it, on the thread that killed
the supervisor.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.errors import Dead

if TYPE_CHECKING:
    from actors.process.process import Answer, Down, Ref


class Promise:
    """The answer to one request, which may come after later messages were taken."""

    __slots__ = ("is_kept", "to", "value")

    def __init__(self) -> None:
        """Begin without an answer, and without a caller who waits for it."""
        self.value: object = None
        self.is_kept = False
        self.to: Answer | None = None


class Links:
    """Children that must not outlive their supervisor, and questions it has not answered."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._children: dict[Ref, None] = {}
        self._questions: dict[Answer, None] = {}
        self._over = False

    def __len__(self) -> int:
        """Count them, children and questions."""
        return len(self._children) + len(self._questions)

    def add_child(self, child: Ref) -> None:
        """Kill a child when the supervisor ends; at once if it has ended."""
        with self._lock:
            if not self._over:
                self._children[child] = None
                return
        child.kill()

    def remove_child(self, child: Ref) -> None:
        """Forget a child that has ended."""
        with self._lock:
            self._children.pop(child, None)

    def add_question(self, question: Answer, supervisor: str) -> None:
        """Fail a request if the supervisor ends before it answers; at once if it has ended."""
        with self._lock:
            if not self._over:
                self._questions[question] = None
                return
        question.fail(_gone(supervisor))

    def remove_question(self, question: Answer) -> None:
        """Forget a request that was answered."""
        with self._lock:
            self._questions.pop(question, None)

    def end(self, down: Down) -> None:
        """Kill the children that are left, and fail the open requests."""
        with self._lock:
            self._over = True
            children, self._children = [*self._children], {}
            questions, self._questions = [*self._questions], {}
        # Those started last go first; killed, they cannot be waited for one by one.
        for child in reversed(children):
            child.kill()
        for question in questions:
            question.fail(_gone(down.name))


def _gone(supervisor: str) -> Dead:
    return Dead(f"{supervisor} ended before it answered")
