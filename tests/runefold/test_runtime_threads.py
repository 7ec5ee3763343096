"""Rules about the runtime as apps use it: on threads, with a log on disk."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from actors.model.provider import Done, Text
from actors.model.providers.scripted import call
from actors.scheduling.clock import ManualClock
from actors.session.runes import InputAccepted
from actors.tool.adapters.function import tool
from actors.tool.context import cancelled, progress
from actors.tool.lifecycle import Finish
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from tests.runefold.talks import Raw, Strict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Request

SPEC = AgentSpec(role="helper", model="demo")
LONG = 30.0
"""Seconds after which a test is lost; nothing that works waits for them."""


class AwaitedRecord(logging.Handler):
    """Waits until an operator is told something."""

    def __init__(self, what: str) -> None:
        """Wait for this."""
        super().__init__()
        self._what = what
        self.heard: list[logging.LogRecord] = []
        self._there = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Hear one thing."""
        if vars(record)["event"] == self._what:
            self.heard.append(record)
            self._there.set()

    def must_hear(self) -> dict[str, Any]:
        """Return what was told, as soon as it was."""
        assert self._there.wait(LONG)
        return vars(self.heard[0])


@pytest.fixture
def late_answers() -> Iterator[AwaitedRecord]:
    """Listen for answers of tools that nobody waits for any more."""
    handler, logger = AwaitedRecord("late_answer_dropped"), logging.getLogger("runefold")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_a_turn_is_followed_live_by_several_and_awaited(tmp_path: Path) -> None:
    """With `for`, with `async for` and with `await`: the same runes, and they end with the turn."""
    go = threading.Event()

    def answer(_request: Request) -> Iterator[Any]:
        yield Text("one ")
        assert go.wait(LONG)
        yield Text("two")
        yield Done()

    with Runtime.open(tmp_path, providers={"demo": Raw(answer)}) as runtime:
        turn = runtime.create_session(SPEC).send("go")
        plain: list[str] = []
        thread = threading.Thread(target=lambda: plain.extend(e.kind for e in turn.runes()))
        thread.start()

        async def follow() -> tuple[list[str], str]:
            kinds = []
            async for envelope in turn.runes():
                kinds.append(envelope.kind)
                if envelope.kind == "turn.assistant_delta":
                    # The turn is not over: what we have is live.
                    go.set()
            return kinds, (await turn).output

        kinds, output = asyncio.run(follow())
        thread.join(LONG)

    assert output == "one two"
    assert (kinds[0], kinds[-1]) == ("turn.started", "turn.completed")
    assert plain == kinds


def test_tools_that_are_safe_in_parallel_really_run_at_once(
    tmp_path: Path, late_answers: AwaitedRecord
) -> None:
    """Each of them waits for the others to have begun, and none of them is late."""
    everybody = threading.Barrier(4, timeout=LONG)

    @tool(side_effects=False)
    def meet(x: int) -> int:
        """Meet the others."""
        everybody.wait()
        return x

    model = Strict([["go ", *[call("meet", x=x) for x in range(4)]], ["done"]])
    with Runtime.open(tmp_path, tools=[meet], providers={"demo": model}) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["meet"]))
        output = session.send("go").result(LONG).output

    assert output == "done"
    assert sorted(model.results) == [("success", str(x)) for x in range(4)]
    assert late_answers.heard == []


def test_a_function_past_its_deadline_is_abandoned_and_its_late_answer_dropped(
    tmp_path: Path, late_answers: AwaitedRecord
) -> None:
    """The model is told that it may still happen; what comes later is logged, and no more."""
    begun, late, left = threading.Event(), threading.Event(), threading.Event()
    clock = ManualClock()

    @tool(timeout=5)
    def slow() -> str:
        """Take too long."""
        begun.set()
        late.wait(LONG)
        left.set()
        return "late"

    model = Strict([["go ", call("slow")], ["done"]])
    with Runtime.open(tmp_path, tools=[slow], providers={"demo": model}, clock=clock) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["slow"]))
        turn = session.send("go")
        assert begun.wait(LONG)
        clock.advance(6)
        while next(session.follow(kinds={"tool.result"}, wait=0.01), None) is None:
            # The alarm may be set a moment after it was due; this clock rings when it is moved.
            clock.advance(0)
        output = turn.result(LONG).output
        late.set()
        assert left.wait(LONG)
        told = late_answers.must_hear()
        session.send("on").result(LONG)
        results = list(session.runes(kinds={"tool.result"}))
        events = session.runes(kinds={"tool.progress", "tool.result"})
        last = [each.kind for each in events]

    assert output == "done"
    assert (told["tool"], told["outcome"], told["output"]) == ("slow", "success", "late")
    assert (told["recorded"], told["idempotent"]) == ("timeout", False)
    assert len(late_answers.heard) == 1
    assert (told["conversation"], told["call"]) == (session.id, results[0].owner)
    assert last == ["tool.result"]
    assert [each.payload.status for each in results] == ["timeout"]  # type: ignore[attr-defined]  # by its kind
    assert "may still take effect" in model.results[0][1]


