"""`runefold log show`: runes as lines, those that are there and, if wanted, those to come.

Internal runes are shown. Of a secret rune a line says only that it is there.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from runefold.cli.terminal.wording import SHORT, fields, moment, name, plain, safe
from runelog.rune import Gap, Tombstone, Unknown, Visibility, check_id, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runefold.cli.terminal.screen import Part
    from runelog.rune import Envelope
    from runelog.store import Runelog


class Level(enum.StrEnum):
    """A visibility, as it is named on the command line."""

    PUBLIC = "public"
    INTERNAL = "internal"
    SECRET = "secret"  # noqa: S105 -- a name, and no password


class Query(NamedTuple):
    """Which runes to show."""

    conversation: str | None
    after: int = 0
    until: int | None = None
    kinds: tuple[str, ...] = ()
    entity: str | None = None
    last: int | None = None
    limit: int | None = None
    follow: bool = False
    level: Level | None = None


def chosen(log: Runelog, query: Query) -> Iterator[Envelope | Gap]:
    """Yield the runes that a query is for, in order."""
    if query.conversation is not None:
        check_id(query.conversation, "conversation id")
    if query.entity is not None:
        check_id(query.entity, "entity id")
    left = query.limit
    for item in _candidates(log, query):
        if query.until is not None and _cursor(item, query) > query.until:
            return
        if isinstance(item, Gap) or _wanted(item, query):
            yield item
            if left is not None and not isinstance(item, Gap):
                left -= 1
                if left == 0:
                    return
        if query.until is not None and _end(item, query) >= query.until:
            # Not at the next rune: if the log is followed it may never come.
            return


def _candidates(log: Runelog, query: Query) -> Iterator[Envelope | Gap]:
    after = query.after
    if query.last is not None:
        head = (
            log.position
            if query.conversation is None
            else log.conversation(query.conversation).head
        )
        after = max(after, head - query.last)
    if query.follow:
        found = log.follow(query.conversation, after)
        return iter(()) if query.until is not None and after >= query.until else found
    if query.conversation is None:
        return log.read_all(after)
    if query.entity is not None:
        seen = log.stream(query.conversation, query.entity, until=query.until)
        return (envelope for envelope in seen if envelope.event_id > after)
    return log.read(query.conversation, after, query.until)


def _cursor(item: Envelope | Gap, query: Query) -> int:
    if isinstance(item, Gap):
        return item.first
    return item.position if query.conversation is None else item.event_id


def _end(item: Envelope | Gap, query: Query) -> int:
    return item.last if isinstance(item, Gap) else _cursor(item, query)


def _wanted(envelope: Envelope, query: Query) -> bool:
    entity = query.entity
    if entity is not None and entity != envelope.owner and entity not in envelope.observers:
        return False
    if query.level is not None and envelope.visibility > Visibility[query.level.name]:
        return False
    if not query.kinds:
        return True
    kind = envelope.kind
    return any(kind == given or kind.startswith(f"{given}.") for given in query.kinds)


def record(item: Envelope | Gap) -> dict[str, Any]:
    """Return a rune or a gap as JSON has it."""
    if isinstance(item, Gap):
        return {
            "gap": item.reason,
            "conversation": item.conversation,
            "first": item.first,
            "last": item.last,
        }
    withheld = _withheld(item)
    return {
        "conversation": item.conversation,
        "event_id": item.event_id,
        "position": item.position,
        "time": moment(item.time, 9),
        "kind": item.kind,
        "owner": item.owner,
        "observers": list(item.observers),
        "agent": item.agent,
        "turn": item.turn,
        "cause": item.cause or None,
        "visibility": Visibility(item.visibility).name.lower(),
        "tags": [] if withheld else list(item.tags),
        "schema": item.schema,
        "withheld": withheld,
        "payload": None if withheld else plain(_payload(item)),
    }


def _withheld(envelope: Envelope) -> str | None:
    """Return why a rune's payload is not shown, None if it is."""
    if envelope.visibility is not Visibility.SECRET or envelope.kind == kind_of(Tombstone):
        return None
    return "secret"


def _payload(envelope: Envelope) -> dict[str, object]:
    rune = envelope.payload
    if isinstance(rune, Tombstone):
        return {"reason": rune.reason, "was": rune.was}
    assert isinstance(rune, Unknown), "the command line knows no kinds of its own"
    return {key: item for key, item in rune.fields.items() if key != "kind"}


def line(item: Envelope | Gap, *, everything: bool, full: bool, long: bool) -> list[Part]:
    """Return a rune as one line: place, time, kind, owner, fields."""
    if isinstance(item, Gap):
        place = f"{item.first}" if item.first == item.last else f"{item.first}-{item.last}"
        whose = f"{item.conversation} was {item.reason}" if item.conversation else item.reason
        return [(f"{place:>6}  {safe(whose)} since: no longer in the order of the log", "yellow")]
    place = f"{item.event_id:>6}"
    if everything:
        place = f"{item.position:>6}  {item.conversation} {item.event_id}"
    parts: list[Part] = [
        (place, "bold"),
        "  ",
        (moment(item.time, 6), "dim"),
        "  ",
        (f"{name(item.kind):<20}", "cyan"),
        "  ",
        (f"{item.owner:<8}", "magenta"),
    ]
    if item.visibility is Visibility.INTERNAL:
        parts.append(("  internal", "yellow"))
    if _withheld(item):
        parts.append(("  secret: not shown", "yellow"))
    elif told := fields(_payload(item), None if full else SHORT):
        parts += ["  ", told]
    if long:
        parts.append(("  | " + fields(_circumstances(item), None), "dim"))
    return parts


def _circumstances(envelope: Envelope) -> dict[str, object]:
    """Return the observers, agent, turn, cause and tags of a rune."""
    told: dict[str, object] = {
        "observers": list(envelope.observers),
        "agent": envelope.agent,
        "turn": envelope.turn,
        "cause": envelope.cause,
        "tags": [] if _withheld(envelope) else list(envelope.tags),
    }
    kept = {key: item for key, item in told.items() if item}
    return {**kept, "schema": envelope.schema, "position": envelope.position}
