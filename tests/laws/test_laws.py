"""Rules about the laws of all kinds: what is decided, what is due, what a state is."""

from __future__ import annotations

import functools
import typing
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.budget import lifecycle as ledger
from actors.common_commands import TimeUp
from actors.kind import LONGEST_SUMMARY
from runelog.errors import IllegalTransition, Refused
from runelog.lifecycle import fold
from runelog.rune import kind_of
from tests.folding import cascade
from tests.laws.logs import PLAYED, STORED, played
from tests.laws.samples import samples
from tests.laws.states import all_by_phase, by_phase, each_kind, owner, states

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors.kind import Kind
    from runelog.rune import Rune

AGAIN: Final = {
    ("turn", "Run"): "time that passed long ago is counted one slice after the other",
    ("tool", "Report"): "a tool may say the same thing twice",
    ("tool", "Recover"): "a run that began after one crash can be cut off by another",
}
"""Commands that lead to something each time, and why."""
ELSEWHERE: Final = {
    ("tool", "awaiting_approval", "unknown_result"): "the human was asked what became of a call",
    ("tool", "executing", "unknown_result"): "its probe was asked what became of a call",
}
"""Where time-outs lead beside where they say, and why."""

encoded = msgspec.msgpack.Encoder(order="deterministic").encode


@functools.cache
def decoder(kind: str) -> Callable[[bytes], Any]:
    """Return what reads a stored state of a kind."""
    return msgspec.msgpack.Decoder(type(PLAYED[kind].lifecycle.initial)).decode


def stored(kind: Kind, state: Any) -> Any:  # noqa: ANN401 -- of any law
    """Return a state as a snapshot gives it back."""
    return decoder(kind.name)(msgspec.msgpack.encode(state))


def decided(
    kind: Kind,
    state: Any,  # noqa: ANN401 -- as above
    command: Any,  # noqa: ANN401 -- as above
    read: Sequence[Any] = (),
) -> Sequence[Rune] | None:
    """Return what a command leads to; None if it is refused."""
    found = read[0] if read else ample(state)
    try:
        return kind.lifecycle.decided(state, command, lambda _entity: found)
    except Refused:
        return None


def ample(state: Any) -> ledger.State:  # noqa: ANN401 -- as above
    """Return a budget without limits, with the account that an entity spends from."""
    spends = getattr(state, "agent_id", "") or getattr(getattr(state, "call", None), "account", "")
    return ledger.State(scopes=(ledger.Scope(spends),))


def cascaded(kind: Kind, me: str, state: Any, runes: Sequence[Rune]) -> tuple[Any, list[Rune]]:  # noqa: ANN401 -- as above
    """Fold runes and what is then due internally, with a budget that has room for it."""
    return cascade(kind, me, state, runes, lambda _entity: ample(state))


# -- decide ----------------------------------------------------------------------------------------


@each_kind
def test_what_is_decided_can_be_folded_and_is_decided_once(kind: Kind) -> None:
    """Asked a second time a command leads to nothing or is refused; so it may come twice."""
    for question in played().questions[kind.name]:
        state, command, read = question.state, question.command, question.read
        before = encoded(state)
        runes = decided(kind, state, command, read)
        if runes:
            me = owner(kind, state, runes)
            assert decided(kind, state, command, read) == runes, "the same each time"
            if me is not None:
                after, _ = cascaded(kind, me, state, runes)
                if type(command) in kind.internal and command not in kind.lifecycle.due(after):
                    continue  # only asked while it is due
                again = decided(kind, after, command, read)
                assert not again or (kind.name, type(command).__name__) in AGAIN, (command, again)
        assert encoded(state) == before, command


@each_kind
def test_a_law_writes_no_rune_that_is_retired(kind: Kind) -> None:
    """What earlier versions wrote is read and folded; a law that still decides it is wrong."""
    for question in played().questions[kind.name]:
        runes = decided(kind, question.state, question.command, question.read) or ()
        assert not {type(rune) for rune in runes} & {*PLAYED.retired}, question.command


