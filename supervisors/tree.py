"""The one tree we run: what is alive, and who keeps it so.

    runtime ── sessions ─┬─ conv_1     a house: see `supervisors.house`
                         └─ conv_2

A conversation is woken when somebody has something for it, or when its deadline comes; it goes to
sleep when nothing has happened in it for a while. Asleep it costs nothing but its place in the log,
and a thread for each agent in it that has asked another one which waits for a human.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from actors.clock import SECOND
from actors.errors import Crashed, Dead, Unanswered
from actors.hall import Hall, Offices
from actors.page import Overtaken
from actors.process import ASK_TIMEOUT
from actors.report import log as operator
from runelog.errors import Closed, LogFull, Refused, UnknownConversation, WrongVersion
from supervisors.child_spec import ChildSpec, Flags, Kind, Shutdown
from supervisors.errors import NotDone, Why
from supervisors.house import Gone, House
from supervisors.messages import StartDynamic
from supervisors.passivation import IDLE_AFTER, Bedtime
from supervisors.registry import Registry
from supervisors.strategy import Restart, Strategy
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.kind import Kinds
    from actors.process import Answer, Down, Process, Ref
    from runelog.log import Log


class Tree:
    """Everything that is alive in one runtime."""

    def __init__(
        self,
        log: Log,
        offices: Offices,
        kinds: Kinds,
        fallen: Callable[[str, BaseException | None], None],
        idle_after: float = IDLE_AFTER,
    ) -> None:
        """Begin with nobody alive; `fallen` is told of a conversation that cannot be kept so.

        A conversation in which nothing happened for `idle_after` seconds goes to sleep.
        """
        self.log = log
        self.offices = offices
        self.kinds = kinds
        self._fallen = fallen
        self._lock = threading.Lock()
        self.stirs = threading.Condition(self._lock)
        """Told whenever a conversation wakes, and when all is over."""
        self._houses: dict[str, House] = {}
        self._letters: dict[str, object] = {}
        """What a session is to read before it does anything, by conversation."""
        self._closed = False
        self._bedtime = Bedtime(log, offices, kinds, idle_after, self._rouse)
        self.registry = Registry()
        scheduler, clock = offices.scheduler, offices.clock
        self._sessions = Supervisor(
            "sessions",
            scheduler.lane("sessions"),
            clock,
            [ChildSpec("session", self._house, restart=Restart.TEMPORARY, type=Kind.SUPERVISOR)],
            Flags(strategy=Strategy.SIMPLE_ONE_FOR_ONE),
        )
        self.top = Supervisor(
            "runtime",
            scheduler.lane("runtime"),
            clock,
            [
                ChildSpec(
                    "sessions",
                    lambda: self._sessions,
                    restart=Restart.TEMPORARY,
                    type=Kind.SUPERVISOR,
                    shutdown=Shutdown.INFINITY,
                )
            ],
        )
        self._over = Gone(self.top)
        self.top.launch()

    def _house(self, conversation: str) -> Process:
        lane = self.offices.scheduler.lane(conversation)
        hall = Hall(conversation, self.log, lane, self.offices, self.kinds)
        house = House(hall)
        supervisor = house.supervise()
        with self._lock:
            self._houses[conversation] = house
            self.stirs.notify_all()
            letter = self._letters.pop(conversation, None)
        if letter is not None:
            hall.awaited.add(house.root)
            hall.tell(house.root, letter)
        supervisor.watch(lambda down: self._down(conversation, house, down))
        self._bedtime.woken(house)
        return supervisor

    def _rouse(self, conversation: str) -> None:
        """Have a conversation wake, without waiting for it."""
        if not self._closed and self.house(conversation) is None:
            self._sessions.ref.notify(StartDynamic(conversation))

    def _rouse_later(self, conversation: str) -> None:
        clock = self.offices.clock
        clock.at(clock.now() + RETRY, lambda: self._rouse(conversation))

    def _down(self, conversation: str, house: House, down: Down) -> None:
        with self._lock:
            if self._houses.get(conversation) is house:
                del self._houses[conversation]
        page = house.hall.page
        try:
            # What was decided last. Nobody is left who could decide more, or hear that it is lost.
            (page.hand_in if self._closed else page.settle)()
        except Exception as error:  # noqa: BLE001 -- as if it had been killed a moment before
            operator.warning("not_kept", conversation=conversation, reason=str(error))
        house.ended(down)
        if self._closed:
            return
        self.log.rest(conversation)
        broken = house.hall.broken
        if house.left:
            self._bedtime.asleep(conversation)
            missed = house.stirred if broken is None else isinstance(broken, LogFull)
            if missed and self._has_work(conversation):
                # A deadline came as it fell asleep, or there was no room for what it had decided:
                # whoever has to hear of that was gone.
                self._rouse_later(conversation)
            return
        reason = str(down.exit if broken is None else broken)
        operator.error("session_fell", conversation=conversation, reason=reason)
        if isinstance(broken, LogFull | WrongVersion | Overtaken):
            # Nothing is wrong with it. It goes on as soon as there is room; or somebody else wrote
            # to it, and it begins anew from what is there. Not at once: its supervisor has yet to
            # hear of its end. Whoever asks for it meanwhile waits for that, and wakes it.
            self._rouse_later(conversation)
        elif broken is None or isinstance(broken, Refused):
            self._fallen(conversation, broken or down.exit.error)

    def _has_work(self, conversation: str) -> bool:
        """Tell whether the log says that something is left to do in a conversation."""
        try:
            return any(True for _ in self.log.open_work(conversation))
        except UnknownConversation:
            return False

    # -- reaching a conversation ----------------------------------------------------------------

    def awake(self) -> list[str]:
        """Name the conversations that are awake."""
        with self._lock:
            return sorted(self._houses)

    def house(self, conversation: str) -> House | None:
        """Return the house of a conversation that is awake."""
        with self._lock:
            return self._houses.get(conversation)

    def stirs_in(self, conversation: str) -> bool:
        """Tell, to whoever holds `stirs`, whether a conversation is awake, or all is over."""
        house = self._houses.get(conversation)
        return self._closed or (house is not None and not house.left)

    def wake(self, conversation: str, letter: object = None) -> House:
        """Return the house of a conversation; start it if it sleeps. For the edge: it may wait.

        A session that is started reads the `letter` before it does anything.
        """
        if self._closed:
            msg = "this runtime has been closed: open it again"
            raise Closed(msg)
        house = self.house(conversation)
        if house is not None and house.left:
            self.offices.scheduler.wait(house.gone, ASK_TIMEOUT)
        elif house is not None and house.supervisor.is_alive():
            return house
        if letter is not None:
            with self._lock:
                self._letters[conversation] = letter
        for _ in range(_TRIES):
            self.registry.ensure(conversation, lambda: self._start(conversation))
            found = self.house(conversation)
            if found is not None:
                return found
            # Gone to sleep again already: on a busy machine it may take us long to get here.
        msg = f"{conversation} ended as soon as it was started, {_TRIES} times in a row"
        raise Dead(msg)

    def _start(self, conversation: str) -> Ref:
        for _ in range(_LOOKS):
            try:
                ref: Ref = self._sessions.ref.ask(
                    StartDynamic(conversation), self.offices.scheduler
                )
            except NotDone as refusal:
                if refusal.why is Why.START_FAILED:
                    raise
                house = self.house(conversation)
                if house is None or house.gone.is_there():
                    # It is gone, and its supervisor has yet to hear of that.
                    self.offices.scheduler.wait(self._over, _PAUSE)
                elif house.left:
                    self.offices.scheduler.wait(house.gone, ASK_TIMEOUT)
                else:
                    # Its alarm rang meanwhile.
                    return house.supervisor
                continue
            return ref
        msg = f"{conversation} can neither be started nor found"
        raise Dead(msg)

    def ask(
        self,
        conversation: str,
        message: object,
        timeout: float | None = ASK_TIMEOUT,
        before: Callable[[], object] | None = None,
        promised: Answer | None = None,
        *,
        rouse: bool = True,
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Ask the session of a conversation, awake or not. For the edge: it waits.

        If the session ends before it answers, it is asked again, unless `before` has the answer.
        However often it sleeps meanwhile, `timeout` is for all of it. If it has `promised` to
        answer, it is not asked as long as it lives. Unless it is to `rouse` it, one that has gone
        to sleep meanwhile is asked again when somebody else has woken it.
        """
        clock, scheduler = self.offices.clock, self.offices.scheduler
        until = None if timeout is None else clock.now() + round(timeout * SECOND)
        crashes, left = 0, timeout
        while True:
            asked: tuple[House, Ref] | None = None
            if promised is None:
                house = self.wake(conversation)
                asked = house, house.session
                promised = house.session.ask_later(message)
            if not scheduler.wait(promised, left):
                msg = (
                    f"{conversation} gave no answer to {type(message).__name__} within {timeout} s;"
                    " it may still be handled"
                )
                raise Unanswered(msg)
            try:
                return promised.result()
            except (Dead, Crashed) as error:
                # Gone to sleep, as it may; or crashed and about to be started again.
                promised = None
                if asked is not None:
                    house, session = asked
                    crashes += not house.left
                    if crashes == _TRIES:
                        if isinstance(full := house.hall.broken, LogFull):
                            msg = f"{conversation} was asked {_TRIES} times in vain: {full}"
                            raise LogFull(msg) from error
                        raise
                    house.replaced(session, scheduler)
            if before is not None and (found := before()) is not None:
                return found
            if until is not None:
                left = max(until - clock.now(), 0) / SECOND
            if not rouse and asked is not None and asked[0].left:
                scheduler.wait(_Stirring(self, conversation), left)
                left = None if until is None else max(until - clock.now(), 0) / SECOND

    # -- the end --------------------------------------------------------------------------------

    def put_to_sleep(self, conversation: str) -> None:
        """Have the actors of a conversation stop, and wait until they have."""
        house = self.house(conversation)
        if house is not None:
            house.leave()
            self.offices.scheduler.wait(house.gone, ASK_TIMEOUT)

    def close(self, timeout: float | None = ASK_TIMEOUT) -> None:
        """Have everybody stop."""
        self._closed = True
        with self._lock:
            self.stirs.notify_all()
            houses = [*self._houses.values()]
        for house in houses:
            house.left = True
        self.top.ref.stop()
        self.offices.scheduler.wait(self._over, timeout)


class _Stirring:
    """That a conversation which sleeps is awake again, to wait for; or that all is over."""

    def __init__(self, tree: Tree, conversation: str) -> None:
        self._tree = tree
        self._conversation = conversation

    def is_there(self) -> bool:
        """Tell whether it is."""
        with self._tree.stirs:
            return self._tree.stirs_in(self._conversation)

    def wait(self, timeout: float | None) -> bool:
        """Wait until it is; tell whether it is."""
        with self._tree.stirs:
            return self._tree.stirs.wait_for(
                lambda: self._tree.stirs_in(self._conversation), timeout
            )


_TRIES = 10
_PAUSE = 0.02
_LOOKS = round(ASK_TIMEOUT / _PAUSE)
RETRY = 5 * SECOND
"""How long to wait before a conversation is woken that found no room, or was overtaken."""
