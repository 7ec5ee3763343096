"""Rules about tools that are functions."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from actors.tool.adapters.function import FunctionTool, tool
from actors.tool.context import (
    Call,
    CallId,
    Cancellation,
    Cancelled,
    cancelled,
    progress,
    stop_if_cancelled,
)
from actors.tool.outcome import Outcome
from actors.tool.secrets import Secret
from actors.tool.spec import BadTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Point(msgspec.Struct):
    """A point."""

    x: int


def run(function: Callable[..., Any], /, **arguments: object) -> Outcome:
    """Declare a function and call it once."""
    return FunctionTool(function, name="t").run(Call(call_id="call_1", arguments=arguments))


def open_files() -> int:
    """Count the files that are open here."""
    return len(list(Path("/proc/self/fd").iterdir()))


# -- declaring ------------------------------------------------------------------------------------


def test_a_tool_is_still_its_function() -> None:
    """Called from Python it does what it did, under its name and with its docstring."""

    @tool(timeout=5)
    def double(x: int) -> int:
        """Double it."""
        return 2 * x

    assert double(4) == 8
    assert double.__name__ == double.spec.name == "double"
    assert double.__doc__ == double.spec.description == "Double it."
    assert double.spec.timeout == 5


def stars(*names: str) -> None:
    """Take many."""


def options(**names: str) -> None:
    """Take any."""


def first(name: str, /) -> None:
    """Take one by place."""


def untyped(name) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 -- the scene
    """Take one of no type."""


def odd(name: complex) -> None:
    """Take what JSON has no word for."""


def unknown(name: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821 -- the scene
    """Take what is not there."""


def yielding(name: str) -> Iterator[str]:
    """Give one by one."""
    yield name


def twice(key: CallId, again: CallId) -> None:
    """Take the call id twice."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (stars, r"takes \*names: .* list each by name"),
        (options, r"takes \*\*names: "),
        (first, "takes positional-only name: "),
        (untyped, "parameter name has no type, write name: str"),
        (odd, "JSON cannot describe the parameter name: .*complex"),
        (unknown, "'Nowhere' is not defined; its types must be known at run time"),
        (yielding, "yields: return one value"),
        (twice, "takes the call id twice"),
        (lambda: None, "has no name: give it one"),
        (3, "is not a function"),
        (dict, "tool dict: "),
    ],
)
def test_what_a_model_could_not_call_is_refused(
    function: Callable[..., object], message: str
) -> None:
    """When it is declared, by name and with the way out."""
    with pytest.raises(BadTool, match=message):
        tool(function)


def test_a_call_id_that_nobody_takes_is_refused() -> None:
    """A slip in the parameter's name would lose the idempotency key."""
    with pytest.raises(BadTool, match="has no parameter kee"):
        tool(call_id="kee")(first_of_two)


def first_of_two(a: str, key: str = "") -> str:
    """Tell both."""
    return f"{a} {key}"


def test_the_call_id_is_the_adapters_to_give() -> None:
    """It is passed by annotation or by name, and no part of what the model is told."""

    def keyed(a: str, key: CallId) -> str:
        return f"{a} {key}"

    by_name = FunctionTool(first_of_two, call_id="key")
    forged = by_name.run(Call(call_id="call_1", arguments={"a": "x", "key": "forged"}))

    assert run(keyed, a="x").output == "x call_1"
    assert by_name.run(Call(call_id="call_1", arguments={"a": "x"})).output == "x call_1"
    assert list(by_name.spec.parameters["properties"]) == ["a"]
    assert "key: no such argument" in forged.error


# -- running --------------------------------------------------------------------------------------


def test_arguments_come_as_their_types_and_results_go_as_json() -> None:
    """A Struct in, a Struct out, and the log sees neither."""

    def move(point: Point, by: int = 1) -> Point:
        return Point(point.x + by)

    assert run(move, point={"x": 2}) == Outcome("success", {"x": 3})


