"""A clock that can be set and hurried: time limits are met without anybody waiting for them."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING, Final

from actors.scheduling import clock as clocks
from actors.scheduling.clock import SystemClock
from actors.units import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.scheduling.clock import Alarm
    from actors.tool.context import Call

SPEED: Final = 200
"""How many seconds pass in one when there is a hurry."""
GENTLY: Final = 20
"""The same when pauses are to be over soon, and what has a time limit must still get done in it."""
_AT_MOST: Final = 60.0
"""Real seconds that a call hangs, whatever its time limit is."""
_BLINK: Final = 0.005


class _Armed:
    """An alarm of ours, and the real one that stands for it now."""

    __slots__ = ("call", "clock", "number", "real", "when")

    def __init__(
        self, clock: SkewedClock, number: int, when: int, call: Callable[[], None]
    ) -> None:
        self.clock = clock
        self.number = number
        self.when = when
        self.call = call
        self.real: Alarm

    def cancel(self) -> None:
        """Have it not happen."""
        self.clock.forget(self)

    def ring(self) -> None:
        """Happen, once."""
        if self.clock.forget(self):
            self.call()


class _Machine:
    """The clocks of this machine, of which one was set back."""

    def __init__(self, by: int) -> None:
        self._by = by

    def time_ns(self) -> int:
        """Return what it is set to."""
        return time.time_ns() - self._by

    def monotonic_ns(self) -> int:
        """Return the monotonic time, which cannot be set."""
        return time.monotonic_ns()


class SkewedClock:
    """The time of the machine, until it is set or hurried."""

    def __init__(self, pace: int = 1) -> None:
        """Begin with the right time; it never passes more slowly than at this pace."""
        self._inner = SystemClock()
        self._lock = threading.RLock()
        self._numbers = itertools.count()
        self._armed: dict[int, _Armed] = {}
        self._real = self._shown = self._inner.now()
        self._pace = self._speed = pace

    def now(self) -> int:
        """Return nanoseconds since 1970, as far as anybody here knows."""
        with self._lock:
            return self._shown + (self._inner.now() - self._real) * self._speed

    def at(self, when: int, call: Callable[[], None]) -> _Armed:
        """Call `call` once it is `when`."""
        with self._lock:
            armed = _Armed(self, next(self._numbers), when, call)
            self._armed[armed.number] = armed
            armed.real = self._inner.at(self._real_time(when), armed.ring)
            return armed

    def _real_time(self, when: int) -> int:
        return self._real + (when - self._shown) // self._speed

    def forget(self, armed: _Armed) -> bool:
        """Drop an alarm; tell whether it had not rung."""
        with self._lock:
            armed.real.cancel()
            return self._armed.pop(armed.number, None) is not None

    def hurry(self) -> None:
        """Have time pass quickly from now on."""
        self._set(0, SPEED)

    def hasten(self) -> None:
        """Have pauses be over soon from now on, and no more than that."""
        self._set(0, max(GENTLY, self._pace))

    def jump(self, seconds: float) -> None:
        """Be set forward; or have the machine's clock set back, for the rest of this process.

        What comes of that is for the runtime's own clock to say.
        """
        by = round(seconds * SECOND)
        if by < 0:
            vars(clocks)["time"] = _Machine(-by)
        else:
            self._set(by, self._speed)

    def outlast(self, call: Call) -> None:
        """Wait until a call is told to stop: in a hurry that is soon, if it has a time limit."""
        call.cancellation.wait(_AT_MOST)

    def hang(self, is_over: Callable[[], bool]) -> None:
        """Block this thread until no caller waits for it: as above, if there is a time limit."""
        end = time.monotonic() + _AT_MOST
        while not is_over() and time.monotonic() < end:
            time.sleep(_BLINK)

    def _set(self, by: int, speed: int) -> None:
        with self._lock:
            shown = self.now() + by
            self._real, self._shown, self._speed = self._inner.now(), shown, speed
            for armed in [*self._armed.values()]:
                armed.real.cancel()
                armed.real = self._inner.at(self._real_time(armed.when), armed.ring)

    def close(self) -> None:
        """Ring no more."""
        self._inner.close()
