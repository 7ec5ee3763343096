"""The live actors of one runtime, by id. A child that was restarted has a new ref."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from actors.errors import Unanswered
from actors.process.process import ASK_TIMEOUT, Answer
from supervisors.errors import NameTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.process.process import Down, Ref


class _Flight(NamedTuple):
    """A start that is under way, and the callers that wait for it."""

    answer: Answer
    thread: int


class Registry:
    """Ids, and the live actor behind each. An actor that ends is forgotten."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._refs: dict[str, Ref] = {}
        self._flights: dict[str, _Flight] = {}

    def __len__(self) -> int:
        """Return how many actors are registered."""
        return len(self.ids())

    def ids(self) -> list[str]:
        """Return the ids that are registered, in order."""
        with self._lock:
            return sorted(id_ for id_, ref in self._refs.items() if ref.is_alive())

    def register(self, id_: str, ref: Ref) -> None:
        """Register an actor under an id; `NameTaken` while another one lives under it."""
        with self._lock:
            old = self._refs.get(id_)
            if old is ref:
                return
            if old is not None and old.is_alive():
                msg = f"{id_} is alive: it has to end before another one is registered"
                raise NameTaken(msg)
            self._refs[id_] = ref

        def ended(_down: Down) -> None:
            with self._lock:
                if self._refs.get(id_) is ref:
                    del self._refs[id_]

        ref.watch(ended)

    def find(self, id_: str) -> Ref | None:
        """Return the actor that lives under an id."""
        with self._lock:
            ref = self._refs.get(id_)
        return ref if ref is not None and ref.is_alive() else None

    def tell(self, id_: str, message: object) -> bool:
        """Send a message to the actor with an id; return False if there is none."""
        ref = self.find(id_)
        if ref is None:
            return False
        ref.tell(message)
        return True

    def ensure(
        self, id_: str, start: Callable[[], Ref], timeout: float | None = ASK_TIMEOUT
    ) -> Ref:
        """Return the actor that lives under an id; start it if there is none.

        However many ask at once, it is started once: the others wait for that start, and fail if it
        fails. For the edge: who waits here blocks.
        """
        with self._lock:
            ref = self._refs.get(id_)
            if ref is not None and ref.is_alive():
                return ref
            flight = self._flights.get(id_)
            mine = flight is None
            if flight is None:
                flight = self._flights[id_] = _Flight(Answer(), threading.get_ident())
        if not mine:
            assert flight.thread != threading.get_ident(), f"the start of {id_} waits for itself"
            if not flight.answer.wait(timeout):
                msg = f"{id_} is still being started after {timeout} s"
                raise Unanswered(msg)
            found: Ref = flight.answer.result()
            return found
        try:
            ref = start()
            self.register(id_, ref)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else Unanswered(repr(error))
            flight.answer.fail(failure)
            raise
        else:
            flight.answer.set(ref)
            return ref
        finally:
            with self._lock:
                del self._flights[id_]
