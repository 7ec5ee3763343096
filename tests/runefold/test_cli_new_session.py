"""Rules about `runefold new-session`: a session is begun from another process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from actors.model.providers.scripted import Scripted
from actors.tool.adapters.function import tool
from runefold.cli.app import app
from runefold.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typer.testing import Result


@tool(side_effects=False)
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    """Run an app with a model and a tool."""
    with Runtime.open(
        tmp_path / "data", tools=[look_up], providers={"demo": Scripted(["Hello."])}
    ) as runtime:
        yield runtime


def begin(place: Path, *words: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(app, ["new-session", str(place / "data"), *words])


def test_a_session_is_begun_as_its_options_say(tmp_path: Path, runtime: Runtime) -> None:
    """It is there at once, and takes messages."""
    options = ("--tool", "look_up", "--label", "for=ada", "--tokens", "9000", "--role", "clerk")
    said = begin(tmp_path, "--model", "demo", "--id", "conv_desk", *options)
    session = runtime.session("conv_desk")
    [agent] = session.state.members

    assert (said.exit_code, said.stdout) == (0, "begun conv_desk\n")
    assert (agent.role, agent.config.tools) == ("clerk", ("look_up",))
    assert session.state.config.labels == {"for": "ada"}
    assert session.state.config.budget.tokens == 9000
    assert session.send("Hi").result(60).output == "Hello."


def test_without_an_id_it_has_a_new_one(tmp_path: Path, runtime: Runtime) -> None:
    """Which is printed, for scripts as JSON."""
    said = begin(tmp_path, "--model", "demo", "--json")

    assert [each.id for each in runtime.sessions()] == [json.loads(said.stdout)["session"]]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model", "gone"), "no model 'gone'"),
        (("--model", "demo", "--tool", "gone"), "no tool 'gone'"),
        (("--model", "demo", "--label", "urgent"), "has no value: give NAME=VALUE"),
        (("--model", "demo", "--id", "no id"), "not a valid conversation id"),
    ],
)
def test_what_cannot_begin_is_refused(
    tmp_path: Path, runtime: Runtime, words: tuple[str, ...], told: str
) -> None:
    """In a sentence, and nothing is left of it."""
    said = begin(tmp_path, *words)

    assert said.exit_code != 0
    assert told in said.stderr
    assert [*runtime.sessions()] == []


def test_it_needs_the_app(tmp_path: Path, runtime: Runtime) -> None:
    """Which models and tools there are, nobody knows where no runtime has the log open."""
    runtime.close()
    said = begin(tmp_path, "--model", "demo")

    assert said.exit_code != 0
    assert "start one, such as by `runefold serve`" in said.stderr
