"""Rules about the tables of all kinds: every phase is met with every rune that there is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from actors.budget.runes import Settles
from actors.catalogue import KINDS
from runelog.errors import IllegalTransition
from runelog.lifecycle import step, targets
from runelog.rune import kind_of
from tests.laws.logs import PLAYED, STORED, played
from tests.laws.samples import samples
from tests.laws.states import by_phase, each_kind

if TYPE_CHECKING:
    from actors.kind import Kind
    from runelog.rune import Rune

PLACES = [
    pytest.param(kind, phase, id=f"{kind.name}-{phase.value}")
    for kind in PLAYED
    for phase in kind.lifecycle.table
]


def test_every_kind_and_every_rune_and_every_phase_is_reached() -> None:
    """What is listed and never played is not tested: seeds or scenarios have to come by it."""
    seen = Counter(kind_of(rune) for stream in played().streams for rune in stream.runes)
    born = {stream.kind.name for stream in played().streams}
    phases = {
        f"{kind.name} in {phase.value}"
        for kind in PLAYED
        for phase in kind.lifecycle.table
        if phase not in by_phase(kind.name)
    }

    assert [kind.name for kind in PLAYED if kind.name not in born] == []
    assert [kind_of(rune) for rune in STORED if not seen[kind_of(rune)]] == []
    assert phases == set()


@pytest.mark.parametrize(("kind", "phase"), PLACES)
def test_every_rune_leads_where_the_table_says_or_nowhere(kind: Kind, phase: Any) -> None:  # noqa: ANN401 -- of any law
    """In every phase a rune has its row, is of others and moves nothing, or is illegal."""
    law = kind.lifecycle
    row = law.table[phase]
    for cls in STORED:
        for rune in samples(cls):
            found = {_led(kind, state, rune) for state in by_phase(kind.name)[phase]}
            if cls in row:
                assert found <= {_row(kind, phase, rune), "illegal"}, (kind_of(cls), rune)
            elif cls in law.runes and cls not in law.observed:
                assert found == {"illegal"}, (kind_of(cls), rune)
            elif cls in law.runes:
                assert found <= {phase.value, "illegal"}, (kind_of(cls), rune)
            elif kind is KINDS["budget"] and issubclass(cls, Settles):
                # A charge for which nothing was set aside is none.
                assert found <= {phase.value, "illegal"}, (kind_of(cls), rune)
            else:
                assert found == {phase.value}, (kind_of(cls), rune)


def _row(kind: Kind, phase: Any, rune: Rune) -> str:  # noqa: ANN401 -- as above
    """Return where the table says that a rune leads."""
    try:
        return str(step(kind.lifecycle.table, phase, rune).value)
    except IllegalTransition:
        return "illegal"


def _led(kind: Kind, state: Any, rune: Rune) -> str:  # noqa: ANN401 -- as above
    """Return the phase that a rune leads to; `illegal` if it cannot be folded."""
    law = kind.lifecycle
    try:
        after = law.apply(state, rune)
    except (IllegalTransition, StopIteration):
        # A rune about something that this state does not know, such as a reservation.
        return "illegal"
    return str(after.phase.value)


@each_kind
def test_every_row_of_a_table_is_walked(kind: Kind) -> None:
    """Each row was taken by some entity in a real log, or can be from a state that one was in."""
    walked: set[tuple[str, str, str]] = set()
    law = kind.lifecycle
    for stream in played().of(kind):
        state = law.initial
        for rune in stream.runes:
            before, state = state.phase, law.apply(state, rune)
            walked.add((before.value, kind_of(rune), state.phase.value))
    for phase, row in law.table.items():
        for cls in row:
            for rune in samples(cls):
                walked |= {
                    (phase.value, kind_of(cls), _led(kind, state, rune))
                    for state in by_phase(kind.name)[phase]
                }
    rows = {
        (phase.value, kind_of(cls), to.value)
        for phase, row in law.table.items()
        for cls, target in row.items()
        for to in targets(target)
    }

    assert rows - walked == set()


@each_kind
def test_runes_that_others_decide_are_never_illegal(kind: Kind) -> None:
    """Their owners cannot be asked to wait: each is observed, and taken in whatever phase."""
    law = kind.lifecycle
    own = {*kind.runes, *kind.retired}
    forgotten = law.runes - own - law.observed
    wrong = [
        (phase.value, kind_of(cls))
        for cls in law.observed - own
        for phase, states in by_phase(kind.name).items()
        for rune in samples(cls)
        if any(_led(kind, state, rune) == "illegal" for state in states)
    ]

    assert forgotten == set()
    assert wrong == []


def test_what_a_kind_owns_and_begins_with_is_its_own() -> None:
    """No two kinds own a rune, begin with the same one, or have one prefix, name or stream."""
    runes = Counter(STORED)
    births = Counter(birth for kind in PLAYED for birth in kind.births)
    words = Counter(word for kind in PLAYED for word in (kind.prefix, *kind.streams))

    assert max(runes.values()) == max(births.values()) == max(words.values()) == 1
    for kind in PLAYED:
        assert set(kind.births) <= {*kind.runes, *kind.retired}, kind.name
        assert kind.lifecycle.runes <= set(STORED), kind.name
        assert set(kind.parents) <= set(PLAYED.by_name), kind.name
