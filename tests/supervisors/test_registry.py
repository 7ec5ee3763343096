"""Who lives under which id."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from actors.errors import Unanswered
from supervisors.errors import NameTaken
from supervisors.registry import Registry
from tests.supervisors.cast import Boom, Manual, Worker

if TYPE_CHECKING:
    from actors.process.process import Ref

LONG = 20.0


@pytest.fixture
def manual() -> Manual:
    """One lane, one thread."""
    return Manual()


def launched(manual: Manual, name: str) -> Ref:
    """Start a worker."""
    return Worker(name, manual.lane).launch()


def test_only_the_living_are_found(manual: Manual) -> None:
    """Who ends is forgotten; telling them says that nobody was there."""
    registry = Registry()
    ref = launched(manual, "a")
    registry.register("a", ref)
    assert registry.find("a") is ref
    assert registry.tell("a", "crash")
    manual.scheduler.run()

    assert registry.find("a") is None
    assert not registry.tell("a", "hello")
    assert len(registry) == 0


def test_a_name_is_free_once_its_owner_has_ended(manual: Manual) -> None:
    """Not before; and the end of the first does not touch the second."""
    registry = Registry()
    first, second = launched(manual, "a"), launched(manual, "a")
    registry.register("a", first)
    registry.register("a", first)
    with pytest.raises(NameTaken):
        registry.register("a", second)

    first.kill()
    registry.register("a", second)

    assert registry.find("a") is second
    assert registry.ids() == ["a"]


def test_two_registries_do_not_know_of_each_other(manual: Manual) -> None:
    """Each runtime has its own."""
    one, two = Registry(), Registry()
    one.register("a", launched(manual, "a"))

    assert two.find("a") is None


def test_many_who_want_the_same_start_it_once(manual: Manual) -> None:
    """Those that come while it starts wait for that start and get the same actor."""
    registry = Registry()
    all_there, started = threading.Barrier(16, timeout=LONG), []

    def start() -> Ref:
        started.append(1)
        return launched(manual, "a")

    def want(_number: int) -> Ref:
        all_there.wait()
        return registry.ensure("a", start)

    with ThreadPoolExecutor(16) as pool:
        refs = set(pool.map(want, range(16)))

    assert refs == {registry.find("a")}
    assert len(started) == 1


def test_a_start_that_fails_fails_for_all_who_wait_for_it(manual: Manual) -> None:
    """And the next one to come tries again."""
    registry = Registry()
    begun, go_on = threading.Event(), threading.Event()

    def fail() -> Ref:
        begun.set()
        assert go_on.wait(LONG)
        raise Boom

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(registry.ensure, "a", fail)
        assert begun.wait(LONG)
        flight = registry._flights["a"].answer
        second = pool.submit(registry.ensure, "a", fail)
        with pytest.raises(Unanswered):
            registry.ensure("a", fail, timeout=0)
        go_on.set()

        assert isinstance(first.exception(LONG), Boom)
        assert isinstance(second.exception(LONG), Boom)
    assert flight.is_there()
    assert registry.ensure("a", lambda: launched(manual, "a")) is registry.find("a")


def test_a_start_does_not_wait_for_itself(manual: Manual) -> None:
    """That would be for ever; it is a mistake in the program, and says so."""
    registry = Registry()

    def start() -> Ref:
        return registry.ensure("a", lambda: launched(manual, "a"))

    with pytest.raises(AssertionError, match="waits for itself"):
        registry.ensure("a", start)


def test_a_successor_may_come_before_the_end_has_gone_round(manual: Manual) -> None:
    """Whoever hears of an end first may put another one in its place."""
    registry = Registry()
    first, second = launched(manual, "a"), launched(manual, "a")
    first.watch(lambda _down: registry.register("a", second))
    registry.register("a", first)

    first.kill()

    assert registry.find("a") is second
