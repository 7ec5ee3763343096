"""What an entity decides at once, and which of it is in its own stream."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
import pytest

from actors.entity import Moved, Routing
from actors.kind import Kind, Kinds
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.shell.conversation import Services
from actors.shell.shell import Shell
from actors.shell.unattended import Unattended, unattended
from actors.tool.policy import Policy
from actors.tool.toolbox import Toolbox
from runefold.chance import SystemChance
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import Lifecycle, fold, refusal
from runelog.memory import MemoryLog
from runelog.rune import Rune
from tests.folding import cascade

LAMP = "lamp"
BULB = "bulb"


class Phase(StrEnum):
    """What a lamp can be."""

    OFF = "off"
    WARMING = "warming"
    ON = "on"


class Switched(Moved, frozen=True, tag="lamp.switched"):
    """Somebody pressed the button."""


class Warmed(Rune, frozen=True, tag="lamp.warmed"):
    """A bulb is warmer by one degree."""


class Lit(Rune, frozen=True, tag="lamp.lit"):
    """It shines."""


class Used(Rune, frozen=True, tag="bulb.used"):
    """A rune of the bulb, which the lamp decides; it observes it if it counts."""


class State(msgspec.Struct, frozen=True):
    """What a lamp's runes add up to."""

    phase: Phase = Phase.OFF
    degrees: int = 0
    used: int = 0


class Press(msgspec.Struct, frozen=True):
    """Switch it on."""


class Warm(msgspec.Struct, frozen=True):
    """Become warmer: a command, and due while it warms up."""


class Light(msgspec.Struct, frozen=True):
    """Shine: a command, and due once it is warm."""


class Show(msgspec.Struct, frozen=True):
    """Due outside while it is on."""


Command: TypeAlias = Press | Warm | Light


def decide(state: State, command: Command) -> list[Rune]:
    """Answer a command."""
    match state.phase, command:
        case Phase.OFF, Press():
            return [Switched(actor="user"), Used()]
        case Phase.WARMING, Warm():
            return [Warmed()]
        case Phase.WARMING, Light():
            return [Lit(), Used()]
        case _:
            raise refusal(LAMP, state.phase, command)


def evolve(state: State, rune: Rune) -> State:
    """Take in a rune."""
    match rune:
        case Warmed():
            return msgspec.structs.replace(state, degrees=state.degrees + 1)
        case Used():
            return msgspec.structs.replace(state, used=state.used + 1)
        case _:
            return state


def due(state: State) -> list[object]:
    """Say what is due."""
    match state.phase:
        case Phase.WARMING:
            return [Show(), Warm() if state.degrees < 3 else Light()]
        case Phase.ON:
            return [Show()]
        case _:
            return []


def route(_state: State, rune: Rune) -> Routing:
    """Keep the lamp's own, and leave the bulb's to the bulb."""
    return Routing(BULB) if isinstance(rune, Used) else Routing(LAMP, ("room",))


def seen(_state: State, rune: Rune) -> Routing:
    """Routing them where the lamp sees what becomes of the bulb."""
    return Routing(BULB, (LAMP,)) if isinstance(rune, Used) else Routing(LAMP)


LIFECYCLE: Lifecycle[Phase, State, Command, object] = Lifecycle(
    name=LAMP,
    table={
        Phase.OFF: {Switched: Phase.WARMING},
        Phase.WARMING: {Warmed: Phase.WARMING, Lit: Phase.ON},
        Phase.ON: {},
    },
    initial=State(),
    decide=decide,
    evolve=evolve,
    due=due,
)
ENTITY = Kind(
    prefix=LAMP,
    runes=(Switched, Warmed, Lit),
    lifecycle=LIFECYCLE,
    route=route,
    births=(Switched,),
    is_open=lambda state: state.phase is Phase.WARMING,
    internal=frozenset({Warm, Light}),
    external=frozenset({Show}),
)
WHOLE = [Switched(actor="user"), Used(), Warmed(), Warmed(), Warmed(), Lit(), Used()]


def test_what_is_due_internally_is_decided_at_once() -> None:
    """One command leads to all the runes that follow from it, in order, as one decision."""
    state, runes = cascade(ENTITY, LAMP, State(), decide(State(), Press()))

    assert runes == WHOLE
    assert state == State(phase=Phase.ON, degrees=3)


def test_nothing_decided_may_still_leave_something_due() -> None:
    """A newborn has no runes to add, and what is due internally then is decided all the same."""
    born = ENTITY.fold_and_route(LAMP, State(), [Switched()], [])
    state, runes = cascade(ENTITY, LAMP, born, [])

    assert runes == [*[Warmed()] * 3, Lit(), Used()]
    assert cascade(ENTITY, LAMP, state, []) == (state, [])


