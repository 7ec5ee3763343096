"""The end of every run: nothing goes wrong any more, and everything must come to its end.

First nobody does anything: what was accepted goes on by itself. Then a human sees to what waits for
one. At last everything is closed, and opened once more: nothing is left to do. Then the whole log
is looked at again, from its first rune on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.invariants import violations
from actors.session.lifecycle import Phase
from actors.units import SECOND
from runefold.testing.simulation.checks.log_checker import open_work
from runefold.testing.simulation.world.tools import agent
from runefold.view_files import RECORD
from runelog.errors import Refused, RunefoldError
from runelog.replay import replay
from runelog.rune import SYSTEM, Gap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from actors.session.lifecycle import State
    from runefold.testing.simulation.checks.log_checker import Fold
    from runefold.testing.simulation.simulation import Simulation

HOURS: Final = 2 * 3600
"""Seconds after which everything that needs no human must be over."""
ROUNDS: Final = 100
"""How often a human looks before something is said to be stuck."""
PATIENCE: Final = 60.0
OVER: Final = frozenset({Phase.CLOSED, Phase.ARCHIVED})


class Ending:
    """Brings a run to its end."""

    def __init__(self, simulation: Simulation) -> None:
        """Begin while things still go wrong."""
        self._sim = simulation
        self._truth = simulation.truth

    def play(self) -> None:
        """Do all of it, up to the first thing that is wrong."""
        for part in (
            self._by_itself,
            self._by_hand,
            self._told,
            self._closed,
            self._opened_again,
            self._from_scratch,
            self._views_made_anew,
        ):
            if self._truth.wrong:
                return
            part()

    # -- by itself ----------------------------------------------------------------------------

    def _by_itself(self) -> None:
        self._sim.tell("-- nothing goes wrong any more, and nobody does anything --")
        self._sim.calm()
        self._settle()
        for name, state in self._sessions():
            if state.phase is Phase.ACTIVE and not state.approvals:
                left = [*state.running, *state.waiting]
                if left:
                    self._complain("goes on by itself", f"{name} still has {_shown(left)}")
            if state.phase not in OVER:
                self._check_family(name, state)
                self._check_alarm(name, state)

    def _check_family(self, name: str, state: State) -> None:
        """Look for agents whose parent is gone: they go with it."""
        there = {each.agent_id for each in state.members}
        for each in state.members:
            if each.parent_id is not None and each.parent_id not in there:
                self._complain("no orphans", f"{each.agent_id} of {name} outlives its parent")

    def _check_alarm(self, name: str, state: State) -> None:
        """Check that a conversation wakes at the deadline of an answer, also if it sleeps."""
        alarm, late = self._sim.clock.next_alarm, self._sim.set_back * SECOND
        for each in state.approvals:
            if alarm is None or alarm > each.deadline + late:
                told = f"{each.approval_id} of {name} lapses at {each.deadline}, and nobody wakes"
                self._complain("in time", told)

    def _settle(self) -> None:
        """Let everything happen that happens by itself."""
        sim = self._sim
        # Waits for a time last longer by as much as the clock was set back.
        end = sim.clock.now() + (HOURS + sim.set_back) * SECOND
        while not self._truth.wrong and sim.drive(end):
            if sim.clock.now() > end:
                break
        if not self._truth.wrong:
            sim.disk.flush()
            sim.look(still=False)

    def _sessions(self) -> Iterator[tuple[str, State]]:
        for (name, entity), fold in sorted(self._sim.checker.folds.items()):
            if entity == "session":
                yield name, fold.state

    def _complain(self, rule: str, message: str) -> None:
        if not self._truth.wrong:
            self._truth.complain(rule, message)

    # -- by hand ------------------------------------------------------------------------------

    def _by_hand(self) -> None:
        self._sim.tell("-- somebody sees to what waits for a human --")
        if self._sim.lacks_something:
            self._sim.disk.is_cut = True
            self._settle()
        for name, message in [*self._sim.users.unsure]:
            self._try(lambda: self._send_again(name, message))  # noqa: B023 -- called at once
        machines = self._sim.users.machines
        for begun in [*machines.unsure.values()]:
            self._try(lambda: machines.begin(begun))  # noqa: B023 -- as above
        for _ in range(ROUNDS):
            for name, state in [*self._sessions()]:
                self._see_to(name, state)
                self._answer(name)
            self._answer(SYSTEM)
            self._settle()
            if self._truth.wrong or not [*self._left()]:
                break
        for line in self._left():
            self._complain("comes to its end", line)
        for call_id in self._truth.streaming.values():
            self._complain("streams are closed", f"{call_id} has ended, and is read all the same")
        for name, _ in self._sessions():
            self._check_index(name)
        if (SYSTEM, self._sim.kinds.root(SYSTEM).prefix) in self._sim.checker.folds:
            self._check_index(SYSTEM)

    def _send_again(self, name: str, message: str) -> None:
        users = self._sim.users
        users.send(users.session(name), message, users.sent[name, message])

    def _try(self, doing: Callable[[], object]) -> None:
        """Do something that may be refused; now that all is calm, nothing else may happen."""
        if self._truth.wrong:
            return
        try:
            doing()
        except Refused as refusal:
            self._sim.tell(f"refused: {refusal}")
        except RunefoldError as error:
            self._complain("answers when calm", f"an app was told {error!r}")

    def _see_to(self, name: str, state: State) -> None:
        sim = self._sim
        session = sim.users.session(name)
        if state.phase is Phase.PAUSED:
            self._try(session.resume)
        elif state.phase is Phase.SUSPENDED:
            if not any(each.agent_id == state.root for each in state.members):
                self._try(lambda: session.spawn(agent(sim.world, 0)))
            for whose in (None, *(each.agent_id for each in state.members)):
                self._try(
                    lambda whose=whose: session.replenish(  # type: ignore[misc]  # bound here
                        agent=whose,
                        tokens=10_000,
                        tool_calls=100,
                        retries=100,
                        sub_calls=100,
                        wall_seconds=100_000,
                    )
                )
            self._try(session.unsuspend)

    def _answer(self, name: str) -> None:
        """Answer everything that waits for a human in a conversation."""
        sim = self._sim
        for each in sim.users.asked(name):
            call = sim.checker.call(name, each.call_id)
            verdict = "give_up" if call is not None and call.started else "approve"
            self._try(
                lambda each=each, verdict=verdict: sim.users.say(  # type: ignore[misc]  # as above
                    name, each.call_id, verdict
                )
            )

    def _left(self) -> Iterator[str]:
        for name, state in self._sessions():
            if state.phase in {Phase.PAUSED, Phase.SUSPENDED, Phase.CLOSING}:
                yield f"{name} is {state.phase.value}"
            left = [*state.running, *state.waiting, *state.approvals]
            if left:
                yield f"{name} still has {_shown(left)}"
        for key in self._sim.checker.accepted:
            if key not in self._sim.checker.ends:
                yield f"{key[1]} of {key[0]} was accepted and never came to its end"
        for (name, entity), fold in self._machines():
            # One that has nothing due waits for a command of its users.
            if self._sim.users.asked(name) or fold.kind.lifecycle.due(fold.state):
                yield f"{entity} of {name} is {fold.state.phase.value}, with work left"

    def _machines(self) -> Iterator[tuple[tuple[str, str], Fold]]:
        """Yield the app's entities that have not come to their end."""
        own = {kind.name for kind in self._sim.app.kinds}
        for key, fold in sorted(self._sim.checker.folds.items(), key=lambda each: each[0]):
            if fold.kind.name in own and fold.kind.is_open(fold.state):
                yield key, fold

    def _check_index(self, name: str) -> None:
        """Compare what the index says of a conversation at rest with what its runes say."""
        ought = open_work(self._sim.checker, name)
        index = {work.entity: work.deadline for work in self._sim.disk.open_work(name)}
        root = self._sim.kinds.root(name).prefix
        if root not in index:
            # What it has heard of since it last wrote something is seen to when it next wakes.
            ought.pop(root, None)
        if ought != index:
            self._complain("index", f"{name} has {ought} left to do, the index says {index}")

    # -- the end ------------------------------------------------------------------------------

    def _told(self) -> None:
        """Ask for everything once more: an app is told what the log has."""
        users = self._sim.users
        for name, message in [*self._sim.checker.accepted]:
            if (name, message) in users.sent:
                self._try(lambda: users.wait(name, message, PATIENCE))  # noqa: B023 -- called at once

    def _closed(self) -> None:
        self._sim.tell("-- everything is closed --")
        for name, state in [*self._sessions()]:
            if state.phase not in OVER:
                self._try(self._sim.users.session(name).close)
        self._settle()
        for name, state in self._sessions():
            if state.phase not in OVER:
                self._complain("closes", f"{name} is {state.phase.value}")
            self._check_index(name)
        for (name, entity), _ in self._machines():
            if name != SYSTEM:
                self._complain("closes", f"{entity} outlives its session {name}")
        for problem in self._sim.auditor.end(at_rest=True):
            self._complain(problem.invariant, f"{problem.where}: {problem.message}")

    def _opened_again(self) -> None:
        if self._truth.wrong:
            return
        sim = self._sim
        before = sim.disk.position
        sim.disk.is_cut = True
        self._settle()
        if sim.disk.position != before:
            self._complain("nothing left", "a runtime that is opened at its end writes something")

    def _from_scratch(self) -> None:
        """Go over the whole log once more: what was looked at rune by rune is all there is."""
        disk, folds = self._sim.disk, self._sim.checker.folds
        runes = [each for each in disk.read_all() if not isinstance(each, Gap)]
        for problem in violations(runes, at_rest=True, kinds=self._sim.kinds):
            self._complain(problem.invariant, f"{problem.where}: {problem.message}")
        # What is archived cannot be read; it was looked at when it was written.
        there = {each.conversation for each in runes}
        written = {(each.conversation, each.owner) for each in runes}
        folded = {key for key in folds if key[0] in there}
        for name, entity in sorted(written ^ folded):
            self._complain("folds", f"{entity} of {name} is on disk or was folded, and not both")
        for name, entity in sorted(written & folded):
            fold = folds[name, entity]
            found = replay(disk, name, fold.kind.lifecycle, entity=entity)
            if (found.state, found.version) != (fold.state, fold.version):
                told = f"{entity} is {found.state} at {found.version}, from scratch"
                self._complain("folds", f"{told}; rune by rune {fold.state} at {fold.version}")

    def _views_made_anew(self) -> None:
        """Compare the files of views with those that are made from the whole log."""
        sim = self._sim
        if sim.views is None or self._truth.wrong:
            return
        sim.runtime.views.catch_up()
        found = _files(sim.views)
        sim.runtime.views.drop()
        anew = sim.views.with_name("made-anew")
        runtime = sim.opened(anew)
        runtime.views.catch_up()
        runtime.views.drop()
        wanted = _files(anew)
        for name in sorted(found.keys() | wanted.keys()):
            if found.get(name) != wanted.get(name):
                told = f"{name} has {found.get(name)!r}; made anew it has {wanted.get(name)!r}"
                self._complain("views follow", told)


def _files(directory: Path) -> dict[str, str]:
    """Return the files of views by name, without the database that is kept beside them."""
    return {
        str(file.relative_to(directory)): file.read_text("utf-8")
        for file in directory.rglob("*")
        if file.is_file() and not file.name.startswith(RECORD)
    }


def _shown(things: Sequence[object]) -> str:
    return ", ".join(str(thing)[:160] for thing in things[:3])
