"""Archived and erased conversations: telling a catalog that is built anew about them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from runelog.errors import Corrupt
from runelog.index.records import Head, decode_head
from runelog.lmdb.salvage import SalvageView
from runelog.rune import State
from runelog.stream.archive import Archives

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from runelog.index.catalog import Catalog


def known_heads(catalog: Path) -> dict[str, Head]:
    """Return what a catalog, damaged or not, tells of conversations."""
    heads = {}
    if catalog.exists():
        with SalvageView.open(catalog) as view:
            for key, stored in view.salvage("heads"):
                with contextlib.suppress(Corrupt):
                    head = decode_head(key, stored)
                    heads[head.id] = head
    return heads


def resting_heads(directory: Path, catalog: Path) -> Iterator[Head]:
    """Yield archived and erased conversations, as their files tell and then as a catalog does.

    Without the catalog, a missing archive would go unnoticed.
    """
    yield from Archives(directory / "archive").heads()
    for head in known_heads(catalog).values():
        if head.state is State.ARCHIVED:
            yield head


def settle_resting(
    catalog: Catalog, resting: Iterable[Head], active: Mapping[str, Head], dead: Collection[str]
) -> None:
    """Add archived and erased conversations to a catalog that was built from the segments.

    `active` tells what the active segment holds, which is not in the catalog. Where segments hold
    the runes as well, those count, unless they are `dead` or the archive has more of them.
    """
    for head in resting:
        known = catalog.head(head.id)
        if known is not None and known.state is not State.LIVE:
            continue
        if head.state is State.ERASED and (head.id in active or catalog.spans(head.id, 0)):
            # Its runes are back. As long as it and their places are known, opening the log erases
            # them.
            if known is None:
                end = reach(catalog, head.id, active)
                catalog.settle(Head(head.id, 1, end, 0, 0, 0, State.ARCHIVED), dead=True)
            continue
        if head.id in dead or reach(catalog, head.id, active) < max(head.head, 1):
            catalog.settle(head, dead=head.id in dead)
    for name in dead:
        # Its archive is missing, as in a copy: that must show, and not be forgotten.
        if catalog.head(name) is None and (end := reach(catalog, name, active)):
            catalog.settle(Head(name, 1, end, 0, 0, 0, State.ARCHIVED), dead=True)


def settle_missing(catalog: Catalog, dropped: Iterable[Head], active: Mapping[str, Head]) -> None:
    """Add conversations to a catalog that only segments say were archived.

    Their archives are missing, as in a copy: that must show, and not be forgotten.
    """
    for head in dropped:
        if head.id not in active and catalog.head(head.id) is None:
            head.since = 1
            catalog.settle(head)


def reach(catalog: Catalog, conversation: str, active: Mapping[str, Head]) -> int:
    """Return up to which event the segments hold a conversation without a gap."""
    reached = 0
    for span in catalog.spans(conversation, 0):
        if span.first != reached + 1:
            return reached
        reached = span.last
    own = active.get(conversation)
    return own.head if own is not None and own.since <= reached + 1 else reached
