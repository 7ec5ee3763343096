"""Apps that come to something else after a crash, in ways that only a comparison can tell."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Final

from actors.model.providers.scripted import Scripted, call
from actors.tool.adapters.function import tool
from runefold.agents import AgentTool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from tests.crash.kit import bots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from actors.model.provider import Event, Request
    from runefold.sessions import Session

EXPERT: Final = AgentSpec(role="expert", model="expert")


def is_new(directory: Path) -> bool:
    """Tell whether the app was never opened there."""
    return not (directory / "opened").exists()


def _noted(directory: Path, runtime: Runtime) -> Runtime:
    (directory / "opened").touch()
    return runtime


# -- ids that are drawn ----------------------------------------------------------------------------


def build_changing(directory: Path) -> Runtime:
    """Open a bot that says something else when its log was there before."""
    said = "Paid." if is_new(directory) else "Paid, I think."
    return _opened(directory, Scripted([["I pay. ", call("pay", cents=5)], [said]]))


def build_steady(directory: Path) -> Runtime:
    """Open the same without that."""
    return _opened(directory, Scripted([["I pay. ", call("pay", cents=5)], ["Paid."]]))


def _opened(directory: Path, model: Scripted) -> Runtime:
    @tool(side_effects=False)
    def pay(cents: int) -> str:
        """Pay somebody, in words only."""
        return f"{cents} paid"

    return _noted(directory, Runtime.open(directory, tools=[pay], providers={"bot": model}))


def scenario_drawn(runtime: Runtime) -> None:
    """Have two conversations whose ids, and those of their messages, are others in each run."""
    directory: Path = runtime.log.directory  # type: ignore[attr-defined]  # wherever it is
    file = directory / "ids"
    if not file.exists():
        file.write_text(json.dumps([uuid.uuid4().hex for _ in range(4)]), "utf-8")
    ids = json.loads(file.read_text("utf-8"))
    for name, message in (ids[:2], ids[2:]):
        bots.talk(runtime, name).send(f"pay, {name}", message_id=message).result(bots.PATIENCE)


# -- beside something unknown ----------------------------------------------------------------------


def build_pair(directory: Path) -> Runtime:
    """Open a bot with an expert; nobody can ask about its payments."""
    return _pair(directory, "It depends.")


def build_pair_changing(directory: Path) -> Runtime:
    """Open the same with an expert who says something else then."""
    return _pair(directory, "It depends." if is_new(directory) else "No.")


def _pair(directory: Path, opinion: str) -> Runtime:
    bank = bots.Bank(directory)

    @tool
    def pay(cents: int) -> str:
        """Pay somebody."""
        bank.pay("x")
        return f"{cents} paid"

    def bot(request: Request) -> Sequence[str | Event]:
        last = request.messages[-1]
        if last.role == "user":
            asked = call("ask", question="May I?") if last.text == "ask" else call("pay", cents=5)
            return ["Let me see. ", asked]
        return ["Nobody knows." if last.status == "unknown" else "Done."]

    def expert(request: Request) -> Sequence[str | Event]:
        return ["Yes." if request.messages[-1].text == "May I?" else opinion]

    runtime = Runtime.open(
        directory,
        tools=[pay, AgentTool("ask", EXPERT, "Ask an expert.")],
        providers={"bot": Scripted(bot), "expert": Scripted(expert)},
    )
    return _noted(directory, runtime)


def _pair_talk(runtime: Runtime) -> Session:
    return bots.talk(runtime, tools=["pay", "ask"])


def scenario_pair(runtime: Runtime) -> None:
    """Have the bot ask its expert, then pay; then ask the expert oneself."""
    session = _pair_talk(runtime)
    session.send("ask", message_id="m1").result(bots.PATIENCE)
    session.send("pay", message_id="m2").result(bots.PATIENCE)
    expert = next(each.agent_id for each in session.state.members if each.parent_id is not None)
    session.send("Is it so?", message_id="m3", to=expert).result(bots.PATIENCE)


def scenario_told_otherwise(runtime: Runtime) -> None:
    """Pay, and thank the bot; after a crash in other words."""
    session = _pair_talk(runtime)
    session.send("pay", message_id="m2").result(bots.PATIENCE)
    thanks = "ask" if not session.in_doubt() else "ask again"
    session.send(thanks, message_id="m3").result(bots.PATIENCE)
