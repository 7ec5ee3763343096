"""A toy kind with views: orders that are placed, paid and sent, or cancelled."""

from __future__ import annotations

import shutil
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.entity import Moved, Routing
from actors.kind import Kind, Kinds
from actors.scheduling.clock import ManualClock
from actors.scheduling.manual_scheduler import ManualScheduler
from actors.shell.conversation import Services
from actors.tool.policy import Policy
from actors.tool.toolbox import Toolbox
from actors.view import LineFile, Mark, StateFile, Step, View
from runefold.chance import SystemChance
from runefold.views import Views
from runelog.lifecycle import Lifecycle
from runelog.rune import Change, Rune

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from runelog.log import Log


class Phase(StrEnum):
    """Where an order is."""

    NEW = "new"
    PLACED = "placed"
    PAID = "paid"
    SENT = "sent"


class Placed(Moved, frozen=True, kw_only=True, tag="order.placed"):
    """Begins it."""

    item: str


class Paid(Moved, frozen=True, kw_only=True, tag="order.paid"):
    """It can be sent."""


class Noted(Rune, frozen=True, tag="order.noted"):
    """Moves nothing, and is shown."""

    text: str


class Sent(Moved, frozen=True, kw_only=True, tag="order.sent"):
    """Ends it."""


class Order(msgspec.Struct, frozen=True):
    """What is known of it."""

    phase: Phase = Phase.NEW
    item: str = ""
    notes: tuple[str, ...] = ()


def _evolve(state: Order, rune: Rune) -> Order:
    match rune:
        case Placed(item=item):
            return msgspec.structs.replace(state, item=item)
        case Noted(text):
            return msgspec.structs.replace(state, notes=(*state.notes, text))
    return state


LAW: Final = Lifecycle[Phase, Order, object, object](
    name="order",
    table={
        Phase.NEW: {Placed: Phase.PLACED},
        Phase.PLACED: {Paid: Phase.PAID},
        Phase.PAID: {Sent: Phase.SENT},
        Phase.SENT: {},
    },
    initial=Order(),
    decide=lambda _state, _command: [],
    evolve=_evolve,
    due=lambda _state: [],
)


def shown(step: Step) -> object:
    """Return what an order's file holds."""
    return {
        "order": step.entity,
        "state": step.state.phase.value,
        "item": step.state.item,
        "notes": step.state.notes,
        "history": [(move.origin, move.to, move.time) for move in step.history],
        "created": step.created,
    }


def line(step: Step) -> object:
    """Return one line of an order's log."""
    assert step.move is not None
    move = step.move
    return [move.time, step.entity, move.origin, move.to, move.trigger, len(step.history)]


def waiting(step: Step) -> object:
    """Return what is shown of an order while it is not paid."""
    return {"order": step.entity} if step.state.phase is Phase.PLACED else None


STATE: Final = StateFile(path="orders/{entity}/STATE.json", render=shown)
LOG: Final = LineFile(path="orders/{entity}/LOG.jsonl", line=line)
LEDGER: Final = LineFile(
    path="orders/LEDGER.jsonl", line=lambda step: {"id": step.entity, "to": step.state.phase}
)
UNPAID: Final = StateFile(path="orders/UNPAID/{entity}.json", render=waiting)
ALL: Final = (STATE, LOG, LEDGER, UNPAID)


def order_kind(*views: Any) -> Kind:  # noqa: ANN401 -- views of any sort
    """Return a kind with these views."""
    return Kind(
        lifecycle=LAW,
        route=lambda _state, _rune: Routing("ord_1"),
        births=(Placed,),
        is_open=lambda _state: False,
        prefix="ord",
        runes=(Placed, Paid, Noted, Sent),
        views=views,
    )


CODEC: Final = Kinds([order_kind()]).codec


class Table(View):
    """A view that is no file: rows in memory, with a mark."""

    name = "table"

    def __init__(self) -> None:
        """Begin empty."""
        self.rows: dict[tuple[str, str], str] = {}
        self.kept: Mark | None = None
        self.resets = 0
        self.broken = False

    def mark(self) -> Mark | None:
        """Return the mark."""
        return self.kept

    def take(self, steps: Sequence[Step], mark: Mark) -> None:
        """Take in steps, unless it is broken."""
        if self.broken:
            msg = "the table is broken"
            raise OSError(msg)
        for step in steps:
            self.rows[step.conversation, step.entity] = step.state.phase.value
        self.kept = mark

    def reset(self) -> None:
        """Begin anew."""
        self.resets += 1
        self.rows, self.kept = {}, None

    def erase(self, conversation: str) -> None:
        """Remove the rows of a conversation."""
        self.rows = {key: row for key, row in self.rows.items() if key[0] != conversation}


class Machine:
    """A clock and a scheduler that are driven by hand, and views that use them."""

    def __init__(self, log: Log, directory: Path | None, *views: Any) -> None:  # noqa: ANN401 -- as above
        """Open the views of orders; all of them if none is named."""
        self.clock = ManualClock()
        self.scheduler = ManualScheduler(self.clock)
        self.log = log
        services = Services(
            clock=self.clock,
            chance=SystemChance(),
            scheduler=self.scheduler,
            models={},
            tools=Toolbox([]),
            policy=Policy(mode="full_access"),
            secret=str,
        )
        self.views = Views(Kinds([order_kind(*(views or ALL))]), log, directory, services)


def place(log: Log, order: str = "ord_1", conversation: str = "conv_a") -> None:
    """Place an order."""
    log.append(conversation, [Change(order, None, [Placed(item="tea")])])


def go_on(log: Log, order: str = "ord_1", conversation: str = "conv_a") -> None:
    """Have an order paid, noted and sent."""
    log.append(conversation, [Change(order, None, [Paid(), Noted("quick")])])
    log.append(conversation, [Change(order, None, [Sent(trigger="post")])])


def files(directory: Path) -> dict[str, bytes]:
    """Return all files of views, without the record."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.startswith("views.sqlite")
    }


def fresh(log: Log, directory: Path) -> dict[str, bytes]:
    """Return the files that views make of a log if there were none before."""
    machine = Machine(log, directory)
    machine.views.close()
    found = files(directory)
    shutil.rmtree(directory)
    return found
