"""A machine that asks a model and calls a tool, under the crash kit: it comes to the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors.model.providers.scripted import Scripted
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import UnknownConversation
from tests.laws.errands import ADVISER, ERRAND, Send, advise, fetch

if TYPE_CHECKING:
    from pathlib import Path

    from runefold.testing import Effects
    from runefold.testing.crash.fixture import Sweeper

NAME = "conv_errand"
PATIENCE = 20.0


def build(directory: Path) -> Runtime:
    """Open a runtime in which somebody can be sent on an errand."""
    providers = {ADVISER: Scripted(advise), "bot": Scripted(["Hello!"])}
    return Runtime.open(directory, kinds=[ERRAND], tools=[fetch], providers=providers)


def scenario(runtime: Runtime) -> None:
    """Send somebody, once, and wait until the errand is over."""
    try:
        runtime.session(NAME)
    except UnknownConversation:
        runtime.create_session(AgentSpec(role="bot", model="bot"), conversation_id=NAME)
    runtime.do(NAME, Send("bread"), "errand_1")
    runtime.wait_for(NAME, "errand.done", PATIENCE)
    # The session's own agent has nothing to do with it, and may be a moment late.
    runtime.wait_for(NAME, "agent.ready", PATIENCE)


def check(runtime: Runtime, effects: Effects) -> None:
    """Look how it ended."""
    del effects
    assert runtime.session(NAME).history("errand_1").phase == "back"


@pytest.mark.parametrize("mode", ["every", "actor", "faults"])
def test_a_machine_that_asks_a_model_comes_to_the_same_end(crash_sweep: Sweeper, mode: str) -> None:
    """Killed at every moment there is, or with a provider that fails: it goes on from the log."""
    report = crash_sweep(build, scenario, check, mode=mode, in_process=True, seed=7)

    assert {each.status for each in report.results} == {"survived"}
