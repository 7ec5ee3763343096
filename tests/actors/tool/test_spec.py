"""Rules about what is declared of a tool."""

from __future__ import annotations

import dataclasses
import re
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from actors.budget.runes import Amounts
from actors.model.runes import AskedCall, Completed
from actors.tool.context import Call
from actors.tool.lifecycle import Probed
from actors.tool.outcome import MAX_ERROR_BYTES, Happened, Outcome, in_words
from actors.tool.runes import Called, Result, Rule
from actors.tool.schema import MAX_DEPTH, check_json
from actors.tool.spec import (
    MOST_RETURNED,
    BadTool,
    ToolSpec,
    asked,
    digest,
    fitted,
    returned,
)
from runelog.codec import Codec
from runelog.rune import Change

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("declared", "on_doubt"),
    [
        ({}, "unknown"),
        ({"idempotent": True}, "rerun"),
        ({"side_effects": False}, "rerun"),
        ({"side_effects": False, "on_doubt": "ask"}, "ask"),
    ],
)
def test_in_doubt_is_settled_by_what_a_second_run_would_do(
    declared: dict[str, Any], on_doubt: str
) -> None:
    """Only what is harmless to repeat is run again unless the tool says otherwise."""
    assert ToolSpec(name="t", **declared).on_doubt == on_doubt


def test_only_what_changes_nothing_runs_beside_others() -> None:
    """Unless it says so, a tool with side effects has the turn to itself."""
    assert ToolSpec(name="t").parallel_safe is False
    assert ToolSpec(name="t", side_effects=False).parallel_safe is True
    assert ToolSpec(name="t", parallel_safe=True).parallel_safe is True


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ä", "a/b", "a\n", "a.b"])
def test_a_name_is_an_id(name: str) -> None:
    """Providers take no other names, and the error says which they take."""
    with pytest.raises(BadTool, match="use 1 to 64 of A-Z"):
        ToolSpec(name=name)


@pytest.mark.parametrize(
    "flag",
    ["side_effects", "idempotent", "parallel_safe", "requires_approval", "network", "sub_call"],
)
def test_a_flag_is_true_or_false(flag: str) -> None:
    """A word that says no would count as yes, and the tool might be run twice."""
    declared: dict[str, Any] = {flag: "no"}

    with pytest.raises(BadTool, match=f"tool t: {flag} is 'no': say True or False"):
        ToolSpec(name="t", **declared)


def test_a_description_is_a_text() -> None:
    """The model reads it."""
    declared: dict[str, Any] = {"description": 5}

    with pytest.raises(BadTool, match="description is 5: give a text"):
        ToolSpec(name="t", **declared)


@pytest.mark.parametrize("limit", ["timeout", "approval_timeout", "max_output_bytes"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), True, "5", None])
def test_a_limit_is_a_positive_number(limit: str, value: object) -> None:
    """A limit that limits nothing, or everything, is refused by name."""
    declared: dict[str, Any] = {limit: value}

    with pytest.raises(BadTool, match=f"tool t: {limit} is .* positive"):
        ToolSpec(name="t", **declared)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"on_doubt": "rerun"}, "could do them twice"),
        ({"on_doubt": "probe"}, "needs probe="),
        ({"on_doubt": "guess"}, "use 'rerun', 'probe', 'ask' or 'unknown'"),
        ({"probe": lambda _id, _arguments: None}, "never asked"),
    ],
)
def test_what_would_go_wrong_after_a_crash_is_refused_before(
    declared: dict[str, Any], message: str
) -> None:
    """No side effect is repeated by a slip in a declaration."""
    with pytest.raises(BadTool, match=message):
        ToolSpec(name="t", **declared)


def probing(probe: Callable[..., Any]) -> Probed:
    """Ask a probe about a call."""
    spec = ToolSpec(name="t", on_doubt="probe", probe=probe)
    return asked(spec, Call(call_id="call_1", arguments={"a": 1}))


def test_a_probe_says_whether_it_happened() -> None:
    """It is given the call id and the arguments; a result is made an outcome, None is a no."""
    happened = Probed(happened=True, output=["call_1", {"a": 1}])

    assert probing(lambda key, arguments: Happened((key, arguments))) == happened
    assert probing(lambda _key, _arguments: None) == Probed(happened=False)


def test_a_probe_that_fails_leaves_the_doubt() -> None:
    """Neither an error, nor an exit, nor some other value is taken for a no."""

    def leave(_key: str, _arguments: object) -> None:
        raise SystemExit(3)

    told = [probing(probe) for probe in (leave, lambda _k, _a: False, lambda _k, _a: 1 / 0)]
    unstorable = probing(lambda _k, _a: Happened(object()))

    assert [one.happened for one in told] == [None] * 3
    assert "SystemExit: 3" in told[0].error
    assert "must return Happened" in told[1].error
    assert unstorable.happened is None
    assert asked(ToolSpec(name="t"), Call(call_id="c")).happened is None


def nested(depth: int) -> list[Any]:
    """Nest lists."""
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [object(), {(1, 2): 3}, 1 << 70, {"deep": {"odd": 1j}}, nested(MAX_DEPTH + 1), nested(100_000)],
    ids=range(6),
)
def test_what_cannot_be_stored_is_an_error_that_says_it_ran(value: object) -> None:
    """The model must not think that nothing happened."""
    outcome = returned(value, ToolSpec(name="t"))

    assert outcome.status == "error"
    assert "t ran to its end" in outcome.error


