"""The conversations themselves, as an app would write them: send, wait, answer.

Each may be cut off anywhere and is then played again from the top on what is left. It never asks
what was done already, except where an app has to know: whether its conversation is there, whether
its second agent is, whether there is still something to interrupt.
"""

from __future__ import annotations

from typing import Final

from tests.scenarios.app import EVERYTHING, NAME, PATIENCE, App, folded, is_done, until
from tests.scenarios.humans import HUMANS
from tests.scenarios.people import PEOPLE
from tests.scenarios.rests import RESTS
from tests.scenarios.stops import STOPS
from tests.scenarios.talks import TALKS

__all__ = ["ALL", "EVERYTHING", "NAME", "PATIENCE", "App", "folded", "is_done", "until"]

ALL: Final = {scenario.name: scenario for scenario in (*TALKS, *HUMANS, *STOPS, *PEOPLE, *RESTS)}
"""Every scenario, by name."""