def test_an_answer_on_its_way_when_the_deadline_was_recorded_is_told(
    tmp_path: Path, late_answers: AwaitedRecord
) -> None:
    """The answer came in time for nobody: the deadline's result stands, and the operator knows."""
    begun, go = threading.Event(), threading.Event()
    clock = ManualClock()

    @tool(timeout=5)
    def slow() -> str:
        """Take too long."""
        begun.set()
        go.wait(LONG)
        return "done"

    model = Strict([["go ", call("slow")], ["done"]])
    with Runtime.open(tmp_path, tools=[slow], providers={"demo": model}, clock=clock) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["slow"]))
        turn = session.send("go")
        assert begun.wait(LONG)
        (started,) = session.follow(kinds={"tool.started"}, wait=0.01)
        run = runtime._services.running_calls.find(session.id, started.owner)  # type: ignore[union-attr]  # no gap
        assert run is not None
        # In a mailbox that is not read any more.
        run.take_over(lambda _: None)
        run.over(Finish("charged"))
        clock.advance(6)
        while next(session.follow(kinds={"tool.result"}, wait=0.01), None) is None:
            clock.advance(0)
        told = late_answers.must_hear()
        go.set()
        turn.result(LONG)
        (ended,) = session.runes(kinds={"tool.result"})

    assert (told["outcome"], told["output"], told["recorded"]) == ("success", "charged", "timeout")
    assert ended.payload.status == "timeout"  # type: ignore[attr-defined]  # by its kind


def test_an_answer_after_the_runtime_was_closed_is_told(
    tmp_path: Path, late_answers: AwaitedRecord
) -> None:
    """It is not recorded: the call is in doubt when the log is opened next, and stays that."""
    begun, go = threading.Event(), threading.Event()

    @tool
    def slow() -> str:
        """Take longer than the runtime is open."""
        begun.set()
        go.wait(LONG)
        return "charged ghp_" + "a" * 36

    options: dict[str, Any] = {
        "tools": [slow],
        "providers": {"demo": Strict([["go ", call("slow")], ["done"]])},
    }
    with Runtime.open(tmp_path, **options) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["slow"]))
        session.send("go", message_id="first")
        assert begun.wait(LONG)
    go.set()
    told = late_answers.must_hear()
    with Runtime.open(tmp_path, **options) as runtime:
        again = runtime.session(session.id)
        again.send("go", message_id="first").result(LONG)
        results = [each.payload for each in again.runes(kinds={"tool.result"})]

    assert (told["outcome"], told["recorded"]) == ("success", "nothing")
    assert told["output"].startswith("charged ")
    assert "a" * 36 not in told["output"]
    assert [each.status for each in results] == ["unknown"]  # type: ignore[attr-defined]  # by its kind


def test_an_interrupt_does_not_wait_for_a_function_that_blocks(
    tmp_path: Path, late_answers: AwaitedRecord
) -> None:
    """The turn ends at once, the call is cancelled, and what it comes to later is dropped."""
    begun, go, seen = threading.Event(), threading.Event(), []

    @tool
    def block() -> str:
        """Block, deaf to everything."""
        begun.set()
        assert go.wait(LONG)
        seen.append(cancelled())
        progress("too late to say anything")
        raise ValueError("too late")  # noqa: EM101 -- a tool's

    model = Strict([["go ", call("block")], ["on"]])
    with Runtime.open(tmp_path, tools=[block], providers={"demo": model}) as runtime:
        session = runtime.create_session(AgentSpec(role="r", model="demo", tools=["block"]))
        turn = session.send("go")
        assert begun.wait(LONG)
        stopped = session.interrupt()
        result = turn.result(LONG)
        after = session.send("and now?").result(LONG)
        go.set()
        told = late_answers.must_hear()
        [outcome] = [each.payload for each in session.runes(kinds={"tool.result"})]
        kinds = [each.kind for each in session.runes()]

    assert (stopped, result.status, result.reason) == (1, "interrupted", "interrupt")
    assert result.output == "go "
    assert seen == [True]
    assert outcome.status == "cancelled"  # type: ignore[attr-defined]  # by its kind
    assert "may still take effect" in outcome.error  # type: ignore[attr-defined]  # by its kind
    assert "tool.progress" not in kinds
    assert (told["tool"], told["outcome"]) == ("block", "error")
    assert after.output == "on"
    assert model.results[0][0] == "cancelled"


