"""The two clocks: the system's, and one that is driven by hand."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING, Final

from actors.operator_log import log
from actors.units import SECOND
from runelog.forks import Home

if TYPE_CHECKING:
    from collections.abc import Callable

_FEW: Final = 64
"""Up to so many alarms, cancelled ones are not looked for."""
_LOOK_AGAIN: Final = SECOND
"""How often the system's time is compared again, at the least: it may be set while we wait."""
_LATE: Final = SECOND // 200
"""How late an alarm may ring."""
_TICK: Final = 3 * _LATE
"""While alarms are set, we look so often. To be woken for each would have two threads compete for
the interpreter each time, and most are cancelled before they ring; so would it to look more often
than those need that are set most often, which keep back what a model says."""
_COMPARE: Final = SECOND // 1000
"""How often the two clocks are compared: the time is asked for with every fragment of a stream."""
_FOREVER: Final = 10**9 * SECOND
_AWAKE: Final = SECOND // 2
"""How long after the last alarm was set we go on looking that often."""


class Alarm:
    """One call that is due at its time."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        """Begin armed."""
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Cancel it; do nothing if it has happened."""
        self.call = None


class _Alarms:
    """Alarms by time, those for the same in the order in which they were armed.

    Cancelled ones are dropped when they come up, or when most are such. Their owner sees to it
    that they are used by one thread at a time.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Alarm]] = []
        self._order = itertools.count()
        self._sweep_at = _FEW

    def add(self, when: int, call: Callable[[], None]) -> Alarm:
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapq.heapify(self._heap)
            # Only once as many more have come: each one pays for a look at two.
            self._sweep_at = max(_FEW, 2 * len(self._heap))
        alarm = Alarm(call)
        heapq.heappush(self._heap, (when, next(self._order), alarm))
        return alarm

    def next_time(self) -> int | None:
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, now: int) -> Callable[[], None] | None:
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].call is None):
            alarm = heapq.heappop(self._heap)[2]
            call, alarm.call = alarm.call, None
            if call is not None:
                return call
        return None


def _ring(call: Callable[[], None]) -> None:
    """Ring one alarm; it only puts a message into a mailbox, and one that is full says so."""
    try:
        call()
    except BaseException:  # noqa: BLE001 -- the next alarm is not to blame
        log.exception("alarm_failed")


class SystemClock:
    """The time of the machine. One thread rings all alarms; it starts with the first one.

    Unless another thread has taken that over with `drive`.
    """

    def __init__(self) -> None:
        """Begin without alarms."""
        self._alarms = _Alarms()
        # The thread that rings stays behind in a fork.
        self._home = Home("this clock was begun before a fork: begin your own in the child")
        self._changed = threading.RLock()
        self._gate = threading.Lock()
        """Open for a moment when the thread is to look at once."""
        self._gate.acquire()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._wake: Callable[[], None] | None = None
        """Wakes the thread that drives this clock, if one does."""
        self._looks_at = 0
        """When the thread looks again by itself."""
        self._busy = False
        """Whether an alarm was set since it last looked."""
        self._awake_until = 0
        """How long it goes on looking often."""
        self._offset = time.time_ns() - time.monotonic_ns()
        """Offset from the monotonic clock to UTC."""
        self._compare_at = 0
        """When the two clocks are compared again, by the monotonic one."""

    def now(self) -> int:
        """Return nanoseconds since 1970, UTC. It is never earlier than it was.

        If the machine's clock is set back, this one goes on until the process ends: otherwise, to
        wait for a second would take as long as the clock was set back by.
        """
        steady = time.monotonic_ns()
        if steady >= self._compare_at:
            self._compare_at = steady + _COMPARE
            # In this order: what comes between makes the offset too small, and the largest counts.
            wall, steady = time.time_ns(), time.monotonic_ns()
            self._offset = max(self._offset, wall - steady)
        return steady + self._offset

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        """Call `call` once it is `when`; at once if that is past. It must be quick."""
        self._home.check()
        with self._changed:
            wake = self._wake
            if wake is None and self._thread is None and not self._closed:
                self._start()
            alarm = self._alarms.add(when, call)
            self._busy = True
            if when >= self._looks_at - _LATE:
                return alarm
            self._looks_at = when
            self._look()
        if wake is not None:
            wake()
        return alarm

    def _start(self) -> None:
        thread = threading.Thread(target=self._live, name="runefold-clock", daemon=True)
        thread.start()
        self._thread = thread

    # -- driven by another thread -------------------------------------------------------------

    def drive(self, wake: Callable[[], None]) -> bool:
        """Have the caller ring the alarms: it calls `ring` when it has nothing else to do.

        `wake` is called if it is to do so sooner than it was told. Return False if there is a
        thread for that already.
        """
        with self._changed:
            if self._thread is not None or self._wake is not None:
                return False
            self._wake = wake
            # It has not looked yet: the first alarm wakes it.
            self._looks_at = self.now() + _FOREVER
            return True

    def let_go(self) -> None:
        """Ring the alarms on a thread of this clock again, if there are any."""
        with self._changed:
            self._wake = None
            if self._alarms.next_time() is not None and not self._closed:
                self._start()

    def ring(self) -> float | None:
        """Ring what is due; return after how many seconds to call again, None if nothing is set."""
        while True:
            with self._changed:
                now = self.now()
                call = None if self._closed else self._alarms.pop(now)
                if call is None:
                    due = None if self._closed else self._alarms.next_time()
                    pause = _LOOK_AGAIN if due is None else min(due - now, _LOOK_AGAIN)
                    # Without an alarm it is woken by the first.
                    self._looks_at = now + (_FOREVER if due is None else pause)
                    return None if due is None else pause / SECOND
            _ring(call)

    def _look(self) -> None:
        """Have the thread look at once. Holds the lock."""
        if self._gate.locked():
            self._gate.release()

    def _live(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                now = self.now()
                call = self._alarms.pop(now)
                pause = self._pause(now) if call is None else 0
                self._looks_at = now + pause
            if call is None:
                self._gate.acquire(timeout=pause / SECOND)
            else:
                _ring(call)
                del call

    def _pause(self, now: int) -> int:
        """Return how long nothing has to be looked at. Holds the lock."""
        if self._busy:
            self._busy = False
            self._awake_until = now + _AWAKE
        due = self._alarms.next_time()
        pause = _LOOK_AGAIN if due is None else min(due - now, _LOOK_AGAIN)
        return min(pause, _TICK) if now < self._awake_until <= now + _AWAKE else pause

    def close(self) -> None:
        """Ring no more; an alarm that is ringing now is waited for."""
        with self._changed:
            self._closed = True
            self._look()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()


class ManualClock:
    """A clock that stands still until it is moved.

    >>> clock = ManualClock()
    >>> rung = []
    >>> alarm = clock.at(clock.now() + 5 * SECOND, lambda: rung.append("tea"))
    >>> clock.advance(4)
    >>> rung
    []
    >>> clock.advance(1)
    >>> rung
    ['tea']
    """

    def __init__(self, now: int = 1_800_000_000 * SECOND) -> None:
        """Begin at a fixed time."""
        self._now = now
        self._lock = threading.Lock()
        self._alarms = _Alarms()

    def now(self) -> int:
        """Return the time it was set to."""
        return self._now

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        """Call `call` when the clock is moved to `when` or beyond, if only by nothing."""
        with self._lock:
            return self._alarms.add(when, call)

    @property
    def next_alarm(self) -> int | None:
        """When the next alarm is due."""
        with self._lock:
            return self._alarms.next_time()

    def advance(self, seconds: float) -> None:
        """Move on, ringing each alarm at its own time."""
        self.move_to(self._now + round(seconds * SECOND))

    def move_to(self, until: int) -> None:
        """Move on to a time, ringing each alarm at its own."""
        while (when := self.next_alarm) is not None and when <= until:
            self._now = max(self._now, when)
            with self._lock:
                call = self._alarms.pop(self._now)
            if call is not None:
                _ring(call)
        self._now = max(self._now, until)
