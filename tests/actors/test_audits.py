"""What is not in one rune, but in who sees it, how it is read and how it folds, is found too."""

from __future__ import annotations

import itertools
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from actors.audits.resume import resumed
from actors.budget import runes as budget
from actors.catalogue import CODEC, KINDS
from actors.entity import Routing
from actors.invariants import violations
from actors.kind import Kind, Kinds
from actors.model import runes as model
from actors.model.providers.scripted import call
from actors.tool.outcome import Outcome
from actors.tool.runes import SANDBOX
from actors.tool.spec import ToolSpec
from runelog.lifecycle import Lifecycle
from runelog.memory import MemoryLog
from runelog.rune import Change, Visibility
from tests.actors.plants import CONV, begun, created, over, plant, spawned, written
from tests.runefold.talks import talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.tool.context import Call
    from runelog.rune import Envelope


def test_a_secret_in_the_fold_of_another_agent_is_found() -> None:
    """What is secret is its own agent's: seen by another one's turn, it may get into a prompt."""
    log = MemoryLog(CODEC)
    plant(log, spawned(), spawned("agt_2", "agt_1"), begun(), begun("turn_2", "agt_2"))
    word = model.AssistantDelta("hush")
    for seen in (("turn_1",), ("turn_1", "session"), ("turn_2",), ("agt_2",)):
        secret = Visibility.SECRET
        log.append(CONV, [Change("turn_1", None, [word], seen, agent="agt_1", visibility=secret)])
    found = [each for each in violations(log.read(CONV)) if "PRIVACY" in each.invariant]

    assert [each.where for each in found] == ["conv_a event 7", "conv_a event 8"]


class _Loud:
    """A tool that is to stay off the network, and says that it could not be kept from it."""

    spec = ToolSpec(name="fetch", side_effects=False, network=False)

    def fit(self, arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- a tool's
        """Take whatever comes."""
        return dict(arguments)

    def run(self, call: Call) -> Outcome:
        """Say so."""
        call.progress(SANDBOX, "network access could not be blocked here")
        return Outcome("success", "fetched")


def test_a_program_that_was_not_kept_off_the_network_is_found_in_the_log() -> None:
    """What its tool declares is recorded with the call, and what came of it as well."""
    there = talk([[call("fetch")], ["done"]], _Loud())
    there.session.send("go").result(10)
    there.stage.log.flush()

    assert [each.invariant for each in violations(there.session.runes())] == ["INV-TOOL-SANDBOX"]


class _Forgetful(MemoryLog):
    """Gives the wrong runes to whoever reads on from a cursor."""

    def __init__(self, wrong: Callable[[list[Envelope]], list[Envelope]]) -> None:
        super().__init__(CODEC)
        self._wrong = wrong

    def read(self, *args: Any, **kwargs: Any) -> Iterator[Envelope]:  # noqa: ANN401 -- of any log
        found = list(super().read(*args, **kwargs))
        return iter(self._wrong(found) if len(args) > 1 and args[1] else found)


@pytest.mark.parametrize(
    ("wrong", "invariant"),
    [
        (lambda found: found[1:], "INV-RESUME-NO-GAPS"),
        (lambda found: found[:-1], "INV-RESUME-NO-GAPS"),
        (lambda found: [*found, found[-1]], "INV-RESUME-NO-DUPLICATES"),
        (lambda found: [found[0], *found], "INV-RESUME-NO-DUPLICATES"),
        (lambda found: found[::-1], "INV-RESUME-NO-DUPLICATES"),
    ],
)
def test_a_cursor_that_leads_astray_is_found(
    wrong: Callable[[list[Envelope]], list[Envelope]], invariant: str
) -> None:
    """Read on from a cursor, each later rune comes once and in its order, or that is told."""
    log, sound = _Forgetful(wrong), MemoryLog(CODEC)
    for each in (log, sound):
        plant(each, created(), spawned(), begun(), over(), begun("turn_2"))

    assert {found.invariant for found in resumed(log, CONV, "session")} == {invariant}
    assert list(resumed(sound, CONV, "session")) == []


class _Phase(StrEnum):
    THERE = "there"


class _Counted(msgspec.Struct, frozen=True):
    phase: _Phase = _Phase.THERE
    count: int = 0


def test_a_law_that_folds_differently_each_time_is_found() -> None:
    """Folded twice from the same runes, a state has the same hash, or that is told."""
    ticks = itertools.count()
    moody = Lifecycle[_Phase, _Counted, object, object](
        name="moody",
        table={_Phase.THERE: {model.Called: _Phase.THERE}},
        initial=_Counted(),
        decide=lambda _state, _command: [],
        evolve=lambda state, _rune: msgspec.structs.replace(state, count=next(ticks)),
        due=lambda _state: [],
    )
    kind = Kind(
        lifecycle=moody,
        route=lambda _state, _rune: Routing("m"),
        births=(model.Called,),
        is_open=lambda _state: False,
        prefix="m",
        runes=(model.Called,),
    )
    rune = model.Called("m", "turn_1", "demo", 0, "", budget.Amounts(), 0, "agt_1")
    found = violations(written(("m", rune)), kinds=Kinds([*others(), kind]))

    assert [each.invariant for each in found] == ["INV-REPLAY-DETERMINISTIC"]


def others() -> list[Kind]:
    """Return all kinds but that of model calls."""
    return [kind for kind in KINDS if kind.name != "model"]


class _Loose(msgspec.Struct, frozen=True):
    phase: _Phase = _Phase.THERE
    seen: Any = ()


def test_a_state_that_does_not_survive_being_put_away_is_found() -> None:
    """Folding may be broken off and gone on with: from what was stored, the same comes out."""
    loose = Lifecycle[_Phase, _Loose, object, object](
        name="loose",
        table={_Phase.THERE: {model.Called: _Phase.THERE}},
        initial=_Loose(),
        decide=lambda _state, _command: [],
        # Stored, it is a list.
        evolve=lambda state, _rune: msgspec.structs.replace(
            state, seen=("seen",) if isinstance(state.seen, tuple) else "stored"
        ),
        due=lambda _state: [],
    )
    kind = Kind(
        lifecycle=loose,
        route=lambda _state, _rune: Routing("m"),
        births=(model.Called,),
        is_open=lambda _state: False,
        prefix="m",
        runes=(model.Called,),
    )
    rune = model.Called("m", "turn_1", "demo", 0, "", budget.Amounts(), 0, "agt_1")
    runes = written(("m", rune), ("m", msgspec.structs.replace(rune, model_call_id="n")))
    found = violations(runes, kinds=Kinds([*others(), kind]))

    assert [each.invariant for each in found] == ["INV-REPLAY-IDEMPOTENT"]
