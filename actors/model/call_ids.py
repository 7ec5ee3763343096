"""The ids of model calls: what they are made of, and what can be told from one. Pure.

A turn's calls are named after turn, round and attempt; those of other callers after a key that the
caller's law chooses. Either way the same call has the same id in every process.
"""

from __future__ import annotations

from actors.entity import keyed


def of_round(turn: str, round_number: int, attempt: int) -> str:
    """Return the id of a turn's model call.

    >>> of_round("turn_1", 0, 2)
    'turn_1-r0-a2'
    """
    return f"{turn}-r{round_number}-a{attempt}"


def turn_of(call: str) -> str:
    """Return the turn that a model call is of.

    >>> turn_of("turn_1-r0-a2")
    'turn_1'
    """
    return call.partition("-")[0]


def of_key(conversation: str, entity: str, key: str) -> str:
    """Return the id of a model call that an entity asks for by a key."""
    return keyed("model", conversation, entity, key)
