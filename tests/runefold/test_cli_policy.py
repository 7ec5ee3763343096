"""Rules about `runefold policy-check`: old calls, judged by other rules."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import Scripted, call
from runefold import AgentSpec, Policy, Runtime, tool
from runefold.cli.terminal.exit_codes import Exit
from tests.runefold.cli_scenes import run

if TYPE_CHECKING:
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Line


@tool
def push(branch: str) -> str:
    """Push."""
    return branch


@tool(side_effects=False)
def look(branch: str) -> str:
    """Look."""
    return branch


def reply(request: Request) -> list[Line]:
    """Call everything, and something that there is not; then be done."""
    if request.messages[-1].role != "user":
        return ["Done."]
    names = ("push", "look", "pull")
    return [*(call(name, branch="main") for name in names), call("push", branch="x")]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give a log in which calls were made under a policy that lets everything pass."""
    directory = tmp_path / "log"
    with Runtime.open(
        directory,
        tools=[push, look],
        providers={"demo": Scripted(reply)},
        policy=Policy(mode="full_access"),
    ) as runtime:
        spec = AgentSpec(role="helper", model="demo", tools=["push", "look"])
        for name in ("conv_a", "conv_b"):
            runtime.create_session(spec, conversation_id=name).send("Go.").result(30)
    return directory


def checked(*arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Run it for a script."""
    result = run("policy-check", *arguments, "--json")
    return result.exit_code, json.loads(result.stdout)


def policy(directory: Path, text: str, name: str = "policy.toml") -> Path:
    """Write a policy into a file."""
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_same_rules_judge_the_same(log: Path, tmp_path: Path) -> None:
    """Calls of no tool were never a question of policy; the others come out as they did."""
    code, found = checked(log, policy(tmp_path, 'mode = "full_access"'))

    assert code == Exit.OK
    assert found["calls"] == 6
    assert found["otherwise"] == []


def test_what_other_rules_would_have_made_of_it_is_listed(log: Path, tmp_path: Path) -> None:
    """With what it was, what it is now and why; by what the tool was when it was called."""
    rules = policy(tmp_path, '{"mode": "auto", "rules": [["look", "deny", "no"]]}', "rules.json")
    code, found = checked(log, rules)
    told = run("policy-check", log, rules)

    assert code == Exit.PROBLEMS
    assert [(each["tool"], each["was"], each["now"]) for each in found["otherwise"]] == 2 * [
        ("push", "allow", "ask"),
        ("look", "allow", "deny"),
        ("push", "allow", "ask"),
    ]
    assert found["otherwise"][1]["reason"] == "no"
    assert "look  allow -> deny  no" in told.stdout
    assert "6 calls checked, 6 verdicts would change" in told.stdout


def test_one_session_can_be_judged_alone(log: Path, tmp_path: Path) -> None:
    """By a policy in Python too, whose function sees the arguments."""
    module = tmp_path / "rules_of_mine.py"
    module.write_text(
        "from runefold import Policy\n"
        "mine = Policy(mode='full_access', "
        "function=lambda name, args, tool: 'deny' if args['branch'] == 'main' else None)\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(tmp_path)
        code, found = checked(log, "rules_of_mine:mine", "conv_b")

    assert code == Exit.PROBLEMS
    assert {each["conversation"] for each in found["otherwise"]} == {"conv_b"}
    assert [each["tool"] for each in found["otherwise"]] == ["push", "look"]


def test_a_function_is_told_what_the_log_knows_of_a_call(log: Path, tmp_path: Path) -> None:
    """Its session, agent and time, and the app's object where the app is named that gives one."""
    (tmp_path / "app_of_mine.py").write_text(
        """
from runefold import Context, Policy, Runtime

def build(directory):
    return Runtime.open(directory, app={"helper": "deny"})

def judge(name, arguments, tool, context: Context[dict]):
    assert context.turn_id and context.call_id and context.now() > 1e9
    return context.app[context.agent.name], f"in {context.session_id}"

mine = Policy(mode="full_access", function=judge)
""",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.syspath_prepend(tmp_path)
        code, found = checked(log, "app_of_mine:mine", "--app", "app_of_mine:build")
        _, without = checked(log, "app_of_mine:mine")
        wrong = run("policy-check", log, "app_of_mine:mine", "--app", "app_of_mine:mine")

    assert code == Exit.PROBLEMS
    assert {each["now"] for each in found["otherwise"]} == {"deny"}
    assert found["otherwise"][0]["reason"] == f"in {found['otherwise'][0]['conversation']}"
    assert "the policy failed: Refused: there is no app object here" in str(without["otherwise"][0])
    assert "--app MODULE:BUILD" in str(without["otherwise"][0])
    assert wrong.exit_code == Exit.REFUSED
    assert "gives no object" in wrong.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('mode = "lenient"', "is no mode"),
        ('moode = "auto"', "is no policy: give it a mode and rules"),
        ("mode = ", "cannot be read"),
        ('rules = [["push", "perhaps"]]', "'perhaps' is no verdict"),
    ],
)
def test_a_policy_that_is_none_is_refused(log: Path, tmp_path: Path, text: str, said: str) -> None:
    """With what is wrong with it, and before anything is judged."""
    result = run("policy-check", log, policy(tmp_path, text))

    assert result.exit_code == Exit.REFUSED
    assert said in result.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.toml", "cannot be read"),
        ("nothing", "names no policy"),
        ("math:pi", "is a float and no Policy"),
        ("math:tau_", "cannot be imported"),
    ],
)
def test_a_name_that_leads_to_no_policy_is_refused(log: Path, name: str, said: str) -> None:
    """It says how a policy is named."""
    result = run("policy-check", log, name)

    assert result.exit_code == Exit.REFUSED
    assert said in result.stderr
