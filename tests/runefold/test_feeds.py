"""Rules about what followers in an event loop are handed, so that they need not read it."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

from runefold.observe import feed as feeds
from runefold.observe.async_notify import Wakeups
from runefold.observe.following import Following
from runelog.rune import Gap
from tests.runefold.loops import LONG, QUICK, in_time, opened

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from runefold import Runtime
    from runefold.sessions import Session


def reads(patch: pytest.MonkeyPatch) -> list[int]:
    """Have noted from where followers read the log."""
    read, noted = Following._read, list[int]()

    def reading(self: Following, cursor: int) -> Any:  # noqa: ANN401 -- as it returns
        noted.append(cursor)
        return read(self, cursor)

    patch.setattr(Following, "_read", reading)
    return noted


async def followed(runtime: Runtime, session: Session, turns: int, *, everything: bool) -> bool:
    """Follow a session turn by turn; return True if all of it was given, once and in order."""
    follow = runtime.follow if everything else session.follow
    seen: list[Any] = []
    ended = 0
    live = follow(wait=LONG)
    async for item in live:
        if ended == 0 and not seen:
            await asyncio.to_thread(session.send, "Hi")
        assert not isinstance(item, Gap)
        seen.append(item)
        if item.kind == "turn.completed":
            ended += 1
            if ended == turns:
                break
            await asyncio.to_thread(session.send, "Hi")
    there = [*follow(wait=0)]
    return [each.position for each in seen] == [each.position for each in there[: len(seen)]]


def test_who_keeps_up_reads_the_log_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is committed from then on is handed over, of one session or of all."""
    for everything in (False, True):
        with monkeypatch.context() as patch, opened(tmp_path / str(everything)) as runtime:
            noted = reads(patch)
            session = runtime.create_session(QUICK)
            turns = followed(runtime, session, 4, everything=everything)

            assert asyncio.run(in_time(turns))
            assert len(noted) <= 2, noted


def test_who_falls_behind_reads_what_was_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little is kept, nothing is missed and nothing comes twice."""
    monkeypatch.setattr(feeds, "MOST", 2)
    noted = reads(monkeypatch)
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)

        assert asyncio.run(in_time(followed(runtime, session, 4, everything=False)))
        assert len(noted) > 2


def test_a_follower_that_is_dropped_leaves_nothing_behind(tmp_path: Path) -> None:
    """Nobody has to say that it is done."""
    with opened(tmp_path) as runtime:
        session = runtime.create_session(QUICK)
        watch = runtime._core.watch

        async def main() -> int:
            for _ in range(3):
                async for _ in session.follow(wait=LONG):
                    break
            return len(watch._feeds[session.id])

        kept = asyncio.run(main())
        gc.collect()

        assert kept <= 3
        assert not watch._feeds[session.id]


def test_a_loop_is_woken_once_for_all_who_are_to_be_woken() -> None:
    """Those that come while it wakes are woken with the others."""
    calls = [0]

    async def main() -> list[bool]:
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon_threadsafe

        def counted(*what: Any, **how: Any) -> asyncio.Handle:  # noqa: ANN401 -- as it takes them
            calls[0] += 1
            return call_soon(*what, **how)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign, assignment]  # it is only counted
        wakeups, events = Wakeups(loop), [asyncio.Event() for _ in range(100)]
        for event in events:
            wakeups.wake(event)
        await asyncio.gather(*(event.wait() for event in events))
        late = asyncio.Event()
        wakeups.wake(late)
        await late.wait()
        return [event.is_set() for event in (*events, late)]

    assert all(asyncio.run(main()))
    assert calls == [2]
