"""Plays a scenario of OTP's on our supervisor, and writes down what happens in OTP's words."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from actors.errors import Dead, StartFailed
from actors.process.process import KILLED, NORMAL, SHUTDOWN, Answer, Exit, Process, Reason
from actors.units import SECOND
from supervisors.child_spec import ChildSpec, Flags
from supervisors.errors import BadSpec, ChildNotStarted, NotDone
from supervisors.messages import (
    ChildView,
    CountChildren,
    Counts,
    DeleteChild,
    RestartChild,
    StartChild,
    StartDynamic,
    State,
    TerminateChild,
    WhichChildren,
)
from supervisors.supervisor import Supervisor

if TYPE_CHECKING:
    from actors.process.process import Down, Ref
    from tests.supervisors.worlds import World

Json = dict[str, Any]
TOP = "the top one"
SLOW = SECOND // 10

DEFAULT_FLAGS: Json = {"intensity": 10, "period": 60, "auto_shutdown": "never"}
"""What a scenario leaves out, as `scenarios.json` says."""


class Boom(Exception):
    """What a player dies of."""


HOW = {
    "crash": Exit(Reason.CRASH, Boom()),
    "normal": NORMAL,
    "shutdown": SHUTDOWN,
    "shutdown_term": Exit(Reason.SHUTDOWN, Boom()),
    "killed": KILLED,
}


class Player(Process):
    """A worker that does what the scenario says."""

    def __init__(self, play: Play, id_: str, part: Json) -> None:
        """Learn the part."""
        super().__init__(id_, play.world.lane(id_))
        self.play = play
        self.part = part
        self.attempt = play.next_attempt(id_)
        starts = part.get("starts", ["ok"])
        self.outcome: str = starts[min(self.attempt, len(starts)) - 1]
        self.n = 0
        self.watch(play.died)

    def on_start(self) -> None:
        """Start, or fail to, perhaps after a while."""
        if self.outcome.startswith("held"):
            self.play.world.hold(self.name, self.play.lanes[self.part["under"]])
        if self.outcome.endswith("fail"):
            raise Boom

    def launch(self) -> Ref:
        """Start; some die before anybody can look."""
        ref = super().launch()
        self.play.started(self)
        if self.outcome == "ok_then_crash":
            self._end(HOW["crash"])
        return ref

    def stop(self, how: Exit = SHUTDOWN) -> None:
        """Be asked to end."""
        match self.part.get("on_shutdown", "exit"):
            case "ignore":
                pass
            case "slow":
                clock = self.play.world.clock
                clock.at(clock.now() + SLOW, super().stop)
            case "normal":
                super().stop(NORMAL)
            case _:
                super().stop(how)

    def on_stop(self) -> None:
        """End, or crash on the way."""
        if self.part.get("on_shutdown") == "crash":
            raise Boom

    def on_receive(self, how: Any) -> object:  # noqa: ANN401 -- pykka's
        """Die."""
        if how.reason is Reason.CRASH:
            raise how.error
        self.finish(how)


class Director(Supervisor):
    """A supervisor of which is written down what becomes of it."""

    def __init__(self, play: Play, id_: str, part: Json) -> None:
        """Learn whom to supervise."""
        flags = Flags(**{**DEFAULT_FLAGS, **part["supervisor"]})
        children = [play.spec(child, under=id_) for child in part["children"]]
        lane = play.world.lane(id_, supervises=True)
        play.lanes[id_] = lane
        super().__init__(id_, lane, play.world.clock, children, flags)
        self.play = play
        self.attempt = play.next_attempt(id_)
        self.n = 0
        self.watch(play.died)
        play.directors[id_] = self

    def launch(self) -> Ref:
        """Start."""
        ref = super().launch()
        self.play.started(self)
        return ref


class Play:
    """One scenario, played."""

    def __init__(self, world: World, scenario: Json) -> None:
        """Begin before the start of the supervisor."""
        self.world = world
        self.scenario = scenario
        self.events: list[Json] = []
        self.lanes: dict[str, Any] = {}
        self.directors: dict[str, Director] = {}
        self.players: dict[str, Player | Director] = {}
        self._by_ref: dict[Ref, Player | Director] = {}
        self._lock = threading.Lock()
        self._attempts: Counter[str] = Counter()
        self._starts: Counter[str] = Counter()
        self._step = 0
        self._pending: dict[int, Answer] = {}
        self._stops: list[int] = []

    # -- what the actors say ------------------------------------------------------------------

    def note(self, event: str, **about: object) -> None:
        """Write down what happens."""
        with self._lock:
            self.events.append({"step": self._step, "event": event, **about})

    def next_attempt(self, id_: str) -> int:
        """Count the attempts to start a child of this id."""
        self._attempts[id_] += 1
        return self._attempts[id_]

    def started(self, who: Player | Director) -> None:
        """Write down that a start returned."""
        self._starts[who.name] += 1
        who.n = self._starts[who.name]
        self.players[who.name] = who
        self._by_ref[who.ref] = who
        if who.name != TOP:
            self.note("started", id=who.name, n=who.n)

    def died(self, down: Down) -> None:
        """Write down that somebody ended, or never began."""
        who = down.ref._process
        assert isinstance(who, Player | Director)
        if who.name == TOP:
            if who.n:
                self.note("supervisor_down", reason=str(down.exit.reason))
        elif who.n:
            self.note("stopped", id=who.name, n=who.n, reason=str(down.exit.reason))
        else:
            self.note("start_failed", id=who.name, attempt=who.attempt)

    def spec(self, part: Json, *, under: str) -> ChildSpec:
        """Turn a child of the scenario into one of ours."""
        is_supervisor = part.get("type") == "supervisor"
        shutdown = part.get("shutdown")
        if isinstance(shutdown, int):
            shutdown = shutdown / 1000

        def start(key: str = part["id"], more: Json | None = None) -> Process | None:
            if is_supervisor:
                return Director(self, key, part)
            player = Player(self, key, {**part, **(more or {}), "under": under})
            if player.outcome == "ignore":
                self.note("start_ignored", id=key, attempt=player.attempt)
                return None
            return player

        return ChildSpec(
            part["id"],
            start,
            restart=part.get("restart", "permanent"),
            shutdown=shutdown,
            type=part.get("type", "worker"),
            significant=part.get("significant", False),
        )

    # -- the steps ----------------------------------------------------------------------------

    def play(self) -> tuple[list[Json], Json]:
        """Play it all; return what happened and how it ended."""
        self._begin()
        for number, step in enumerate(self.scenario["steps"], 1):
            self._step = number
            self._do(number, step)
            self.world.settle()
            self._collect()
        return self.events, self._final()

    def _begin(self) -> None:
        failure: Json = {}
        try:
            Director(self, TOP, self.scenario).launch()
        except BadSpec as bad:
            failure = {"value": "error", "reason": "invalid_spec", "detail": bad.detail}
        except StartFailed as failed:
            cause = failed.__cause__
            assert isinstance(cause, ChildNotStarted)
            failure = {"value": "error", "reason": "failed_to_start_child", "id": cause.child}
        self.world.settle()
        self.note("result", of=0, **(failure or {"value": "ok"}))

    def _do(self, number: int, step: Json) -> None:
        match step["op"]:
            case "exit":
                players = [self.players[id_] for id_ in step["ids"]]
                if step["reason"] == "killed":
                    for player in players:
                        player.ref.kill()
                else:
                    self.world.each_hears(HOW[step["reason"]], players)
            case "stop":
                self.directors[TOP].ref.stop()
                self._stops.append(number)
            case "kill_supervisor":
                self.directors[step.get("sup", TOP)].ref.kill()
            case "release":
                self.world.release(step["id"])
            case "sleep":
                self.world.clock.advance(step["ms"] / 1000)
            case _:
                self._ask(number, step)

    def _ask(self, number: int, step: Json) -> None:
        sup = step.get("sup", TOP)
        try:
            request = self._request(step, sup)
        except BadSpec as bad:
            self._pending[number] = Answer()
            self._pending[number].fail(bad)
            return
        self._pending[number] = self.directors[sup].ref.ask_later(request)

    def _request(self, step: Json, sup: str) -> object:
        name: str | Ref = step.get("id", "")
        if step.get("by") == "pid":
            name = self.players[step["id"]].ref
        match step["op"]:
            case "start_child" if "key" in step:
                return StartDynamic(step["key"], (step,))
            case "start_child":
                return StartChild(self.spec(step["child"], under=sup))
            case "terminate_child":
                return TerminateChild(name)
            case "restart_child":
                return RestartChild(name)
            case "delete_child":
                return DeleteChild(name)
            case "which_children":
                return WhichChildren()
            case "count_children":
                return CountChildren()
        raise NotImplementedError(step)

    def _collect(self) -> None:
        """Write down the answers that have come."""
        for of, answer in [*self._pending.items()]:
            if answer.is_there():
                del self._pending[of]
                self.note("result", of=of, **self._told(of, answer))
        if not self.directors[TOP].ref.is_alive():
            for of in self._stops:
                self.note("result", of=of, value="ok")
            self._stops = []

    def _told(self, of: int, answer: Answer) -> Json:
        op = self.scenario["steps"][of - 1]["op"]
        try:
            value = answer.result()
        except NotDone as refusal:
            return {"value": "error", "reason": str(refusal.why)}
        except BadSpec as bad:
            return {"value": "error", "reason": "invalid_spec", "detail": bad.detail}
        except Dead:
            return {"value": "error", "reason": "supervisor_gone"}
        if op == "which_children":
            sup = self.scenario["steps"][of - 1].get("sup", TOP)
            return {"value": "ok", "children": self._children(sup, value)}
        if op == "count_children":
            return {"value": "ok", "counts": counted(value)}
        ignored = op in {"start_child", "restart_child"} and value is None
        return {"value": "ignored" if ignored else "ok"}

    # -- how it is ----------------------------------------------------------------------------

    def _children(self, sup: str, views: list[ChildView]) -> list[Json]:
        dynamic = self.directors[sup].flags.strategy == "simple_one_for_one"
        children: list[Json] = []
        for view in views:
            child: Json = {"id": view.id, "state": str(view.state), "type": str(view.type)}
            if view.ref is not None:
                child["n"] = self._by_ref[view.ref].n
            if dynamic and view.state is State.RESTARTING:
                child["id"] = None
            children.append(child)
        if dynamic:
            children.sort(key=lambda child: (child["id"] is None, child["id"]))
        return children

    def _asked(self, sup: str, request: object) -> Any:  # noqa: ANN401 -- of either kind
        answer = self.directors[sup].ref.ask_later(request)
        self.world.settle()
        return answer.result()

    def _state(self, sup: str) -> Json:
        children = self._children(sup, self._asked(sup, WhichChildren()))
        for child in children:
            if child["type"] == "supervisor" and child["state"] == "running":
                child.update(self._state(child["id"]))
        return {"children": children, "counts": counted(self._asked(sup, CountChildren()))}

    def _final(self) -> Json:
        top = self.directors.get(TOP)
        if top is not None and top.ref.is_alive():
            return {"alive": True, "orphans": [], **self._state(TOP)}
        orphans = [who.name for who in self._by_ref.values() if who.ref.is_alive()]
        return {"alive": False, "orphans": sorted(orphans)}


def counted(counts: Counts) -> Json:
    """Turn counts into OTP's."""
    return counts._asdict()
