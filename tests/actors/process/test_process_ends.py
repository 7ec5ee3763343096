"""How actors end, and who hears of it; also when everything happens at once."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import threading
import tracemalloc
import warnings
import weakref
from typing import TYPE_CHECKING

import pykka
import pytest

from actors.errors import Crashed, Dead, Overloaded, StartFailed
from actors.process.process import KILLED, Answer, Down, Process
from runelog.errors import Forked
from tests.actors.players import PATIENCE, RecordingProcess, Sign, raising, rest
from tests.crash.guard import survived

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Scheduler
    from actors.process.process import Exit
    from actors.scheduling.loop import Loop
    from actors.scheduling.manual_scheduler import ManualScheduler


def together(*parts: Callable[[], None]) -> None:
    """Run all parts at once, each on a thread, and wait for all."""
    gate = threading.Barrier(len(parts))
    errors: list[BaseException] = []

    def run(part: Callable[[], None]) -> None:
        gate.wait(PATIENCE)
        try:
            part()
        except BaseException as error:  # noqa: BLE001 -- raised again below
            errors.append(error)

    crew = [threading.Thread(target=run, args=(part,), daemon=True) for part in parts]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join(PATIENCE)
    assert not errors
    assert not any(thread.is_alive() for thread in crew)


# -- watching ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill", "crash", "finish"])
def test_watchers_are_told_once(scheduler: Scheduler, how: str) -> None:
    """However it ends, before or after it is watched; one that raises keeps no other from it."""
    lane = scheduler.lane("a")
    actor = RecordingProcess("a", lane)
    downs: list[Down] = []
    actor.watch(raising(SystemExit()))
    actor.watch(downs.append)
    ref = actor.launch()
    match how:
        case "stop":
            ref.stop()
        case "kill":
            ref.kill()
        case "crash":
            ref.tell(ValueError())
        case _:
            ref.tell(actor.finish)
    rest(scheduler, lane)
    ref.kill()
    ref.stop()
    rest(scheduler, lane)
    ref.watch(downs.append)
    ref.watch(raising(ValueError()))

    assert actor.exit is not None
    assert downs == [Down("a", ref, actor.exit)] * 2
    assert actor.exit.reason == {"stop": "shutdown", "kill": "killed", "finish": "normal"}.get(
        how, "crash"
    )


# -- pykka -------------------------------------------------------------------------------------


def test_pykka_knows_none_of_them(scheduler: Scheduler) -> None:
    """Its registry of all actors in the process stays empty, and to stop all stops none of ours."""
    lane = scheduler.lane("a")
    ref = RecordingProcess("a", lane).launch()
    pykka.ActorRegistry.stop_all()

    assert pykka.ActorRegistry.get_all() == []
    assert ref.is_alive()


def test_two_schedulers_do_not_know_of_each_other(
    threads: Scheduler, manual: ManualScheduler
) -> None:
    """What runs on one is not run, stopped or closed by the other."""
    here, there = RecordingProcess("x", threads.lane("x")), RecordingProcess("x", manual.lane("x"))
    here.launch()
    there.launch()
    there.ref.tell("later")
    here.ref.ask("now", threads, PATIENCE)
    here.ref.kill()

    assert there.heard == []
    assert there.ref.is_alive()
    manual.run()
    assert there.heard == ["later"]


def test_an_actor_goes_by_its_name(manual: ManualScheduler) -> None:
    """So does its reference, which also tells whether it is alive."""
    actor: Process = RecordingProcess("a", manual.lane("a"))
    ref = actor.launch()

    assert str(actor) == "a"
    assert repr(ref) == "<a: alive>"
    ref.kill()
    assert repr(ref) == f"<a: {KILLED}>"


def test_a_sign_is_awaited_like_an_answer(scheduler: Scheduler) -> None:
    """Whatever can be awaited is, by hand and on threads."""
    lane = scheduler.lane("a")
    sign = Sign()
    lane.run(sign.give)

    assert scheduler.wait(sign, PATIENCE)


# -- killed in the middle of something ---------------------------------------------------------


def test_whoever_is_killed_at_work_is_down_at_once(threads: Loop) -> None:
    """Nobody waits for what it is doing: watchers are told, the asker too, queued work is dead."""
    lane = threads.lane("a")
    actor = RecordingProcess("a", lane)
    ref = actor.launch()
    begun, go_on = Sign(), Sign()
    downs: list[Down] = []
    ref.watch(downs.append)

    def dawdle() -> str:
        begun.give()
        go_on.must_come()
        return "late"

    asked, queued = ref.ask_later(dawdle), ref.ask_later("queued")
    begun.must_come()
    ref.kill()

    assert downs == [Down("a", ref, KILLED)]
    with pytest.raises(Crashed, match="a ended at function: killed"):
        asked.result()
    with pytest.raises(Dead):
        queued.result()
    go_on.give()
    rest(threads, lane)
    assert actor.heard == [dawdle]
    assert actor.hooks == ["start"]
    assert downs == [Down("a", ref, KILLED)]
    with pytest.raises(Crashed):
        asked.result()


@pytest.mark.parametrize("end", [raising(ValueError("late")), None])
def test_what_a_killed_actor_does_in_the_end_changes_nothing(
    threads: Loop, end: Callable[..., None] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """It was killed, whatever it raises or how it says it ends; no hook is called."""
    lane = threads.lane("a")
    actor = RecordingProcess("a", lane)
    ref = actor.launch()
    begun, go_on = Sign(), Sign()

    def dawdle() -> None:
        begun.give()
        go_on.must_come()
        (end or actor.finish)()

    ref.tell(dawdle)
    begun.must_come()
    ref.kill()
    with caplog.at_level(logging.WARNING, "runefold"):
        go_on.give()
        rest(threads, lane)

    assert actor.exit == KILLED
    assert actor.hooks == ["start"]
    noted = [vars(record)["event"] for record in caplog.records]
    assert noted == (["failed_after_its_end"] if end else [])


def test_a_kill_during_the_stop_wins(threads: Loop) -> None:
    """An actor that does not come to the end of its stop can be ended; it is told of once."""
    begun, go_on = Sign(), Sign()

    class Slow(RecordingProcess):
        def on_stop(self) -> None:
            begun.give()
            go_on.must_come()

    lane = threads.lane("a")
    actor = Slow("a", lane)
    downs: list[Down] = []
    actor.watch(downs.append)
    actor.launch().stop()
    begun.must_come()
    actor.kill()
    go_on.give()
    rest(threads, lane)

    assert [down.exit for down in downs] == [KILLED]


# -- all at once -------------------------------------------------------------------------------


def outcome(answer: Answer) -> str:
    """Say how a question was answered."""
    assert answer.wait(PATIENCE)
    try:
        answer.result()
    except Dead:
        return "dead"
    except Crashed:
        return "killed"
    return "handled"


def storm(
    threads: Loop, end: Callable[[RecordingProcess], None]
) -> tuple[list[str], int, list[Exit], Exit | None]:
    """Ask, watch and end one actor from five threads at once; return what each was told."""
    lane = threads.lane("lane")
    actor = RecordingProcess("actor", lane)
    ref = actor.launch()
    answers: list[Answer] = []
    downs: list[Down] = []

    def ask() -> None:
        answers.extend(ref.ask_later(number) for number in range(30))

    def watch() -> None:
        for _ in range(5):
            ref.watch(downs.append)

    together(ask, ask, watch, watch, lambda: end(actor))
    rest(threads, lane)
    outcomes = [outcome(answer) for answer in answers]
    told = [down.exit for down in downs]
    return outcomes, len(actor.heard), told, actor.exit


@pytest.mark.parametrize("end", [RecordingProcess.stop, RecordingProcess.kill])
def test_every_question_is_answered_however_it_ends(
    threads: Loop, end: Callable[[RecordingProcess], None]
) -> None:
    """Asked, watched and ended at once: handled or dead, nobody is forgotten or told twice."""
    for _ in range(40):
        outcomes, heard, told, how = storm(threads, end)

        assert len(outcomes) == 60
        assert outcomes.count("killed") <= 1
        assert heard == 60 - outcomes.count("dead")
        assert told == [how] * 10


def test_launched_and_killed_at_once_it_ends_once(threads: Loop) -> None:
    """The launch fails or the actor is killed after it; either way it is dead and told of once."""
    for number in range(60):
        lane = threads.lane("lane")
        actor = RecordingProcess(f"actor {number}", lane)
        downs: list[Down] = []
        actor.watch(downs.append)
        asked = actor.ref.ask_later("hello")

        def launch(actor: RecordingProcess = actor) -> None:
            with contextlib.suppress(StartFailed):
                actor.launch()

        together(launch, actor.kill, actor.kill, actor.stop)
        rest(threads, lane)

        assert not actor.ref.is_alive()
        assert [down.exit for down in downs] == [actor.exit]
        assert outcome(asked) in {"handled", "dead", "killed"}


def test_what_a_small_mailbox_took_is_handled(threads: Loop) -> None:
    """Many senders, little room: what was accepted is handled once, each sender's in order."""
    lane = threads.lane("a")
    actor = RecordingProcess("a", lane, mailbox=8)
    ref = actor.launch()
    accepted: list[list[tuple[int, int]]] = [[] for _ in range(4)]

    def send(sender: int) -> None:
        for number in range(500):
            with contextlib.suppress(Overloaded):
                ref.tell((sender, number))
                accepted[sender].append((sender, number))

    together(*(functools.partial(send, sender) for sender in range(4)))
    rest(threads, lane)

    assert [[m for m in actor.heard if m[0] == sender] for sender in range(4)] == accepted


