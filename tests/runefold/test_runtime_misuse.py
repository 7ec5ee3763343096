"""Rules about misuse: each is a refusal that says what to do, and harms nothing."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.providers.scripted import call, pause
from actors.session.runes import Created
from actors.tool.adapters.function import tool
from runefold.open_hook import Options
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.errors import BadId, Closed, Held, Refused, TooLarge, UnknownConversation
from runelog.rune import SYSTEM, Change
from tests.runefold.talks import NAME, Strict, talk

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Unpack

    from actors.ports import Edge
    from runelog.log import Log

HALF = "\ud800"
"""Half of a character: it cannot be stored."""


@tool
def put(x: int) -> int:
    """Put."""
    return x


def test_a_session_is_not_begun_with_what_is_not_there() -> None:
    """An unknown model and an unknown tool are named, with those that are registered."""
    runtime = talk(["hi"], put).stage.runtime

    with pytest.raises(
        Refused, match=r"no model 'big': pass providers=\{'big': \.\.\.\} to .*demo"
    ):
        runtime.create_session(AgentSpec(role="r", model="big"))
    with pytest.raises(Refused, match=r"no tool 'get': pass it in tools=\[\.\.\.\] .*put"):
        runtime.create_session(AgentSpec(role="r", model="demo", tools=["get"]))
    with pytest.raises(Refused, match="described by an AgentSpec, not by a str"):
        runtime.create_session("r")  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match=f"runtime.session\\('{NAME}'\\) gives it"):
        runtime.create_session(AgentSpec(role="r", model="demo"), conversation_id=NAME)
    with pytest.raises(UnknownConversation, match="no conversation conv_b"):
        runtime.session("conv_b")


@pytest.mark.parametrize("name", ["../up", "a b", "", "x" * 65, HALF])
def test_an_id_that_is_none_is_refused(name: str) -> None:
    """Whatever it is the id of."""
    there = talk(["hi"])
    spec = AgentSpec(role="r", model="demo")

    for refused in (
        lambda: there.stage.runtime.session(name),
        lambda: there.stage.runtime.create_session(spec, conversation_id=name),
        lambda: there.session.send("x", message_id=name),
        lambda: there.session.approve(name, approver="ada"),
        lambda: there.session.spawn(spec, agent_id=name),
    ):
        with pytest.raises(BadId, match="is not a valid"):
            refused()


@pytest.mark.parametrize("odd", [5, None, b"x", HALF])
def test_what_is_no_text_is_refused_before_it_is_in_the_log(odd: Any) -> None:  # noqa: ANN401 -- anything
    """A wrong type in the log would stay there; the session goes on as if nothing was."""
    there = talk(["hi"])
    session = there.session
    before = there.kinds()

    for refused in (
        lambda: session.send(odd),
        lambda: session.interrupt(odd),
        lambda: session.pause(odd),
        lambda: session.suspend(odd),
        lambda: session.unsuspend(odd),
        lambda: session.close(odd),
        lambda: session.approve("call_1", approver=odd),
        lambda: session.deny("call_1", approver="ada", reason=odd),
        lambda: session.spawn(AgentSpec(role=odd, model="demo")),
        lambda: there.stage.runtime.create_session(
            AgentSpec(role="r", model="demo"), labels={"of": odd}
        ),
    ):
        with pytest.raises(Refused):
            refused()
    assert there.kinds() == before
    assert session.send("go").result(10).output == "hi"


def test_a_message_that_is_too_large_is_refused() -> None:
    """Nothing of it is stored, and nothing is harmed."""
    there = talk(["hi"])

    with pytest.raises(TooLarge, match="over the limit"):
        there.session.send("x" * (65 << 20))
    with pytest.raises(Refused, match=r"mode is 'now': give 'queue' or 'steer'"):
        there.session.send("x", mode="now")  # type: ignore[arg-type]  # the point
    assert there.session.send("go").result(10).output == "hi"


@pytest.mark.parametrize("small", [{"cost": 1e-9}, {"wall_seconds": 1e-10}])
def test_less_than_can_be_counted_is_no_budget(small: dict[str, float]) -> None:
    """It would be kept as a limit of nothing, and refuse every call."""
    with pytest.raises(Refused, match="is no budget: give a number, 0 or more"):
        Budget(**small)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("odd", [-1, 1.5, "5", True, 10**30, None, math.nan])
def test_amounts_that_cannot_be_counted_are_refused(odd: Any) -> None:  # noqa: ANN401 -- anything
    """Budgets and replenishments are whole numbers, of a size that can be stored."""
    session = talk(["hi"]).session

    with pytest.raises(Refused, match=r"tokens is .*: give a whole number, 0 or more"):
        session.replenish(tokens=odd)
    if odd is not None:
        with pytest.raises(Refused, match=r"a budget of tokens=.* is no budget"):
            Budget(tokens=odd)
    for name in ("retries", "max_output_tokens"):
        with pytest.raises(Refused, match=f"agent r: {name} is .*: give a whole number"):
            AgentSpec(role="r", model="demo", **{name: odd})


@pytest.mark.parametrize("odd", [0, -1.0, math.nan, math.inf, "5", None, 10**30])
def test_limits_of_time_that_are_none_are_refused(odd: Any) -> None:  # noqa: ANN401 -- anything
    """A time-out is a positive number of seconds, with an end."""
    for name in ("turn_timeout", "first_byte_timeout", "silence_timeout"):
        with pytest.raises(Refused, match=f"agent r: {name} is .*: give a positive number"):
            AgentSpec(role="r", model="demo", **{name: odd})


def test_words_that_an_agent_cannot_be_told_are_refused() -> None:
    """Each refusal names what there is to choose from."""
    with pytest.raises(Refused, match="on_crash is 'wait': give 'retry' or 'interrupt'"):
        AgentSpec(role="r", model="demo", on_crash="wait")  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match="on_exhausted is None: give 'suspend' or 'terminate'"):
        AgentSpec(role="r", model="demo", on_exhausted=None)  # type: ignore[arg-type]  # the point
    with pytest.raises(Refused, match="tools='put' is one string: give a list of names"):
        AgentSpec(role="r", model="demo", tools="put")
    with pytest.raises(Refused, match="give a Budget"):
        AgentSpec(role="r", model="demo", budget=5)  # type: ignore[arg-type]  # the point


def test_a_directory_has_one_runtime_at_a_time(tmp_path: Path) -> None:
    """The second is told so at once, and the first goes on."""
    with Runtime.open(tmp_path / "data", providers={"demo": Strict(["hi"])}) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo"))
        with pytest.raises(Held, match=r"close it first, .* Runelog.open\(\.\.\., readonly=True\)"):
            Runtime.open(tmp_path / "data")
        output = session.send("go").result(10).output

    assert output == "hi"


def test_an_option_that_there_is_not_is_named_before_anything_is_opened(tmp_path: Path) -> None:
    """With those that there are; nothing is made for it."""
    with pytest.raises(
        TypeError, match=r"Runtime.open got an .* 'tolls'; it takes tools, kinds, provid"
    ):
        Runtime.open(tmp_path / "data", tolls=[put])  # type: ignore[call-arg]  # the point
    assert not (tmp_path / "data").exists()


def test_every_option_of_a_runtime_can_be_given_when_it_is_opened() -> None:
    """What a type checker is told of `Runtime.open` is what `Runtime` takes."""
    takes = inspect.signature(Runtime).parameters

    assert [*Options.__annotations__] == [*takes][1:]


def test_a_kind_of_runtime_may_take_more(tmp_path: Path) -> None:
    """Options are those of the class that is opened."""

    class Mine(Runtime):
        def __init__(self, log: Log, *, mine: int, **options: Unpack[Options]) -> None:
            super().__init__(log, **options)
            self.mine = mine

    with Mine.open(tmp_path, mine=3, idle_after=5) as runtime:  # type: ignore[call-arg]  # not told
        assert runtime.mine == 3


@pytest.mark.parametrize("odd", [-1, 0, "x", math.nan, math.inf, None, True])
def test_a_time_to_sleep_that_is_none_is_refused(tmp_path: Path, odd: Any) -> None:  # noqa: ANN401 -- anything
    """And the log is let go of: it can be opened again."""
    for _ in range(2):
        with pytest.raises(Refused, match=r"idle_after is .*: give a positive number"):
            Runtime.open(tmp_path, idle_after=odd)


def test_models_and_tools_that_are_none_are_refused_at_the_door(tmp_path: Path) -> None:
    """Each is named, and nothing is left open."""

    @tool(name="put")
    def other(x: str) -> str:
        """Put it otherwise."""
        return x

    odd: list[tuple[dict[str, Any], str]] = [
        ({"providers": {"x": 3}}, r"providers\['x'\] is 3, which is no model: .*stream"),
        ({"providers": {5: Strict(["hi"])}}, "a model's name is a text, not a int"),
        ({"providers": [Strict(["hi"])]}, "give each by its name, in a dict"),
        ({"tools": [put, other]}, "two tools named put: give one of them another"),
        ({"tools": [3]}, "3 is not a tool: declare it with @tool"),
    ]

    for options, why in odd:
        with pytest.raises(Refused, match=why):
            Runtime.open(tmp_path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "auto"}, r"policy is 'auto': give a Policy, such as Policy\(mode='auto'\)"),
        ({"policy": lambda *_: "ask"}, r"give a Policy, .* Policy\(function=\.\.\.\)"),
        ({"secret": {"TOKEN": "hush"}}, "^secret is a dict: give a function that takes a secret's"),
        ({"redact": "acct"}, "redact is 'acct': give a list of patterns"),
        ({"tools": put}, "tools is <tool put>: give a list of tools"),
    ],
)
def test_what_would_go_wrong_later_is_refused_at_the_door(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """A policy that is none would end each agent, a text as patterns would hide its letters."""
    with pytest.raises(Refused, match=message):
        Runtime.open(tmp_path, **options)
    Runtime.open(tmp_path).close()

    assert list(tmp_path.iterdir())


def test_a_session_is_described_in_the_right_types() -> None:
    """Its budget and its labels, and its agent's role and tools."""
    runtime = talk(["hi"]).stage.runtime
    spec = AgentSpec(role="r", model="demo")
    odd: Any

    for odd in (5, {"tokens": 5}, 0):
        with pytest.raises(Refused, match=r"a session's budget is .*: give a Budget"):
            runtime.create_session(spec, budget=odd)
    for odd in (["urgent"], "urgent", 5):
        with pytest.raises(Refused, match=r"labels is .*: give each by its name, in a dict"):
            runtime.create_session(spec, labels=odd)
    for odd in (None, 5, iter(["put"])):
        with pytest.raises(Refused, match=r"tools are .*: give a list of names"):
            AgentSpec(role="r", model="demo", tools=odd)
    with pytest.raises(Refused, match="an agent has a role"):
        AgentSpec(role="", model="demo")

    assert [session.id for session in runtime.sessions()] == [NAME]


