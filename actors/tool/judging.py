"""What actors that call tools have in common: their calls are judged before they are made."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.shell.shell import Shell
from actors.tool.context import surroundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.model.runes import AskedCall
    from actors.ports import Steps
    from actors.tool.planning import Planner, Ruling


class Judged(NamedTuple):
    """The policy's ruling on each call of an effect has come."""

    effect: Any
    rules: Sequence[Ruling]


class Judging(Shell):
    """An actor whose entity calls tools."""

    def judge(
        self,
        effect: Any,  # noqa: ANN401 -- of whichever law
        planner: Planner,
        asked: Sequence[AskedCall],
        agent_id: str = "",
    ) -> None:
        """Have the calls of an effect judged, for an agent if it is one; `judged` gets the rulings.

        A policy that is a function of the app's may take long: it runs on a pooled thread. By the
        time it has an answer, the calls may not be wanted any more.
        """
        if not planner.judged_by_hand:
            self.judged(effect, planner.rules(asked))
            return

        around = surroundings(self.ctx, self.me, agent_id)

        def steps() -> Steps:
            yield None
            return partial(self.ref.notify, Judged(effect, planner.rules(asked, around)))

        self.ctx.services.scheduler.work(f"{self.name} policy", steps())

    def judged(self, effect: Any, rules: Sequence[Ruling]) -> None:  # noqa: ANN401 -- as above
        """Make the calls of an effect that is due, by the rulings on them."""
        raise NotImplementedError

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand the rulings of a policy."""
        if not isinstance(message, Judged):
            return super().understand(message)
        if message.effect in self.kind.lifecycle.due(self.state):
            self.judged(message.effect, message.rules)
        return None
