"""What the actors of one conversation share: their lane, the log, the wards, who is alive.

All of it is used on the conversation's lane only, one message at a time, so nothing here is locked;
fragments of streams are the one exception. What was decided is ordered at once, gathered on a page
and waited for later: before something outside begins, and before a caller is answered. Whoever
hears of a rune can only append behind it, so hearing of it before it is on disk changes nothing
that a crash could take back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.album import SNAPSHOT_EVERY, Album, Standing
from actors.door import Door
from actors.errors import Dead
from actors.page import Page, head_of
from actors.redaction.redactor import DEFAULT
from actors.report import log as operator
from actors.tray import Trays
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


class Newborn(NamedTuple):
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
class Ward:
    """An entity without an actor: the actor that decides for it folds it here."""

    kind: Kind
    state: Any
    version: int


@dataclass(frozen=True, kw_only=True)
class Offices:
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
    door: Door = field(default_factory=Door)
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


class Hall:
    """Where the actors of one conversation meet."""

    def __init__(
        self,
        conversation: str,
        log: Log,
        lane: Lane,
        offices: Offices,
        kinds: Kinds,
    ) -> None:
        """Open the hall, for entities of these kinds."""
        self.conversation = conversation
        self.log = log
        self.lane = lane
        self.offices = offices
        """What an actor needs of the machine and of the app."""
        self.kinds = kinds
        self.children: Children
        self.close: Callable[[], None] = _nothing
        """Has everybody here end, and nobody started any more; for whoever keeps them alive."""
        self._wards: dict[str, Ward] = {}
        self._members: dict[str, Member] = {}
        self._newborn: dict[str, Newborn] = {}
        self.limits: Mapping[str, float] = {}
        """Seconds by `lifecycle.phase`, where a session sets time-outs of its own."""
        self.awaited: set[str] = set()
        """Entities whose actors are being started."""
        self._letters: dict[str, list[tuple[object, Any]]] = {}
        self.trays = Trays()
        """What one actor lays out for another."""
        self.page = Page(log, conversation, self._fall)
        self.found = head_of(log, conversation)
        """The last event there was before anybody was here."""
        self._album = Album(log, conversation, self.found, offices.snapshot_every)
        self.active_at = offices.clock.now()
        """When something last happened here."""
        self._answers: list[tuple[int, Callable[[], None], Callable[[Exception], None]]] = []
        """The last event that each is about, how it is given, and how it fails."""
        self._waits_for_dry = False

    # -- who is here --------------------------------------------------------------------------

    def join(self, entity: str, member: Member) -> None:
        """Come in: from now on this actor hears what its entity observes."""
        self._members[entity] = member
        self.awaited.discard(entity)
        for message, reply_to in self._letters.pop(entity, ()):
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
        for message, reply_to in self._letters.pop(entity, ()):
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
            self._letters.setdefault(entity, []).append((message, reply_to))
            return True
        operator.debug("dead_letter", actor=entity, what=type(message).__name__)
        return False

    def newborn(self, entity: str) -> Newborn | None:
        """Return the state of an entity that was born here and has no actor yet; only once."""
        return self._newborn.pop(entity, None)

    def ward(self, entity: str) -> Ward:
        """Return an entity that has no actor, as it is now."""
        ward = self._wards.get(entity)
        if ward is None:
            kind = self.kinds.passive(entity)
            assert kind is not None, entity
            found = self.replayed(kind, entity)
            ward = self._wards[entity] = Ward(kind, found.state, found.version)
        return ward

    def stamp(self, law: Lifecycle[Any, Any, Any, Any], state: object, rune: Rune) -> Rune:
        """Put the deadline into a rune that enters a phase with a time-out."""
        return stamped(law, state, rune, self.offices.clock.now(), self.limits)

    @property
    def root(self) -> Kind:
        """The kind of the entity that the conversation begins with."""
        return self.kinds.root(self.conversation)

    def exists(self, entity: str) -> bool:
        """Return True if an entity was born in this conversation, on disk or not yet."""
        if entity in self._members or entity in self._newborn or entity in self._wards:
            return True
        self.settle()
        return self.log.version(self.conversation, entity) > 0

    def pending(self, asker: str) -> tuple[str, ...]:
        """Return the approvals that an entity has asked for and that wait for an answer."""
        root = self._members.get(self.root.prefix)
        waiting = getattr(root.state, "approvals", ()) if root is not None else ()
        return tuple(each.approval_id for each in waiting if each.call_id == asker)

    def adopt(self, entity: str, ward: Ward) -> None:
        """Take in an entity that was just born and has no actor."""
        self._wards[entity] = ward

    def release(self, entity: str) -> None:
        """Forget an entity that was decided for because its actors could not."""
        self._wards.pop(entity, None)

    def forget_wards(self) -> None:
        """Look them up in the log anew."""
        self._wards.clear()

    def find_ward(self, entity: str) -> Ward | None:
        """Return an entity as it is now if it is one without an actor."""
        ward = self._wards.get(entity)
        if ward is None and self.kinds.passive(entity) is not None:
            return self.ward(entity)
        return ward

    def replayed(self, kind: Kind, entity: str) -> Newborn:
        """Return an entity's state as the log has it."""
        self.settle()
        if not self.log.version(self.conversation, entity):
            return Newborn(kind.lifecycle.initial, 0, 0)
        state, event_id, version = self._album.replayed(kind, entity)
        return Newborn(state, version, event_id)

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

    def let_go(self) -> None:
        """Drop what the actors here shared: all have ended, and others read it from the log.

        The supervisor of the actors and the hall would otherwise hold each other, and all of it,
        until the garbage collector looks for that.
        """
        self.children, self.close, self.page.on_failure = _NoChildren(), _nothing, _nothing
        self.trays.clear()
        self._wards.clear()
        self._newborn.clear()

    def _mail_of(self, entity: str) -> int:
        member = self._members.get(entity)
        return 0 if member is None else member.waiting

    # -- the log ------------------------------------------------------------------------------

    @property
    def broken(self) -> Exception | None:
        """Why what is believed here is not what the log has."""
        return self.page.failed

    def append(self, changes: Sequence[Change], *, at_once: bool = False) -> int:
        """Append to the conversation, and return the first event.

        It is ordered now, and on disk when the hall is next settled. `at_once`, the log is asked
        now whether it takes it: whoever gave us what is in it waits to be told.
        """
        first = self.page.write(changes, at_once=at_once)
        if not self._waits_for_dry:
            self._when_dry()
        return first

    def append_fragment(self, change: Change) -> int:
        """Append a piece of a stream at once, on whichever thread it came; return its event."""
        return self.page.write([change], at_once=True)

    def settle(self) -> None:
        """Wait until everything appended here is on disk."""
        self.page.settle()

    def check(self) -> None:
        """Raise if somebody here believes in what is not in the log: all begin anew from it."""
        self.page.check()

    def _fall(self) -> None:
        """Have everybody here find out that what they believe in was not kept."""
        self.lane.run(self._wake_all)

    def _wake_all(self) -> None:
        for member in [*self._members.values()]:
            member.wake()
        # Behind that: what runs outside goes on if whoever waits for it fails, rather than stops.
        self.lane.run(self.close)

    def announce(
        self, first: int, changes: Sequence[Change], births: Mapping[str, Newborn], by: str
    ) -> None:
        """Tell the actors of this conversation what they observe, in order; `by` knows already."""
        if births:
            self._newborn.update(births)
        members, newborn = self._members, self._newborn
        event_id = first
        for change in changes:
            for rune in change.runes:
                for entity in (change.entity, *change.observers):
                    if entity in members:
                        if entity != by:
                            members[entity].hear(event_id, rune)
                    elif entity in newborn and entity not in births:
                        self._tell_newborn(entity, event_id, rune)
                event_id += 1

    def _tell_newborn(self, entity: str, event_id: int, rune: Rune) -> None:
        """Have an entity that has no actor yet begin with what it observes meanwhile."""
        found = self._newborn[entity]
        state = self.kinds.births[type(found.runes[0])].lifecycle.apply(found.state, rune)
        runes = (*found.runes, rune)
        self._newborn[entity] = Newborn(state, found.version + 1, event_id, runes)

    def _standing(self) -> Iterator[Standing]:
        """Yield how everybody here stands."""
        for name, member in self._members.items():
            yield Standing(member.kind, name, member.state, member.version)
        for name, ward in self._wards.items():
            yield Standing(ward.kind, name, ward.state, ward.version)

    def answer(self, give: Callable[[], None], fail: Callable[[Exception], None]) -> None:
        """Give an answer once nothing is left to do here and everything is on disk.

        What follows from a message at once then shares a sync with it.
        """
        self._answers.append((self.page.last, give, fail))
        if not self._waits_for_dry:
            self._when_dry()

    def _when_dry(self) -> None:
        """Something happens here: see to it once nothing is left to decide."""
        self._waits_for_dry = True
        self.active_at = self.offices.clock.now()
        self.lane.when_dry(self._dry)

    def _dry(self) -> None:
        """Nothing is left to decide: hand in what there is, and give the answers."""
        self._waits_for_dry = False
        answers, self._answers = self._answers, []
        try:
            snapshot = self._album.is_due(self.page.last)
            if answers or snapshot:
                self.page.settle()
            else:
                self.page.hand_in()
            if snapshot:
                self._album.keep([*self._standing()])
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
            return self.page.kept
        # Others may have written: the same numbers may be of something else.
        return self.page.on_disk() if isinstance(error, LogFull) else 0


def _nothing() -> None:
    """Do nothing."""
