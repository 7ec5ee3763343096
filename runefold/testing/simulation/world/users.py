"""What an app and its users do, by the same calls that every app makes.

Whatever they are told they rely on, so it is held against the log at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from actors.errors import Unanswered
from actors.tool.lifecycle import Phase as CallPhase
from actors.tool.public_commands import Answer, Approve, Deny
from runefold.testing.simulation.world.machines import App, MachineUsers
from runefold.testing.simulation.world.models import says
from runefold.testing.simulation.world.tools import ToolContext, agent, budget
from runelog.errors import Refused, RunefoldError, UnknownConversation
from runelog.rune import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from actors.approval.pending import Pending
    from actors.kind import Kinds
    from actors.session.lifecycle import State
    from runefold.runtime import Runtime
    from runefold.sessions import Session
    from runefold.testing.simulation.plan.plans import Act

    T = TypeVar("T")

LITTLE: Final = 5.0
"""Seconds that a user waits for an answer before doing something else."""
VERDICTS: Final = ("give_up", "rerun", "happened")


class SimulationContext(ToolContext, Protocol):
    """What users need of the world they are in."""

    runtime: Runtime
    forgotten: int | None
    kinds: Kinds
    app: App


def name_of(sim: SimulationContext, act: Act) -> str:
    """Return the conversation that something is done in."""
    return f"conv_{act.session % max(sim.world.sessions, 1)}"


class Sent(NamedTuple):
    """A message as a user sent it."""

    word: str
    to: str
    """Nothing for whoever is in front."""
    mode: str


class Users:
    """All users of the runtime. They outlive it, and remember what they were told."""

    def __init__(self, sim: SimulationContext) -> None:
        """Begin with nothing sent."""
        self.sim = self._sim = sim
        self.sent: dict[tuple[str, str], str] = {}
        """Every message that anybody tried to send: what was said."""
        self.unsure: dict[tuple[str, str], None] = {}
        """Those whose senders were not told whether they arrived."""
        self._answered: list[tuple[str, str]] = []
        self._doings: dict[str, Callable[[Act], str]] = {
            "send": self._send,
            "resend": self._resend,
            "wait": self._wait,
            "interrupt": self._interrupt,
            "pause": self._pause,
            "resume": self._resume,
            "suspend": self._suspend,
            "unsuspend": self._unsuspend,
            "replenish": self._replenish,
            "close": self._close,
            "archive": self._archive,
            "spawn": self._spawn,
            "hand_over": self._hand_over,
            "dismiss": self._dismiss,
            "approve": self._approve,
            "deny": self._deny,
            "answer": self._answer,
            "answer_again": self._answer_again,
        }
        self.machines = MachineUsers(self)
        self._doings.update(self.machines.doings)

    def can(self, kind: str) -> bool:
        """Return True if users do acts of this kind."""
        return kind in self._doings

    def do(self, act: Act) -> str:
        """Do something; tell what came of it. An error of ours is an answer, any other is none."""
        try:
            return self._doings[act.kind](act)
        except RunefoldError as error:
            return f"{act.kind}: {type(error).__name__}: {error}"

    # -- who is there -------------------------------------------------------------------------

    def name(self, act: Act) -> str:
        """Return the conversation that an act is about."""
        return name_of(self._sim, act)

    def session(self, name: str) -> Session:
        """Return a conversation; begin it if it is not there."""
        sim = self._sim
        try:
            return sim.runtime.session(name)
        except UnknownConversation:
            world = sim.world
            spec = agent(world, 0, sim.forgotten)
            return sim.runtime.create_session(spec, conversation_id=name, budget=budget(world))

    def state(self, name: str) -> State | None:
        """Return what is on disk of a session."""
        return self._sim.checker.session(name)

    def _agent(self, name: str, number: int) -> str:
        """Return the id of one of the agents there are; nothing for whoever is in front."""
        state = self.state(name)
        if state is None or not number:
            return ""
        return _one(state.members, number).agent_id if state.members else ""

    # -- messages -----------------------------------------------------------------------------

    def _send(self, act: Act) -> str:
        name = name_of(self._sim, act)
        session = self.session(name)
        message = f"m{len(self.sent)}"
        mode = "steer" if act.how % 2 else "queue"
        words = len(self._sim.world.words)
        word = says(act.what % words if words else 0)
        return self.send(session, message, word, self._agent(name, act.who), mode=mode)

    def send(
        self, session: Session, message: str, word: str, to: str = "", mode: str = "queue"
    ) -> str:
        """Send a message, and remember whether it arrived."""
        key = (session.id, message)
        self.sent[key] = word
        self.unsure[key] = None
        self._sim.checker.requests.sends(*key, Sent(word, to, mode))
        try:
            session.send(word, message_id=message, to=to, mode=mode)  # type: ignore[arg-type]  # one of two
        except Refused:
            self.unsure.pop(key, None)
            raise
        self.unsure.pop(key, None)
        self._sim.checker.promised(*key)
        return f"{message}: {word!r} to {to or 'whoever is in front'} of {session.id} ({mode})"

    def _resend(self, act: Act) -> str:
        if not self.sent:
            return "nothing to send again"
        name, message = _one([*self.sent], act.what)
        return "again " + self.send(self.session(name), message, self.sent[name, message])

    def _wait(self, act: Act) -> str:
        arrived = [key for key in self.sent if key not in self.unsure]
        if not arrived:
            return "nothing to wait for"
        name, message = _one(arrived, act.what)
        return self.wait(name, message, LITTLE)

    def wait(self, name: str, message: str, seconds: float) -> str:
        """Wait for the end of a message's turn, and hold what is told against the log."""
        session = self.session(name)
        # A message that is sent again leads to the same turn.
        self._sim.checker.requests.sends(name, message, Sent(self.sent[name, message], "", "queue"))
        turn = session.send(self.sent[name, message], message_id=message)
        try:
            status = turn.result(seconds).status
        except Unanswered:
            return f"{message} is still open"
        self._sim.checker.reported(name, message, _RUNES[status])
        return f"{message} is {status}"

    def _interrupt(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        return f"interrupts {session.id}: {session.interrupt(timeout=LITTLE)} turns stopped"

    # -- its course ---------------------------------------------------------------------------

    def _pause(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.pause(finish=act.how % 2 == 0)
        return f"pauses {session.id}" + (", at once" if act.how % 2 else "")

    def _resume(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.resume()
        return f"resumes {session.id}"

    def _suspend(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.suspend("somebody is worried")
        return f"suspends {session.id}"

    def _unsuspend(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.unsuspend()
        return f"unsuspends {session.id}"

    def _replenish(self, act: Act) -> str:
        name = name_of(self._sim, act)
        whose = self._agent(name, act.who) or None
        self.session(name).replenish(
            agent=whose, tokens=100, tool_calls=2, retries=2, sub_calls=2, wall_seconds=10
        )
        return f"replenishes the budget of {whose or 'the session'} of {name}"

    def _close(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.close(timeout=LITTLE)
        return f"closes {session.id}"

    def _archive(self, act: Act) -> str:
        session = self.session(name_of(self._sim, act))
        session.archive()
        return f"archives {session.id}"

    # -- agents -------------------------------------------------------------------------------

    def _spawn(self, act: Act) -> str:
        name, sim = name_of(self._sim, act), self._sim
        parent = self._agent(name, act.who) or None
        found = self.session(name).spawn(agent(sim.world, act.what, sim.forgotten), parent=parent)
        return f"spawns {found} under {parent or 'the root'} of {name}"

    def _hand_over(self, act: Act) -> str:
        name = name_of(self._sim, act)
        to = self._agent(name, act.who + 1)
        if not to:
            return "nobody to hand over to"
        self.session(name).hand_over(to)
        return f"hands {name} over to {to}"

    def _dismiss(self, act: Act) -> str:
        name = name_of(self._sim, act)
        whom = self._agent(name, act.who + 1)
        if not whom:
            return "nobody to dismiss"
        self.session(name).terminate(whom, force=act.how % 2 == 1)
        return f"dismisses {whom} of {name}" + (" by force" if act.how % 2 else "")

    # -- approvals ----------------------------------------------------------------------------

    def asked(self, conversation: str) -> Sequence[Pending]:
        """Return what waits for a human in a conversation."""
        root = self._sim.kinds.root(conversation).prefix
        fold = self._sim.checker.folds.get((conversation, root))
        return () if fold is None else fold.state.approvals

    def _asked(self, act: Act) -> tuple[str, str] | None:
        name = SYSTEM if self._sim.app.kinds and act.who % 3 == 0 else name_of(self._sim, act)
        asked = self.asked(name)
        return (name, _one(asked, act.what).call_id) if asked else None

    def _approve(self, act: Act) -> str:
        found = self._asked(act)
        return "nothing to approve" if found is None else self.say(*found, "approve")

    def _deny(self, act: Act) -> str:
        found = self._asked(act)
        return "nothing to deny" if found is None else self.say(*found, "deny")

    def _answer(self, act: Act) -> str:
        found = self._asked(act)
        return "nothing to answer" if found is None else self.say(*found, _one(VERDICTS, act.how))

    def _answer_again(self, act: Act) -> str:
        """Say something about a call that was spoken about before."""
        if not self._answered:
            return "nothing to answer again"
        name, call_id = _one(self._answered, act.what)
        verdict = _one(("approve", "deny", *VERDICTS), act.how)
        return "again " + self.say(name, call_id, verdict)

    def say(self, name: str, call_id: str, verdict: str) -> str:
        """Say something about a call that waits for a human, who does not lie."""
        truth = self._sim.truth
        self._answered.append((name, call_id))
        if self._sim.checker.call(name, call_id) is None:
            return self.machines.say(name, call_id, verdict)
        if verdict == "happened" and not truth.effects[call_id]:
            verdict = "give_up"
        if verdict == "approve":
            self._sim.runtime.do(name, Approve("ada"), call_id)
        elif verdict == "deny":
            self._sim.runtime.do(name, Deny("ada", "better not"), call_id)
        else:
            self._answer_about(name, call_id, verdict)
        self._check(name, call_id)
        self._sim.checker.requests.counts(name, call_id, verdict)
        return f"{verdict}s {call_id} of {name}"

    def _answer_about(self, name: str, call_id: str, verdict: str) -> None:
        truth = self._sim.truth
        output = None
        if verdict == "happened":
            output = "it has happened, a human says"
            truth.told.setdefault(call_id, []).append(output)
        if verdict == "rerun":
            # Before it is asked for: it may run while we still wait for the answer.
            truth.permitted[call_id] += 1
        try:
            answer = Answer("ada", verdict, output)  # type: ignore[arg-type]  # one of three
            self._sim.runtime.do(name, answer, call_id)
        except Refused:
            if verdict == "rerun":
                truth.permitted[call_id] -= 1
            raise

    def _check(self, name: str, call_id: str) -> None:
        """Hold it against the log that a human was told that the answer counts."""
        call = self._sim.checker.call(name, call_id)
        if call is None or (call.phase is CallPhase.AWAITING_APPROVAL and call.answered is None):
            told = f"a human was told that the answer about {call_id} counts; it is not on disk"
            self._sim.truth.complain("never lost", told)


def _one(several: Sequence[T], number: int) -> T:
    return several[number % len(several)]


_RUNES: Final = {"completed": "completed", "interrupted": "interrupted", "error": "error"}
