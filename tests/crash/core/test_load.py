"""Many conversations at once, from many threads: every invariant holds over the whole log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest

from actors.catalogue import CODEC
from actors.invariants import violations
from actors.tool.runes import Result
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.rune import SYSTEM
from runelog.store import Runelog
from tests.scenarios.plays import EVERYTHING, PATIENCE
from tests.scenarios.world import PROVIDERS, Till, is_charge, tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runelog.rune import Envelope

WORDS: Final = ("charge", "hello", "look and charge", "hello")


def converse(runtime: Runtime, turns: int, number: int) -> list[str]:
    """Have one conversation of so many turns; return how they ended."""
    spec = AgentSpec(role="clerk", model="clerk", tools=EVERYTHING)
    session = runtime.create_session(spec, conversation_id=f"conv_{number}")
    words = [WORDS[(number + turn) % len(WORDS)] for turn in range(turns)]
    if number % 2:
        return [session.send(word).result(PATIENCE).status for word in words]
    return [turn.result(PATIENCE).status for turn in [session.send(word) for word in words]]


def everything(log: Runelog) -> Iterator[Envelope]:
    """Yield all runes of all conversations."""
    for conversation in log.conversations():
        if conversation.id != SYSTEM:
            yield from log.read(conversation.id)


def wrong_under_load(directory: Path, sessions: int, turns: int, threads: int) -> list[str]:
    """Have many conversations at once; return what is wrong afterwards."""
    till = Till(directory)
    with (
        Runtime.open(directory / "log", tools=tools(till), providers=PROVIDERS) as runtime,
        ThreadPoolExecutor(threads) as app,
    ):
        ended = list(app.map(lambda number: converse(runtime, turns, number), range(sessions)))
    with Runelog.open(directory / "log", CODEC, readonly=True) as log:
        problems = list(violations(everything(log), at_rest=True))
        begun = [e.owner for e in everything(log) if e.kind == "tool.started"]
        results = [e.payload for e in everything(log) if e.kind == "tool.result"]
        left = list(log.open_work())

    charged = till.entries()
    wrong = [f"{problem}" for problem in problems] + [f"left open: {work}" for work in left]
    if ended != [["completed"] * turns] * sessions:
        wrong.append(f"turns ended as {ended}")
    if len(charged) != len(set(charged)):
        wrong.append("something was charged twice")
    if not set(charged) <= set(begun):
        wrong.append("something was charged that never began")
    done = {rune.call_id for rune in results if isinstance(rune, Result) and is_charge(rune)}
    if not done or not done <= set(charged):
        wrong.append("something was said to be charged that was not")
    return wrong


def test_many_conversations_at_once_break_no_rule(tmp_path: Path) -> None:
    """Sixteen conversations of five turns from eight threads leave a log without a flaw."""
    assert wrong_under_load(tmp_path, 16, 5, 8) == []


@pytest.mark.crash
@pytest.mark.timeout(1_800)
def test_very_many_conversations_at_once_break_no_rule(tmp_path: Path) -> None:
    """Two hundred conversations of twenty turns from 32 threads leave a log without a flaw."""
    assert wrong_under_load(tmp_path, 200, 20, 32) == []
