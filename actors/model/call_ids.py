"""The ids of model calls: what they are made of, and what can be told from one. Pure.

A turn's calls are named after turn, round and attempt; those of other callers after a key that the
caller's law chooses. Either way the same call has the same id in every process.
"""

from __future__ import annotations

import hashlib


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


def keyed(prefix: str, conversation: str, entity: str, key: str) -> str:
    """Return the id of what an entity asks for by a key.

    >>> keyed("model", "conv_1", "order_1", "summary")
    'model_0a32f56cb74f99cf'
    """
    name = f"{prefix}\0{conversation}\0{entity}\0{key}"
    return f"{prefix}_{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def of_key(conversation: str, entity: str, key: str) -> str:
    """Return the id of a model call that an entity asks for by a key."""
    return keyed("model", conversation, entity, key)
