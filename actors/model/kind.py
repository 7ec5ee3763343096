"""A call of a model, as the rest of the house knows it."""

from __future__ import annotations

from typing import Final

from actors.kind import Kind
from actors.model import runes
from actors.model.actor import ModelActor
from actors.model.lifecycle import ENTITY

KIND: Final = Kind.of(
    ENTITY,
    prefix="model",
    parents=("turn",),
    runes=(
        runes.Called,
        runes.AssistantDelta,
        runes.Completed,
        runes.Failed,
        runes.Cancelled,
    ),
    actor=ModelActor,
    stuck={"calling": 1_800.0},
    printed=False,
)
