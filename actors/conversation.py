"""What the actors of one conversation share: their lane, the log, the passive entities, who is alive.

All of it is used on the conversation's lane only, one message at a time, so nothing here is locked;
fragments of streams are the one exception. What was decided is ordered at once, gathered in a buffer
and waited for later: before something outside begins, and before a caller is answered. Whoever
hears of a rune can only append behind it, so hearing of it before it is on disk changes nothing
that a crash could take back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.admission import AdmissionGate
from actors.errors import Dead
from actors.operator_log import log as operator
from actors.redaction.redactor import DEFAULT
from actors.shared_caches import SharedCaches
from actors.snapshot_policy import SNAPSHOT_EVERY, EntityState, SnapshotPolicy
from actors.write_buffer import WriteBuffer, head_of
from runelog.errors import LogFull
from runelog.lifecycle import stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.kind import Kind, Kinds
    from actors.ports import Chance, Clock, Lane, Scheduler
    from actors.redaction.redactor import Redactor
    from runelog.lifecycle import Lifecycle
    from runelog.log import Log
    from runelog.rune import Change, Rune


class StartingState(NamedTuple):
    """An entity that was just born: its state, and how many runes its stream holds."""

    state: Any
    version: int
    event_id: int
    """Of the last of them."""
    runes: tuple[Rune, ...] = ()
    """Them, if it was born here and now."""


class Member(Protocol):
    """A live actor of the conversation, as the others see it."""

    def hear(self, event_id: int, rune: Rune) -> None:
        """Take notice of a rune it observes."""
        ...

    def tell(self, message: object, reply_to: Any = None) -> None:  # noqa: ANN401 -- pykka's
        """Send it a message; `reply_to` gets the answer."""
        ...

    replayed: bool
    """Whether its state was read from the log: then there may have been one before it."""
    state: Any
    version: int
    """How many runes of its stream are in its state."""

    @property
    def kind(self) -> Kind:
        """What kind of entity it is."""
        ...

    def wake(self) -> None:
        """Have it look what is due."""
        ...

    def missed(self, entity: str) -> None:
        """Do again what is under way about an entity whose actor begins anew."""
        ...

    @property
    def waiting(self) -> int:
        """How many messages it has not read."""
        ...

    def is_idle(self) -> bool:
        """Tell whether nothing goes on that would be lost if it stopped now."""
        ...

    def held_up(self) -> tuple[str, ...]:
        """Name those that run for it and only wait for a human: they can be taken up again."""
        ...


class Children(Protocol):
    """Whoever starts actors and keeps them alive."""

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Have an actor run for an entity of an agent, if none does; it may take a moment."""
        ...


class _NoChildren:
    """Starts no actor: the conversation has ended or sleeps."""

    def ensure(self, kind: str, entity: str, agent: str) -> None:
        """Do nothing."""


@dataclass
class PassiveEntity:
    """An entity without an actor: the actor that decides for it folds it here."""

    kind: Kind
    state: Any
    version: int


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
    redactor: Redactor = DEFAULT
    """Keeps out of the log what must not be in it: see `decided`."""
    hidden: tuple[str, ...] = ()
    """Directories that programs must not see: the log's."""
    gate: AdmissionGate = field(default_factory=AdmissionGate)
    """Whether turns may still begin."""
    snapshot_every: int = SNAPSHOT_EVERY
    """After how many runes of a conversation the states of its entities are kept."""

    def decided(
        self, law: Lifecycle[Any, Any, Any, Any], state: object, command: object
    ) -> list[Rune]:
        """Have a law decide on a command, without the secrets that are in it.

        Everything that gets into the log comes through here, from apps, tools and operators alike,
        except for what a model says while it says it: all runes are decided on commands, or on what
        runes said before.
        """
        return [*law.decide(state, self.redactor.value(command))]


