"""The process that has a log open is killed under its clients: they go on, and all counts once.

Client and owner are separate processes, and the kill is a real one.
"""

from __future__ import annotations

import random
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

from runefold.errors import Broken, NoRuntime
from runefold.observe.verification import verify
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.rune import Envelope
from tests.crash.owner import Owner, paid
from tests.crash.tally import SWEPT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runefold.sessions import Session

T = TypeVar("T")
PATIENCE: Final = 120.0
SEED: Final = 7
MOMENTS: Final = 90
"""More than there are: a life that ends before its moment has come is a life like any other."""
ONCE: Final = {
    "session.created": 1,
    "session.input_accepted": 3,
    "turn.completed": 3,
    "tool.result": 1,
    "tool.approved": 1,
    "budget.replenished": 1,
    "agent.spawning": 2,
    "session.paused": 1,
    "session.resumed": 1,
    "session.closed": 1,
}
"""What a conversation leads to, however often the other process is killed."""


def talk(runtime: Runtime) -> list[str]:
    """Lead a conversation; return what was answered."""
    spec = AgentSpec(role="clerk", model="demo", tools=["pay"])
    session = runtime.create_session(spec)
    first = session.send("Hi", message_id="first")
    told = [first.result(PATIENCE).output]
    paying = session.send("Pay.")
    session.approve(_asked(session), approver="ada")
    told += [rune.kind for rune in paying.runes(kinds={"turn.completed"})]
    told.append(paying.result(PATIENCE).output)
    session.replenish(tokens=1_000)
    session.spawn(AgentSpec(role="other", model="demo"))
    session.pause("lunch")
    last = session.send("Bye")
    session.resume()
    told.append(last.result(PATIENCE).output)
    session.close()
    return told


def _asked(session: Session) -> str:
    """Wait until a call waits for a human; return which."""
    found = next(iter(session.follow(kinds={"approval.requested"}, wait=PATIENCE)))
    assert isinstance(found, Envelope)
    [waiting] = session.approvals()
    return waiting.call_id


def outlived(place: Path, number: int) -> tuple[int, list[str]]:
    """Lead a conversation while the owner is killed at a moment; return kills and what is wrong."""
    owner = Owner(place, number)
    try:
        with Runtime.connect(place, wait=PATIENCE) as runtime:
            told = talk(runtime)
            [session] = runtime.sessions()
            kinds = [each.kind for each in session.runes()]
    finally:
        owner.end()
    wrong = [str(problem) for problem in verify(place, at_rest=True).problems]
    counted = {kind: kinds.count(kind) for kind in ONCE}
    if counted != ONCE:
        wrong.append(f"counted {counted}")
    if told != ["Hello!", "turn.completed", "It is paid.", "Hello!"]:
        wrong.append(f"told {told}")
    if len(paid(place)) != 1:
        wrong.append(f"paid {paid(place)}")
    return owner.kills, [f"killed at {number}: {each}" for each in wrong]


def swept(place: Path, numbers: Callable[[], list[int]]) -> tuple[int, list[str]]:
    """Kill at each of some moments; return how often that happened, and what was wrong."""
    found = [outlived(place / f"at-{number}", number) for number in numbers()]
    return sum(kills for kills, _ in found), [each for _, wrong in found for each in wrong]


def test_clients_outlive_the_process_that_has_the_log(memory_path: Path) -> None:
    """Killed at a sample of its moments, it comes back, and they go on where they were."""
    chosen = [0, *random.Random(SEED).sample(range(10, 60), 5)]
    kills, wrong = swept(memory_path, lambda: chosen)

    assert wrong == []
    assert kills == 5


def test_one_without_patience_is_told_and_repeats_what_it_asked(memory_path: Path) -> None:
    """Every error is one that says so; a message that is sent again under its id counts once."""
    kills = 0
    for number in random.Random(SEED).sample(range(12, 40), 4):
        place = memory_path / f"at-{number}"
        owner = Owner(place, number)
        try:
            with (
                Runtime.connect(place, wait=PATIENCE) as patient,
                Runtime.connect(place) as runtime,
            ):
                spec = AgentSpec(role="clerk", model="demo")
                session = runtime.session(patient.create_session(spec).id)
                told = [insisting(patient, partial(greet, session, f"m{each}")) for each in "abc"]
                counted = session.state.stats
        finally:
            owner.end()
        kills += owner.kills

        assert told == ["Hello!"] * 3
        assert (counted.messages, counted.turns) == (3, 3)
    assert kills > 1


def greet(session: Session, message_id: str) -> str:
    """Send a message under its id; return the answer."""
    return session.send("Hi", message_id=message_id).result(PATIENCE).output


def insisting(patient: Runtime, call: Callable[[], T]) -> T:
    """Return what a call returns; while the runtime is gone, wait for it and call again."""
    while True:
        try:
            return call()
        except (NoRuntime, Broken):
            patient.tree()


@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_clients_outlive_it_wherever_it_is_killed(
    memory_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Killed at each of its moments, from creating the log on."""
    kills, wrong = swept(memory_path, lambda: [*range(1, MOMENTS)])
    record_property(SWEPT, f"{kills} kills of a runtime with clients")

    assert wrong == []
    assert kills > 50
