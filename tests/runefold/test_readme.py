"""The README: what it shows works when pasted."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import typer

from runefold import AgentSpec, Runtime
from runefold.cli.app import app
from runefold.open_hook import through
from runefold.providers import Scripted, call
from runefold.testing.stage import Stage

if TYPE_CHECKING:
    from runefold.open_hook import Opener

README = Path(__file__).parents[2] / "README.md"


def snippets() -> list[str]:
    """Return the Python blocks of the README."""
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def run(directory: Path, number: int) -> list[str]:
    """Run a block as a program of its own in `directory`; return the lines it prints."""
    program = directory / "pasted.py"
    program.write_text(snippets()[number])
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=directory,
        env={"PYTHONPATH": str(README.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_the_first_example_answers(tmp_path: Path) -> None:
    """Pasted and run, the agent calls its tool, streams, and ends with the answer; again, too."""
    for _ in range(2):
        told = run(tmp_path, 0)

        assert told[-1] == "It is 5."
        kinds = [line.split()[1] for line in told[:-1]]
        assert kinds[0] == "turn.started"
        assert kinds[-1] == "turn.completed"
        assert kinds.count("tool.result") == 1


def test_the_first_app_answers_what_is_sent_to_it(tmp_path: Path) -> None:
    """Its `build` is what `runefold serve` calls; the message that the page sends is answered."""
    (tmp_path / "app.py").write_text(snippets()[0])
    app: dict[str, Any] = runpy.run_path(str(tmp_path / "app.py"))
    with app["build"](tmp_path / "data") as runtime:
        session = runtime.create_session(AgentSpec(role="helper", model="demo", tools=["add"]))
        [question] = re.findall(r'runefold send data SESSION "(.*)"', README.read_text())

        assert session.send(question).result(timeout=10).output == "It is 7."


class _Caught(Exception):
    """An app was about to open its runtime."""


def _catching(into: dict[str, Any]) -> Opener:
    def opened(kind: type[Runtime], directory: Path, options: dict[str, Any]) -> NoReturn:
        del kind, directory
        into.update(options)
        raise _Caught

    return opened


def test_the_policy_of_the_shop_asks_about_what_is_over_a_limit(tmp_path: Path) -> None:
    """Its tool knows for whom it runs, and a human decides about what its policy asks about."""
    (tmp_path / "shop.py").write_text(snippets()[1])
    shop: dict[str, Any] = runpy.run_path(str(tmp_path / "shop.py"))
    model = Scripted(
        [
            [call("refund", order_id="a-17", euros=9)],
            [call("refund", order_id="a-18", euros=90)],
            "Done.",
        ]
    )
    caught: dict[str, Any] = {}
    with pytest.raises(_Caught), through(_catching(caught)):
        shop["build_shop"](tmp_path)
    stage = Stage(providers={"demo": model}, **caught)
    spec = AgentSpec(role="clerk", model="demo", tools=["refund"])
    session = stage.runtime.create_session(spec, client_id="ada")
    turn = session.send("Refund both")
    stage.run()
    [waiting] = session.approvals()
    session.approve(waiting.call_id, approver="bob")
    results: list[Any] = [rune.payload for rune in session.runes(kinds={"tool.result"})]

    assert turn.result(timeout=10).output == "Done."
    assert waiting.reason == "over the customer's limit"
    assert results[0].output.startswith("ada got 9 EUR back, once, under call_")


def test_a_team_begins_and_is_there_again(tmp_path: Path) -> None:
    """The function of the README gives the same session each time, with the same agents."""
    names: dict[str, Any] = {"AgentSpec": AgentSpec}
    exec(snippets()[2], names)
    found = []
    for _ in range(2):
        with Runtime.open(tmp_path, providers={"demo": Scripted(["Hello."])}) as runtime:
            session = names["open_desk"](runtime, "42")
            found.append((session.id, [each.name for each in session.agents]))

    assert found == [("support-42", ["triage", "billing"])] * 2


def test_the_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Pasted and run twice, it prints what it appended, and the second time what came before."""
    first = run(tmp_path, 3)
    second = run(tmp_path, 3)

    assert len(first) == 1
    assert second[:1] == first
    assert len(second) == 2


def test_every_page_that_is_named_exists() -> None:
    """Links of the README and the pages under docs lead somewhere."""
    for page in [README, *sorted((README.parent / "docs").rglob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_command_that_is_named_exists() -> None:
    """Those of the README and of the changelog, each with its own help."""
    changes = README.with_name("CHANGELOG.md").read_text()
    listed = re.findall(r"`runefold ((?:log )?)([a-z-]+(?:\s\| [a-z-]+)+) DIR`", changes)
    named = {(group.strip(), one) for group, names in listed for one in names.split(" | ")}
    shown = re.findall(r"^runefold (log )?([a-z-]+)", README.read_text(), re.MULTILINE)
    named |= {(group.strip(), one) for group, one in shown}
    main = typer.main.get_command(app)
    groups = {"": main.commands, "log": main.commands["log"].commands}  # type: ignore[attr-defined]  # a group, as it is made

    assert len(named) > 15
    assert [one for group, one in sorted(named) if one not in groups[group]] == []
