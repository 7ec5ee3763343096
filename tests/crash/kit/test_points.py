"""Rules about points: how they are written, planned and found again."""

from __future__ import annotations

import random

import msgspec
import pytest

from actors import catalogue
from actors.agent.runes import Spawning
from actors.model.runes import AssistantDelta, Cancelled, Completed, Failed
from actors.tool.runes import Called, Progress, Rule
from runefold.testing.crash.instrumentation.journal import Handled, Hit, Memory
from runefold.testing.crash.instrumentation.logs import InProcessLog
from runefold.testing.crash.instrumentation.stable_names import Names
from runefold.testing.crash.instrumentation.watch import Watch
from runefold.testing.crash.plan import modes
from runefold.testing.crash.plan.points import (
    KINDS,
    Aim,
    Boundary,
    Effect,
    Message,
    Point,
    aims,
    meant,
    parse,
    spelled,
)
from runelog.errors import Refused
from runelog.rune import Change, Rune
from tests.laws.errands import ERRAND, Begun

TOOL = Effect("tool", "pay", "call_1")
MODEL = Effect("model", "bot", "turn_1-r0-a0")
BROKEN_OFF = Effect("model", "bot", "turn_2-r0-a0", over=False)
BOUNDARIES = [
    Boundary(1, "conv_a", ("session.created",), "conv_a session session.created", 1, 1),
    Boundary(2, "conv_a", ("model.called",), "conv_a turn_1 model.called", 1, 2, 0, (MODEL, TOOL)),
    Boundary(3, "conv_a", ("model.called",), "conv_a turn_2 model.called", 1, 3, 0, (BROKEN_OFF,)),
]
MESSAGES = [Message(1, "conv_a session Create", 1), Message(2, "conv_a session Wake", 1)]


@pytest.mark.parametrize(
    "text",
    [
        *(f"17:{kind}" for kind in KINDS),
        "3:after-effect.2",
        "17:after-commit+3:before-commit",
        "1:after-effect.3+2:after-effect+9:before-commit",
    ],
)
def test_a_point_is_read_as_it_is_written(text: str) -> None:
    """What a failure prints can be given on a command line."""
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "17", "17:", "0:after-commit", "17:sometime", "x:after-commit", "1:after-commit+"]
)
def test_what_is_no_point_is_refused(text: str) -> None:
    """A typing error is answered with how it is written and what can happen."""
    with pytest.raises(Refused, match="write it as 17:after-effect"):
        parse(text)


def test_every_boundary_has_its_three_moments() -> None:
    """Each commit is hit before and after, and after each effect that came to its end."""
    points = modes.plan("every", BOUNDARIES, MESSAGES, seed=1)

    assert [str(point) for point in points] == [
        "1:before-commit",
        "1:after-commit",
        "2:before-commit",
        "2:after-commit",
        "2:after-effect",
        "2:after-effect.2",
        "3:before-commit",
        "3:after-commit",
    ]


def test_where_a_sync_was_waited_for_later_it_is_hit_too() -> None:
    """What was appended and told, and is not on disk yet, is a moment of its own."""
    late = Boundary(1, "conv_a", ("turn.started",), "conv_a turn_1 turn.started", 1, 1, synced=True)
    points = modes.plan("every", [late], [], seed=1)

    assert [str(point) for point in points] == [
        "1:before-commit",
        "1:before-sync",
        "1:after-commit",
    ]


def test_in_double_each_point_is_hit_again() -> None:
    """A second kill falls into the recovery from the first, at each of the points."""
    points = modes.plan("double", BOUNDARIES, MESSAGES, seed=1)
    singles = modes.plan("every", BOUNDARIES, MESSAGES, seed=1)

    assert [str(point).partition("+")[0] for point in points] == list(map(str, singles))
    assert all(point.then is not None for point in points)


def test_actors_are_killed_at_each_message_and_effect() -> None:
    """Before and after each message that one handles, and before each effect that one begins."""
    points = modes.plan("actor", BOUNDARIES, MESSAGES, seed=1)

    assert len(points) == 2 * len(MESSAGES) + 3


