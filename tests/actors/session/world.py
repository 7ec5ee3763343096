"""A conversation without actors: a session, its agents and its budget, each only its law.

What one of them decides is folded by all whose stream it is in, as the log would have it; what is
due internally follows in the same append. Turns are played by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.agent import lifecycle as agent
from actors.agent.lifecycle import BecomeReady, Fail
from actors.agent.runes import AgentConfig
from actors.budget import lifecycle as budget
from actors.budget import runes as budgets
from actors.catalogue import KINDS
from actors.children import EnsureChild, StopChild
from actors.common_commands import Cancel
from actors.entity import Routing
from actors.session import lifecycle as ask
from actors.session import lifecycle as session
from actors.session import members, queue
from actors.session.lifecycle import State
from actors.session.runes import InputAccepted, InputRefused, SessionConfig
from actors.turn import runes as turns
from runelog.lifecycle import fold, state_hash
from tests.folding import cascade

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.kind import Kind
    from actors.session.lifecycle import Effect, Phase
    from actors.session.queue import Running
    from runelog.rune import Rune

ROOT: Final = "agt_root"
CONVERSATION: Final = "conv_0123456789abcdef"


class World:
    """One conversation."""

    def __init__(
        self, config: SessionConfig | None = None, root: AgentConfig | None = None
    ) -> None:
        """Create the session with its root agent."""
        self.streams: dict[str, list[Rune]] = {}
        self.states: dict[str, Any] = {"session": State(), "budget": budget.State()}
        self.log: list[Rune] = []
        self.appends: list[list[Rune]] = []
        self.now = 0
        spawn = members.Spawn(ROOT, "root", "echo", config=root or AgentConfig())
        self.tell("session", ask.Create(CONVERSATION, spawn, config or SessionConfig()))

    @property
    def session(self) -> State:
        """The session's state."""
        state: State = self.states["session"]
        return state

    @property
    def due(self) -> Sequence[Effect]:
        """What is due for the session."""
        return session.due(self.session)

    @staticmethod
    def law(name: str) -> Kind:
        """Return the law of an entity."""
        return {"session": KINDS["session"], "budget": KINDS["budget"]}.get(name, KINDS["agent"])

    def tell(self, name: str, command: object) -> list[Rune]:
        """Have an entity carry a command out, and return all runes of the append."""
        law, state = self.law(name), self.states[name]
        runes = law.lifecycle.decide(state, command)
        _, decided = cascade(law, name, state, list(runes))
        self.commit([(law.route(state, rune), rune) for rune in decided])
        return decided

    def commit(self, runes: Sequence[tuple[Routing, Rune]]) -> None:
        """Let everybody concerned hear of the runes, and do what follows internally."""
        if not runes:
            return
        self.appends.append([rune for _, rune in runes])
        for routed, rune in runes:
            at = routed.within("session")
            self.log.append(rune)
            for name in (at.owner, *at.observers):
                self.streams.setdefault(name, []).append(rune)
                if name.startswith("agt_") or name in self.states:
                    lifecycle = self.law(name).lifecycle
                    before = self.states.get(name, lifecycle.initial)
                    self.states[name] = lifecycle.apply(before, rune)
        for name in list(self.states):
            law = self.law(name)
            _, more = cascade(law, name, self.states[name], [])
            self.commit([(law.route(self.states[name], rune), rune) for rune in more])

    # -- turns, played by hand ----------------------------------------------------------------

    def end(self, turn: Running, cls: type[Rune] = turns.Completed, *before: Rune) -> None:
        """End a turn; `before` goes into the same append."""
        needed: dict[type[Rune], dict[str, Any]] = {
            turns.Completed: {"final_output": "done"},
            turns.Interrupted: {"reason": "asked"},
            turns.Error: {"error_type": "provider"},
        }
        rune = cls(turn_id=turn.turn_id, **needed[cls])
        place = Routing(turn.turn_id, (turn.agent_id, "session"))
        passive = [(budget.route(budget.State(), each), each) for each in before]
        self.commit([*passive, (place, rune)])

    def exhaust(self, scope: str) -> budgets.Exhausted:
        """Return the refusal of a reservation."""
        return budgets.Exhausted(scope=scope, what="tokens", used=10, limit=10, key="k")

    # -- what is due --------------------------------------------------------------------------

    def perform(self, effect: Effect, *, fail: bool = False) -> None:
        """Do what is due for the session, as its actor would."""
        self.now += 1
        running = {turn.turn_id: turn for turn in self.session.running}
        match effect:
            case EnsureChild(agent_id):
                if self.states[agent_id].phase is agent.Phase.SPAWNING:
                    self.tell(agent_id, Fail("no model") if fail else BecomeReady())
            case queue.BeginTurn(_, message_id):
                self.tell("session", queue.Begin(message_id, self.now))
            case queue.InterruptTurn(turn_id):
                self.end(running[turn_id], turns.Interrupted)
            case StopChild(agent_id, reason=reason):
                self.tell(agent_id, Cancel(reason, "system"))
            case _:
                msg = f"{effect} is internal and should not be due any more"
                raise AssertionError(msg)

    def settle(self) -> None:
        """Do everything that is due, and let turns complete, until nothing is left to do."""
        for _ in range(10_000):
            todo = [each for each in self.due if not isinstance(each, EnsureChild)]
            spawning = [
                each
                for each in self.due
                if isinstance(each, EnsureChild)
                and self.states[each.child].phase is agent.Phase.SPAWNING
            ]
            if todo or spawning:
                self.perform((todo + spawning)[0])
            elif self.session.running and self.due:
                self.end(self.session.running[0])
            else:
                return
        msg = "it never comes to rest"
        raise AssertionError(msg)

    # -- what must hold -----------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at any time."""
        busy = [turn.agent_id for turn in self.session.running]
        assert len(busy) == len(set(busy)), "an agent runs two turns"
        numbers = [rune.turn_id for rune in self.log if isinstance(rune, turns.Started)]
        assert numbers == [f"turn_{number + 1}" for number in range(len(numbers))]
        answers = self.answers()
        assert all(count <= 1 for count in answers.values()), "a message has two answers"
        waiting = {each.message_id for each in self.session.waiting}
        assert waiting == {each for each, count in answers.items() if count == 0}

    def check_folds(self) -> None:
        """Check that reading every stream again gives the states that live folds came to."""
        for name, state in self.states.items():
            past = self.streams.get(name, [])
            assert state_hash(fold(self.law(name).lifecycle, past)) == state_hash(state)

    def answers(self) -> dict[str, int]:
        """Return how many answers each accepted message has: a turn, or a refusal."""
        found: dict[str, int] = {}
        for rune in self.log:
            if isinstance(rune, InputAccepted):
                assert rune.message_id not in found
                found[rune.message_id] = 0
            elif isinstance(rune, InputRefused | turns.Started):
                found[rune.message_id] += 1
        return found

    def is_in(self, phase: Phase) -> bool:
        """Say whether the session is in this phase."""
        return self.session.phase is phase
