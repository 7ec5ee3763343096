"""Rules about what is on disk: later versions read it as this one does. `README.md` says more."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec
import pytest

from runelog.errors import Corrupt, NewerFormat
from runelog.rune import Unknown, kind_of
from tests.formats.golden import (
    HERE,
    KEPT_KINDS,
    KEPT_RUNES,
    LOGS,
    RUNES,
    account_of,
    agrees,
    decoded,
    encoded,
    envelopes,
    golden_logs,
    golden_runes,
    said_of,
    spelt_out,
)

if TYPE_CHECKING:
    from runelog.rune import Rune
    from tests.formats.golden import Account, Golden

PER_MACHINE: Final = 50_000
"""Bytes that the golden files of a machine may take, on average."""
WHAT_TO_DO: Final = """
What is stored as {kind} would not be read as it was written. If that is wanted:
  * a new field has a default, with which old runes mean what they did: then nothing fails here;
  * a field that means something else, has another type, default, name or place: raise `schema` of
    the rune, and give the codec an upcaster that turns the old fields into the new ones;
  * a rune that is no longer written moves from its kind's `runes` to `retired`; its law folds it.
tests/formats/README.md says when golden files may be made anew instead.
"""
FOLDED_OTHERWISE: Final = """
The runes of {where} come to something else than they did. If that is wanted, users see another
phase, deadline or summary for logs that they have: say so in the changelog, raise the `version` of
the law, and see tests/formats/README.md for when golden files may be made anew.
"""


@cache
def _runes_by_kind() -> dict[str, list[Golden]]:
    found: dict[str, list[Golden]] = {}
    for each in golden_runes():
        found.setdefault(each.kind, []).append(each)
    return found


KEPT: Final = sorted(_runes_by_kind())


@pytest.mark.parametrize("kind", KEPT)
def test_a_stored_rune_means_what_it_did(kind: str) -> None:
    """Each decodes to the value written down beside it, defaults included."""
    for golden in _runes_by_kind()[kind]:
        try:
            rune = decoded(bytes.fromhex(golden.stored))
        except (Corrupt, NewerFormat) as error:
            pytest.fail(f"{error}\n{WHAT_TO_DO.format(kind=kind)}")
        assert not isinstance(rune, Unknown), WHAT_TO_DO.format(kind=kind)
        assert agrees(spelt_out(rune), golden.value), WHAT_TO_DO.format(kind=kind)


@pytest.mark.parametrize("kind", KEPT)
def test_a_rune_is_stored_as_it_was(kind: str) -> None:
    """The same value gives the same bytes, as long as the schema is the same."""
    for golden in _runes_by_kind()[kind]:
        rune = decoded(bytes.fromhex(golden.stored))
        if type(rune).schema == golden.schema:
            assert encoded(rune).hex() == golden.stored, WHAT_TO_DO.format(kind=kind)


@pytest.mark.parametrize("cls", KEPT_RUNES, ids=kind_of)
def test_every_rune_and_every_field_has_golden_bytes(cls: type[Rune]) -> None:
    """What a new kind or a new field stores is written down once, before anybody relies on it."""
    kept = [decoded(bytes.fromhex(each.stored)) for each in _runes_by_kind().get(kind_of(cls), [])]
    stored = {name for rune in kept for name in msgspec.to_builtins(rune)}
    missing = {field.encode_name for field in msgspec.structs.fields(cls)} - stored

    assert kept, f"{kind_of(cls)} has no golden bytes: run `python -m tests.formats.make`"
    assert not missing, f"{kind_of(cls)} is new in {missing}: run `python -m tests.formats.make`"


@cache
def _found(name: str) -> Account:
    return account_of(list(envelopes(name)))


@pytest.mark.parametrize("name", golden_logs())
def test_every_rune_of_a_golden_log_means_what_it_did(name: str) -> None:
    """Logs of an earlier version decode to the values written down beside them."""
    for found, golden in zip(_found(name).runes, said_of(name).runes, strict=True):
        text = WHAT_TO_DO.format(kind=golden.value["kind"])
        assert (found.conversation, found.event_id) == (golden.conversation, golden.event_id)
        assert found.value == golden.value, text
    for envelope in envelopes(name):
        if type(envelope.payload).schema == envelope.schema:
            assert msgspec.msgpack.encode(envelope.payload) == bytes(envelope.body), envelope.kind


@pytest.mark.parametrize("name", golden_logs())
def test_every_entity_of_a_golden_log_comes_to_what_it_did(name: str) -> None:
    """Phase, open work, deadline and summary are those of then, in every later version.

    A state may change with the version of its law; within one version it is the same, byte by byte.
    """
    now = {(each.conversation, each.entity): each for each in _found(name).entities}
    for golden in said_of(name).entities:
        found = now[golden.conversation, golden.entity]
        where = f"{golden.entity} in {golden.conversation} of {name}"
        if found.version != golden.version:
            found = msgspec.structs.replace(found, version=golden.version, hash=golden.hash)
        assert found == golden, FOLDED_OTHERWISE.format(where=where)


def test_golden_logs_have_every_kind_and_every_rune() -> None:
    """A kind that is listed has its logs here, so that later versions are held to them."""
    accounts = [said_of(name) for name in golden_logs()]
    kinds = {each.kind for account in accounts for each in account.entities}
    runes = {each.value["kind"] for account in accounts for each in account.runes}
    text = "add a log to MADE_BY in tests/formats/make.py, and run `python -m tests.formats.make`"

    assert {kind.name for kind in KEPT_KINDS} - kinds == set(), text
    assert {kind_of(rune) for rune in KEPT_RUNES} - runes == set(), text


def test_golden_files_stay_small() -> None:
    """They are in every clone for ever: only with another machine may they take more."""
    most = PER_MACHINE * len(KEPT_KINDS.all)

    assert RUNES.stat().st_size + sum(path.stat().st_size for path in LOGS.iterdir()) < most
    assert (HERE / "README.md").exists()