@each_kind
def test_a_rune_that_is_retired_is_still_folded(kind: Kind) -> None:
    """Logs of earlier versions have it: its row stays, and it is not one of those written."""
    rows = {rune for row in kind.lifecycle.table.values() for rune in row}

    assert {*kind.retired} <= rows | kind.lifecycle.observed
    assert not {*kind.retired} & {*kind.runes}


def test_exceptions_are_still_needed() -> None:
    """Who is allowed something else than the others needs it: a list of reasons does not rot."""
    needed = set()
    for name, what in AGAIN:
        kind = PLAYED[name]
        for question in played().questions[name]:
            runes = decided(kind, question.state, question.command, question.read)
            if type(question.command).__name__ == what and runes:
                me = owner(kind, question.state, runes)
                after, _ = cascaded(kind, me or "", question.state, runes)
                if decided(kind, after, question.command, question.read):
                    needed.add((name, what))

    assert needed == set(AGAIN)
    assert set(ELSEWHERE) <= {
        (kind.name, phase, to) for kind in PLAYED for phase, to in _led_by_time(kind)
    }


@each_kind
def test_a_law_that_is_asked_by_its_actor_is_asked_while_it_is_played(kind: Kind) -> None:
    """A kind with an actor answers commands in seeds and scenarios; others are decided for it."""
    assert bool(played().questions[kind.name]) or kind.actor is None


# -- evolve ----------------------------------------------------------------------------------------


@each_kind
def test_a_fold_goes_on_from_a_stored_state_wherever_it_is_cut(kind: Kind) -> None:
    """A state stored and read again is equal, and so is whatever follows from it."""
    law = kind.lifecycle
    for stream in played().of(kind):
        state, read = law.initial, law.initial
        for rune in stream.runes:
            read = stored(kind, read)
            assert read == state, str(stream)
            state, read = law.apply(state, rune), law.apply(read, rune)
            assert law.due(read) == law.due(state), str(stream)
        assert encoded(read) == encoded(state) == encoded(fold(law, stream.runes)), str(stream)


@each_kind
def test_taking_a_rune_in_changes_neither_the_state_nor_its_phase(kind: Kind) -> None:
    """Only the table moves the phase, and a state that somebody holds stays what it was."""
    law = kind.lifecycle
    taken = 0
    for state in states(kind):
        before = encoded(state)
        for cls in STORED:
            rune = samples(cls)[-1]
            try:
                after = law.evolve(state, rune)
            except (IllegalTransition, StopIteration):
                continue
            taken += 1
            assert after.phase is state.phase, kind_of(rune)
        assert encoded(state) == before

    assert taken


@each_kind
def test_a_state_cannot_be_changed(kind: Kind) -> None:
    """Every Struct in a state is frozen, however deep, and none of its fields is a list or set."""
    seen: set[type] = set()
    wrong = [*_changeable(type(kind.lifecycle.initial), seen)]

    assert wrong == []
    assert type(kind.lifecycle.initial) in seen
    with pytest.raises(AttributeError):
        kind.lifecycle.initial.phase = None


def _changeable(hint: Any, seen: set[type]) -> list[str]:  # noqa: ANN401 -- whatever an annotation says
    """Name what can be changed in values of a type."""
    if typing.get_origin(hint) in {list, set} or hint in {list, set}:
        return [str(hint)]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in seen:
        seen.add(hint)
        found = [] if hint.__struct_config__.frozen else [hint.__name__]
        for inner in typing.get_type_hints(hint).values():
            found += _changeable(inner, seen)
        return found
    return [each for inner in typing.get_args(hint) for each in _changeable(inner, seen)]


# -- due -------------------------------------------------------------------------------------------


@each_kind
def test_what_is_due_at_once_is_allowed_and_comes_to_an_end(kind: Kind) -> None:
    """An internal effect decides runes that the table takes, until none of them is left."""
    law = kind.lifecycle
    for state in states(kind):
        inner = [effect for effect in law.due(state) if type(effect) in kind.internal]
        for effect in inner:
            assert decided(kind, state, effect), effect
        me = owner(kind, state, ())
        if me is not None:
            after, _ = cascaded(kind, me, state, ())
            assert not [each for each in law.due(after) if type(each) in kind.internal]


