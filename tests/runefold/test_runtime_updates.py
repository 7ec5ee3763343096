"""Rules about agents that change, and about teams: sessions that are opened again with new code."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from actors.agent.runes import Equipped
from actors.invariants import violations
from actors.model.providers.scripted import Scripted, call, pause
from actors.model.runes import Called
from actors.tool.adapters.function import tool
from runefold.spec import AgentSpec, Budget
from runefold.testing.stage import Stage
from runelog.errors import Refused, RunefoldError, UnknownConversation
from tests.runefold.talks import Strict, Talk, talk

if TYPE_CHECKING:
    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply

NAME = "conv_desk"


@tool(side_effects=False)
def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} is a word"


@tool(side_effects=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def shown(request: Request) -> Reply:
    """Say what prompt and tools there are; think first if asked to."""
    names = ",".join(sorted(each["name"] for each in request.tools))
    said = f"{request.system}: {names}"
    return ["Let me ", pause(60), said] if request.messages[-1].text == "Think" else [said]


def office(**options: object) -> Talk:
    """Begin a conversation with an agent that says what it works with."""
    return talk(Strict(shown), look_up, add, instructions="old", tools=["look_up"], stage=options)


NEW = AgentSpec(
    role="helper", model="demo", instructions="new", tools=["add"], budget=Budget(tokens=50_000)
)


NEW_HERE = AgentSpec(role="here", model="demo")


def problems(there: Talk) -> list[str]:
    """Return what is wrong with the log; each prompt is on record before a model is asked by it."""
    there.stage.log.flush()
    found = [each.message for each in violations(there.session.runes(), at_rest=True)]
    known: set[str] = set()
    for rune in there.runes("agent.equipped", "model.called"):
        if isinstance(rune, Equipped):
            known.add(rune.hash)
        elif isinstance(rune, Called) and rune.prompt not in known:
            found.append(f"{rune.model_call_id} asks by a prompt that is nowhere")
    return found


def test_an_agent_that_is_free_works_by_its_update_at_once() -> None:
    """Prompt and tools are those of the update; what was said before stays."""
    there = office()
    before = there.session.send("Hi").result(10).output
    there.session.update_agent("helper", NEW)

    assert (before, there.session.send("Hi").result(10).output) == ("old: look_up", "new: add")
    assert [each.text for each in there.session.messages()] == [
        "Hi",
        "old: look_up",
        "Hi",
        "new: add",
    ]
    assert there.runes("budget.limited") != []
    assert problems(there) == []


@pytest.mark.parametrize("crash", [False, True])
def test_a_turn_that_runs_ends_with_what_it_began_with(*, crash: bool) -> None:
    """Also if it has to be asked for anew after a crash; the next one has the update."""
    there = office()
    turn = there.session.send("Think", message_id="m1")
    there.stage.run()
    there.session.update_agent("helper", NEW)
    if crash:
        turn = there.reopen().turn("m1")

    assert turn.result(1000).output == "Let me old: look_up"
    assert there.session.send("Hi").result(10).output == "new: add"
    assert problems(there) == []


def test_an_update_that_changes_nothing_leaves_no_rune() -> None:
    """So an app may say at every start what its agents are."""
    there = office()
    for _ in range(3):
        there.session.update_agent("helper", NEW)
        there.reopen()

    assert len(there.runes("agent.updated")) == 1


def test_what_is_not_there_is_refused() -> None:
    """A model or tool that is not registered, an agent that is not in the session."""
    there = office()
    for spec, told in (
        (AgentSpec(role="helper", model="gone"), "no model 'gone'.*registered: demo"),
        (
            AgentSpec(role="helper", model="demo", tools=["gone"]),
            "no tool 'gone'.*registered: look_up",
        ),
        (
            AgentSpec(role="helper", model="demo", can_ask=["judge"]),
            "no agent judge; there are: helper",
        ),
    ):
        with pytest.raises(Refused, match=told):
            there.session.update_agent("helper", spec)
    with pytest.raises(Refused, match="no agent judge; there are: helper"):
        there.session.update_agent("judge", NEW)
    there.session.close()
    with pytest.raises(Refused, match="session is closed"):
        there.session.update_agent("helper", NEW)
    assert there.runes("agent.updated") == []


@pytest.mark.parametrize(
    ("gone", "error", "told"),
    [
        ({"tools": [add]}, "unknown_tool", "there is no tool 'look_up'; registered: add"),
        ({"providers": {"other": Scripted(["Hi"])}}, "unknown_model", "no model 'demo' here"),
    ],
)
def test_what_is_gone_is_told_loudly(gone: dict[str, object], error: str, told: str) -> None:
    """New code without a tool or a model of an agent: its turns fail until it is updated."""
    there = office()
    there.session.send("Hi").result(10)
    session = there.reopen(**gone)
    failed = session.send("Hi").result(10)
    model = "other" if "providers" in gone else "demo"
    session.update_agent("helper", AgentSpec(role="helper", model=model, tools=["add"]))

    assert (failed.status, failed.reason) == ("error", error)
    assert told in failed.message
    assert session.send("Hi").result(10)


def asking(request: Request) -> Reply:
    """Look a word up, then say what it is."""
    last = request.messages[-1]
    return [last.text] if last.role == "tool" else [call("look_up", word=last.text)]


def test_an_exhausted_budget_is_raised_by_an_update() -> None:
    """A limit that stood in the way and is higher now lets the session go on by itself."""
    spec = AgentSpec(role="helper", model="demo", tools=["look_up"])
    there = talk(Strict(asking), look_up, budget=Budget(tool_calls=1))
    ends = [there.session.send(word).result(10) for word in ("sun", "moon")]
    there.stage.run()
    suspended = there.session.state.phase
    there.session.update_agent("helper", replace(spec, budget=Budget(tool_calls=9)))

    assert ([each.reason for each in ends], suspended) == (["", "budget_exhausted"], "suspended")
    assert there.session.send("star").result(10).output == "star is a word"
    assert problems(there) == []


# -- get or create -----------------------------------------------------------------------------


DESK = AgentSpec(role="triage", model="demo", instructions="triage", can_hand_over_to=["billing"])
TEAM = [
    AgentSpec(
        role="clerk", name="billing", model="demo", instructions="bills", can_ask=["research"]
    ),
    AgentSpec(role="research", model="demo", instructions="looks"),
]


def test_a_team_comes_in_one_append() -> None:
    """Session, agents and budgets: cut off anywhere there is all of it or nothing."""
    stage = Stage(providers={"demo": Scripted(["Hi"])})
    session = stage.runtime.session(NAME, create=DESK, team=TEAM, labels={"for": "ada"})

    assert [(each.name, each.role, each.is_default) for each in session.agents] == [
        ("triage", "triage", True),
        ("billing", "clerk", False),
        ("research", "research", False),
    ]
    assert {each.spending and each.spending.spent.tokens for each in session.agents} == {0}
    births = [rune.event_id for rune in session.runes(kinds={"agent.spawning"})]
    assert births == [3, 5, 7]
    other = Stage(providers={"demo": Scripted(["Hi"])})
    other.log.cut_at = other.log.appends + 1
    with contextlib.suppress(RunefoldError):
        other.runtime.session(NAME, create=DESK, team=TEAM)
    other.crash()
    again = other.reopen().session(NAME, create=DESK, team=TEAM)
    assert len(again.agents) == 3


def test_a_session_is_given_or_begun() -> None:
    """As often as it is asked for; without a spec it has to be there."""
    stage = Stage(providers={"demo": Strict(shown)})
    with pytest.raises(UnknownConversation):
        stage.runtime.session(NAME)
    first = stage.runtime.session(NAME, create=DESK, team=TEAM)
    first.send("Hi").result(10)
    again = stage.runtime.session(NAME, create=DESK, team=TEAM)

    assert again.id == first.id
    assert [each.id for each in again.agents] == [each.id for each in first.agents]
    assert again.send("Hi", to="billing", message_id="m1").result(10).output[:5] == "bills"
    with pytest.raises(Refused, match="id m1 is taken, by another message to billing: 'Hi'"):
        again.send("Hi", to="research", message_id="m1")


def test_a_session_is_not_given_to_another_client() -> None:
    """Whoever names a client gets no session of another one, nor one that belongs to none."""
    stage = Stage(providers={"demo": Strict(shown)})
    runtime = stage.runtime
    first = runtime.session(NAME, create=DESK, team=TEAM, client_id="ada")
    runtime.create_session(NEW_HERE, conversation_id="conv_none")

    for name, whose in ((NAME, "client 'ada'"), ("conv_none", "no client")):
        for agents in ("keep", "update"):
            with pytest.raises(Refused, match=f"{name} belongs to {whose}: .* to 'mallory'"):
                runtime.session(
                    name,
                    create=NEW_HERE,
                    client_id="mallory",
                    agents=agents,
                )
    assert [each.name for each in first.agents] == ["triage", "billing", "research"]
    again = stage.reopen().session(NAME, create=DESK, team=TEAM, client_id="ada", labels={"a": "b"})
    assert again.state.config.client_id == "ada"
    assert again.state.config.labels == {}
    assert stage.runtime.session(NAME, create=DESK, team=TEAM).id == NAME


def test_an_agent_without_a_name_of_its_own_gets_one_that_is_free() -> None:
    """Spawned one by one they are numbered; a team of two that have one name is refused."""
    session = Stage(providers={"demo": Strict(shown)}).runtime.create_session(NEW_HERE)
    for _ in range(2):
        session.spawn(NEW_HERE)

    assert [each.name for each in session.agents] == ["here", "here-2", "here-3"]


def test_agents_are_kept_or_updated() -> None:
    """By default as they are; on demand as the specs say, by their names, and new ones join."""
    stage = Stage(providers={"demo": Strict(shown)})
    session = stage.runtime.session(NAME, create=DESK, team=TEAM)
    desk = AgentSpec(role="front", model="demo", instructions="front")
    team = [
        AgentSpec(role="clerk", name="billing", model="demo", instructions="bills more"),
        AgentSpec(role="law", model="demo", instructions="knows the law"),
    ]
    kept = stage.runtime.session(NAME, create=desk, team=team).agents
    updated = stage.runtime.session(NAME, create=desk, team=team, agents="update").agents

    assert [each.name for each in kept] == ["triage", "billing", "research"]
    assert [(each.name, each.role) for each in updated] == [
        ("triage", "front"),
        ("billing", "clerk"),
        ("research", "research"),
        ("law", "law"),
    ]
    stage.run()
    assert session.send("Hi", to="billing").result(10).output.startswith("bills more")
    assert session.send("Hi").result(10).output.startswith("front")
    assert session.send("Hi", to="law").result(10).output.startswith("knows the law")


def test_what_makes_no_sense_is_refused() -> None:
    """Options without a spec, a name that nobody of the team has, a word that is no policy."""
    runtime = Stage(providers={"demo": Strict(shown)}).runtime
    for wrong, told in (
        ({"team": TEAM}, "say create"),
        ({"create": DESK}, "triage: there is no agent billing in its team; there are: triage"),
        ({"create": DESK, "team": TEAM, "agents": "all"}, "give 'keep' or 'update'"),
        ({"create": DESK, "team": [*TEAM, TEAM[0]]}, "there are two agents billing in the team"),
        (
            {"create": DESK, "team": [*TEAM, AgentSpec(role="triage", model="demo")]},
            "agents triage",
        ),
    ):
        with pytest.raises(Refused, match=told):
            runtime.session(NAME, **wrong)
    with pytest.raises(UnknownConversation):
        runtime.session(NAME)


def test_an_agent_is_spawned_once_under_its_id() -> None:
    """Again it is the same one; another one under that id is refused."""
    there = office()
    spec = AgentSpec(role="clerk", model="demo")
    for _ in range(2):
        assert there.session.spawn(spec, agent_id="agt_clerk") == "agt_clerk"
        there.reopen()

    assert [each.name for each in there.session.agents] == ["helper", "clerk"]
    with pytest.raises(Refused, match="agt_clerk is there already, and is another one"):
        there.session.spawn(AgentSpec(role="judge", model="demo"), agent_id="agt_clerk")
    there.session.terminate("clerk")
    there.stage.run()
    with pytest.raises(Refused, match="was here before and is gone"):
        there.session.spawn(spec, agent_id="agt_clerk")
