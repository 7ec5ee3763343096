"""Makes a plan that goes wrong shorter, until nothing can be left out.

Whatever is left out, the same rule must still be broken. First what happens is taken out piece by
piece, then parts of the world, then the disorder: who takes a step is the first in line wherever
that will do. At last numbers become smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from runefold.testing.simulation.plan.plans import Act, Plan, World
from runefold.testing.simulation.simulation import play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runefold.testing.simulation.simulation import Outcome

TRIES: Final = 3_000
"""How many plans are tried at most."""
STEPS: Final = 1_000_000
"""How many steps all of them take together at most: one that goes round in circles takes many."""

Parts = list[Any]


class Shrinker:
    """Looks for shorter plans that break the same rule."""

    def __init__(
        self,
        found: Outcome,
        tries: int = TRIES,
        run: Callable[[Plan], Outcome] = play,
        told: Callable[[int, Plan], None] | None = None,
        steps: int = STEPS,
    ) -> None:
        """Begin with a plan that went wrong; `told` hears of each that is shorter."""
        self.best = found
        self.tries = tries
        self.steps = steps
        self._rule = found.wrong[0].rule
        self._run = run
        self._told = told
        self._seen: set[bytes] = {_key(found.plan)}

    def shrink(self) -> Outcome:
        """Return the shortest there is, as far as was tried."""
        while not self._is_spent():
            before = _size(self.best.plan)
            self._straighten()
            self._shorten("acts")
            for part in ("words", "tools", "agents"):
                self._shorten_world(part)
            self._calm_order()
            self._plainer()
            if _size(self.best.plan) >= before:
                break
        return self.best

    def _is_spent(self) -> bool:
        """Return True if enough was tried."""
        return self.tries <= 0 or self.steps <= 0

    def _takes(self, plan: Plan) -> bool:
        """Try a plan; take it if it breaks the same rule."""
        if self._is_spent() or (key := _key(plan)) in self._seen:
            return False
        self._seen.add(key)
        self.tries -= 1
        outcome = self._run(plan)
        self.steps -= outcome.steps
        if not outcome.wrong or outcome.wrong[0].rule != self._rule:
            return False
        self.best = outcome._replace(plan=_trimmed(outcome.plan))
        if self._told is not None:
            self._told(self.tries, self.best.plan)
        return True

    # -- leaving out --------------------------------------------------------------------------

    def _straighten(self) -> None:
        """Let whoever is first in line go first, from some point on, or always."""
        order = self.best.plan.order or ()
        keep = 0
        while keep < len(order):
            if self._takes(msgspec.structs.replace(self.best.plan, order=order[:keep])):
                return
            keep = keep * 2 or 1

    def _shorten(self, part: str) -> None:
        for left in _without(lambda: list(getattr(self.best.plan, part))):
            self._takes(msgspec.structs.replace(self.best.plan, **{part: tuple(left)}))

    def _shorten_world(self, part: str) -> None:
        for left in _without(lambda: list(getattr(self.best.plan.world, part))):
            world = msgspec.structs.replace(self.best.plan.world, **{part: tuple(left)})
            self._takes(msgspec.structs.replace(self.best.plan, world=world))

    def _calm_order(self) -> None:
        """Have the first in line go first wherever that will do, half by half."""
        size = len(self.best.plan.order or ())
        while size and not self._is_spent():
            at = 0
            while at < len(order := self.best.plan.order or ()):
                if any(order[at : at + size]):
                    calm = (*order[:at], *([0] * len(order[at : at + size])), *order[at + size :])
                    self._takes(msgspec.structs.replace(self.best.plan, order=calm))
                at += size
            size //= 2

    # -- plainer ------------------------------------------------------------------------------

    def _plainer(self) -> None:
        """Make everything that is left plainer, one thing at a time."""
        for name, value in msgspec.structs.asdict(World()).items():
            if name not in {"words", "tools", "agents"}:
                world = msgspec.structs.replace(self.best.plan.world, **{name: value})
                self._takes(msgspec.structs.replace(self.best.plan, world=world))
        for at in range(len(self.best.plan.acts)):
            while self._takes_any(self._with_plainer_act(at)):
                pass
        for part in ("words", "tools", "agents"):
            for at in range(len(getattr(self.best.plan.world, part))):
                while self._takes_any(self._with_plainer(part, at)):
                    pass

    def _takes_any(self, plans: Iterator[Plan]) -> bool:
        """Take the first of some plans that will do.

        The others were made from what was best before it: they would bring back what it left out.
        """
        return any(self._takes(plan) for plan in plans)

    def _with_plainer_act(self, at: int) -> Iterator[Plan]:
        acts = self.best.plan.acts
        for act in _plainer_acts(acts[at]):
            changed = (*acts[:at], act, *acts[at + 1 :])
            yield msgspec.structs.replace(self.best.plan, acts=changed)

    def _with_plainer(self, part: str, at: int) -> Iterator[Plan]:
        things = getattr(self.best.plan.world, part)
        for new in _plainer_things(things[at]):
            changed = {part: (*things[:at], new, *things[at + 1 :])}
            world = msgspec.structs.replace(self.best.plan.world, **changed)
            yield msgspec.structs.replace(self.best.plan, world=world)


def _without(current: Callable[[], Parts]) -> Iterator[Parts]:
    """Yield a list without some of it: large parts first, then smaller ones, down to each item.

    What is yielded may have become the current list by the time the next one is asked for.
    """
    size = len(current())
    while size:
        at = 0
        while at < len(parts := current()):
            yield parts[:at] + parts[at + size :]
            if len(current()) == len(parts):
                at += size
        size //= 2


def _plainer_acts(act: Act) -> Iterator[Act]:
    for name in ("after", "session", "who", "what", "how"):
        value = getattr(act, name)
        for less in dict.fromkeys((0, value // 2, value - 1)):
            if 0 <= less < value:
                yield msgspec.structs.replace(act, **{name: less})


def _plainer_things(thing: msgspec.Struct) -> Iterator[msgspec.Struct]:
    """Yield a part of a world with something left out or back to what is usual."""
    usual = type(thing)()
    for name in thing.__struct_fields__:
        value, plain = getattr(thing, name), getattr(usual, name)
        if value == plain:
            continue
        yield msgspec.structs.replace(thing, **{name: plain})
        if isinstance(value, tuple):
            for at, item in enumerate(value):
                yield msgspec.structs.replace(thing, **{name: value[:at] + value[at + 1 :]})
                if isinstance(item, msgspec.Struct):
                    for new in _plainer_things(item):
                        changed = (*value[:at], new, *value[at + 1 :])
                        yield msgspec.structs.replace(thing, **{name: changed})


def _trimmed(plan: Plan) -> Plan:
    """Return a plan without the part of its order that says nothing."""
    order = list(plan.order or ())
    while order and not order[-1]:
        order.pop()
    return msgspec.structs.replace(plan, order=tuple(order))


def _size(plan: Plan) -> tuple[int, int, int]:
    order = plan.order or ()
    return len(plan.acts), len(msgspec.json.encode((plan.world, plan.acts))), sum(map(bool, order))


def _key(plan: Plan) -> bytes:
    return msgspec.json.encode(plan)