def test_faults_befall_what_they_can() -> None:
    """A model fails as models do, a tool as tools do, and disk and clock at each commit."""
    points = modes.plan("faults", BOUNDARIES, MESSAGES, seed=1)
    models = [point for point in points if point.kind.startswith("provider-")]
    tools = [point for point in points if point.kind.startswith("tool-")]

    assert {(point.number, point.which) for point in models} == {(2, 1), (3, 1)}
    assert {(point.number, point.which) for point in tools} == {(2, 2)}
    assert sum(point.kind == "disk-full" for point in points) == len(BOUNDARIES)


def test_the_same_seed_gives_the_same_points() -> None:
    """What was chosen at random can be had again, and another seed chooses otherwise."""
    chosen = [modes.plan("random", BOUNDARIES, MESSAGES, seed, 4) for seed in (1, 1, 2)]

    assert chosen[0] == chosen[1]
    assert chosen[0] != chosen[2]
    assert all(len(points) == 4 for points in chosen)


def test_all_is_everything() -> None:
    """Mode `all` has the points of every other mode."""
    everything = modes.plan("all", BOUNDARIES, MESSAGES, seed=1)
    others = [
        point
        for mode in ("every", "double", "actor", "faults")
        for point in modes.plan(mode, BOUNDARIES, MESSAGES, seed=1)
    ]

    assert everything == others


def test_an_unknown_mode_is_refused() -> None:
    """The message names those that there are."""
    with pytest.raises(Refused, match="use one of every, random, double, actor, faults, all"):
        modes.plan("sometimes", BOUNDARIES, MESSAGES, seed=1)


def test_a_point_is_aimed_at_by_its_mark() -> None:
    """In another run the commit may have another number: it is told by what it is."""
    aim, then = aims(Point(2, "after-commit", then=Point(3, "before-commit")), BOUNDARIES)

    assert aim.is_at([("conv_a turn_1 model.called", 1)], number=99)
    assert not aim.is_at([("conv_a turn_1 model.called", 2)], number=2)
    assert then.is_at([("whatever", 7)], number=3)


def test_a_second_hit_that_is_drawn_again_is_aimed_at_by_its_mark_too() -> None:
    """A recovery may commit more or less before it; only made-up ids tell nobody anything."""
    known = [Boundary(1, "conv_a", ("turn.completed",), "conv_a turn_1 turn.completed", 1, 9)]
    made_up = [msgspec.structs.replace(known[0], mark="conv_a call_0123456789abcdef tool.result")]
    drawn = [modes.second(left, random.Random(1)) for left in (known, made_up)]

    assert {then.number for then, _ in drawn} == {1}
    assert drawn[0][1] == Aim(drawn[0][0].kind, mark="conv_a turn_1 turn.completed")
    assert drawn[1][1] == Aim(drawn[1][0].kind, number=1)


def test_a_commit_is_met_whatever_is_written_with_it() -> None:
    """What is written together is a matter of time: it is told by one rune, wherever that is."""
    (aim,) = aims(Point(2, "after-commit"), BOUNDARIES)

    assert aim.is_at([("conv_a call#1 tool.result", 1), ("conv_a turn_1 model.called", 1)], 7)


def test_an_effect_is_aimed_at_by_what_began_it() -> None:
    """Whichever commit that was in, and the how manieth of its effects it is there."""
    begun = Effect("tool", "pay", "call_1", mark="conv_a pay#1 tool.started")
    at = Boundary(1, "conv_a", ("tool.started",), "conv_a turn_1 x", 1, 1, 0, (MODEL, begun))
    effect, fault = (aims(Point(1, kind, 2), [at])[0] for kind in ("after-effect", "tool-hangs"))

    assert effect.mark == fault.mark == "conv_a pay#1 tool.started"
    assert aims(Point(1, "after-commit"), [at])[0].mark == "conv_a turn_1 x"


def test_machines_of_apps_are_named_like_ours() -> None:
    """By their kind if their ids are new in each run, else by their ids; pieces by their stream."""
    names = Names(catalogue.KINDS.plus([ERRAND]))
    drawn, given = "errand_0123456789abcdef", "errand_1"
    changes = [Change(each, 0, [Begun("bread")]) for each in (drawn, given)]

    assert names.marks("conv_system", changes) == [
        "conv_system errand#1 errand.begun",
        "conv_system errand_1 errand.begun",
    ]