def test_a_conversation_goes_on_where_the_last_runtime_left_it(tmp_path: Path) -> None:
    """Another runtime on the same directory knows all of it, and a resend is the same turn."""
    model = Strict(["one", "two"])
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        session = runtime.create_session(SPEC, conversation_id="conv_a")
        session.send("a", message_id="m1").result(LONG)
    with Runtime.open(tmp_path, providers={"demo": model}) as runtime:
        session = runtime.session("conv_a")
        sent = [session.send(text, message_id=name) for text, name in (("a", "m1"), ("b", "m2"))]
        outputs = [turn.result(LONG).output for turn in sent]

    assert outputs == ["one", "two"]
    assert model.last == [("user", "a"), ("assistant", "one"), ("user", "b")]


def test_a_runtime_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the process goes: what is large or put away is files of its own, and lies there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with Runtime.open("data", providers={"demo": Strict(["hello"])}) as runtime:
        monkeypatch.chdir(elsewhere)
        session = runtime.create_session(SPEC, conversation_id="conv_a")
        session.send("x" * (2 << 20)).result(30)
        session.close()
        session.archive()
    with Runtime.open(tmp_path / "data") as runtime:
        payloads = [rune.payload for rune in runtime.session("conv_a").runes()]
    read = [rune.content for rune in payloads if isinstance(rune, InputAccepted)]

    assert [len(each) for each in read] == [2 << 20]
    assert not list(elsewhere.iterdir())


def test_closing_with_a_drain_lets_running_turns_end(tmp_path: Path) -> None:
    """What can end in time ends; what cannot is interrupted, and keeps what it said."""
    go = threading.Event()

    def answer(_request: Request) -> Iterator[Any]:
        yield Text("one ")
        assert go.wait(LONG)
        yield Text("two")
        yield Done()

    ends = []
    for in_time in (True, False):
        go.clear()
        runtime = Runtime.open(tmp_path / str(in_time), providers={"demo": Raw(answer)})
        session = runtime.create_session(SPEC, conversation_id="conv_a")
        turn = session.send("go", message_id="m1")
        next(iter(turn.runes({"turn.assistant_delta"})))
        if in_time:
            go.set()
        runtime.close(drain=True, timeout=LONG if in_time else 0.05)
        go.set()
        with Runtime.open(tmp_path / str(in_time), providers={"demo": Raw(answer)}) as again:
            ends.append(again.session("conv_a").send("go", message_id="m1").result(LONG))

    assert [(end.status, end.output) for end in ends] == [
        ("completed", "one two"),
        ("interrupted", "one "),
    ]


def test_sessions_that_sleep_hold_no_threads(tmp_path: Path) -> None:
    """Two hundred of them are a few threads while they work, and none of their own afterwards."""
    model = Strict(["hello"])
    clock = ManualClock()
    with Runtime.open(tmp_path, providers={"demo": model}, clock=clock) as runtime:
        before = threading.active_count()
        sessions = [runtime.create_session(SPEC) for _ in range(200)]
        turns = [session.send("go") for session in sessions]
        outputs = {turn.result(LONG).output for turn in turns}
        busy = threading.active_count()
        all_running = [runtime._core.tree.running(session.id) for session in sessions]
        clock.advance(61)
        gone = [running.gone.wait(LONG) for running in all_running if running is not None]
        again = sessions[117].send("go").result(LONG).output

    assert outputs == {"hello"}
    assert gone == [True] * 200
    assert again == "hello"
    assert busy - before <= 64


def test_a_session_that_falls_asleep_before_anybody_comes_is_woken_again(tmp_path: Path) -> None:
    """With next to no time until it sleeps, whoever asks is still answered: it takes longer."""
    ended: list[str] = []

    def work(runtime: Runtime) -> None:
        for _ in range(5):
            session = runtime.create_session(SPEC)
            ended.append(session.send("Are you there?").result(LONG).output)

    providers = {"demo": Strict(lambda _: "Yes.")}
    with Runtime.open(tmp_path, providers=providers, idle_after=0.0005) as runtime:
        threads = [threading.Thread(target=work, args=(runtime,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert ended == ["Yes."] * 30


@pytest.mark.parametrize("said", [[], [Text("one ")]])
def test_a_provider_that_hangs_is_given_up(tmp_path: Path, said: list[Text]) -> None:
    """In its own code, for good, before the first word or behind it: the turn ends all the same."""
    go = threading.Event()

    def answer(_request: Request) -> Iterator[Any]:
        yield from said
        go.wait(LONG)
        yield Text("too late")
        yield Done("stop")

    spec = AgentSpec(
        role="helper",
        model="demo",
        first_byte_timeout=0.2,
        silence_timeout=0.2,
        retries=0,
    )
    with Runtime.open(tmp_path, providers={"demo": Raw(answer)}) as runtime:
        session = runtime.create_session(spec)
        ended = session.send("Are you there?").result(LONG)
        go.set()
        again = session.send("And now?")
        assert again.result(LONG).output.endswith("too late")
        texts = [rune.kind for rune in session.runes(kinds={"turn.error"})]

    assert (ended.status, ended.reason) == ("error", "timeout")
    assert ended.output == "".join(each.text for each in said)
    assert len(texts) == 1
