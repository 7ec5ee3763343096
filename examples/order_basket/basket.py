"""A basket: several orders at once, each with a life of its own.

open ──> empty
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace
from order import ORDER, Place

from runefold import machines as rf


class Filled(rf.Rune, frozen=True, tag="basket.filled"):
    """A customer wants several things: the basket begins."""

    items: str
    cents: int


class Emptied(rf.Moved, frozen=True, tag="basket.emptied"):
    """All that is in it was ordered, or is not wanted any more."""

    paid: int


class Phase(StrEnum):
    """What a basket can be."""

    OPEN = "open"
    EMPTY = "empty"


class State(msgspec.Struct, frozen=True):
    """What a basket's runes add up to."""

    phase: Phase = Phase.OPEN
    children: tuple[rf.Child, ...] = ()  # the orders that are under way
    items: str = ""
    cents: int = 0
    ended: dict[str, str] = {}  # in which phase, or why it was refused, by item


class Fill(rf.Command, frozen=True):
    """Order several things of one price."""

    begins = True
    items: Annotated[str, rf.about("What is ordered, with commas.", metavar="ITEMS")]
    cents: Annotated[int, rf.about("What each costs, in cents.", metavar="CENTS")]


class Settle(msgspec.Struct, frozen=True):
    """End it: every order has."""


def decide(state: State, command: object) -> list[rf.Rune]:
    """Answer a command with the runes it leads to, or refuse it."""
    paid = [*state.ended.values()].count("paid")
    match state.phase, command:
        case Phase.OPEN, Fill(items, cents) if not state.items:
            return [Filled(items, cents)]
        case Phase.OPEN, (Settle() | rf.Cancel() | rf.Abandon()):
            return [Emptied(paid)]
        case Phase.EMPTY, (rf.Cancel() | rf.Abandon()):
            return []
        case _:
            raise rf.refusal(BASKET.name, state.phase, command)


@rf.keeps_children
def evolve(state: State, rune: rf.Rune) -> State:
    """Take a rune's data into the state; the table of children is kept already."""
    match rune:
        case Filled(items, cents):
            return replace(state, items=items, cents=cents)
        case rf.children.Ended(key=item, phase=phase, refused=refused):
            return replace(state, ended={**state.ended, item: phase or refused})
        case _:
            return state


def due(state: State) -> list[Any]:
    """Have an order for each item until it has ended; then settle."""
    if not state.items or state.phase is Phase.EMPTY:
        return []
    left = [item for item in state.items.split(",") if item not in state.ended]
    orders = [rf.BearChild(item, "order", Place(item, state.cents)) for item in left]
    return orders or [Settle()]


BASKET = rf.Kind(
    lifecycle=rf.Lifecycle(
        name="basket",
        table={Phase.OPEN: {Emptied: Phase.EMPTY}, Phase.EMPTY: {}},
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=due,
    ),
    prefix="basket",
    parents=("session",),
    runes=(Filled, Emptied),
    internal=frozenset({Settle}),
    actor=rf.Machine,
    commands=(Fill,),
    outcome=lambda state: {"phase": state.phase, "ended": sorted(state.ended.items())},
)
KINDS = (BASKET, dataclasses.replace(ORDER, parents=("session", "basket")))