def test_what_belongs_to_no_session_is_no_session() -> None:
    """One conversation is kept for it: nobody begins a session there, or finds one."""
    runtime = talk(["hi"]).stage.runtime

    with pytest.raises(Refused, match="conv_system is kept for what belongs to no session"):
        runtime.create_session(AgentSpec(role="r", model="demo"), conversation_id=SYSTEM)
    runtime.log.append(SYSTEM, [Change("health", 0, [Created(conversation_id=SYSTEM)])])
    with pytest.raises(Refused, match="conv_system is no session"):
        runtime.session(SYSTEM)


def test_what_has_not_ended_is_not_archived() -> None:
    """It would be neither alive nor closed. It goes on as if nobody had asked."""
    there = talk(["hi"])
    runtime = there.stage.runtime

    with pytest.raises(Refused, match=r"conv_a is active: close it .* with `runtime\.session"):
        runtime.archive(NAME)

    assert there.session.send("hello").result(5).output == "hi"


def test_a_word_is_not_taken_for_true_or_false() -> None:
    """`finish="no"` would let turns finish, and `force="no"` would interrupt them."""
    there = talk(["hi"])
    session, root = there.session, there.session.state.root
    before = there.kinds()
    word: Any = "no"

    with pytest.raises(Refused, match="finish is 'no': give True or False"):
        session.pause(finish=word)
    with pytest.raises(Refused, match="force is 'no': give True or False"):
        session.terminate(root, force=word)
    assert there.kinds() == before