def test_ids_that_are_made_up_are_numbered() -> None:
    """Others are kept: of two that begin beside each other, the first is a matter of time."""
    names = Names(catalogue.KINDS)

    assert names.talk("conv_0123456789abcdef") == "conversation#1"
    assert names.talk("2026-11-16T170102Z") == "conversation#2"
    assert names.talk("conv_0123456789abcdef") == "conversation#1"
    assert names.talk("conv_refund") == "conv_refund"


@pytest.mark.parametrize("order", [("conv_a", "conv_b"), ("conv_b", "conv_a")])
def test_calls_and_agents_are_numbered_in_their_own_conversation(order: tuple[str, ...]) -> None:
    """Of conversations beside each other it is a matter of time which one calls a tool first."""
    names = Names(catalogue.KINDS)
    marks = {talk: names.marks(talk, _begun(talk)) for talk in order}

    assert marks["conv_a"] == ["conv_a bot#1 agent.spawning", "conv_a pay#1 tool.call"]
    assert marks["conv_b"] == ["conv_b bot#1 agent.spawning", "conv_b pay#1 tool.call"]


@pytest.mark.parametrize("order", [("conv_a", "conv_b"), ("conv_b", "conv_a")])
def test_actors_are_numbered_in_their_own_conversation(order: tuple[str, ...]) -> None:
    """So that a message is found again, whoever handles one first."""
    journal = Memory()
    watch = Watch(1, journal, messages=True)
    for number, talk in enumerate(order):
        watch.receives(f"{talk}/call_{number:016x}", "tool", "hello")
    marks = [line.mark for line in journal.lines() if isinstance(line, Handled)]

    assert sorted(marks) == ["conv_a tool#1 str", "conv_b tool#1 str"]


def _begun(talk: str) -> list[Change]:
    agent, call = f"agt_{talk}", f"call_{talk}"
    called = Called(
        call_id=call,
        tool_name="pay",
        arguments={},
        caller="turn_1",
        agent_id=agent,
        rule=Rule("allow"),
        at=0,
    )
    return [
        Change(agent, 0, [Spawning(agent_id=agent, role="bot", model="bot")]),
        Change(call, 0, [called]),
    ]


@pytest.mark.parametrize("by", ["a flush", "an append"])
def test_before_a_sync_all_is_hit_that_it_takes_along(by: str) -> None:
    """Not only the last commit that nobody had waited for, and by whatever it gets to disk."""
    log = InProcessLog(lambda: 0)
    struck: list[str] = []
    aim = Aim("before-sync", mark="conv_a call_1 tool.progress")
    log.watch = Watch(1, Memory(), aim, lambda kind, _log: struck.append(kind))
    for call in ("call_1", "call_2"):
        log.append("conv_a", _said(call), durable=False)
    assert not struck
    if by == "a flush":
        log.flush("conv_a")
    else:
        log.append("conv_a", _said("call_3"))

    assert struck == ["before-sync"]


def test_what_is_waited_for_at_once_in_this_run_is_hit_before_that() -> None:
    """What is written together is a matter of time: so the point is met all the same."""
    log = InProcessLog(lambda: 0)
    heads: list[int] = []
    aim = Aim("before-sync", mark="conv_a call_1 tool.progress")
    log.watch = Watch(
        1, Memory(), aim, lambda _kind, _log: heads.append(len([*log.conversations()]))
    )
    log.append("conv_a", _said("call_1"))

    assert heads == [0]


@pytest.mark.parametrize("end", [Completed("r0"), Failed("r0", "busy"), Cancelled("r0", "enough")])
@pytest.mark.parametrize("alone", [True, False])
def test_a_fragment_that_is_no_commit_in_this_run_is_hit_with_the_end_of_its_answer(
    end: Rune, *, alone: bool
) -> None:
    """Where an answer is cut is a matter of time: its last piece may be there by itself, or not."""
    log = InProcessLog(lambda: 0)
    hits = Memory()
    aim = Aim("after-commit", mark="conv_a r0 turn.assistant_delta", occurrence=2)
    log.watch = Watch(1, hits, aim)
    one, two = AssistantDelta("yes, "), AssistantDelta("I do")
    for runes in ([one], [two], [end]) if alone else ([one], [two, end]):
        log.append("conv_a", [Change("r0", None, runes)], durable=False)
    met = [line.number for line in hits.lines() if isinstance(line, Hit)]

    assert met == [2]


