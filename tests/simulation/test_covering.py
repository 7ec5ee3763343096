"""Rules about what seeds really play: whatever a runtime does and what befalls it, in any order.

That something can be drawn does not mean that it ever comes to pass.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from actors.catalogue import KINDS
from actors.scheduling.manual_scheduler import ManualJob, ManualLane, ManualScheduler
from actors.session.runes import InputAccepted, Suspended
from actors.shell.conversation import ConversationContext
from actors.shell.shell import Shell
from actors.shell.signals import WAKE
from actors.tool.runes import Result
from actors.turn import actor as turns
from actors.turn.runes import Interrupted
from runefold.testing.simulation import simulate
from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.simulation import Outcome, Simulation
from runefold.testing.simulation.simulation_scheduler import SimulationScheduler
from runefold.testing.simulation.world.disk import Disk
from runelog.errors import LogFailed, LogFull, RunefoldError
from runelog.rune import kind_of
from runelog.snapshot import Snapshots
from supervisors import waking
from supervisors.passivation import Passivator
from supervisors.waking import Waking
from tests.simulation.seeds import likely_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pytest

    from actors.scheduling.manual_event_loop import ManualEventLoop
    from runelog.rune import Appended, Envelope
    from runelog.snapshot import Key, Snapshot
    from supervisors.conversation_supervisor import ConversationSupervisor

SEEDS: Final = 400
"""Within so many seeds everything has happened; as a rule within a dozen that are tried first."""
RARE: Final = frozenset({"agent.failed"})
"""What happens too seldom to be waited for here."""
NOT_PLAYED: Final = frozenset(
    {
        *("turn.held_up", "turn.went_on"),
        *("tool.acknowledged", "agent.updated", "budget.limited"),
    }
)
"""What takes an agent that is asked by another and then waits for a human: no seed here comes by
that. `tests/runefold/test_runtime_held_up.py` does, and is cut off after each append. Nor does any
plan have a human acknowledge a call, or change an agent: `test_runtime_doubts.py` and
`test_runtime_updates.py` do."""
OF_APPS: Final = frozenset(
    {
        *("system.opened", "child.started", "child.ended", "child.reported"),
        *("request.sent", "request.withdrawn", "request.answered"),
    }
)
"""What only machines of an app bring about: `test_machines` plays them."""
SITUATIONS: Final = frozenset(
    {
        "a message that steers",
        "a call whose outcome nobody knows",
        "a call that takes too long",
        "a call that is cancelled",
        "a session without means",
        "a session that got nowhere",
        "a conversation that sleeps",
        "a conversation that is woken",
        "a conversation that is waking, and not awake yet, is told something",
        "a power cut while a conversation is waking",
        "an append to a segment that is rolling",
        "an answer that is read on the event loop",
        "an answer on the event loop that is cancelled",
        "a turn that is interrupted while an answer is read on the event loop",
        "a power cut while an answer is read on the event loop",
        "a power cut while a segment is rolling",
        "a segment that is not begun",
        "a snapshot that is believed",
        "a snapshot that is torn",
        "a snapshot that is gone",
        "a disk without room",
        "a disk that fails",
        "a power cut",
        "an end in order",
        "an alarm that rings before others take a step",
        "a commit that others overtake",
        "an effect that waits for its commit",
        "an actor that is told something between what it decided and its commit",
        "an effect that is not wanted any more behind its commit",
    }
)
"""What no rune has a name of its own for."""


class Counted(Simulation):
    """A run in which is counted what comes to pass."""

    seen: Counter[str]

    def committed(self, envelope: Envelope) -> None:
        """Count a rune."""
        self.seen[envelope.kind] += 1
        match envelope.payload:
            case InputAccepted(mode="steer"):
                self.seen["a message that steers"] += 1
            case Interrupted() if self.truth.streaming:
                during = "a turn that is interrupted while an answer is read on the event loop"
                self.seen[during] += 1
            case Result(status="unknown"):
                self.seen["a call whose outcome nobody knows"] += 1
            case Result(status="timeout"):
                self.seen["a call that takes too long"] += 1
            case Result(status="cancelled"):
                self.seen["a call that is cancelled"] += 1
            case Suspended(reason="budget_exhausted"):
                self.seen["a session without means"] += 1
            case Suspended(reason="error_threshold"):
                self.seen["a session that got nowhere"] += 1
            case _:
                pass
        super().committed(envelope)

    def _open(self) -> None:
        cut = self.disk.is_cut and not self.disk.has_failed
        self.seen["a power cut"] += cut
        loop = "a power cut while an answer is read on the event loop"
        self.seen[loop] += cut and bool(self.truth.streaming)
        self.seen["a power cut while a segment is rolling"] += cut and self.disk.is_rolling
        self.seen["an end in order"] += self.reopens
        super()._open()

    def run(self) -> Outcome:
        """Count what became of streams on the event loop."""
        outcome = super().run()
        self.seen["an answer that is read on the event loop"] += self.truth.streams
        self.seen["an answer on the event loop that is cancelled"] += self.truth.cancelled
        return outcome

    def _spoil_snapshots(self) -> None:
        before = [file.stat().st_size for file in self.disk.snapshot_files()]
        super()._spoil_snapshots()
        after = [file.stat().st_size for file in self.disk.snapshot_files()]
        self.seen["a snapshot that is torn"] += len(before) == len(after) and before != after
        self.seen["a snapshot that is gone"] += len(before) > len(after)

    def _stall(self) -> None:
        before, busy = self.clock.now(), bool(self.scheduler._line)
        super()._stall()
        rang = busy and self.clock.now() > before
        self.seen["an alarm that rings before others take a step"] += rang


def count_within(patch: pytest.MonkeyPatch, seen: Counter[str]) -> None:
    """Have counted what only those within see."""
    load, check, asleep, woken = Snapshots.load, Disk._check, Passivator.asleep, Passivator.woken
    slept: set[tuple[Passivator, str]] = set()

    def loads(self: Snapshots, conversation: str, key: Key, until: int) -> Snapshot | None:
        found = load(self, conversation, key, until)
        seen["a snapshot that is believed"] += found is not None
        return found

    def checks(self: Disk, conversation: str | None) -> None:
        try:
            check(self, conversation)
        except LogFull:
            seen["a disk without room"] += 1
            raise
        except LogFailed:
            seen["a disk that fails"] += 1
            raise

    def sleeps(self: Passivator, conversation: str) -> None:
        seen["a conversation that sleeps"] += 1
        slept.add((self, conversation))
        asleep(self, conversation)

    def wakes(self: Passivator, running: ConversationSupervisor) -> None:
        seen["a conversation that is woken"] += (self, running.ctx.conversation) in slept
        woken(self, running)

    patch.setattr(Snapshots, "load", loads)
    patch.setattr(Disk, "_check", checks)
    patch.setattr(Passivator, "asleep", sleeps)
    patch.setattr(Passivator, "woken", wakes)


def count_beside(patch: pytest.MonkeyPatch, seen: Counter[str]) -> None:
    """Have counted what comes while something goes on beside the actors."""
    when_read = Waking.when_read
    append, roll, mend = Disk.append, Disk._roll, Disk.mend
    current: list[Waking] = []

    def appends(self: Disk, *what: Any, **how: Any) -> Appended:  # noqa: ANN401 -- as it takes them
        seen["an append to a segment that is rolling"] += self.is_rolling
        return append(self, *what, **how)

    def rolls(self: Disk) -> Iterator[None]:
        try:
            yield from roll(self)
        except RunefoldError:
            seen["a segment that is not begun"] += 1
            raise

    def mends(self: Disk) -> None:
        waking_then = any(each._then for each in current)
        seen["a power cut while a conversation is waking"] += self.is_cut and waking_then
        current.clear()
        mend(self)

    patch.setattr(Disk, "append", appends)
    patch.setattr(Disk, "_roll", rolls)
    patch.setattr(Disk, "mend", mends)

    def told(self: Waking, conversation: str, then: Callable[[], object]) -> None:
        current[:] = [self]
        told_early = "a conversation that is waking, and not awake yet, is told something"
        seen[told_early] += conversation in self
        when_read(self, conversation, then)

    # As a long one does, which no seed has.
    patch.setattr(waking, "LONG", 3)
    patch.setattr(Waking, "when_read", told)


def count_commits(patch: pytest.MonkeyPatch, seen: Counter[str]) -> None:
    """Have counted what comes between a decision, its commit and what waits for that."""
    begin, receive, committed = Shell._begin, Shell.on_receive, ConversationContext.committed
    due: dict[Shell, set[object]] = {}

    def begins(self: Shell, effects: Sequence[object]) -> bool:
        waited = due.pop(self, set())
        done = begin(self, effects)
        if self._awaits_commit:
            seen["an effect that waits for its commit"] += 1
            due[self] = waited | ({*effects} - self._under_way)
        return done

    def receives(self: Shell, message: object) -> object:
        told = "an actor that is told something between what it decided and its commit"
        waiting = self in self.ctx._waiting and message is not WAKE
        seen[told] += waiting
        answer = receive(self, message)
        wanted = {*self.kind.lifecycle.due(self.state)} if waiting else set()
        gone = due.get(self, set()) - wanted if waiting else set()
        seen["an effect that is not wanted any more behind its commit"] += bool(gone)
        return answer

    def commits(self: ConversationContext) -> None:
        seen["a commit that others overtake"] += bool(getattr(self.services.scheduler, "_line", ()))
        committed(self)

    patch.setattr(Shell, "on_receive", receives)
    patch.setattr(Shell, "_begin", begins)
    patch.setattr(ConversationContext, "committed", commits)


def test_whatever_can_happen_comes_to_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of rune is written by some seed, and every situation is met."""
    seen: Counter[str] = Counter()
    count_within(monkeypatch, seen)
    count_commits(monkeypatch, seen)
    count_beside(monkeypatch, seen)
    wanted = {kind_of(rune) for rune in KINDS.runes} - RARE - NOT_PLAYED - OF_APPS | SITUATIONS
    for seed in likely_first("whatever can happen", SEEDS):
        simulation = Counted(draw(seed))
        simulation.seen = seen
        assert simulation.run().wrong == ()
        if wanted <= set(+seen):
            break

    assert wanted - set(+seen) == set()


