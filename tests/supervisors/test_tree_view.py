"""The live tree, as it can be seen from outside."""

from __future__ import annotations

import threading
from typing import Any

from actors.process.process import Process
from actors.scheduling.clock import SystemClock
from actors.scheduling.loop import Loop
from supervisors.child_spec import ChildSpec, ChildType
from supervisors.messages import TerminateChild
from supervisors.supervisor import Supervisor
from supervisors.tree_view import GONE, SILENT, Node, view_tree
from tests.supervisors.cast import Manual, Stubborn

LONG = 20.0


def test_the_tree_is_drawn_as_it_is() -> None:
    """Who is under whom, in the order of their start, how each is, and how often it came back."""
    manual = Manual()
    nest = ChildSpec(
        "s", lambda: manual.supervisor(manual.spec("x"), name="s"), type=ChildType.SUPERVISOR
    )
    top = manual.supervisor(manual.spec("a", Stubborn), nest, manual.spec("b")).launch()
    manual.tell("b", "crash")
    manual.tell("x", "crash")
    manual.tell("x", "crash")
    top.tell(TerminateChild("a"))
    manual.scheduler.run()

    tree = view_tree(top, manual.scheduler, manual.clock)

    x = Node("x", "worker", "running", 2)
    assert tree == Node(
        "top",
        "supervisor",
        "running",
        0,
        (
            Node("a", "worker", "stopping"),
            Node("s", "supervisor", "running", 0, (x,)),
            Node("b", "worker", "running", 1),
        ),
    )
    assert tree.lines() == [
        "top: supervisor, running",
        "  a: worker, stopping",
        "  s: supervisor, running",
        "    x: worker, running (2 restarts)",
        "  b: worker, running (1 restarts)",
    ]


def test_who_is_gone_is_drawn_so() -> None:
    """Asking a supervisor that has ended is no error."""
    manual = Manual()
    top = manual.supervisor().launch()
    top.kill()

    assert view_tree(top, manual.scheduler, manual.clock).state == GONE


class Sits(Process):
    """Blocks its lane until it is let go."""

    gate = threading.Event()
    sits = threading.Event()

    def on_receive(self, message: Any) -> object:  # noqa: ANN401, ARG002 -- pykka's
        """Sit."""
        self.sits.set()
        assert self.gate.wait(LONG)
        return None


def test_who_does_not_answer_in_time_is_drawn_silent() -> None:
    """The rest of the tree is shown all the same."""
    clock = SystemClock()
    scheduler, elsewhere = Loop(clock), Loop(clock)
    busy = elsewhere.lane("busy")
    inner = ChildSpec("s", lambda: Supervisor("s", busy, clock), type=ChildType.SUPERVISOR)
    top = Supervisor("top", scheduler.lane("top"), clock, [inner]).launch()
    sitting = Sits("sits", busy).launch()
    sitting.tell("sit")
    assert Sits.sits.wait(LONG)
    try:
        tree = view_tree(top, scheduler, clock, patience=0.05)
    finally:
        Sits.gate.set()
        top.kill()
        elsewhere.close()
        scheduler.close()
        clock.close()

    assert tree.children == (Node("s", "supervisor", SILENT),)
