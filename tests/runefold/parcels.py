"""Kinds that an app brings: parcels, with commands that only their classes describe; and orders."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import msgspec
from order import ORDER

from actors.catalogue import KINDS as OURS
from actors.kind import Kind
from actors.public_command import Command, Count, Reason, about
from runefold.runtime import Runtime
from runelog.lifecycle import Lifecycle, Table, refusal
from runelog.rune import Rune

if TYPE_CHECKING:
    from pathlib import Path

    from actors.public_command import CommandTarget

NAME: Final = "parcel"


class Packed(Rune, frozen=True, tag="parcel.packed"):
    """A parcel is ready."""

    parcel_id: str


class Shipped(Rune, frozen=True, tag="parcel.shipped"):
    """A parcel is on its way."""

    weight: int
    by: str
    note: Any = None
    insured: bool = True


class Labelled(Rune, frozen=True, tag="parcel.labelled"):
    """It has labels, from the first to the last."""

    texts: tuple[str, ...]


class Phase(StrEnum):
    """What a parcel can be."""

    PACKED = "packed"
    SHIPPED = "shipped"


TABLE: Final[Table[Phase]] = {
    Phase.PACKED: {Shipped: Phase.SHIPPED, Labelled: Phase.PACKED},
    Phase.SHIPPED: {},
}


class State(msgspec.Struct, frozen=True):
    """What a parcel's runes add up to."""

    phase: Phase = Phase.PACKED
    parcel_id: str = ""


class ShipOut(Command, frozen=True):
    """Hand a parcel to a carrier.

    Refused if it was shipped before.
    """

    done: ClassVar[str] = "shipped"

    weight: Annotated[Count, about("Its weight in grams.", metavar="GRAMS")]
    by: Annotated[Literal["by_road", "by_air"], about("Which way it goes.")] = "by_road"
    note: Annotated[Any, about("What the carrier should know: JSON or text.")] = None
    insured: Annotated[bool, about("Insure it.")] = True
    reason: Reason = ""


class Label(msgspec.Struct, frozen=True):
    """What is stuck on a parcel."""

    text: str
    size: int = 1


class Stick(Command, frozen=True):
    """Stick labels on a parcel."""

    labels: Annotated[tuple[Label, ...], about("The labels: JSON.", metavar="LABELS")]
    first: Annotated[Label | None, about("The one to begin with: JSON.")] = None


class Weigh(Command, frozen=True):
    """Ask the scales of the app how heavy a parcel is."""

    offline: ClassVar[Literal["no"]] = "no"
    way_out: ClassVar[str] = "open the shop"

    async def execute(self, target: CommandTarget) -> dict[str, str]:
        """Answer without asking the parcel."""
        return {"weighed": target.entity, "in": target.conversation}


def decide(state: State, command: ShipOut | Stick) -> list[Rune]:
    """Stick labels on it; ship it once."""
    if isinstance(command, Stick):
        first = () if command.first is None else (command.first,)
        return [Labelled(tuple(label.text * label.size for label in (*first, *command.labels)))]
    if state.phase is Phase.SHIPPED:
        raise refusal(NAME, state.phase, command)
    return [Shipped(command.weight, command.by, command.note, command.insured)]


def evolve(state: State, rune: Rune) -> State:
    """Know its id."""
    return State(parcel_id=rune.parcel_id) if isinstance(rune, Packed) else state


PARCEL: Final = Kind(
    lifecycle=Lifecycle(
        name=NAME,
        table=TABLE,
        initial=State(),
        decide=decide,
        evolve=evolve,
        due=lambda _: (),
    ),
    prefix=NAME,
    parents=("session",),
    runes=(Packed, Labelled, Shipped),
    commands=(ShipOut, Stick, Weigh),
)
KINDS: Final = [PARCEL, ORDER]
KNOWN: Final = OURS.plus(KINDS)
ALL: Final = KNOWN.commands


def build(directory: Path) -> Runtime:
    """Open the shop."""
    return Runtime.open(directory, kinds=KINDS)


def build_in_vain(directory: Path) -> Runtime:
    """Leave a file, and fail before a runtime is opened."""
    (directory / "left-behind").write_text("", encoding="utf-8")
    message = "there is no key"
    raise LookupError(message)
