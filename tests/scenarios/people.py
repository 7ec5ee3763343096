"""Plays with more than one agent: beside each other, asked, handed over to, killed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from runefold.spec import AgentSpec, Budget
from tests.scenarios.app import EVERYTHING, NAME, App, Scenario, folded, is_done, speaks, until

if TYPE_CHECKING:
    from runefold.runtime import Runtime
    from tests.scenarios.world import Till


def _team(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    state = session.state
    helpers = [each.agent_id for each in state.members if each.agent_id != state.root]
    spec = AgentSpec(role="helper", model="clerk", tools=EVERYTHING, retries=5)
    helper = helpers[0] if helpers else session.spawn(spec, parent=state.root)
    app.wait(
        app.send("charge", "m1"),
        app.send("look and charge", "m2", to=helper),
        app.send("charge", "m3", to=helper),
    )


def _dismissed(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till)
    session = app.session
    log = runtime.log
    app.wait(app.send("hello", "m1"))
    born = [e.owner for e in log.read(NAME, kinds={"agent.spawning"})]
    spec = AgentSpec(role="helper", model="clerk", retries=5)
    helper = born[1] if len(born) > 1 else session.spawn(spec, parent=born[0])
    if any(each.agent_id == helper for each in folded(log).members):
        app.send("think", "m2", to=helper)
        until(runtime, lambda: speaks(log, "m2") or is_done(log, "m2"))
        session.terminate(helper, force=True)
    until(runtime, lambda: is_done(log, "m2"))
    app.wait(app.send("hello", "m3"))


def _expert(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till, tools=(*EVERYTHING, "ask_expert"))
    first = app.send("ask", "m1")
    app.wait(first, app.send("charge", "m2"), app.send("ask", "m3"))


def _lost_expert(runtime: Runtime, till: Till) -> None:
    """Have an agent killed while its tool runs, and while another one waits for its answer."""
    app = App(runtime, till, tools=("charge", "ask_expert"))
    app.wait(app.send("ask in vain", "m1"))
    app.wait(app.send("ask", "m2"))


def _lost_helper(runtime: Runtime, till: Till) -> None:
    """Have an agent killed while its tool runs; what waits for it is refused."""
    app = App(runtime, till, tools=("charge",))
    log = runtime.log
    born = [envelope.owner for envelope in log.read(NAME, kinds={"agent.spawning"})]
    spec = AgentSpec(role="helper", model="clerk", tools=("dig",), retries=5)
    helper = born[1] if len(born) > 1 else app.session.spawn(spec, parent=born[0])
    app.send("dig until dismissed", "m1", to=helper)
    until(runtime, lambda: is_done(log, "m1"))
    app.wait(app.send("charge", "m2"))


def _handed_over(runtime: Runtime, till: Till) -> None:
    app = App(runtime, till, tools=("charge", "hand_over"))
    spec = AgentSpec(role="deputy", model="clerk", tools=("charge", "hand_over"), retries=5)
    app.helper(spec)
    for number, word in enumerate(("hand over", "charge", "hand back", "hello"), 1):
        app.wait(app.send(word, f"m{number}"))


def _desk(runtime: Runtime, till: Till) -> None:
    """Have a team begin at once, ask, hand over, and go on with other tools, which it needs."""
    clerk = AgentSpec(
        role="clerk",
        model="clerk",
        tools=("charge",),
        can_ask=("deputy",),
        can_hand_over_to=("deputy",),
        retries=5,
    )
    deputy = AgentSpec(role="deputy", model="clerk", tools=("charge",), retries=5)
    runtime.session(NAME, create=clerk, team=[deputy])
    app = App(runtime, till)
    app.wait(app.send("ask the deputy", "m0"))
    app.wait(app.send("hand over", "m1"))
    able = replace(deputy, tools=EVERYTHING, budget=Budget(tool_calls=100))
    runtime.session(NAME, create=clerk, team=[able], agents="update")
    app.wait(app.send("look and charge", "m2"))


PEOPLE: Final = (
    Scenario("team", _team),
    Scenario("dismissed", _dismissed),
    Scenario("expert", _expert),
    Scenario("lost expert", _lost_expert),
    Scenario("lost helper", _lost_helper),
    Scenario("handed over", _handed_over),
    Scenario("desk", _desk),
)
"""Those in which agents have to do with each other."""
