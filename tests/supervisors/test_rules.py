"""The pure rules, against what they are meant to say, and the supervisor against a small model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.process.process import NORMAL, SHUTDOWN
from actors.units import SECOND
from supervisors.child_spec import Flags
from supervisors.intensity import Intensity
from supervisors.messages import ChildView, Look, RestartChild, TerminateChild
from supervisors.strategy import (
    AutoShutdown,
    Restart,
    Strategy,
    Verdict,
    concerned,
    ends_too,
    verdict,
)
from tests.supervisors.cast import Manual

REASONS = ("normal", "shutdown", "killed", "crash")
NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("restart", Restart)
def test_what_an_end_means(restart: Restart, reason: str) -> None:
    """Permanent children always return, transient ones if they failed, temporary ones never."""
    expected = {
        Restart.PERMANENT: {Verdict.RESTART},
        Restart.TRANSIENT: {Verdict.RESTART if reason in {"killed", "crash"} else Verdict.KEEP},
        Restart.TEMPORARY: {Verdict.FORGET},
    }

    assert {verdict(restart, reason)} == expected[restart]


@given(st.sampled_from(Strategy), st.integers(1, 8), st.data())
def test_who_goes_with_whom(strategy: Strategy, size: int, data: st.DataObject) -> None:
    """Alone, with everybody, or with those that came later; always in the order of the start."""
    children = [str(number) for number in range(size)]
    failed = data.draw(st.integers(0, size - 1))

    group = concerned(strategy, children, str(failed))

    assert str(failed) in group
    assert group == sorted(group, key=int)
    assert (
        len(group)
        == {
            Strategy.ONE_FOR_ONE: 1,
            Strategy.SIMPLE_ONE_FOR_ONE: 1,
            Strategy.ONE_FOR_ALL: size,
            Strategy.REST_FOR_ONE: size - failed,
        }[strategy]
    )


def test_when_a_supervisor_ends_with_its_children() -> None:
    """Never, with the first significant child that ends, or with the last."""
    assert not ends_too(AutoShutdown.NEVER, others=False)
    assert ends_too(AutoShutdown.ANY_SIGNIFICANT, others=True)
    assert not ends_too(AutoShutdown.ALL_SIGNIFICANT, others=True)
    assert ends_too(AutoShutdown.ALL_SIGNIFICANT, others=False)


@given(
    limit=st.integers(0, 5),
    period=st.integers(1, 20),
    gaps=st.lists(st.integers(0, 10), max_size=40),
)
def test_only_restarts_within_the_period_count(limit: int, period: int, gaps: list[int]) -> None:
    """It is exceeded when more than the limit lie within one period that ends now."""
    intensity = Intensity(limit, period)
    now = 0
    all_times = []
    for gap in gaps:
        now += gap
        all_times.append(now)
        intensity = intensity.counting(now)

        assert intensity.exceeded == (sum(now - period <= time for time in all_times) > limit)


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=100))
def test_a_clock_that_is_set_back_does_not_add_up(times: list[int]) -> None:
    """No restart counts that lies in the future, and what is remembered has an end."""
    intensity = Intensity(limit=1_000, period=10)
    for time in times:
        intensity = intensity.counting(time)

        assert all(time - 10 <= each <= time for each in intensity.times)


class Model:
    """What is expected of a supervisor whose starts never fail, in a few lines."""

    def __init__(self, flags: Flags, restarts: dict[str, Restart]) -> None:
        """Begin with all children running for the first time."""
        self.flags = flags
        self.restarts = restarts
        self.runs: dict[str, int | None] = dict.fromkeys(restarts, 1)
        self.starts = dict.fromkeys(restarts, 1)
        self.times: list[float] = []
        self.alive = True

    def end(self, name: str, reason: str, now: float) -> None:
        """Have a child end by itself."""
        bad = reason in {"killed", "crash"}
        kind = self.restarts[name]
        if kind == Restart.PERMANENT or (kind == Restart.TRANSIENT and bad):
            self.times.append(now)
            recent = [time for time in self.times if time >= now - self.flags.period]
            if len(recent) > self.flags.intensity:
                self.alive = False
                return
            names = list(self.runs)
            first = names.index(name)
            group = {
                Strategy.ONE_FOR_ONE: [name],
                Strategy.ONE_FOR_ALL: names,
                Strategy.REST_FOR_ONE: names[first:],
            }[self.flags.strategy]
            for each in group:
                if self.restarts[each] == Restart.TEMPORARY:
                    del self.runs[each]
                else:
                    self.starts[each] += 1
                    self.runs[each] = self.starts[each]
        elif kind == Restart.TEMPORARY:
            del self.runs[name]
        else:
            self.runs[name] = None

    def terminate(self, name: str) -> None:
        """Have a child terminated by manual."""
        if self.restarts[name] == Restart.TEMPORARY:
            del self.runs[name]
        else:
            self.runs[name] = None

    def restart(self, name: str) -> None:
        """Have a child restarted by manual."""
        self.starts[name] += 1
        self.runs[name] = self.starts[name]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["end", "end", "end", "terminate", "restart", "wait"]),
        st.sampled_from(NAMES),
        st.sampled_from(REASONS),
    ),
    max_size=30,
)
STATIC = [Strategy.ONE_FOR_ONE, Strategy.ONE_FOR_ALL, Strategy.REST_FOR_ONE]


def looks(manual: Manual, top: Any) -> dict[str, int | None]:  # noqa: ANN401 -- a ref
    """Which incarnation of each child runs."""
    views: list[ChildView] = manual.ask(top, Look())
    numbers = {
        made.ref: number for them in manual.made.values() for number, made in enumerate(them, 1)
    }
    return {view.id: None if view.ref is None else numbers[view.ref] for view in views}


@settings(deadline=None, max_examples=150)
@given(
    strategy=st.sampled_from(STATIC),
    intensity=st.integers(0, 6),
    kinds=st.tuples(*[st.sampled_from(Restart)] * len(NAMES)),
    steps=STEPS,
)
def test_it_does_what_the_model_says(
    strategy: Strategy,
    intensity: int,
    kinds: tuple[Restart, ...],
    steps: list[tuple[str, str, str]],
) -> None:
    """Whatever happens, the same incarnations of the same children run, or none any more."""
    manual = Manual()
    flags = Flags(strategy, intensity, period=5)
    restarts = dict(zip(NAMES, kinds, strict=True))
    model = Model(flags, restarts)
    specs = [manual.spec(name, restart=kind) for name, kind in restarts.items()]
    top = manual.supervisor(*specs, flags=flags).launch()
    for step, name, reason in steps:
        if step == "wait":
            manual.clock.advance(2)
        elif name not in model.runs:
            continue
        elif step == "restart" and model.runs[name] is None:
            manual.ask(top, RestartChild(name))
            model.restart(name)
        elif step == "terminate":
            manual.ask(top, TerminateChild(name))
            model.terminate(name)
        elif step == "end" and model.runs[name] is not None:
            if reason == "killed":
                manual.now(name).kill()
                manual.scheduler.run()
            else:
                how = {"normal": NORMAL, "shutdown": SHUTDOWN}.get(reason, "crash")
                manual.tell(name, how)
            model.end(name, reason, manual.clock.now() / SECOND)

        assert top.is_alive() == model.alive
        if not model.alive:
            break
        assert looks(manual, top) == model.runs
    alive = [each for them in manual.made.values() for each in them if each.ref.is_alive()]

    assert len(alive) == sum(n is not None for n in model.runs.values()) * model.alive
