"""Which runes a reader wants: by kind, by entity, and by the visibility that it may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runefold import checks
from runelog.errors import Refused
from runelog.rune import Visibility, check_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from runelog.rune import Envelope


class Wanted(NamedTuple):
    """What is asked for; nothing said, everything."""

    kinds: Collection[str] | None = None
    entities: Collection[str] | None = None
    """Those that own a rune or observe it."""
    visibility: Visibility | None = None
    """The level that a reader may see: `PUBLIC` a client, `INTERNAL` an agent, `SECRET` all."""

    @property
    def is_narrow(self) -> bool:
        """Whether more is asked than the log itself looks at, which are the kinds."""
        return self.entities is not None or self.visibility is not None

    def takes(self, envelope: Envelope) -> bool:
        """Tell whether a rune is asked for."""
        if self.kinds is not None and envelope.kind not in self.kinds:
            return False
        if self.visibility is not None and envelope.visibility > self.visibility:
            return False
        entities = self.entities
        return (
            entities is None
            or envelope.owner in entities
            or any(observer in entities for observer in envelope.observers)
        )


def wanted(
    kinds: Collection[str] | None,
    entities: Collection[str] | None,
    visibility: Visibility | None,
) -> Wanted:
    """Return what is asked for, or refuse what cannot be meant.

    >>> wanted(None, "turn_1", None)
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: entities is the string 'turn_1': name entities in a list or a set
    """
    if isinstance(entities, str):
        msg = f"entities is the string {entities!r}: name entities in a list or a set"
        raise Refused(msg)
    for entity in entities or ():
        check_id(entity, "entity id")
    if visibility is not None and not isinstance(visibility, Visibility):
        msg = f"visibility is {checks.shown(visibility)}: use a Visibility, such as PUBLIC"
        raise Refused(msg)
    return Wanted(kinds, entities, visibility)
