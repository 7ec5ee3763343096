"""Rules about what a model may send as arguments."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tool.schema import MAX_BYTES, MAX_DEPTH, Parameter, Parameters, Unfit, check_json, parse


class Place(msgspec.Struct):
    """A place."""

    lat: float
    lon: float


TAKES = Parameters(
    [
        Parameter("place", Place),
        Parameter("days", Annotated[int, msgspec.Meta(ge=1, description="How many.")], 3),
        Parameter("unit", Literal["c", "f"], "c"),
        Parameter("tags", list[str], []),
    ],
    {"place": "Where.", "days": "Not shown.", "nobody": "Ignored."},
)
HERE = {"lat": 1, "lon": 2.5}


def problems(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Say what is wrong with some arguments."""
    with pytest.raises(Unfit) as caught:
        TAKES.fit(arguments)
    return caught.value.problems


def test_a_schema_is_a_strict_object_with_descriptions() -> None:
    """No other arguments, the docstring's words unless the type has its own, types by reference."""
    schema = TAKES.schema

    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["place"]
    assert schema["properties"]["place"] == {"$ref": "#/$defs/Place", "description": "Where."}
    assert schema["properties"]["days"]["description"] == "How many."
    assert schema["properties"]["days"]["default"] == 3
    assert schema["$defs"]["Place"]["required"] == ["lat", "lon"]
    assert json.loads(json.dumps(schema)) == schema


def test_arguments_become_what_the_types_say() -> None:
    """Only what was given is passed on; the tool knows its own defaults."""
    assert TAKES.fit({"place": HERE, "days": 2}) == {"place": Place(1.0, 2.5), "days": 2}


def test_all_that_is_wrong_is_told_at_once() -> None:
    """A model that is told one fault at a time needs one try for each."""
    told = problems({"dayz": 1, "days": "2", "unit": "k", "tags": ["a", 1]})

    assert told == (
        "place: is missing",
        "dayz: no such argument, use days",
        "days: expected int, got str",
        "unit: invalid enum value 'k', use 'c' or 'f'",
        "tags[1]: expected str, got int",
    )


def test_a_fault_inside_an_argument_is_told_by_its_place() -> None:
    """The place is written as in JSON."""
    assert problems({"place": {"lat": "x", "lon": 1}}) == ("place.lat: expected float, got str",)
    assert problems({"place": {"lat": 1}}) == ("place: object missing required field lon",)
    assert problems({"place": HERE, "days": 0}) == ("days: expected int >= 1",)


def test_a_hostile_name_is_shown_in_part() -> None:
    """What a model is told never grows with what it sent."""
    assert len(problems({"place": HERE, "x" * 100_000: 1})[0]) < 150


def test_a_type_that_json_cannot_describe_is_named() -> None:
    """So is its parameter."""
    with pytest.raises(TypeError, match="the parameter odd: type <class 'complex'>"):
        Parameters([Parameter("fine", int), Parameter("odd", complex)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[1]", "an array, send an object"),
        ("3", "a number, send an object"),
        ("null", "null, send an object"),
        ('{"a": 1e999}', "not valid JSON"),
        ('{"a": ' + "9" * 40 + "}", "more than 64 bits"),
        (b"\xff\xfe", "not valid JSON"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ("[" * 1_000_000, f"nested more than {MAX_DEPTH} deep"),
        ('{"a":' * 65 + "1" + "}" * 65, f"nested more than {MAX_DEPTH} deep"),
        (" " * (MAX_BYTES + 1), "send at most 1,048,576"),
        ('"' + '\\"' * 500_000, "not valid JSON"),
    ],
)
def test_text_that_is_no_object_is_refused(text: str | bytes, words: str) -> None:
    """Whatever a model writes, it is told what to write instead."""
    with pytest.raises(Unfit, match=words):
        parse(text)


def test_brackets_within_text_are_no_nesting() -> None:
    """Nor is depth that ends before the next begins."""
    text = json.dumps({"a": "[" * 1000 + '"\\', "b": [[]] * 100})

    assert parse(text)["a"] == "[" * 1000 + '"\\'


def test_nothing_is_no_arguments() -> None:
    """Several providers send an empty text for a call without any."""
    assert parse("") == parse(b"  \n") == parse({}) == {}


def nested(depth: int) -> dict[str, Any]:
    """Nest objects."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def shared() -> dict[str, Any]:
    """Take little memory and stand for very much."""
    value: list[Any] = []
    for _ in range(MAX_DEPTH - 2):
        value = [value, value]
    return {"a": value}


LOOP: dict[str, Any] = {}
LOOP["a"] = [LOOP]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (nested(MAX_DEPTH + 1), "deep"),
        (LOOP, "deep"),
        (shared(), "bytes"),
        ({"a": "x" * MAX_BYTES}, "bytes"),
        ({"a": [None] * MAX_BYTES}, "bytes"),
        ({"a": {1: 2}}, "names are text"),
        ({"a": float("nan")}, "not one that JSON knows"),
        ({"a": 1 << 64}, "64 bits"),
        ({"a": "\ud800"}, "half characters"),
        ({"\ud800": 1}, "half characters"),
        ({"a": (1, 2)}, "JSON does not know"),
        ({"a": b"x"}, "JSON does not know"),
    ],
    ids=range(12),
)
def test_what_the_log_cannot_store_is_refused(value: dict[str, Any], words: str) -> None:
    """However deep, wide or odd: the check comes to an end and says what is wrong."""
    with pytest.raises(Unfit, match=words):
        check_json(value)


def test_what_is_just_deep_enough_passes() -> None:
    """The limit itself is within it."""
    check_json(nested(MAX_DEPTH))

    assert parse(json.dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)


@given(st.text() | st.binary())
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    """Nothing else comes of it."""
    found: object = {}
    with contextlib.suppress(Unfit):
        found = parse(text)

    assert isinstance(found, dict)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans())))
def test_any_arguments_fit_or_are_refused(arguments: dict[str, Any]) -> None:
    """Nothing else comes of it, and what is said can be stored."""
    with pytest.raises(Unfit) as caught:
        TAKES.fit(arguments)

    assert str(caught.value).encode()