@each_kind
def test_an_end_is_an_end(kind: Kind) -> None:
    """In a phase without a way out nothing is due or open, no deadline runs, nobody is awaited."""
    for phase in kind.lifecycle.terminal:
        for state in by_phase(kind.name)[phase]:
            assert kind.lifecycle.is_over(state)
            assert list(kind.lifecycle.due(state)) == []
            assert not kind.is_open(state)
            assert kind.deadline(state) is None
            assert kind.near(state) is None


@each_kind
def test_work_that_is_left_is_due_or_waits_for_somebody(kind: Kind) -> None:
    """An open entity brings itself on, has a deadline, or waits: for a human, or for another one.

    For its session, if its clock stands.
    """
    for state in states(kind):
        if kind.is_open(state) and state != kind.lifecycle.initial:
            waits = kind.waits_for_human(state, lambda _id: False)
            waits = waits or getattr(state, "stands_since", None) is not None
            assert kind.lifecycle.due(state) or waits or kind.deadline(state) is not None, state


# -- time ------------------------------------------------------------------------------------------


def _led_by_time(kind: Kind) -> set[tuple[str, str]]:
    """Return where each phase is left to once its deadline has passed."""
    found = set()
    for state in [each for phase in all_by_phase(kind.name).values() for each in phase]:
        by = kind.deadline(state)
        if by is not None and (runes := decided(kind, state, TimeUp(by))):
            after, _ = cascaded(kind, owner(kind, state, runes) or "", state, runes)
            found.add((state.phase.value, after.phase.value))
    return found


@each_kind
def test_a_timeout_leads_where_it_says(kind: Kind) -> None:
    """Each that is printed comes to pass in some state, and none leads anywhere else."""
    led = _led_by_time(kind)
    said = {(each.phase.value, each.to.value) for each in kind.lifecycle.timeouts}
    phases = {phase for phase, _ in said}
    others = {(kind.name, *each) for each in led - said if each[0] in phases and each[0] != each[1]}

    assert said <= led
    assert others <= set(ELSEWHERE)


@each_kind
def test_a_deadline_does_nothing_before_its_time(kind: Kind) -> None:
    """A clock that rings early, or for a deadline that was put off since, changes nothing.

    Where the machinery enforces it, the law is not asked before.
    """
    for state in states(kind):
        by = kind.deadline(state)
        if by is not None and not kind.lifecycle.enforced:
            assert not decided(kind, state, TimeUp(by - 1)), state


# -- what is shown ---------------------------------------------------------------------------------


@each_kind
def test_a_summary_is_one_line_that_tells_phases_apart(kind: Kind) -> None:
    """Whatever state it is of, it fits into a list; and another phase is another line."""
    lines: dict[str, set[str]] = {}
    for phase, found in by_phase(kind.name).items():
        for state in found:
            line = kind.summary(state)
            assert line, state
            assert line.splitlines() == [line]
            assert len(line) <= LONGEST_SUMMARY
            if len(kind.lifecycle.table) > 1:
                assert phase.value in line
            lines.setdefault(line, set()).add(phase.value)

    assert all(len(phases) == 1 for phases in lines.values())


# -- any story -------------------------------------------------------------------------------------


@each_kind
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_laws_hold_in_states_that_nobody_came_to(kind: Kind, data: st.DataObject) -> None:
    """From wherever a real entity was, any runes that are allowed keep a state what it must be."""
    law = kind.lifecycle
    stream = data.draw(st.sampled_from(played().of(kind)))
    state = fold(law, stream.runes[: data.draw(st.integers(0, len(stream.runes)))])
    known = sorted(law.runes | law.observed, key=kind_of)
    for cls in data.draw(st.lists(st.sampled_from(known), max_size=8)):
        rune = data.draw(st.sampled_from(samples(cls)))
        try:
            after = law.apply(state, rune)
        except (IllegalTransition, StopIteration):
            continue
        read = law.apply(stored(kind, state), rune)
        assert encoded(read) == encoded(after)
        assert stored(kind, after) == after
        assert len(kind.summary(after)) <= LONGEST_SUMMARY
        if not law.table[after.phase]:
            assert not kind.is_open(after)
        state = after
