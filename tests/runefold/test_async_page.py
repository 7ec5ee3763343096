"""Rules about the page on event loops: copied as it stands, it works."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from runefold import (
    AgentSpec,
    AsyncRuntime,
    AsyncSession,
    AsyncTurn,
    Runtime,
    Session,
    Turn,
    Visibility,
    tool,
)
from runefold.errors import Closed
from runefold.providers import Scripted, call
from tests.runefold.cli_scenes import ROOT
from tests.runefold.loops import in_time

if TYPE_CHECKING:
    from pathlib import Path

PAGE: Final = (ROOT / "docs" / "async.md").read_text("utf-8")
FILES: Final = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
TABLE: Final = re.findall(r"^\| (`.+`) \| (`.+`) \|$", PAGE, re.MULTILINE)
SPEC: Final = AgentSpec(role="clerk", model="demo", tools=["pay"])


@tool(requires_approval=True)
def pay() -> str:
    """Pay."""
    return "paid"


def pasted(directory: Path, name: str) -> dict[str, Any]:
    """Run a block of the page as a module; return its names."""
    (directory / name).write_text(FILES[name], "utf-8")
    return runpy.run_path(str(directory / name))


def test_every_block_of_code_is_tried() -> None:
    """Here, each by its name."""
    assert {*FILES} == {"app.py", "leave.py", "live.py", "scenario.py"}
    assert PAGE.count("```python") == len(FILES)


def test_the_app_answers_and_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat that is not there is begun, and goes on; when the app ends, so does the runtime."""
    monkeypatch.chdir(tmp_path)
    app = pasted(tmp_path, "app.py")["app"]

    async def main() -> list[Any]:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://desk") as client,
        ):
            requests = [
                client.post(f"/chats/chat_{at % 2}", params={"text": "Hi"}) for at in (0, 1)
            ]
            found = await asyncio.gather(*requests)
            found.append(await client.post("/chats/chat_0", params={"text": "Hi again"}))
        with pytest.raises(Closed):
            await app.state.runtime.create_session(AgentSpec(role="helper", model="demo"))
        return [each.json() for each in found]

    found = asyncio.run(in_time(main()))

    assert found == ["You said: Hi", "You said: Hi", "You said: Hi again"]


def test_a_reader_that_leaves_stops_the_turn_and_misses_nothing_when_it_is_back(
    tmp_path: Path,
) -> None:
    """The functions of the page, in a session whose turn waits for a human."""
    ask, events = pasted(tmp_path, "leave.py")["ask"], pasted(tmp_path, "live.py")["events"]
    models = {"demo": Scripted([["Shall I? ", call("pay")], ["Done."]])}

    async def main() -> tuple[list[str], list[str]]:
        async with AsyncRuntime.open(tmp_path / "data", tools=[pay], providers=models) as runtime:
            session = await runtime.create_session(SPEC)
            task = asyncio.ensure_future(ask(session, "Pay."))
            first: list[str] = []
            async for event in events(session, 0):
                first.append(event)
                if "tool.approval_requested" in event:
                    break
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            at = int(first[-1].split()[1])
            rest = []
            async for event in events(session, at):
                rest.append(event)
                if "turn.interrupted" in event:
                    break
            return [*first, *rest], [each async for each in _all(session)]

    seen, there = asyncio.run(in_time(main()))

    assert seen == there[: len(seen)]
    deltas = [event for event in seen if "event: turn.assistant_delta" in event]
    assert "".join(_said(event) for event in deltas) == "Shall I? "


def _said(event: str) -> str:
    said: str = json.loads(event.partition("data: ")[2])["text"]
    return said


async def _all(session: AsyncSession) -> Any:  # noqa: ANN401 -- an async generator
    async for rune in session.runes(visibility=Visibility.PUBLIC):
        text = json.dumps({"text": getattr(rune.payload, "text", "")})
        yield f"id: {rune.event_id}\nevent: {rune.kind}\ndata: {text}\n\n"


def test_the_scenario_can_be_played_again(tmp_path: Path) -> None:
    """As the crash kit does after a kill: the message counts once."""
    scenario = pasted(tmp_path, "scenario.py")["scenario"]
    for _ in range(2):
        with Runtime.open(tmp_path / "log", providers={"demo": Scripted(["Hello!"])}) as runtime:
            asyncio.run(in_time(scenario(runtime)))
            turns = runtime.session("chat_1").state.stats.turns

            assert turns == 1


@pytest.mark.parametrize(("threads", "loops"), TABLE)
def test_the_table_names_what_there_is(threads: str, loops: str) -> None:
    """On both sides, each name is one of a runtime, a session or a turn."""
    known = {Runtime: AsyncRuntime, Session: AsyncSession, Turn: AsyncTurn}
    for text, classes in ((threads, known.keys()), (loops, known.values())):
        for name in re.findall(r"(?:untime|session|turn)\.(\w+)", text):
            assert any(hasattr(each, name) for each in classes), name