def test_a_fragment_is_not_hit_with_the_end_of_another_answer() -> None:
    """Each answer has its own."""
    log = InProcessLog(lambda: 0)
    struck: list[str] = []
    aim = Aim("after-commit", mark="conv_a r1 turn.assistant_delta", occurrence=2)
    log.watch = Watch(1, Memory(), aim, lambda kind, _log: struck.append(kind))
    log.append("conv_a", [Change("r0", None, [AssistantDelta("yes"), Completed("r0")])])

    assert not struck


def _said(call: str) -> list[Change]:
    return [Change(call, 0, [Progress(call_id=call, stream="stdout", chunk="x")])]


def test_a_message_is_aimed_at_by_its_own_number() -> None:
    """Where an actor dies, the number counts messages."""
    (aim,) = aims(Point(2, "actor-before-message"), BOUNDARIES, MESSAGES)

    assert aim.mark == "conv_a session Wake"


@pytest.mark.parametrize("text", ["4:after-commit", "3:actor-before-message"])
def test_a_point_beyond_the_end_is_refused(text: str) -> None:
    """The message says how many there are."""
    with pytest.raises(Refused, match="is beyond the end: the undisturbed run has"):
        aims(parse(text), BOUNDARIES, MESSAGES)


def test_what_is_meant_is_found_whatever_its_number_is_by_then() -> None:
    """A point is written with what it is told by; in another run that has another number."""
    begun = Effect("tool", "pay", "call_1", mark="conv_a pay#1 tool.started")
    paying = Boundary(1, "conv_a", ("tool.started",), "conv_a turn_1 x", 2, 1, 0, (MODEL, begun))
    later = [*BOUNDARIES, msgspec.structs.replace(paying, number=4)]
    effect, commit = (
        meant(spelled(Point(1, kind, which), [paying], []))
        for kind, which in (("after-effect", 2), ("after-commit", 1))
    )

    assert effect.aim == Aim("after-effect", mark="conv_a pay#1 tool.started")
    assert commit.aim == Aim("after-commit", mark="conv_a turn_1 x", occurrence=2)
    assert str(effect.found(later, [])) == "4:after-effect.2"
    assert str(commit.found(later, [])) == "4:after-commit"
    assert str(effect.found(BOUNDARIES, [])) == "1:after-effect.2"


def test_a_message_that_is_meant_is_found_too() -> None:
    """Where an actor dies, it is told by what it handles."""
    one = meant(spelled(Point(2, "actor-after-message"), BOUNDARIES, MESSAGES))
    other = [Message(1, "conv_a session Look", 1), *MESSAGES[1:]]

    assert one.found([], [*other, Message(3, "conv_a session Wake", 2)]).number == 2
    assert one.aim == Aim("actor-after-message", mark="conv_a session Wake")


def test_a_number_alone_is_taken_for_what_it_is() -> None:
    """Nothing is behind it: then it is a number of this run."""
    assert meant("2:after-commit").found(BOUNDARIES, MESSAGES) == Point(2, "after-commit")
    assert meant("2:after-commit").aim is None


@pytest.mark.parametrize("text", ["2:after-commit@", "2:after-commit@conv_a", "2:x@conv_a y z 1"])
def test_what_was_copied_in_part_is_refused(text: str) -> None:
    """A point that lost its end would be looked for in vain."""
    with pytest.raises(Refused, match="is no crash point"):
        meant(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1:after-effect", r"commit 1 \(session.created in conv_a\) begins no effect"),
        ("1:actor-before-effect", "begins no effect"),
        ("2:after-effect.3", "an effect number 3, but commit 2 .* begins model bot, tool pay"),
        ("2:tool-raises", "a tool's effect, but commit 2 .* begins model bot, tool pay"),
        ("2:provider-429.2", "a model's effect number 2, but commit 2"),
    ],
)
def test_an_effect_that_a_commit_does_not_begin_is_refused(text: str, why: str) -> None:
    """It is not the app's fault that no run comes by it."""
    with pytest.raises(Refused, match=why):
        meant(text).found(BOUNDARIES, MESSAGES)


@pytest.mark.parametrize("text", ["2:after-effect.2", "2:tool-raises.2", "2:provider-429"])
def test_an_effect_that_a_commit_begins_is_hit(text: str) -> None:
    """Each by its own number, and by what can befall it."""
    assert meant(text).found(BOUNDARIES, MESSAGES) == parse(text)
