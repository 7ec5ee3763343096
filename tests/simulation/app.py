"""The app that is simulated: the order desk of the examples and the machines of `tests/laws`."""

from __future__ import annotations

from typing import Final

from order import ORDER

from runefold.testing.simulation import App
from tests.laws import errands, orders, purchases

APP: Final = App(
    kinds=(ORDER, errands.ERRAND, *purchases.KINDS),
    tools=(orders.pay, purchases.fetch),
    models=(errands.ADVISER,),
)
NAME: Final = f"{__name__}:APP"
