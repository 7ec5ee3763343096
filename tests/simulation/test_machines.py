"""Rules about simulated machines of an app: all of their phases are played, and bugs are found."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from order import LIMIT, ORDER, Phase, Settle
from order_runes import Accepted, Placed

from runefold.machines import Audit, Found, TimeUp, approvals
from runefold.testing.simulation import App, Plan, decode, draw, encode, play
from runefold.testing.simulation.__main__ import main
from runefold.testing.simulation.plan.plans import Act
from runefold.testing.simulation.simulation import Simulation
from runelog.errors import Refused
from runelog.rune import kind_of
from tests.laws.orders import pay
from tests.simulation.app import APP, NAME
from tests.simulation.seeds import likely_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope

SEEDS: Final = 300
"""Within so many seeds all has happened, and a bug must be found; as a rule within a few."""
OF_APPS: Final = frozenset(
    {
        *("system.opened", "child.started", "child.ended", "child.reported"),
        *("request.sent", "request.withdrawn", "request.answered"),
    }
)
"""What only machines of an app bring about."""


class Phases(Simulation):
    """A run that notes each phase of an app's entity, and each rune."""

    seen: set[str]

    def committed(self, envelope: Envelope) -> None:
        """Note a rune, and the phase that it led to."""
        super().committed(envelope)
        self.seen.add(envelope.kind)
        fold = self.checker.folds.get((envelope.conversation, envelope.owner))
        if fold is not None and fold.kind in self.app.kinds:
            self.seen.add(f"{fold.kind.name}: {fold.state.phase}")


def test_every_phase_of_an_apps_machines_is_played() -> None:
    """All of their runes are written, and those that only machines of an app bring about."""
    wanted = {f"{kind.name}: {phase}" for kind in APP.kinds for phase in kind.lifecycle.table}
    wanted |= {kind_of(rune) for kind in APP.kinds for rune in kind.runes} | OF_APPS
    seen = set[str]()
    for seed in likely_first("every phase of an app's machines", SEEDS):
        simulation = Phases(draw(seed, NAME))
        simulation.seen = seen
        assert simulation.run().wrong == ()
        if wanted <= seen:
            break

    assert wanted - seen == set()


# -- planted bugs --------------------------------------------------------------------------------


class Checked(Audit):
    """Hold that an order over the limit is accepted only after a human approved it."""

    holds = ("ORDER-CHECKED",)

    def __init__(self) -> None:
        """Begin with no order."""
        self._dear: set[str] = set()

    def take(self, envelope: Envelope) -> Iterator[Found]:
        """Look at one more rune."""
        match envelope.payload:
            case Placed(cents=cents) if cents > LIMIT:
                self._dear.add(envelope.owner)
            case approvals.Approved():
                self._dear.difference_update(envelope.observers)
            case Accepted() if envelope.owner in self._dear:
                yield Found(self.holds[0], envelope.event_id, "accepted, and no human approved it")
            case _:
                pass


def _app(**law: Any) -> App:  # noqa: ANN401 -- fields of a Lifecycle
    """Return an app whose order has other functions in its law."""
    own = replace(ORDER, lifecycle=replace(ORDER.lifecycle, **law), invariants=(Checked,))
    return App((own,), (pay,))


_count: Final = itertools.count()


def _impure(state: Any, rune: Any) -> Any:  # noqa: ANN401 -- as in the law
    """Fold a rune into something else each time."""
    after = ORDER.lifecycle.evolve(state, rune)
    if isinstance(rune, Placed):
        return msgspec.structs.replace(after, item=f"{rune.item} {next(_count)}")
    return after


def _stuck(state: Any) -> Any:  # noqa: ANN401 -- as in the law
    """Have nothing due once a payment failed."""
    failed = state.payment is not None and state.payment.status != "success"
    return [] if failed else ORDER.lifecycle.due(state)


def _timeless(state: Any, command: Any) -> Any:  # noqa: ANN401 -- as in the law
    """Refuse to see that the time is up."""
    if isinstance(command, TimeUp):
        msg = "there is no hurry"
        raise Refused(msg)
    return ORDER.lifecycle.decide(state, command)


def _unchecked(state: Any, command: Any) -> Any:  # noqa: ANN401 -- as in the law
    """Accept an order whatever it costs."""
    if isinstance(command, Settle) and state.phase is Phase.NEW:
        return [Accepted()]
    return ORDER.lifecycle.decide(state, command)


SOUND: Final = _app()
IMPURE: Final = _app(evolve=_impure)
STUCK: Final = _app(due=_stuck)
TIMELESS: Final = _app(decide=_timeless)
UNCHECKED: Final = _app(decide=_unchecked)


def wrong_with(app: str) -> str:
    """Return the first rule that an app breaks; nothing if it breaks none."""
    for seed in likely_first(app, SEEDS):
        for wrong in play(draw(seed, f"{__name__}:{app}")).wrong:
            return wrong.rule
    return ""


@pytest.mark.parametrize(
    ("app", "rule"),
    [
        ("IMPURE", "live as replayed"),
        ("STUCK", "answers when calm"),
        ("TIMELESS", "in time"),
        ("UNCHECKED", "ORDER-CHECKED"),
    ],
)
def test_a_bug_in_an_apps_machine_is_found(app: str, rule: str) -> None:
    """A law that is not pure, does not end, ignores its deadline, or breaks the app's own rule."""
    assert wrong_with(app) == rule


def test_a_sound_app_breaks_no_rule() -> None:
    """The same app without a bug."""
    for seed in range(12):
        assert play(draw(seed, f"{__name__}:SOUND")).wrong == ()


# -- plans and the command -----------------------------------------------------------------------


def test_a_plan_names_its_app() -> None:
    """So the text of a plan plays the same run again."""
    plan = draw(3, NAME)
    first, again = play(plan), play(decode(encode(plan)))

    assert plan.world.app == NAME
    assert (first.trace, first.steps) == (again.trace, again.steps)


def test_seeds_without_an_app_play_what_they_did() -> None:
    """An app adds to a plan, and changes nothing of plans without one."""
    assert draw(3).world.app == ""
    assert draw(3) == msgspec.structs.replace(draw(3, NAME), world=draw(3).world, acts=draw(3).acts)


@pytest.mark.parametrize("app", ["tests.simulation.app:NAME", "tests.simulation.app:NONE"])
def test_what_is_no_app_is_refused(app: str) -> None:
    """The message says what to name."""
    with pytest.raises(Refused, match=r"no runefold.testing.simulation.App|cannot be imported"):
        play(Plan(world=msgspec.structs.replace(Plan().world, app=app)))


def test_an_app_is_named_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Its machines are played too, and a failure says how to play them again."""
    assert main(["--seeds", "3", "--jobs", "1", "--app", NAME]) == 0
    assert main(["--seeds", "4", "--jobs", "1", "--as-it-is", "--app", f"{__name__}:IMPURE"]) == 1
    assert f"--app {__name__}:IMPURE   # from the seed on" in capsys.readouterr().out


def test_a_runtime_with_a_machine_of_the_system_is_drained() -> None:
    """Found by a simulation: its root was asked for its turns, and crashed of it."""
    begin = Act("begin", what=1, who=1)
    world = msgspec.structs.replace(Plan().world, app=NAME)
    plan = Plan(world=world, acts=(begin, Act("reopen", after=5, how=1)))

    assert play(plan).wrong == ()