def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    """Checked again when it runs: the log may be older than the code."""
    assert run(first_of_two, b=1) == Outcome(
        "error",
        error="the arguments do not fit: a: is missing; b: no such argument, use a or key",
    )


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt("no"),
        asyncio.CancelledError("no"),
        GeneratorExit("no"),
        Cancelled("no"),
        TimeoutError("no"),
        RecursionError("no"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_whatever_a_function_raises_is_an_outcome(error: BaseException, kind: str) -> None:
    """Type and message; the thread that ran it goes on."""

    def fail() -> None:
        raise error

    async def fail_later() -> None:
        await asyncio.to_thread(int)
        raise error

    outcome = run(fail if kind == "sync" else fail_later)

    assert outcome.status == "error"
    assert outcome.error.startswith(type(error).__name__)
    assert "Traceback" not in outcome.error


def test_an_async_function_has_a_loop_of_its_own() -> None:
    """What it leaves behind is ended with it, and nothing is left open."""
    ended = threading.Event()

    async def forgetful() -> int:
        async def stay() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        task = asyncio.create_task(stay())
        await asyncio.wait([task], timeout=0)
        return 7

    run(forgetful)
    before = open_files()
    outcomes = [run(forgetful) for _ in range(20)]

    assert outcomes == [Outcome("success", 7)] * 20
    assert ended.is_set()
    assert open_files() == before


def test_an_async_function_is_stopped_at_its_limit() -> None:
    """Its own time-outs are its own errors."""

    async def forever() -> None:
        await asyncio.Event().wait()

    async def impatient() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    late = FunctionTool(forever).run(Call(call_id="c", timeout=0.01))

    assert late == Outcome("timeout", error="it was stopped after 0.01 s")
    assert run(impatient).error == "TimeoutError"


def test_an_async_function_is_cancelled_from_another_thread() -> None:
    """At its next await, wherever it is."""
    cancellation = Cancellation()

    async def forever() -> None:
        threading.Thread(target=cancellation.cancel).start()
        await asyncio.Event().wait()

    outcome = FunctionTool(forever).run(Call(call_id="c", cancellation=cancellation))

    assert outcome == Outcome("cancelled", error="it was cancelled")


def test_a_function_can_ask_whether_to_stop() -> None:
    """It leaves where it likes; what it returns nevertheless is its result."""
    cancellation = Cancellation()

    def leave() -> None:
        cancellation.cancel()
        try:
            stop_if_cancelled()
        except Exception:  # noqa: BLE001 -- the rule: what a tool catches is its errors
            progress("caught")

    def finish() -> bool:
        return cancelled()

    call = Call(call_id="c", cancellation=cancellation)
    left = FunctionTool(leave).run(call)

    assert left == Outcome("cancelled", error="it was cancelled")
    assert FunctionTool(finish).run(call).error == "it was cancelled before it began"


def test_progress_goes_to_its_own_call() -> None:
    """From threads of an async function too; and what is set in a context ends with the call."""
    said: list[tuple[str, str]] = []
    variable = contextvars.ContextVar("variable", default="before")

    async def work() -> None:
        variable.set("changed")
        progress("one")
        await asyncio.to_thread(progress, "two", "notes")

    def hear(stream: str, chunk: str, /) -> None:
        said.append((stream, chunk))

    FunctionTool(work).run(Call(call_id="c", progress=hear))

    assert said == [("progress", "one"), ("notes", "two")]
    assert variable.get() == "before"


def test_long_output_is_cut_in_the_middle() -> None:
    """A note says how much is missing."""
    talk = FunctionTool(lambda: "a" * 50 + "b" * 50, name="talk", max_output_bytes=20)
    outcome = talk.run(Call(call_id="c"))

    assert outcome.output == "a" * 10 + "\n[... 80 bytes left out ...]\n" + "b" * 10
    assert outcome.truncated == 80


# -- secrets --------------------------------------------------------------------------------------


@tool(secrets=["KEY"], side_effects=False)
def login(note: str, key: Secret = "secret:KEY") -> list[str]:
    """Log in."""
    if note == "fail":
        raise ValueError(key)
    return [note, key, f"<{key}>"]


def secret_of(name: str) -> str:
    """Know one secret."""
    return {"KEY": 'hun"ter2', "EMPTY": ""}[name]


def test_a_secret_is_known_to_the_function_and_to_nobody_else() -> None:
    """By reference or by default; in results and errors its name stands in its place."""
    seen: list[str] = []
    spy = FunctionTool(spied(seen), name="spy", secrets=["KEY"])
    spy.run(Call(call_id="c", arguments={"key": "secret:KEY"}, secret=secret_of))
    told = login.run(Call(call_id="c", arguments={"note": "secret:KEY"}, secret=secret_of))
    failed = login.run(Call(call_id="c", arguments={"note": "fail"}, secret=secret_of))

    assert seen == ['hun"ter2']
    assert told.output == ["secret:KEY", "secret:KEY", "<secret:KEY>"]
    assert failed.error == "ValueError: secret:KEY"


def spied(seen: list[str]) -> Callable[..., None]:
    """Make a function that remembers what it was given."""

    def spy(key: Secret) -> None:
        seen.append(key)

    return spy


def test_only_listed_secrets_can_be_named() -> None:
    """A model cannot pass another secret, nor a value of its own."""
    for given in ("secret:OTHER", "hunter2"):
        outcome = login.run(Call(call_id="c", arguments={"note": "", "key": given}))

        assert "key: invalid enum value" in outcome.error
    assert login.spec.parameters["properties"]["key"]["enum"] == ["secret:KEY"]


def test_a_secret_needs_its_list_and_a_list_its_secret() -> None:
    """Neither is of use without the other."""
    with pytest.raises(BadTool, match="list those it may be given"):
        tool(spied([]))
    with pytest.raises(BadTool, match="list those it may be given"):
        tool(secrets=["OTHER"])(login._function)
    with pytest.raises(BadTool, match="no parameter takes one"):
        tool(secrets=["KEY"])(first_of_two)


def test_a_secret_is_a_parameter_of_its_own() -> None:
    """Within a list or a choice its name would be passed on as if it were the value."""

    def many(keys: list[Secret]) -> None:
        """Take many."""

    def perhaps(key: Secret | None = None) -> None:
        """Take one or none."""

    for function in (many, perhaps):
        with pytest.raises(BadTool, match="annotate a parameter of its own"):
            tool(secrets=["KEY"])(function)


def test_a_secret_is_hidden_in_progress_too() -> None:
    """Whatever a function says on the way, and no more of it than it may return."""
    said: list[str] = []

    def talk(key: Secret) -> None:
        progress(f"using {key}")
        for _ in range(100):
            progress("x" * 50)

    def hear(_stream: str, chunk: str, /) -> None:
        said.append(chunk)

    talker = FunctionTool(talk, secrets=["KEY"], max_output_bytes=200)
    talker.run(Call(call_id="c", arguments={"key": "secret:KEY"}, secret=secret_of, progress=hear))

    assert said == ["using secret:KEY", *["x" * 50] * 3, "[more is not shown]"]


def test_an_empty_secret_is_no_secret() -> None:
    """It would hide nothing; the call fails before the function runs."""
    seen: list[str] = []
    spy = FunctionTool(spied(seen), name="spy", secrets=["EMPTY"])
    outcome = spy.run(Call(call_id="c", arguments={"key": "secret:EMPTY"}, secret=secret_of))

    assert "'EMPTY' is empty" in outcome.error
    assert not seen


def test_a_flood_of_progress_is_not_copied() -> None:
    """What a tool says on the way is bounded like its output, before it is looked through."""
    heard: list[str] = []
    size = 64 << 20

    @tool(max_output_bytes=1_000)
    def flood() -> int:
        """Say too much."""
        text = "x" * size
        tracemalloc.start()
        progress("ok")
        progress(text)
        progress("after that nothing is shown")
        return tracemalloc.get_traced_memory()[1]

    call = Call(call_id="call_1", arguments={}, progress=lambda _, chunk: heard.append(chunk))
    try:
        peak = flood.run(call).output
    finally:
        tracemalloc.stop()

    assert heard == ["ok", "[more is not shown]"]
    assert peak < size // 64


def test_progress_is_counted_in_bytes() -> None:
    """A character may take four of them: what is shown on the way is within the limit in bytes."""
    heard: list[str] = []

    @tool(max_output_bytes=10)
    def tell() -> None:
        """Say a little in another alphabet."""
        progress("\u6f22" * 3)
        progress("\u6f22")

    tell.run(Call(call_id="call_1", arguments={}, progress=lambda _, chunk: heard.append(chunk)))

    assert heard == ["\u6f22" * 3, "[more is not shown]"]
