"""What a rune means to those who observe it is folded in the step that decides it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.model.providers.scripted import call
from actors.public_command import Order
from actors.session.actor import SessionActor
from actors.session.public_commands import Pause
from actors.tool.adapters.function import tool
from actors.turn import runes as turns
from actors.turn.lifecycle import CloseRound
from runelog.lifecycle import Lifecycle
from tests.runefold.talks import NAME, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune

LOOKED: Final[list[int]] = []


@tool(idempotent=False)
def look() -> str:
    """Look."""
    LOOKED.append(1)
    return "seen"


BUG: Final = "the law of this observer has a bug"


def context(there: Talk) -> ConversationContext:
    """Return what the actors of the conversation share."""
    running = there.stage.runtime._core.tree.running(NAME)
    assert running is not None
    return running.ctx


def failing(times: int, of: str, at: type[Rune], seen: Callable[[], None]) -> Any:  # noqa: ANN401 -- in place of a method
    """Return an `apply` that raises so many times when a law is to fold such a rune."""
    apply, left = Lifecycle.apply, [times]

    def raising(self: Any, state: Any, rune: Rune) -> Any:  # noqa: ANN401 -- any law's
        if self.name == of and isinstance(rune, at) and left[0]:
            left[0] -= 1
            seen()
            raise ValueError(BUG)
        return apply(self, state, rune)

    return raising


def test_a_rune_that_an_observer_cannot_fold_is_not_appended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The observer is named and begins anew from the log, and then the same is decided again."""
    there = talk(["hi"])
    kinds: list[list[str]] = []

    def look() -> None:
        context(there).sync()
        kinds.append([each.kind for each in there.stage.log.read(NAME)])

    monkeypatch.setattr(Lifecycle, "apply", failing(1, "session", turns.Completed, look))
    first = context(there)._members["session"]

    assert there.session.send("one").result(10).output == "hi"
    assert len(kinds) == 1
    assert "turn.completed" not in kinds[0]
    assert len(there.runes("turn.completed")) == 1
    assert context(there)._members["session"] is not first
    told = [
        str(record.__dict__)
        for record in caplog.records
        if vars(record)["event"] == "actor_crashed"
    ]
    assert any(f"'actor': '{NAME}/session'" in each for each in told), told
    assert any("session cannot take turn.completed" in each for each in told), told


def test_what_an_observer_cannot_decide_at_once_is_its_own_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn whose round would be closed by a result is named, and both begin anew."""
    there = talk([[call("look")], "hi"], look)
    decided, left = Lifecycle.decided, [1]

    def raising(self: Any, state: Any, command: object, read: Any) -> Any:  # noqa: ANN401 -- any law's
        if isinstance(command, CloseRound) and left[0]:
            left[0] -= 1
            raise ValueError(BUG)
        return decided(self, state, command, read)

    monkeypatch.setattr(Lifecycle, "decided", raising)
    turn = there.session.send("one")
    there.stage.advance(5)
    told = [
        str(record.__dict__)
        for record in caplog.records
        if vars(record)["event"] == "actor_crashed"
    ]

    assert turn.result(10).output == "hi"
    assert left == [0]
    assert LOOKED == [1], "the tool ran once"
    assert len(there.runes("tool.result")) == len(there.runes("turn.tools_finished")) == 1
    assert any("turn_1 cannot take tool.result" in each for each in told), told


def test_an_observer_that_crashes_over_what_was_appended_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one that decided goes on, and the other reads what it missed from the log."""
    there = talk(["hi"])
    note, left = SessionActor.on_folded, [1]

    def raising(self: SessionActor, rune: Rune) -> None:
        if isinstance(rune, turns.Completed) and left[0]:
            left[0] -= 1
            raise ValueError(BUG)
        note(self, rune)

    monkeypatch.setattr(SessionActor, "on_folded", raising)
    first = context(there)._members["session"]
    there.session.send("one")
    there.stage.advance(5)

    assert left == [0]
    assert context(there)._members["session"] is not first
    assert there.session.send("two").result(10).output == "hi"


def test_a_state_that_is_read_again_has_what_was_not_appended_yet() -> None:
    """What was decided and is still buffered is appended first."""
    there = talk(["hi"])
    there.session.send("one").result(10)
    ctx = context(there)
    session: Any = ctx._members["session"]
    version = session.version
    session.carry_out(session.understand(Order(Pause())))
    assert session.version > version

    state, found, _ = ctx.replayed(session.kind, "session")

    assert (state, found) == (session.state, session.version)


def test_news_wakes_nobody_who_has_nothing_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session observes that its turn ran on, and needs no message for that."""
    there = talk(["hi"])
    there.session.send("one").result(10)
    woken: list[str] = []
    wake = SessionActor.wake

    def noting(self: SessionActor) -> None:
        woken.append(self.me)
        wake(self)

    monkeypatch.setattr(SessionActor, "wake", noting)
    before = context(there)._members["session"].version
    there.session.send("two").result(10)

    assert context(there)._members["session"].version > before
    assert woken == []
