"""Real logs to walk: what seeds of the simulation and the scenarios came to, crashes included.

While they are played, every question that a law is asked is written down. So whatever is listed in
the catalogue and played brings its own states, runes and commands.
"""

from __future__ import annotations

import contextlib
import functools
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from order import ORDER

from actors.catalogue import KINDS
from actors.errors import Dead, Unanswered
from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from actors.units import SECOND
from runefold.agents import AgentTool
from runefold.spec import AgentSpec, Budget
from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.simulation import Simulation
from runefold.testing.stage import PowerCut, Stage
from runelog.lifecycle import state_hash
from runelog.rune import State as Standing
from tests.laws import purchases, trips
from tests.laws.eggs import EGG, eggs
from tests.laws.errands import ERRAND, errands, errands_of_old, recalled
from tests.laws.orders import orders
from tests.scenarios.plays import ALL
from tests.scenarios.world import PROVIDERS, Till, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from actors.kind import Kind
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from runefold.testing.stage import FragileLog
    from runelog.log import Log
    from runelog.rune import Envelope, Rune
    from tests.scenarios.app import Scenario

SEEDS: Final = (*range(50), 72, 120)
"""These reach most of what there is; scenarios reach the rest."""
CUT: Final = {
    "charges by key": 9,
    "charges": 6,
    "budget": 20,
    "expert": 15,
    "handed over": 12,
    "seen to": 6,
}
"""Scenarios that are also cut off, at these appends, and played again."""
PLAYED: Final = KINDS.plus([ERRAND, ORDER, *purchases.KINDS, *trips.KINDS, EGG])
"""The kinds in those logs: ours, and some of apps: outside of sessions, in one, and in others."""
STORED: Final = (*PLAYED.runes, *PLAYED.retired)
"""All runes that may be in a log."""
PER_COMMAND: Final = 150
"""At most so many questions with one kind of command are kept, those of the most states."""


@dataclass(frozen=True)
class Stream:
    """Everything that one entity folds, in order."""

    conversation: str
    entity: str
    kind: Kind
    runes: tuple[Rune, ...]

    def __str__(self) -> str:
        """Name it in a failure."""
        return f"{self.entity} of {self.conversation}"


@dataclass(frozen=True)
class Question:
    """A command that a law was asked, and the state that it was asked in."""

    state: Any
    command: Any
    read: tuple[Any, ...] = ()
    """The state of the entity that the law reads, if it reads one."""


@dataclass(frozen=True)
class Played:
    """What came of all that was played."""

    streams: tuple[Stream, ...]
    questions: Mapping[str, tuple[Question, ...]]
    """By the name of the kind."""

    def of(self, kind: Kind) -> list[Stream]:
        """Return the streams of one kind of entity."""
        return [each for each in self.streams if each.kind is kind]


