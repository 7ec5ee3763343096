"""Rules about what is seen of a conversation: by kind, by entity and by who may see it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.agent.runes import Ready
from actors.model.providers.scripted import call
from actors.tool.adapters.function import tool
from runelog.errors import Refused
from runelog.rune import Change, Envelope, Gap, Visibility
from tests.runefold.loops import LONG, QUICK, in_time, opened
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Collection, Iterable
    from pathlib import Path

    from runefold.sessions import Session

KINDS = (None, ["turn.started", "tool.result", "agent.ready"])
ENTITIES = (None, ["turn_1"], ["turn_2", "session"], ["nobody"])
LEVELS = (None, *Visibility)
FOLLOWER = "follower"


@tool(side_effects=False)
def look() -> str:
    """Look."""
    return "seen"


def busy() -> Talk:
    """Have two turns with a tool each, and a note of each visibility by somebody else."""
    there = talk([[call("look")], ["one"], [call("look")], ["two"]], look)
    for word in ("go", "on"):
        there.session.send(word).result(10)
    there.stage.log.flush()
    for level in Visibility:
        note = Change(f"note_{level}", None, [Ready(agent_id="agt_1")], visibility=level)
        there.stage.log.append("conv_notes", [note])
    return there


def chosen(
    runes: Iterable[Envelope],
    kinds: Collection[str] | None,
    entities: Collection[str] | None,
    level: Visibility | None,
) -> list[Envelope]:
    """Return those of all runes that are asked for, said in the plainest way."""
    return [
        rune
        for rune in runes
        if (kinds is None or rune.kind in kinds)
        and (entities is None or not {rune.owner, *rune.observers}.isdisjoint(entities))
        and (level is None or rune.visibility <= level)
    ]


async def gathered(items: AsyncIterable[Any]) -> list[Any]:
    """Return all that comes."""
    return [item async for item in items]


@pytest.mark.parametrize("kinds", KINDS, ids=str)
@pytest.mark.parametrize("entities", ENTITIES, ids=str)
@pytest.mark.parametrize("level", LEVELS, ids=str)
def test_whoever_looks_sees_what_was_asked_for_and_all_of_it(
    kinds: Collection[str] | None, entities: Collection[str] | None, level: Visibility | None
) -> None:
    """Of a session or of all, of the past or live, with `for` and with `async for` alike."""
    there = busy()
    runtime, log = there.stage.runtime, there.stage.log
    asked: dict[str, Any] = {"kinds": kinds, "entities": entities, "visibility": level}
    for name in (there.session.id, "conv_notes"):
        session = runtime.session(name)
        want = chosen(log.read(name), kinds, entities, level)

        assert [*session.runes(**asked)] == want
        assert [*session.follow(**asked, wait=0)] == want
        assert asyncio.run(gathered(session.follow(**asked, wait=0))) == want
    there_is = [item for item in log.read_all() if isinstance(item, Envelope)]
    want = chosen(there_is, kinds, entities, level)
    assert [*runtime.follow(**asked, wait=0)] == want
    assert asyncio.run(gathered(runtime.follow(**asked, wait=0))) == want


def test_a_cursor_holds_for_what_is_asked_for() -> None:
    """Whoever goes on behind the last that was seen misses nothing and sees nothing twice."""
    session = busy().session
    all_of_it = [*session.runes(entities={"turn_2"})]
    for at, rune in enumerate(all_of_it, 1):
        rest = [*session.follow(rune.event_id, entities={"turn_2"}, wait=0)]

        assert rest == all_of_it[at:] == [*session.runes(rune.event_id, entities={"turn_2"})]


@pytest.mark.parametrize("entities", [None, ["turn_3"], ["turn_1"]], ids=str)
@pytest.mark.parametrize("level", [None, Visibility.PUBLIC])
def test_a_turn_is_watched_by_entity_and_visibility_as_well(
    entities: Collection[str] | None, level: Visibility | None
) -> None:
    """It ends with the turn, whether or not its end was asked for."""
    there = busy()
    turn = there.session.send("more")
    turn.result(10)
    there.stage.log.flush()
    asked: dict[str, Any] = {"entities": entities, "visibility": level}
    every = [rune for rune in there.session.runes() if rune.turn == "turn_3"]

    assert [*turn.runes(**asked)] == chosen(every, None, entities, level)
    assert asyncio.run(gathered(turn.runes(**asked))) == chosen(every, None, entities, level)


def in_a_thread(session: Session, **asked: Any) -> Callable[[], list[Envelope | Gap]]:  # noqa: ANN401 -- those of `follow`
    """Follow a session in a thread until three have come; return how to wait for them."""
    seen: list[Envelope | Gap] = []

    def run() -> None:
        seen.extend(itertools.islice(session.follow(**asked), 3))

    thread = threading.Thread(target=run, name=FOLLOWER, daemon=True)
    thread.start()

    def those() -> list[Envelope | Gap]:
        thread.join(LONG)
        return seen

    return those


def test_what_is_yet_to_come_is_seen_as_it_comes(tmp_path: Path) -> None:
    """Whoever waits is given what is asked for, and nothing of what comes between."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        kinds = {"turn.started", "turn.completed"}
        there = in_a_thread(session, kinds=kinds, entities={"turn_2", "turn_3"})
        for word in ("a", "b", "c"):
            session.send(word).result(LONG)
        want = [(rune.owner, rune.kind) for rune in session.runes(kinds=kinds)][2:5]

        assert [(rune.owner, rune.kind) for rune in there() if isinstance(rune, Envelope)] == want