def test_what_is_within_bounds_can_be_stored() -> None:
    """The deepest arguments and the deepest result fit into every rune that holds them."""
    log = Codec([Called, Result, Completed])
    deepest = returned(nested(MAX_DEPTH), ToolSpec(name="t")).output
    arguments = {"a": nested(MAX_DEPTH - 1)}
    check_json(arguments)
    runes = [
        Called(
            call_id="c",
            tool_name="t",
            arguments=arguments,
            caller="turn_1",
            agent_id="agt_1",
            rule=Rule(verdict="allow"),
            at=0,
        ),
        Result(call_id="c", status="success", output=deepest),
        Completed(
            model_call_id="m",
            calls=(AskedCall("c", "t", arguments),),
            usage=Amounts(),
            stop_reason="tool_calls",
        ),
    ]

    assert len(log.encode("conv_1", Change("call_1", 0, runes))) == 3


def test_a_long_value_is_cut_as_text() -> None:
    """What is over the limit is the JSON's text with its middle missing."""
    outcome = returned(list(range(1000)), ToolSpec(name="t", max_output_bytes=40))

    assert outcome.output.startswith("[0,1,2,3")
    assert outcome.output.endswith("998,999]")
    assert outcome.truncated == len("".join(f"{n}," for n in range(1000))) + 1 - 40


def test_the_limit_itself_is_not_too_long() -> None:
    """Text of exactly as many bytes as allowed is whole, one more and it is cut."""
    spec = ToolSpec(name="t", max_output_bytes=10)

    assert returned("0123456789", spec) == Outcome("success", "0123456789")
    assert returned("0123456789a", spec).truncated == 1


@pytest.mark.parametrize("letter", ["a", "é", "漢", "🙂"])
def test_limits_are_counted_in_bytes(letter: str) -> None:
    """However many bytes a character takes, what is kept of an output is within the limit.

    So it is in a list, and if an app's own adapter made the outcome.
    """
    each = len(letter.encode())
    spec = ToolSpec(name="t", max_output_bytes=12 * 1_000)
    fits, over = letter * (12 // each * 1_000), letter * (12 // each * 1_000 + 1)
    long = letter * (40 // each * 1_000)
    listed = returned([fits], spec)
    foreign = fitted(Outcome("success", long), spec)
    failed = fitted(Outcome("error", "", long), spec)

    assert returned(fits, spec) == Outcome("success", fits)
    assert returned(over, spec).truncated == each
    assert listed.truncated == len('[""]')
    assert kept(listed.output) <= 12_000
    assert foreign.truncated == len(long.encode()) - 12_000
    assert kept(foreign.output) <= 12_000
    assert kept(failed.error) <= MAX_ERROR_BYTES


def kept(text: str) -> int:
    """Return how many bytes of an output are its own, and no note of what was left out."""
    return sum(
        len(part.encode()) for part in re.split(r"\n\[\.\.\. .* bytes left out \.\.\.\]\n", text)
    )


def test_half_characters_are_written_out() -> None:
    """A file's name need not be text; the log's must."""
    assert returned("caf\udce9", ToolSpec(name="t")).output == "caf\\udce9"


def test_a_digest_does_not_see_the_order_of_keys() -> None:
    """The same content has the same hash."""
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


# -- too large -----------------------------------------------------------------------------------

HEAVY = 64 << 20


@dataclasses.dataclass
class Report:
    """What an app's tool may return."""

    text: str


@pytest.mark.parametrize(
    "make",
    [
        lambda: "x" * HEAVY,
        lambda: "\u00e9" * HEAVY,
        lambda: bytes(HEAVY),
        lambda: memoryview(bytes(HEAVY)),
        lambda: ["x" * 1_000] * (HEAVY // 1_000),
        lambda: {"a": [{"b": ("x" * HEAVY,)}]},
        lambda: {"x" * HEAVY: 1},
        lambda: Report("x" * HEAVY),
        lambda: Happened("x" * HEAVY),
        lambda: {frozenset({"x" * HEAVY})},
    ],
    ids=["text", "wide", "bytes", "view", "list", "nested", "key", "dataclass", "struct", "set"],
)
def test_what_is_far_too_large_is_refused_before_it_is_copied(make: Callable[[], object]) -> None:
    """A tool that returns as much as memory lasts costs no more than what it returns."""
    value = make()
    tracemalloc.start()
    try:
        made = [returned(value, ToolSpec(name="t"))]
        made.append(fitted(Outcome("success", value), ToolSpec(name="t")))
        made.append(fitted(Outcome("timeout", value, "late"), ToolSpec(name="t")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert [outcome.status for outcome in made] == ["error", "error", "timeout"]
    assert all("has more than 4,194,304 bytes" in outcome.error for outcome in made)
    assert made[2].error.startswith("late t ran to its end")
    assert peak < HEAVY // 64


def test_what_is_within_reach_of_its_limit_is_cut() -> None:
    """A limit of its own that is large is no reason to refuse what is under it, or a bit over."""
    spec = ToolSpec(name="t", max_output_bytes=MOST_RETURNED)

    assert returned("x" * MOST_RETURNED, spec).output == "x" * MOST_RETURNED
    assert returned("x" * (MOST_RETURNED + 5), spec).truncated == 5
    assert returned("x" * (MOST_RETURNED - 2), ToolSpec(name="t")).status == "success"


def test_an_error_without_end_is_cut_before_it_is_copied() -> None:
    """An exception's message may be as long as memory lasts."""
    error = ValueError("x" * HEAVY)
    tracemalloc.start()
    try:
        told = in_words(error)
        fitted(Outcome("error", error=error.args[0]), ToolSpec(name="t"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert len(told.encode()) < 2 * MAX_ERROR_BYTES
    assert "bytes left out" in told
    assert peak < HEAVY // 64


def test_a_circle_is_weighed_and_refused() -> None:
    """What holds itself has no end: it is looked into so deep, and then refused as JSON."""
    circle: list[object] = []
    circle.append(circle)

    assert returned(circle, ToolSpec(name="t")).status == "error"