def test_an_output_is_refused_of_a_call_that_did_not_happen() -> None:
    """It would not be stored, and the user would not learn that it was dropped."""
    session = talk(["hi"]).session

    with pytest.raises(Refused, match="only a call that happened has an output"):
        session.answer("call_1", "rerun", approver="ada", output=1)


def test_an_empty_message_is_refused() -> None:
    """From every front: it stands for a variable that was not set, or a pipe that broke."""
    there = talk(["hi"])
    before = there.kinds()

    for empty in ("", " \n"):
        with pytest.raises(Refused, match="the message is empty: nothing was sent"):
            there.session.send(empty)
    assert there.kinds() == before


def test_nobody_approves_without_a_name() -> None:
    """Whoever reads the log later wants to know who it was."""
    session = talk(["hi"]).session

    with pytest.raises(Refused, match="an approver has a name"):
        session.approve("call_1", approver="")
    with pytest.raises(Refused, match="an approver has a name"):
        session.deny("call_1", reason="no", approver="")
    with pytest.raises(Refused, match="an approver has a name"):
        session.answer("call_1", "rerun", approver="")


def test_a_call_that_never_asked_cannot_be_approved() -> None:
    """It is said that it did not ask, and how it stands."""
    there = talk([[call("put", x=1)], ["done"]], put)
    there.session.send("go").result(10)
    (call_id,) = [rune.call_id for rune in there.runes("tool.call")]  # type: ignore[attr-defined]  # a call

    with pytest.raises(
        Refused, match=f"{call_id} is completed_result: it asked for no approval; the model"
    ):
        there.session.approve(call_id, approver="ada")