class ConversationContext:
    """Where the actors of one conversation meet."""

    def __init__(
        self,
        conversation: str,
        log: Log,
        lane: Lane,
        services: Services,
        kinds: Kinds,
    ) -> None:
        """Open the conversation, for entities of these kinds."""
        self.conversation = conversation
        self.log = log
        self.lane = lane
        self.services = services
        """What an actor needs of the machine and of the app."""
        self.kinds = kinds
        self.children: Children
        self.close: Callable[[], None] = _nothing
        """Has everybody here end, and nobody started any more; for whoever keeps them alive."""
        self._passive: dict[str, PassiveEntity] = {}
        self._members: dict[str, Member] = {}
        self._unstarted: dict[str, StartingState] = {}
        self.limits: Mapping[str, float] = {}
        """Seconds by `lifecycle.phase`, where a session sets time-outs of its own."""
        self.awaited: set[str] = set()
        """Entities whose actors are being started."""
        self._undelivered: dict[str, list[tuple[object, Any]]] = {}
        self.caches = SharedCaches()
        """What one actor lays out for another."""
        self.buffer = WriteBuffer(log, conversation, self._on_append_lost)
        self.head_at_start = head_of(log, conversation)
        """The last event there was before anybody was here."""
        self._snapshots = SnapshotPolicy(
            log, conversation, self.head_at_start, services.snapshot_every
        )
        self.active_at = services.clock.now()
        """When something last happened here."""
        self._answers: list[tuple[int, Callable[[], None], Callable[[Exception], None]]] = []
        """The last event that each is about, how it is given, and how it fails."""
        self._flush_scheduled = False

    # -- who is here --------------------------------------------------------------------------

    def join(self, entity: str, member: Member) -> None:
        """Come in: from now on this actor hears what its entity observes."""
        self._members[entity] = member
        self.awaited.discard(entity)
        for message, reply_to in self._undelivered.pop(entity, ()):
            member.tell(message, reply_to)
        if member.replayed:
            # What the one before it was told may have ended with it.
            for name, other in [*self._members.items()]:
                if name != entity:
                    other.missed(entity)

    def __contains__(self, entity: str) -> bool:
        """Tell whether an entity has an actor here."""
        return entity in self._members

    def leave(self, entity: str, member: Member) -> bool:
        """Go out; tell whether it was still in, and no successor has come already."""
        if self._members.get(entity) is not member:
            return False
        del self._members[entity]
        return True

    def give_up(self, entity: str) -> None:
        """Wait for an entity's actor no longer: none will come."""
        self.awaited.discard(entity)
        for message, reply_to in self._undelivered.pop(entity, ()):
            operator.debug("dead_letter", actor=entity, what=type(message).__name__)
            if reply_to is not None:
                reply_to.fail(Dead(f"{entity} could not be kept alive"))

    def tell(self, entity: str, message: object, reply_to: Any = None) -> bool:  # noqa: ANN401 -- pykka's
        """Send a message to an entity's actor, there or to come; tell whether there is one."""
        member = self._members.get(entity)
        if member is not None:
            member.tell(message, reply_to)
            return True
        if entity in self.awaited:
            self._undelivered.setdefault(entity, []).append((message, reply_to))
            return True
        operator.debug("dead_letter", actor=entity, what=type(message).__name__)
        return False

    def take_unstarted(self, entity: str) -> StartingState | None:
        """Return the state of an entity that was born here and has no actor yet; only once."""
        return self._unstarted.pop(entity, None)

    def passive(self, entity: str) -> PassiveEntity:
        """Return an entity that has no actor, as it is now."""
        passive = self._passive.get(entity)
        if passive is None:
            kind = self.kinds.passive(entity)
            assert kind is not None, entity
            found = self.replayed(kind, entity)
            passive = self._passive[entity] = PassiveEntity(kind, found.state, found.version)
        return passive

    def stamp(self, law: Lifecycle[Any, Any, Any, Any], state: object, rune: Rune) -> Rune:
        """Put the deadline into a rune that enters a phase with a time-out."""
        return stamped(law, state, rune, self.services.clock.now(), self.limits)

    @property
    def root(self) -> Kind:
        """The kind of the entity that the conversation begins with."""
        return self.kinds.root(self.conversation)

    def exists(self, entity: str) -> bool:
        """Return True if an entity was born in this conversation, on disk or not yet."""
        if entity in self._members or entity in self._unstarted or entity in self._passive:
            return True
        self.sync()
        return self.log.version(self.conversation, entity) > 0

    def pending(self, asker: str) -> tuple[str, ...]:
        """Return the approvals that an entity has asked for and that wait for an answer."""
        root = self._members.get(self.root.prefix)
        waiting = getattr(root.state, "approvals", ()) if root is not None else ()
        return tuple(each.approval_id for each in waiting if each.call_id == asker)

    def add_passive(self, entity: str, passive: PassiveEntity) -> None:
        """Take in an entity that was just born and has no actor."""
        self._passive[entity] = passive

    def drop_passive(self, entity: str) -> None:
        """Forget an entity that was decided for because its actors could not."""
        self._passive.pop(entity, None)

    def forget_passive(self) -> None:
        """Look them up in the log anew."""
        self._passive.clear()

    def find_passive(self, entity: str) -> PassiveEntity | None:
        """Return an entity as it is now if it is one without an actor."""
        passive = self._passive.get(entity)
        if passive is None and self.kinds.passive(entity) is not None:
            return self.passive(entity)
        return passive

    def replayed(self, kind: Kind, entity: str) -> StartingState:
        """Return an entity's state as the log has it."""
        self.sync()
        if not self.log.version(self.conversation, entity):
            return StartingState(kind.lifecycle.initial, 0, 0)
        state, event_id, version = self._snapshots.replayed(kind, entity)
        return StartingState(state, version, event_id)

    def is_idle(self) -> bool:
        """Tell whether nobody here would miss anything if all went home; a human is not waited for.

        What is waited for then has its deadline in the log, and wakes the conversation.
        """
        if self.awaited:
            return False
        busy = {name for name, member in self._members.items() if not member.is_idle()}
        for member in self._members.values() if busy else ():
            busy -= {name for name in member.held_up() if not self._mail_of(name)}
        return not busy

    def clear(self) -> None:
        """Drop what the actors here shared: all have ended, and others read it from the log.

        The supervisor of the actors and the conversation would otherwise hold each other, and all of it,
        until the garbage collector looks for that.
        """
        self.children, self.close, self.buffer.on_failure = _NoChildren(), _nothing, _nothing
        self.caches.clear()
        self._passive.clear()
        self._unstarted.clear()

    def _mail_of(self, entity: str) -> int:
        member = self._members.get(entity)
        return 0 if member is None else member.waiting

    # -- the log ------------------------------------------------------------------------------

    @property
    def broken(self) -> Exception | None:
        """Why what is believed here is not what the log has."""
        return self.buffer.failed

    def append(self, changes: Sequence[Change], *, at_once: bool = False) -> int:
        """Append to the conversation, and return the first event.

        It is ordered now, and on disk when the conversation is next settled. `at_once`, the log is asked
        now whether it takes it: whoever gave us what is in it waits to be told.
        """
        first = self.buffer.write(changes, at_once=at_once)
        if not self._flush_scheduled:
            self._schedule_flush()
        return first

    def append_fragment(self, change: Change) -> int:
        """Append a piece of a stream at once, on whichever thread it came; return its event."""
        return self.buffer.write([change], at_once=True)

    def sync(self) -> None:
        """Wait until everything appended here is on disk."""
        self.buffer.sync()

    def check(self) -> None:
        """Raise if somebody here believes in what is not in the log: all begin anew from it."""
        self.buffer.check()

    def _on_append_lost(self) -> None:
        """Have everybody here find out that what they believe in was not kept."""
        self.lane.run(self._wake_all)

    def _wake_all(self) -> None:
        for member in [*self._members.values()]:
            member.wake()
        # Behind that: what runs outside goes on if whoever waits for it fails, rather than stops.
        self.lane.run(self.close)

    def announce(
        self, first: int, changes: Sequence[Change], births: Mapping[str, StartingState], by: str
    ) -> None:
        """Tell the actors of this conversation what they observe, in order; `by` knows already."""
        if births:
            self._unstarted.update(births)
        members, unstarted = self._members, self._unstarted
        event_id = first
        for change in changes:
            for rune in change.runes:
                for entity in (change.entity, *change.observers):
                    if entity in members:
                        if entity != by:
                            members[entity].hear(event_id, rune)
                    elif entity in unstarted and entity not in births:
                        self._fold_unstarted(entity, event_id, rune)
                event_id += 1

    def _fold_unstarted(self, entity: str, event_id: int, rune: Rune) -> None:
        """Have an entity that has no actor yet begin with what it observes meanwhile."""
        found = self._unstarted[entity]
        state = self.kinds.births[type(found.runes[0])].lifecycle.apply(found.state, rune)
        runes = (*found.runes, rune)
        self._unstarted[entity] = StartingState(state, found.version + 1, event_id, runes)

    def _entity_states(self) -> Iterator[EntityState]:
        """Yield how everybody here stands."""
        for name, member in self._members.items():
            yield EntityState(member.kind, name, member.state, member.version)
        for name, passive in self._passive.items():
            yield EntityState(passive.kind, name, passive.state, passive.version)

    def answer(self, give: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Give an answer once nothing is left to do here and everything is on disk.

        What follows from a message at once then shares a sync with it.
        """
        self._answers.append((self.buffer.last, give, fail))
        if not self._flush_scheduled:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        """Something happens here: see to it once nothing is left to decide."""
        self._flush_scheduled = True
        self.active_at = self.services.clock.now()
        self.lane.when_idle(self._flush_and_answer)

    def _flush_and_answer(self) -> None:
        """Nothing is left to decide: hand in what there is, and give the answers."""
        self._flush_scheduled = False
        answers, self._answers = self._answers, []
        try:
            snapshot = self._snapshots.is_due(self.buffer.last)
            if answers or snapshot:
                self.buffer.sync()
            else:
                self.buffer.flush()
            if snapshot:
                self._snapshots.keep([*self._entity_states()])
        except Exception as error:  # noqa: BLE001 -- whatever it was, nobody is told it was done
            operator.warning("not_kept", conversation=self.conversation, reason=str(error))
            kept = self._kept(error) if answers else 0
            # What went wrong first: without room, the log itself is as good as ever.
            why = self.broken or error
            for last, give, fail in answers:
                if last <= kept:
                    give()
                else:
                    fail(why)
            return
        for _, give, _ in answers:
            give()

    def _kept(self, error: Exception) -> int:
        """Return the last event that is on disk although there was no room for what followed it.

        Whoever asked for that was served: told otherwise, they would ask for it a second time.
        """
        if self.broken is not None:
            return self.buffer.kept
        # Others may have written: the same numbers may be of something else.
        return self.buffer.on_disk() if isinstance(error, LogFull) else 0


def _nothing() -> None:
    """Do nothing."""