def test_a_cascade_folds_as_a_replay_does() -> None:
    """Runes for others are folded only if the entity observes them: then a replay sees them too."""
    watching = msgspec.structs.replace(State(), phase=Phase.ON, degrees=3, used=2)
    entity = Kind(
        prefix=LAMP,
        runes=(Switched, Warmed, Lit),
        lifecycle=LIFECYCLE,
        route=seen,
        births=(),
        is_open=bool,
        internal=frozenset({Warm, Light}),
    )
    blind, _ = cascade(ENTITY, LAMP, State(), decide(State(), Press()))
    state, runes = cascade(entity, LAMP, State(), decide(State(), Press()))

    assert state == watching == fold(LIFECYCLE, runes)
    assert blind == fold(LIFECYCLE, [rune for rune in runes if not isinstance(rune, Used)])


def test_what_belongs_to_others_moves_nothing_here() -> None:
    """Folded on behalf of an entity whose stream they are not in, runes leave its state alone."""
    assert ENTITY.fold_and_route("room", State(), [], []) == State()
    assert ENTITY.fold_and_route(BULB, State(), [Switched()], []) == State()
    assert ENTITY.fold_and_route("room", State(), [Switched()], []).phase is Phase.WARMING


def test_a_rune_that_cannot_be_folded_never_gets_further() -> None:
    """A decision against the table is found out before anything is appended."""
    with pytest.raises(IllegalTransition):
        cascade(ENTITY, LAMP, State(), [Lit()])


def changed(**changes: object) -> Kind:
    """Return the lamp with another law."""
    known = {
        "name": LAMP,
        "table": LIFECYCLE.table,
        "initial": State(),
        "decide": decide,
        "evolve": evolve,
        "due": due,
    }
    law: Lifecycle[Phase, State, Command, object] = Lifecycle(**{**known, **changes})  # type: ignore[arg-type]  # as above, by name
    return Kind(
        prefix=LAMP,
        runes=(Switched, Warmed, Lit),
        lifecycle=law,
        route=route,
        births=(),
        is_open=bool,
        internal=frozenset({Warm, Light}),
        single=True,
    )


def press(kind: Kind) -> None:
    """Have a lamp that is the root of a conversation decide, without an actor."""
    clock, kinds = ManualClock(), Kinds([kind])
    services = Services(
        clock=clock,
        chance=SystemChance(),
        scheduler=ManualScheduler(clock),
        models={},
        tools=Toolbox([]),
        policy=Policy(mode="full_access"),
        secret=str,
    )
    ctx = unattended("conv_1", MemoryLog(kinds.codec), services, kinds)
    Unattended(ctx, kind, LAMP).record(Press())


def test_a_law_that_goes_round_in_circles_is_a_bug() -> None:
    """An internal effect that is due for ever, or that decides nothing, is found out."""
    for_ever = changed(evolve=lambda state, _rune: state)
    nothing = changed(decide=lambda *asked: decide(*asked) if asked[0] == State() else [])

    with pytest.raises(
        AssertionError, match="lamp: what is due internally does not come to an end"
    ):
        press(for_ever)
    with pytest.raises(AssertionError, match="lamp: Warm is due and decides nothing"):
        press(nothing)


def test_an_internal_decision_that_is_refused_is_raised() -> None:
    """A law that calls for what it then refuses contradicts itself; nothing is half decided."""
    moody = changed(due=lambda state: [Light()] if state.phase is not Phase.WARMING else [])

    with pytest.raises(Refused, match="lamp is off: it cannot take Light now"):
        cascade(moody, LAMP, State(), [])


def test_an_entity_goes_by_the_name_of_its_law_and_has_no_deadline_unless_said() -> None:
    """What is not said is nothing: no deadline, nothing internal, nothing outside."""
    plain = Kind(
        prefix=LAMP,
        runes=(Switched, Warmed, Lit),
        lifecycle=LIFECYCLE,
        route=route,
        births=(),
        is_open=bool,
    )

    assert plain.name == LAMP
    assert plain.deadline(State()) is None
    assert plain.internal == plain.external == frozenset()


def test_a_transition_says_what_caused_it() -> None:
    """By default the system did, for no reason that was given."""
    assert Switched() == Switched(trigger="", actor="system")
    assert msgspec.json.decode(msgspec.json.encode(Switched(actor="user")), type=Switched) == (
        Switched(actor="user")
    )


def test_kinds_may_share_a_class_of_actors() -> None:
    """Each kind derives a class that knows it; the one that was given stays as it is."""

    class Shared(Shell):
        pass

    def of(prefix: str) -> Kind:
        return Kind(prefix=prefix, runes=(Switched,), lifecycle=LIFECYCLE, actor=Shared)

    one, two = of("one"), of("two")

    assert one.actor is not None
    assert two.actor is not None
    assert (one.actor.kind, two.actor.kind) == (one, two)
    assert issubclass(one.actor, Shared)
    assert "kind" not in vars(Shared)