def test_a_budget_is_not_raised_by_nothing() -> None:
    """Whoever says nothing has forgotten something."""
    there = talk(["hi"])
    before = there.kinds()

    with pytest.raises(Refused, match=r"raises nothing: say by how much, such as tokens="):
        there.session.replenish()
    with pytest.raises(Refused, match="raises nothing"):
        there.session.replenish(tokens=0, cost=0)
    assert there.kinds() == before


def test_an_interrupt_waits_as_long_as_it_is_told() -> None:
    """Also for the session to take it: one that is stuck is not waited for any longer."""
    there = talk(["hi"])
    asked: list[float | None] = []
    runtime = there.stage.runtime
    tree_ask = runtime._core.tree.asked

    async def ask(edge: Edge, name: str, message: object, timeout: float, *others: Any) -> Any:  # noqa: ANN401 -- as it is
        asked.append(timeout)
        return await tree_ask(edge, name, message, timeout, *others)

    runtime._core.tree.asked = ask  # type: ignore[method-assign, assignment]  # to see it pass
    there.session.interrupt(timeout=3)

    assert asked == [3]


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "10", None])
def test_a_time_to_close_in_that_is_none_leaves_everything_as_it_was(
    timeout: Any,  # noqa: ANN401 -- that is the point of it
    drain: bool,  # noqa: FBT001 -- pytest's
) -> None:
    """It is refused before anything was stopped, and can be closed after that."""
    there = talk(["hi"])
    with pytest.raises(Refused, match="timeout"):
        there.stage.runtime.close(drain=drain, timeout=timeout)

    assert there.session.send("go").result(10).output == "hi"
    there.stage.runtime.close(drain=drain)
    with pytest.raises(Closed):
        there.session.send("more")


def test_a_closed_runtime_says_so() -> None:
    """Whatever is asked of it, and of its sessions; closing it again does nothing."""
    there = talk(["hi"])
    runtime, session = there.stage.runtime, there.session
    turn = session.send("go")
    turn.result(10)
    runtime.close()
    runtime.close()

    for refused in (
        lambda: session.send("more"),
        lambda: session.state,
        session.approvals,
        lambda: list(session.runes()),
        lambda: runtime.session(NAME),
        lambda: list(runtime.sessions()),
        lambda: runtime.create_session(AgentSpec(role="r", model="demo")),
        lambda: turn.result(1),
    ):
        with pytest.raises(Closed, match="has been closed: open it again"):
            refused()


def test_a_reason_is_no_book() -> None:
    """It is kept with all that follows from it: what no rune can hold would break the session."""
    there = talk([["one ", pause(5), "two"]])
    session, long = there.session, "x" * (70 << 20)
    turn = session.send("go")
    there.stage.run()
    root = session.state.root

    for refused in (
        lambda: session.interrupt(long),
        lambda: session.pause(long),
        lambda: session.suspend(long),
        lambda: session.close(long),
        lambda: session.terminate(root, force=True, reason=long),
        lambda: session.deny("call_1", approver="ada", reason=long),
    ):
        with pytest.raises(Refused, match="use up to 10,000"):
            refused()
    assert turn.result(100).output == "one two"
