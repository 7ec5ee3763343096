"""What the actors of one conversation share: lane, log, write buffer, live actors, caches.

All of it is used on the thread that runs the lanes, one message at a time, so nothing here is
locked. A decision is numbered and put into the write buffer at once. It is on disk later, behind a
commit that all conversations share; external effects begin and callers are answered behind that.
What it means to other entities is folded with it, before it is on disk. That is safe: what they
append goes behind it, so a crash that loses the rune loses what followed from it too.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.errors import Dead, Overloaded
from actors.operator_log import log as operator
from actors.process.ref import log_dead_letter
from actors.redaction.redactor import DEFAULT
from actors.shell.admission import AdmissionGate
from actors.shell.commit_member import CommitMember
from actors.shell.entities import PassiveEntity, StartingState
from actors.shell.mail import Mail
from actors.shell.shared_caches import SharedCaches
from actors.shell.snapshot_policy import SNAPSHOT_EVERY, EntityState, SnapshotPolicy
from actors.shell.write_buffer import WriteBuffer, head_of
from actors.units import SECOND
from runelog.errors import RunefoldError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, MutableSet, Sequence

    from actors.children import Child
    from actors.entity import Origin
    from actors.kind import Kind, Kinds
    from actors.ports import Chance, Clock, Lane, Scheduler
    from actors.redaction.redactor import Redactor
    from actors.shell.entities import LiveActor, Newborn
    from runelog.log import Log
    from runelog.rune import Change, Rune


MOST_BEGUN: Final = 1_024
"""So many messages are remembered by the events in which they were accepted."""
LONGEST_REST: Final = SECOND // 20
"""How long others go first after a step of beginning the next segment, at most."""


class Children(Protocol):
    """Starts actors and restarts those that crash."""

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Start an actor for an entity of an agent, if none runs; it may start later."""
        ...


class _NoChildren:
    """Starts no actor: the conversation has ended or was passivated."""

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """What an actor needs of the machine and of the app."""

    clock: Clock
    chance: Chance
    scheduler: Scheduler
    models: Any
    """Gives a provider by name."""
    tools: Any
    """The toolbox."""
    policy: Any
    """Which calls pass, which a human is asked about, which are denied."""
    secret: Callable[[str], str]
    """Gives the value of a secret by its name, or raises."""
    app: Any = None
    """The object of the app's that its tools, probes and policy are given."""
    running_calls: Any = None
    """The runs of tools that are under way; None where no tool can run."""
    redactor: Redactor = DEFAULT
    """Keeps out of the log what must not be in it: see `decided`."""
    hidden: tuple[str, ...] = ()
    """Directories that programs must not see: the log's."""
    mail: Mail = field(default_factory=Mail)
    """Takes messages to other conversations."""
    gate: AdmissionGate = field(default_factory=AdmissionGate)
    """Whether turns may still begin."""
    speaking: MutableSet[Any] = field(default_factory=weakref.WeakSet)
    """The answers of models that are under way and have begun, in all conversations."""
    snapshot_every: int = SNAPSHOT_EVERY
    """After how many runes of a conversation the states of its entities are kept."""