@dataclass
class Recorder:
    """Writes down what laws are asked."""

    found: dict[str, dict[tuple[str, str], Question]] = field(default_factory=dict)
    counts: dict[tuple[str, type], int] = field(default_factory=dict)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Write down what is asked meanwhile."""
        before = {kind: kind.lifecycle.decide for kind in PLAYED}
        for kind, decide in before.items():
            object.__setattr__(kind.lifecycle, "decide", self._wrapped(kind, decide))
        try:
            yield
        finally:
            for kind, decide in before.items():
                object.__setattr__(kind.lifecycle, "decide", decide)

    def _wrapped(self, kind: Kind, decide: Callable[..., Any]) -> Callable[..., Any]:
        found = self.found.setdefault(kind.name, {})

        def asked(state: Any, command: Any, *read: Any) -> Sequence[Rune]:  # noqa: ANN401 -- of any law
            which = kind.name, type(command)
            if self.counts.get(which, 0) < PER_COMMAND:
                key = state_hash(state), repr(command)
                if key not in found:
                    found[key] = Question(state, command, read)
                    self.counts[which] = self.counts.get(which, 0) + 1
            return decide(state, command, *read)  # type: ignore[no-any-return]  # as every decide does

        return asked


@functools.cache
def played() -> Played:
    """Play everything once in each process."""
    recorder = Recorder()
    streams: list[Stream] = []
    with recorder.listening():
        for log in _logs():
            streams += streams_of(log)
    return Played(
        tuple(streams), {name: tuple(each.values()) for name, each in recorder.found.items()}
    )


def _logs() -> Iterator[Log]:
    for seed in SEEDS:
        simulation = Simulation(draw(seed))
        simulation.run()
        yield simulation.disk
    for name, scenario in ALL.items():
        yield staged(scenario)
        if name in CUT:
            yield staged(scenario, cut_at=CUT[name])
    yield held_up()
    yield without_a_model()
    yield errands()
    yield errands(cut_at=3)
    yield errands(cut_at=1, goes_on=False)
    yield recalled()
    for act in (purchases.nothing, purchases.give_back):
        for cut_at in (None, 7):
            yield purchases.story(cut_at, after=True, act=act).log
    yield purchases.elsewhere().log
    for trip in (trips.nothing, trips.hurry, trips.fail, trips.rest):
        yield trips.story(5, after=True, act=trip, card="hello").log
    yield eggs()
    yield trips.left(trips.GoHome()).log
    yield errands_of_old()
    yield orders()
    yield orders(by_hand=True)
    for cut_at in (4, 7, 9, 12):
        yield orders(cut_at=cut_at)
        yield orders(cut_at=cut_at, goes_on=False)


def streams_of(log: Log) -> list[Stream]:
    """Return what each entity of a log folds."""
    return streams_in(envelopes(log))


def streams_in(found: Iterable[Envelope]) -> list[Stream]:
    """Return what each entity folds that some runes, in their order, belong to."""
    runes: dict[tuple[str, str], list[Rune]] = {}
    kinds: dict[tuple[str, str], Kind] = {}
    for envelope in found:
        name, owner, rune = envelope.conversation, envelope.owner, envelope.payload
        for entity in dict.fromkeys((owner, *envelope.observers)):
            runes.setdefault((name, entity), []).append(rune)
        if (name, owner) not in kinds:
            # An entity begins with its birth: `KeyError` if no kind has it.
            kinds[name, owner] = PLAYED.births[type(rune)]
    return [Stream(*key, kind, tuple(runes[key])) for key, kind in kinds.items()]


# -- what is played --------------------------------------------------------------------------------


def staged(scenario: Scenario, *, cut_at: int | None = None) -> FragileLog:
    """Play a scenario on one thread, cut off after an append if one is named; return its log."""
    with tempfile.TemporaryDirectory() as place:
        till = Till(Path(place))
        stage = Stage(providers=PROVIDERS, tools=tools(till), idle_after=scenario.idle_after)
        stage.log.cut_at, stage.log.cut_after = cut_at, True
        try:
            scenario.play(stage.runtime, till)
        except (PowerCut, Dead, Unanswered):
            if not stage.log.is_cut:
                raise
        if stage.log.is_cut:
            scenario.play(stage.reopen(), till)
        stage.run()
        stage.log.flush()
    return stage.log


def held_up() -> Log:
    """Have an agent ask another one that waits for a human."""

    @tool(requires_approval=True, idempotent=True)
    def pay() -> str:
        """Pay, if a human agrees."""
        return "paid"

    def asking(request: Request) -> Reply:
        last = request.messages[-1]
        return last.text if last.role == "tool" else [call("ask", question=last.text)]

    def paying(request: Request) -> Reply:
        last = request.messages[-1]
        return last.text if last.role == "tool" else [call("pay")]

    clerk = AgentSpec(role="clerk", model="clerk", tools=["pay"])
    stage = Stage(
        providers={"chief": Scripted(asking), "clerk": Scripted(paying)},
        tools=[AgentTool("ask", clerk, "Ask a clerk."), pay],
    )
    chief = AgentSpec(
        role="chief", model="chief", tools=["ask"], budget=Budget(wall_seconds=600, tokens=9_999)
    )
    session = stage.runtime.create_session(chief, conversation_id="conv_held_up")

    def agree() -> None:
        session.approve(session.approvals()[0].call_id, approver="ada")

    # An agent that asks another one waits within it, on this one thread.
    stage.clock.at(stage.clock.now() + 60 * SECOND, agree)
    session.send("pay", message_id="m1").result(600)
    stage.log.flush()
    return stage.log


def without_a_model() -> Log:
    """Have an agent fail: it was cut off before it was ready, and its model is gone since."""
    stage = Stage(providers={"demo": Scripted(["Hello!"])})
    stage.log.cut_at, stage.log.cut_after = 1, True
    with contextlib.suppress(PowerCut, Dead):
        spec = AgentSpec(role="helper", model="demo")
        stage.runtime.create_session(spec, conversation_id="conv_alone")
    stage.change(providers={})
    stage.reopen()
    stage.run()
    stage.log.flush()
    return stage.log


def envelopes(log: Log) -> Iterator[Envelope]:
    """Yield all that was written in conversations that can be read."""
    for each in log.conversations():
        if each.state is not Standing.ERASED:
            yield from log.read(each.id)
