"""Words for sessions that nobody runs: they are recorded, and nothing else happens.

Where a runtime has the log open, words go to it through its socket. Where none has, whoever brings
one opens the log itself, and only for as long as it takes to write it down: no actor is started, no
model asked, no tool run and nothing recovered. So neither models nor tools need to be known here.
A message waits; a call that is approved is due. The runtime that opens the log next does the rest,
and with its own clock: nothing that is written here sets a deadline.

Secrets are kept out here too, as far as they are known by their looks. What patterns an app has of
its own is known where that runs, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from actors.catalogue import BIRTHS, CODEC, WARDS
from actors.clock import SystemClock
from actors.draft import Draft
from actors.hall import Hall, Offices
from actors.redaction.redactor import DEFAULT
from actors.session import lifecycle as ask
from actors.session.lifecycle import ENTITY as SESSION
from actors.session.lifecycle import message_entity
from actors.threads import ThreadScheduler
from actors.tool.actor import Word, meant_by
from actors.tool.lifecycle import ENTITY as TOOL
from actors.tool.policy import Policy
from actors.tool.toolbox import Toolbox
from runefold.chance import SystemChance
from runelog.errors import Refused
from runelog.rune import check_id
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from actors.entity import Entity, Placed
    from actors.ports import Clock
    from actors.session.lifecycle import State
    from runefold.spec import Budget
    from runelog.log import Log


class Letterbox:
    """A log that nobody runs, to leave a word in."""

    def __init__(self, log: Log, *, clock: Clock | None = None) -> None:
        """Write to a log that is open here and nowhere else."""
        self.log = log
        self._clock = clock or SystemClock()
        self._chance = SystemChance()

    @classmethod
    def open(cls, directory: str | Path, errand: str = "a word for a session") -> Self:
        """Open the log in a directory; `Held` if somebody has it open already.

        An app that is started meanwhile waits for the end of the `errand`.
        """
        return cls(Runelog.open(directory, CODEC, create=False, errand=errand))

    def close(self) -> None:
        """Let go of the log."""
        self.log.close()

    def __enter__(self) -> Self:
        """Return the letterbox itself; leaving the block lets go of the log."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Let go of the log."""
        self.close()

    # -- words ----------------------------------------------------------------------------------

    def send(
        self,
        session: str,
        content: str,
        *,
        mode: Literal["queue", "steer"] = "queue",
        to: str = "",
        message_id: str | None = None,
    ) -> str:
        """Leave a message; return its id once it is on disk. Its turn begins with the next open."""
        name = self._chance.id("msg") if message_id is None else message_id
        check_id(DEFAULT.value(name), "message id")
        hall = self._hall(session)
        command = ask.Accept(
            message_id=name,
            content=content,
            now=self._clock.now(),
            mode=mode,
            to=to,
            known=self.log.version(session, message_entity(name)) > 0,
            begin=False,
        )
        _Clerk(hall, SESSION, SESSION.name).record(command, at_once=True)
        return name

    def approve(self, session: str, call: str, *, approver: str) -> None:
        """Let a call run that waits for a human, as soon as somebody runs the session."""
        self._say(session, call, Word("approve", approver))

    def deny(self, session: str, call: str, *, approver: str, reason: str = "") -> None:
        """Have a call not run that waits for a human."""
        self._say(session, call, Word("deny", approver, reason))

    def answer(
        self,
        session: str,
        call: str,
        verdict: Literal["rerun", "happened", "give_up"],
        *,
        approver: str,
        output: object = None,
    ) -> None:
        """Say that a call in doubt happened, or give it up.

        To run it again is for a runtime: written down here, that would be a run that nobody saw
        end, and so be in doubt once more.
        """
        if verdict == "rerun":
            msg = f"nobody is there to run {call} again: open the runtime, and say so there"
            raise Refused(msg)
        self._say(session, call, Word(verdict, approver, output=output))

    # -- a session's course ---------------------------------------------------------------------

    def pause(self, session: str, reason: str = "", *, finish: bool = True) -> None:
        """Have no turn begin when somebody runs the session; those under way finish, or stop."""
        self._steer(session, ask.Pause(reason, finish))

    def resume(self, session: str) -> None:
        """Have it go on after a pause, as soon as somebody runs it."""
        self._steer(session, ask.Resume())

    def unsuspend(self, session: str, reason: str = "") -> None:
        """Say that somebody has seen to what it was suspended for."""
        self._steer(session, ask.Unsuspend(reason))

    def replenish(self, session: str, more: Budget, *, agent: str | None = None) -> None:
        """Raise the limits of a session's budget, or of an agent's, by so much."""
        request = self._chance.id("req")
        self._steer(session, ask.Replenish(request, agent or SESSION.name, more.amounts()))

    def close_session(self, session: str, reason: str = "") -> None:
        """Accept nothing more for a session; whoever runs it next brings it to its end."""
        self._steer(session, ask.Close(reason))

    def _steer(self, session: str, command: object) -> None:
        clerk = _Clerk(self._hall(session), SESSION, SESSION.name)
        clerk.record(command, at_once=True)

    def _say(self, session: str, call: str, word: Word) -> None:
        check_id(call, "call id")
        hall = self._hall(session)
        clerk = _Clerk(hall, TOOL, call)
        if not clerk.version or not clerk.state.call.call_id:
            msg = f"there is no call {call} in {session}"
            raise Refused(msg)
        budget = hall.ward("budget").state
        command = meant_by(word, clerk.state, budget, self._clock.now())
        # What follows from it is to follow where the call can be run, and at that time.
        clerk.record(command, at_once=False)

    def state(self, session: str) -> State:
        """Return what a session's runes add up to."""
        state: State = _Clerk(self._hall(session), SESSION, SESSION.name).state
        return state

    def _hall(self, session: str) -> Hall:
        check_id(session, "conversation id")
        self.log.conversation(session)
        if not self.log.version(session, SESSION.name):
            msg = f"{session} is no session"
            raise Refused(msg)
        # Nobody is ever in it: it finds wards, and says what is born.
        scheduler = ThreadScheduler(self._clock)
        offices = Offices(
            clock=self._clock,
            chance=self._chance,
            scheduler=scheduler,
            models={},
            tools=Toolbox(()),
            policy=Policy(mode="read_only"),
            secret=str,
        )
        return Hall(session, self.log, scheduler.lane(session), offices, BIRTHS, WARDS)


@dataclass
class _Author:
    """An entity, as whoever writes for it knows it."""

    entity: Entity
    me: str
    version: int
    noted: tuple[bool, int | None] | None
    event: int


class _Clerk:
    """Decides for one entity by its law, and writes that down."""

    def __init__(self, hall: Hall, kind: Entity, me: str) -> None:
        self._hall = hall
        self._kind = kind
        self._me = me
        found = hall.replayed(kind, me)
        self.state: Any = found.state
        self.version = found.version
        self._event = found.event_id

    def record(self, command: object, *, at_once: bool) -> None:
        """Write down what a command leads to, on disk; `at_once`, what is due inward as well."""
        kind, before = self._kind, self.state
        runes = self._hall.offices.decided(kind.lifecycle, before, command)
        if not runes:
            # It was said before.
            return
        placed: list[Placed] = []
        if at_once:
            after, placed, _ = kind.cascaded(self._me, before, runes)
        else:
            after = kind.laid_out(self._me, before, runes, placed)
        # What the index says of it is not known: a replay does not tell.
        author = _Author(kind, self._me, self.version, None, self._event)
        draft = Draft(self._hall, author, after, placed)
        self._hall.append(draft.changes)
        self._hall.settle()