def race_for_an_answer() -> list[object]:
    """Give several answers at once; return what those who waited saw."""
    answer = Answer()
    seen: list[object] = []

    def look() -> None:
        assert answer.wait(PATIENCE)
        assert answer.is_there()
        seen.append(answer.result())

    together(*(functools.partial(answer.set, number) for number in range(3)), look, look)
    return seen


def test_answers_given_at_once_are_one() -> None:
    """Of several that are given at the same time one counts, and all who wait get that one."""
    for _ in range(100):
        first, second = race_for_an_answer()

        assert first == second


# -- at rest -----------------------------------------------------------------------------------


def test_actors_at_rest_cost_little_and_hold_no_thread(threads: Loop) -> None:
    """A few kilobytes each, lane included."""
    RecordingProcess("warm", threads.lane("warm")).launch()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        actors = [RecordingProcess("a", threads.lane("a")) for _ in range(1_000)]
        for actor in actors:
            actor.launch()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert threads.threads == 0
    assert (after - before) / len(actors) < 4_096


def test_nobody_keeps_the_dead(scheduler: Scheduler) -> None:
    """Once it has ended and nobody holds it, an actor is collected, and its lane too."""
    lane = scheduler.lane("a")
    actor = RecordingProcess("a", lane)
    actor.launch().tell("hello")
    actor.ref.tell(ValueError())
    rest(scheduler, lane)
    seen = weakref.ref(actor), weakref.ref(lane)
    del actor, lane
    gc.collect()

    assert [ref() for ref in seen] == [None, None]


def test_a_forked_child_is_told_to_start_its_own(threads: Loop) -> None:
    """The threads stayed behind in the parent: what is sent there would wait for ever.

    So it is each time, also on a lane that was busy in the parent.
    """
    over = threading.Event()
    busy = threads.lane("busy")
    busy.run(lambda: (over.wait(), None)[1])
    refs = [RecordingProcess("a", lane).launch() for lane in (threads.lane("a"), busy)]

    def child() -> None:
        for ref in [*refs, *refs]:
            with pytest.raises(Forked, match="start your own in the child"):
                ref.tell("hello")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        told = survived(child)
    over.set()

    assert told == ""
