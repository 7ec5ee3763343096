"""Write down golden bytes and golden logs that are missing: `python -m tests.formats.make`.

What is there stays as it is. `--anew` writes everything again: see `README.md` for when that is
allowed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec

from runefold.testing.simulation.plan.drawing import draw
from runefold.testing.simulation.simulation import Simulation
from runelog.rune import kind_of
from runelog.transfer.export_import import export
from tests.formats.golden import (
    KEPT_RUNES,
    LOGS,
    RUNES,
    account_of,
    envelopes,
    golden_logs,
    golden_of,
    golden_runes,
)
from tests.laws import purchases, trips
from tests.laws.eggs import eggs
from tests.laws.errands import errands, errands_of_old, recalled
from tests.laws.logs import held_up, staged, without_a_model
from tests.laws.samples import samples
from tests.scenarios.plays import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runelog.log import Log


def _seed(number: int) -> Log:
    simulation = Simulation(draw(number))
    simulation.run()
    return simulation.disk


MADE_BY: Final[Mapping[str, Callable[[], Log]]] = {
    "charges_after_a_crash": lambda: staged(ALL["charges by key"], cut_at=6),
    "seen_to": lambda: staged(ALL["seen to"], cut_at=6),
    "budget": lambda: staged(ALL["budget"]),
    "archived": lambda: staged(ALL["archived"]),
    "handed_over": lambda: staged(ALL["handed over"]),
    "desk": lambda: staged(ALL["desk"]),
    "denied": lambda: staged(ALL["denied"]),
    "progress": lambda: staged(ALL["progress"], cut_at=7),
    "held_up": held_up,
    "without_a_model": without_a_model,
    "errands": lambda: errands(cut_at=3),
    "recalled": recalled,
    "purchases": lambda: purchases.story(9, after=True, act=purchases.give_back).log,
    "trips": lambda: trips.story(5, after=True, act=trips.hurry, card="hello").log,
    "eggs": eggs,
    "errands_of_old": errands_of_old,
    "seed_4": lambda: _seed(4),
    "seed_21": lambda: _seed(21),
    "seed_39": lambda: _seed(39),
}
"""Where each golden log is from. Together they have an entity of every kind, and every rune."""


def make(*, anew: bool) -> None:
    """Write down what is missing, or everything."""
    kept = [] if anew else golden_runes()
    known = {(each.kind, each.stored) for each in kept}
    for cls in KEPT_RUNES:
        made = [golden_of(rune) for rune in samples(cls)]
        kept += [each for each in made if (each.kind, each.stored) not in known]
    order = {kind_of(cls): number for number, cls in enumerate(KEPT_RUNES)}
    kept.sort(key=lambda each: order.get(each.kind, len(order)))
    RUNES.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in kept))
    LOGS.mkdir(exist_ok=True)
    for name, play in MADE_BY.items():
        if anew or name not in golden_logs():
            with (LOGS / f"{name}.runes").open("wb") as file:
                export(play(), file, secret=True)
            said = account_of(list(envelopes(name)))
            lines = [msgspec.json.encode(each) for each in (*said.runes, *said.entities)]
            runes, entities = lines[: len(said.runes)], lines[len(said.runes) :]
            (LOGS / f"{name}.json").write_bytes(
                b'{"runes":[\n'
                + b",\n".join(runes)
                + b'\n],"entities":[\n'
                + b",\n".join(entities)
                + b"\n]}\n"
            )


if __name__ == "__main__":
    make(anew="--anew" in sys.argv[1:])
