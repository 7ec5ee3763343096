"""How golden bytes and golden logs are written down, and read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.catalogue import KINDS
from runelog.lifecycle import fold, state_hash
from runelog.rune import Change, kind_of
from runelog.stream.streams import StreamReader
from tests.laws.errands import ERRAND
from tests.laws.logs import PLAYED, streams_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runelog.rune import Envelope, Rune

HERE: Final = Path(__file__).parent
RUNES: Final = HERE / "runes.jsonl"
LOGS: Final = HERE / "logs"
CONVERSATION: Final = "conv_golden"
KEPT_KINDS: Final = KINDS.plus([ERRAND])
"""Those with golden files: ours, and one that has a rune which is no longer written."""
KEPT_RUNES: Final = (*KEPT_KINDS.runes, *KEPT_KINDS.retired)


class Golden(msgspec.Struct, frozen=True):
    """One stored rune: how it is encoded, and what it means."""

    kind: str
    schema: int
    stored: str
    """Hexadecimal, the envelope included."""
    value: Any
    """All of its fields, also those that are not stored because they have their defaults."""


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """One rune of a golden log."""

    conversation: str
    event_id: int
    value: Any
    """Its kind, and those of its fields that are stored."""


class Entity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one entity of a golden log came to."""

    conversation: str
    entity: str
    kind: str
    phase: str
    summary: str
    is_open: bool = False
    deadline: int | None = None
    version: int = 1
    """Of the law that gave this hash."""
    hash: str = ""
    """The beginning of it."""


class Account(msgspec.Struct, frozen=True):
    """What is said beside a golden log."""

    runes: list[Stored]
    entities: list[Entity]


def spelt_out(value: Any) -> Any:  # noqa: ANN401 -- of any field
    """Return a value with all of its fields; a mapping that is data is told from a Struct."""
    if isinstance(value, msgspec.Struct):
        return {name: spelt_out(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {"mapping": [[key, spelt_out(each)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return [spelt_out(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(spelt_out(each) for each in value)
    return msgspec.to_builtins(value)


def agrees(found: Any, golden: Any) -> bool:  # noqa: ANN401 -- as above
    """Return True if a value means what it did: a Struct may have more fields by now."""
    if isinstance(golden, dict) and isinstance(found, dict):
        return all(name in found and agrees(found[name], golden[name]) for name in golden)
    if isinstance(golden, list) and isinstance(found, list):
        return len(found) == len(golden) and all(map(agrees, found, golden))
    return bool(found == golden)


def _as_json(rune: Rune) -> Any:  # noqa: ANN401 -- as above
    return msgspec.json.decode(msgspec.json.encode(rune))


def encoded(rune: Rune) -> bytes:
    """Return a rune as it is stored."""
    change = Change(
        "call_1", 0, [rune], observers=("turn_1",), agent="agt_1", turn="turn_1", cause=3
    )
    [body] = PLAYED.codec.encode(CONVERSATION, change)
    return body


def decoded(body: bytes) -> Rune:
    """Return a stored rune."""
    place = {"conversation": CONVERSATION, "event_id": 1, "position": 1, "time": 0}
    return PLAYED.codec.envelope(body, **place).payload  # type: ignore[arg-type]  # as named there


def golden_of(rune: Rune) -> Golden:
    """Return what is kept of a rune."""
    schema = type(rune).schema
    return Golden(kind_of(rune), schema, encoded(rune).hex(), spelt_out(rune))


def golden_runes() -> list[Golden]:
    """Return what is kept of all kinds."""
    lines = RUNES.read_bytes().splitlines() if RUNES.exists() else []
    return [msgspec.json.decode(line, type=Golden) for line in lines]


def golden_logs() -> list[str]:
    """Name the logs that are kept."""
    return sorted(path.stem for path in LOGS.glob("*.runes"))


def envelopes(name: str) -> Iterator[Envelope]:
    """Yield everything in a golden log."""
    with (LOGS / f"{name}.runes").open("rb") as file, StreamReader(file) as reader:
        for section, entries in reader:
            for each in entries:
                yield PLAYED.codec.envelope(
                    each.body,
                    conversation=section.conversation,
                    event_id=each.event_id,
                    position=each.position,
                    time=each.time,
                )


def said_of(name: str) -> Account:
    """Return what is said beside a golden log."""
    return msgspec.json.decode((LOGS / f"{name}.json").read_bytes(), type=Account)


def account_of(found: list[Envelope]) -> Account:
    """Return what some runes mean, and what they come to."""
    runes = [Stored(each.conversation, each.event_id, _as_json(each.payload)) for each in found]
    entities = []
    for stream in streams_in(found):
        kind = stream.kind
        state = fold(kind.lifecycle, stream.runes)
        entities.append(
            Entity(
                stream.conversation,
                stream.entity,
                kind.name,
                state.phase.value,
                kind.summary(state),
                kind.is_open(state),
                kind.deadline(state),
                kind.lifecycle.version,
                state_hash(state)[:16],
            )
        )
    return Account(runes, entities)
