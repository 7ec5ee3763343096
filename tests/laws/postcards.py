"""A machine of an app that a trip bears and that goes on when the trip is over."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec.structs import replace

from runefold.machines import (
    Abandon,
    Cancel,
    Command,
    Kind,
    Lifecycle,
    Machine,
    Moved,
    Rune,
    about,
    refusal,
)

CARDS: Final = "postcard"


class Posted(Rune, frozen=True, tag="postcard.posted"):
    """The birth."""

    text: str


class Delivered(Moved, frozen=True, tag="postcard.delivered"):
    """The end."""

    how: str


class CardPhase(StrEnum):
    """What a postcard can be."""

    POSTED = "posted"
    DELIVERED = "delivered"


class CardState(msgspec.Struct, frozen=True):
    """What a postcard's runes add up to."""

    phase: CardPhase = CardPhase.POSTED
    text: str = ""
    how: str = ""


class Write(Command, frozen=True):
    """Write a postcard."""

    begins = True

    text: Annotated[str, about("What it says.")]


class Deliver(Command, frozen=True):
    """Deliver a postcard."""


def _decide_card(state: CardState, command: object) -> list[Rune]:
    over = state.phase is CardPhase.DELIVERED
    match command:
        case Write(text) if not state.text:
            return [Posted(text)]
        case Deliver():
            return [] if over else [Delivered("read")]
        case Cancel(reason) | Abandon(reason):
            return [] if over else [Delivered(reason)]
        case _:
            raise refusal(CARDS, state.phase, command)


def _evolve_card(state: CardState, rune: Rune) -> CardState:
    match rune:
        case Posted(text):
            return replace(state, text=text)
        case Delivered(how):
            return replace(state, how=how)
        case _:
            return state


POSTCARD: Final = Kind(
    lifecycle=Lifecycle(
        name=CARDS,
        table={
            CardPhase.POSTED: {Delivered: CardPhase.DELIVERED},
            CardPhase.DELIVERED: {},
        },
        initial=CardState(),
        decide=_decide_card,
        evolve=_evolve_card,
        due=lambda _state: [],
    ),
    prefix="postcard",
    parents=("session", "trip"),
    runes=(Posted, Delivered),
    actor=Machine,
    commands=(Write, Deliver),
    on_pause="leave",
    on_close="leave",
    on_fail="cancel",
    waits_for_human=lambda _state, _waits: True,
    outcome=lambda state: (state.text, state.phase.value, state.how),
)