def _what(who: ManualLane | ManualJob | ManualEventLoop) -> str:
    """Say what a step of somebody is about."""
    if isinstance(who, ManualLane):
        return "message"
    return "append" if who.name == "disk" else "tool" if "/call_" in who.name else "fragment"


def test_messages_appends_fragments_and_tools_overtake_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever could take a step, be it what it may: now it goes first, now another does."""
    step, overtaken = ManualScheduler.step, set[tuple[str, str]]()

    def watched(self: ManualScheduler) -> bool:
        line = [*self._line]
        done = step(self)
        if isinstance(self, SimulationScheduler):
            left = set(map(id, self._line))
            gone = [number for number, who in enumerate(line) if id(who) not in left]
            for number in gone[:1]:
                overtaken.update((_what(line[number]), _what(who)) for who in line[:number])
        return done

    monkeypatch.setattr(ManualScheduler, "step", watched)
    kinds = {"message", "append", "fragment", "tool"}
    pairs = {("message", "fragment"), ("fragment", "message"), ("append", "message")}
    sides: list[set[str]] = []
    for seed in range(40):
        Simulation(draw(seed)).run()
        sides = [{pair[side] for pair in overtaken} for side in (0, 1)]
        if pairs <= overtaken and sides == [kinds, kinds]:
            break

    assert sides == [kinds, kinds]
    assert pairs <= overtaken


def test_whatever_comes_while_a_history_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read beside the actors, as a long one is: each seed comes to its end all the same."""
    monkeypatch.setattr(turns, "LONG", 0)

    assert [simulate(seed).wrong for seed in range(25)] == [()] * 25