class ConversationContext(CommitMember):
    """What the actors of one conversation share. `conversation` is its id."""

    def __init__(
        self,
        conversation: str,
        log: Log,
        lane: Lane,
        services: Services,
        kinds: Kinds,
    ) -> None:
        """Begin without any actor, for entities of these kinds."""
        buffer = WriteBuffer(log, conversation, self._on_append_lost)
        super().__init__(conversation, buffer, services.clock, services.scheduler)
        self.log = log
        self.lane = lane
        self.services = services
        """What an actor needs of the machine and of the app."""
        self.kinds = kinds
        self.root: Final = kinds.root(conversation)
        """The kind of the entity that the conversation begins with."""
        self.children: Children
        self.close: Callable[[], None] = _nothing
        """Stops all actors and starts no more; set by the conversation's supervisor."""
        self._passive: dict[str, PassiveEntity] = {}
        self._members: dict[str, LiveActor] = {}
        self._unstarted: dict[str, Newborn] = {}
        self._begun: dict[str, int] = {}
        """Where messages were accepted lately, by their streams."""
        self.awaited: set[str] = set()
        """Entities whose actors are being started."""
        self._undelivered: dict[str, list[tuple[object, Any]]] = {}
        self.caches = SharedCaches()
        """What actors of the conversation keep in memory for each other."""
        self.read_ahead: dict[str, StartingState] = {}
        """What entities came to, as it was read while the conversation was waking."""
        self.head_at_start = head_of(log, conversation)
        """The last event that the log had when this context was made."""
        self._snapshots = SnapshotPolicy(
            log, conversation, self.head_at_start, services.snapshot_every
        )
        self.halted: set[str] = set()
        """Entities with something to begin outside, which wait as long as they are paused."""

    # -- actors and entities ------------------------------------------------------------------

    def join(self, entity: str, member: LiveActor) -> None:
        """Register an actor: from now on it is handed the states that other decisions lead to."""
        self._members[entity] = member
        self.awaited.discard(entity)
        for message, reply_to in self._undelivered.pop(entity, ()):
            member.tell(message, reply_to)
        if member.replayed:
            # Messages to the actor that it replaces may be lost: others send them again.
            for name, other in [*self._members.items()]:
                if name != entity:
                    other.resend_to(entity)

    def __contains__(self, entity: str) -> bool:
        """Return True if an entity has a live actor."""
        return entity in self._members

    def leave(self, entity: str, member: LiveActor) -> bool:
        """Unregister an actor; return False if it was not registered, or was replaced already."""
        if self._members.get(entity) is not member:
            return False
        del self._members[entity]
        return True

    def give_up(self, entity: str) -> None:
        """Fail the messages that wait for an entity's actor: it will not be started."""
        self.awaited.discard(entity)
        for message, reply_to in self._undelivered.pop(entity, ()):
            log_dead_letter(f"{self.conversation}/{entity}", message)
            if reply_to is not None:
                reply_to.fail(Dead(f"{entity} could not be kept alive"))

    def tell(self, entity: str, message: object, reply_to: Any = None) -> bool:  # noqa: ANN401 -- pykka's
        """Send a message to an entity's actor, live or starting; return False if there is none."""
        member = self._members.get(entity)
        if member is not None:
            member.tell(message, reply_to)
            return True
        if entity in self.awaited:
            self._undelivered.setdefault(entity, []).append((message, reply_to))
            return True
        log_dead_letter(f"{self.conversation}/{entity}", message)
        return False

    def take_unstarted(self, entity: str) -> Newborn | None:
        """Return and forget an entity that was born here and has no actor yet."""
        return self._unstarted.pop(entity, None)

    def passive(self, entity: str) -> PassiveEntity:
        """Return the present state of an entity without an actor, or whose actors kept crashing."""
        passive = self._passive.get(entity)
        if passive is None:
            kind = self.kinds.of(entity)
            assert kind is not None, entity
            found = self.replayed(kind, entity)
            passive = self._passive[entity] = PassiveEntity(kind, found.state, found.version)
        return passive

    def decided(self, kind: Kind, state: object, command: object) -> list[Rune]:
        """Redact the secrets in a command, then let a kind's law decide on it.

        Every rune goes through here, whether an app, a tool or an operator caused it; the only
        exception are the fragments of a model's answer, which are redacted as they stream in. What
        the law reads is folded from the log: it was redacted before it was appended.
        """
        command = self.services.redactor.value(command)
        return [*kind.lifecycle.decided(state, command, self.read)]

    def read(self, entity: str) -> object:
        """Return the present state of an entity without an actor, for a law that reads it."""
        return self.passive(entity).state

    def exists(self, entity: str) -> bool:
        """Return True if an entity was born in this conversation, on disk or not yet."""
        if entity in self._members or entity in self._unstarted or entity in self._passive:
            return True
        self.sync()
        return self.log.version(self.conversation, entity) > 0

    def birth(self, entity: str) -> Rune | None:
        """Return the first rune of a stream, on disk or not yet; None if there is none."""
        self.sync()
        if not self.log.version(self.conversation, entity):
            return None
        first = next(iter(self.log.stream(self.conversation, entity)), None)
        return None if first is None else first.payload

    def pending(self, asker: str) -> tuple[str, ...]:
        """Return the approvals that an entity has asked for and that wait for an answer."""
        waiting = self.root.questions(self._root_state())
        return tuple(approval_id for approval_id, by in waiting.items() if by == asker)

    def child(self, entity: str) -> Child | None:
        """Return the entry of an entity in the root's table of children, as of now."""
        table: Iterable[Child] = self._root_state().children
        return next((each for each in table if each.child == entity), None)

    def is_halted(self, entity: str) -> bool:
        """Return True if an entity is to begin nothing outside: a parent above it is paused."""
        while (found := self.child(entity)) is not None and found.on_pause == "pause":
            # The first in a line was born by the root.
            entity = found.parent or self.root.prefix
            kind = self.kinds.of(entity)
            if kind and kind.pauses and self.state_of(kind, entity).phase in kind.pauses:
                return True
        return False

    def origin(self) -> Origin:
        """Return what the conversation's root says of whom it is for."""
        return self.root.origin(self._root_state())

    def name_of(self, agent: str) -> str:
        """Return what an agent is called, also once it has ended; nothing for one that is none."""
        kind = self.kinds.of(agent)
        return "" if kind is None else str(getattr(self.state_of(kind, agent), "name", ""))

    def state_of(self, kind: Kind, entity: str) -> Any:  # noqa: ANN401 -- of whichever law
        """Return the present state of an entity with an actor, live or not."""
        member = self._members.get(entity)
        return self.replayed(kind, entity).state if member is None else member.state

    def note_begun(self, streams: Iterable[str], event_id: int) -> None:
        """Remember in which event something begins that others will follow from by its name."""
        if len(self._begun) > MOST_BEGUN:
            self._begun.clear()
        for stream in streams:
            self._begun[stream] = event_id

    def event_of(self, entity: str) -> int:
        """Return the event that others follow from which an entity, or a message, has led to.

        That is the last that a live actor knows of, or the first in the log; 0 if there is none.
        """
        # Each leads to one turn; whatever asks again finds it in the log.
        found = self._begun.pop(entity, None)
        if found is not None:
            return found
        member = self._members.get(entity)
        if member is not None:
            return member.event
        self.sync()
        first = next(iter(self.log.stream(self.conversation, entity)), None)
        return 0 if first is None else first.event_id

    def forget_index_entry(self, entity: str) -> None:
        """Have an entity's actor write its entry in the index anew with its next append."""
        if (member := self._members.get(entity)) is not None:
            member.index_entry = None

    def wake_halted(self) -> None:
        """Have entities that were paused look again what they may begin."""
        while self.halted:
            self.wake(self.halted.pop())

    def wake(self, entity: str) -> None:
        """Have an entity's actor look what is due, if it has one."""
        if (member := self._members.get(entity)) is not None:
            member.wake()

    def _root_state(self) -> Any:  # noqa: ANN401 -- of whichever law
        return self.state_of(self.root, self.root.prefix)

    def add_passive(self, entity: str, passive: PassiveEntity) -> None:
        """Keep the state of an entity without an actor of its own."""
        self._passive[entity] = passive

    def add_newborn(self, entity: str, newborn: Newborn) -> None:
        """Keep the state of an entity until its actor starts."""
        self._unstarted[entity] = newborn

    def drop_passive(self, entity: str) -> None:
        """Forget an entity that another actor decided for because its own actors kept crashing."""
        self._passive.pop(entity, None)

    def reread_passive(self) -> None:
        """Read the states of all passive entities from the log again."""
        for entity, passive in self._passive.items():
            passive.state, passive.version, _ = self.replayed(passive.kind, entity)

    def find(self, entity: str) -> LiveActor | PassiveEntity | None:
        """Return an entity as it is now, with an actor or without.

        None for one whose actor has ended and not begun anew: the next one reads it from the log.
        """
        found = self._passive.get(entity)
        if found is not None:
            return found
        member = self._members.get(entity)
        if member is not None:
            return member if member.exit is None else None
        if self.kinds.passive(entity):
            return self.passive(entity)
        return self._unstarted.get(entity)

    def replayed(self, kind: Kind, entity: str) -> StartingState:
        """Return an entity's state as the log has it."""
        self.sync()
        version = self.log.version(self.conversation, entity)
        if not version:
            return StartingState(kind.lifecycle.initial, 0, 0)
        ahead = self.read_ahead.pop(entity, None)
        if ahead is not None and ahead.version == version:
            return ahead
        state, event_id, version = self._snapshots.replayed(kind, entity)
        return StartingState(state, version, event_id)

    def is_idle(self) -> bool:
        """Return True if the conversation can be passivated; waiting for a human counts as idle.

        What is waited for has its deadline in the log, which wakes the conversation in time.
        """
        if self.awaited or self._commits_soon:
            return False
        busy = {name for name, member in self._members.items() if not member.is_idle()}
        for member in self._members.values() if busy else ():
            busy -= {name for name in member.held_up() if not self._mail_of(name)}
        return not busy

    def clear(self) -> None:
        """Drop what the actors shared, now that all have ended; it can be read from the log.

        This context and its supervisor refer to each other: without this, all of it would stay in
        memory until the garbage collector runs.
        """
        self.children, self.close, self.buffer.on_failure = _NoChildren(), _nothing, _nothing
        self.caches.clear()
        self.read_ahead.clear()
        self._passive.clear()
        self._unstarted.clear()

    def _mail_of(self, entity: str) -> int:
        member = self._members.get(entity)
        return 0 if member is None else member.waiting

    # -- the log ------------------------------------------------------------------------------

    def append(
        self, changes: Sequence[Change], touched: Iterable[str], *, at_once: bool = False
    ) -> int:
        """Append to the conversation, and return the first event; `touched` are all it concerns.

        It has its event ids now, and is on disk after the next `sync`. With `at_once`, it goes to
        the log now, so that the caller who waits for an answer learns if the log refuses it.
        """
        first = self.buffer.write(changes, touched, at_once=at_once)
        if not self._commits_soon:
            self.commit_soon()
        return first

    def append_fragment(self, change: Change, *, first: bool) -> int:
        """Append a piece of a stream at once; return its event. What the log refuses is raised.

        The `first` takes part in the next commit. The others wait for that of a decision, or for
        the log, which commits by itself within a moment what nothing waits for.
        """
        event_id = self.buffer.write([change], (), at_once=True)
        if first:
            self.commit_soon()
        return event_id

    def sync(self) -> None:
        """Wait until everything appended here is on disk, so that it can be read from the log.

        For what is seldom: all actors of the runtime wait meanwhile.
        """
        self.buffer.sync()

    def check(self) -> None:
        """Raise if an append was lost: states in memory are not those of the log."""
        self.buffer.check()

    def _on_append_lost(self) -> None:
        """Wake every actor so that its next check fails, then stop the conversation."""
        self.lane.run(self._wake_all)

    def _wake_all(self) -> None:
        for member in [*self._members.values()]:
            member.wake()
        # After that: an actor that fails leaves its running tools alone, one that stops ends them.
        self.lane.run(self.close)

    def _entity_states(self) -> Iterator[EntityState]:
        """Yield the present state of every entity that is in memory."""
        for name, member in self._members.items():
            yield EntityState(member.kind, name, member.state, member.version)
        for name, passive in self._passive.items():
            yield EntityState(passive.kind, name, passive.state, passive.version)

    def _look_after_log(self) -> None:
        steps = self.log.rolling()
        if steps is not None:
            with contextlib.suppress(Overloaded):
                self._scheduler.work("segment", self._roll(steps))
        last = self.buffer.last
        if self._snapshots.is_due(last):
            # Beside the actors: states do not change, and writing them takes a while. If there is
            # no thread for it, the next commit tries again.
            with contextlib.suppress(Overloaded):
                steps = self._snapshots.keep([*self._entity_states()])
                self._scheduler.work(f"{self.conversation} snapshot", steps)
                self._snapshots.begun(last)

    def _roll(self, steps: Iterator[None]) -> Iterator[int | None]:
        """Begin the next segment of the log beside the actors, no longer than half of the time."""
        clock = self.services.clock
        try:
            begun = clock.now()
            for _ in steps:
                now = clock.now()
                yield now + min(now - begun, LONGEST_REST)
                begun = clock.now()
        except RunefoldError as error:
            # As long as there is room, appends go on in the old one; and it is tried again.
            operator.warning("segment_not_begun", reason=str(error))


def _nothing() -> None:
    """Do nothing."""
