"""What was seen of a life: its commits, the messages in it, and where it could be hit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from runefold.testing.crash.effects import Effects
from runefold.testing.crash.instrumentation.journal import Committed, Handled, Synced
from runefold.testing.crash.plan.points import Boundary, Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runefold.testing.crash.instrumentation.journal import Line
    from runefold.testing.crash.plan.points import Effect


def boundaries(lines: Sequence[Line], life: int = 1) -> list[Boundary]:
    """Return the commits of a life, in order; unless others are asked for, of the first."""
    commits = [line for line in lines if isinstance(line, Committed) and line.life == life]
    synced = {line.number for line in lines if isinstance(line, Synced) and line.life == life}
    over = {done.call_id for done in Effects(lines) if done.finished and done.life == life}
    return [
        Boundary(
            number,
            line.conversation,
            line.kinds,
            line.mark,
            line.occurrence,
            line.first,
            line.at,
            tuple(_seen(each, line.conversation, over) for each in line.effects),
            line.number in synced,
        )
        for number, line in enumerate(sorted(commits, key=lambda line: line.number), 1)
    ]


def handled(lines: Sequence[Line]) -> list[Message]:
    """Return the messages that actors handled in an undisturbed run, in order."""
    found = [line for line in lines if isinstance(line, Handled) and line.life == 1]
    return [
        Message(number, line.mark, line.occurrence, line.at) for number, line in enumerate(found, 1)
    ]


def _seen(effect: Effect, conversation: str, over: set[str]) -> Effect:
    """Say of an effect whether it came to its end."""
    ids = {effect.entity, f"{conversation}/{effect.entity}"}
    return msgspec.structs.replace(effect, over=bool(ids & over))