class JumpingClock:
    """A clock that leaps each time it is looked at, or when it is told to."""

    def __init__(self, seconds: float = 0) -> None:
        """Begin at nought."""
        self.now = 0.0
        self._seconds = seconds

    def monotonic(self) -> float:
        """Return what time it is now."""
        self.now += self._seconds
        return self.now


def test_what_is_not_asked_for_does_not_count_as_something_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for so long is let go after so long, however much happens meanwhile."""
    monkeypatch.setattr("runefold.observe.following.time", JumpingClock(6 * LONG))
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        there = in_a_thread(session, entities={"nobody"}, wait=10 * LONG)
        for word in "abc":
            session.send(word).result(LONG)

        assert there() == []
        assert not is_followed()


def test_what_was_asked_for_does_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time begins anew with each that comes."""
    clock = JumpingClock()
    monkeypatch.setattr("runefold.observe.following.time", clock)
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        seen = session.follow(kinds={"turn.completed"}, entities={"session"}, wait=LONG)
        for word in "abc":
            clock.now += 0.6 * LONG
            threading.Thread(target=session.send, args=(word,), daemon=True).start()

            assert next(seen, None) is not None


def is_followed() -> bool:
    """Tell whether a thread of a test before waits still."""
    return any(thread.name == FOLLOWER for thread in threading.enumerate())


def test_a_reader_that_is_too_slow_is_told_also_if_it_asks_for_little() -> None:
    """What it missed may have been what it asked for."""
    session = busy().session
    head = max(rune.event_id for rune in session.runes())
    gap, *rest = session.follow(entities={"turn_1", "turn_2"}, max_behind=3, wait=0)

    assert isinstance(gap, Gap)
    assert (gap.first, gap.last) == (1, head - 3)
    assert all(isinstance(each, Envelope) and each.event_id > head - 3 for each in rest)


def test_following_a_part_ends_with_the_runtime(tmp_path: Path) -> None:
    """As following all of it does: with `for`, and with `async for`."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        there = in_a_thread(session, entities={"nobody"})

        async def main() -> list[Any]:
            waits = asyncio.ensure_future(gathered(session.follow(entities={"nobody"})))
            await asyncio.to_thread(runtime.close)
            found: list[Any] = await in_time(waits)
            return found

        assert asyncio.run(main()) == []
        assert there() == []
        assert not is_followed()


def test_a_runtime_may_be_closed_by_whoever_follows_it(tmp_path: Path) -> None:
    """What was read is given, and then it ends."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        session.send("Hi").result(LONG)
        session.close()
        want = [*session.runes(entities={"session"})]
        seen = session.follow(entities={"session"})
        first = next(seen)
        runtime.close()

        assert [first, *seen] == want


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"entities": "turn_1"}, "entities is the string 'turn_1': name entities in a list"),
        ({"entities": ["turn 1"]}, "entity id"),
        ({"visibility": 0}, "visibility is 0: use a Visibility"),
        ({"kinds": "turn.started", "entities": ["turn_1"]}, "kinds is the string"),
        ({"entities": ["turn_1"], "max_behind": 0}, "max_behind is 0"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    asked: dict[str, Any], why: str
) -> None:
    """At once, and not when the first rune is asked for."""
    there = busy()

    for follow in (there.session.follow, there.stage.runtime.follow):
        with pytest.raises(Refused, match=why):
            follow(**asked)
    if "max_behind" not in asked:
        with pytest.raises(Refused, match=why):
            there.session.runes(**asked)
