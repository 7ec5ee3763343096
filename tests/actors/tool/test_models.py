"""Rules about arguments and results that are objects: models, dataclasses, TypedDicts, Structs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from actors.model.providers.scripted import call
from actors.tool.adapters.function import FunctionTool, tool
from actors.tool.context import Call
from actors.tool.schema import Unfit
from actors.tool.spec import BadTool
from tests.runefold.talks import talk


class Price(pydantic.BaseModel):
    """What something costs."""

    cents: int = pydantic.Field(ge=1, description="In cents.")
    currency: Literal["EUR", "USD"] = "EUR"


class Order(pydantic.BaseModel):
    """A model with models in it."""

    item: str
    prices: list[Price]


@dataclass
class DataPrice:
    """The same as a dataclass."""

    cents: Annotated[int, msgspec.Meta(ge=1, description="In cents.")]
    currency: Literal["EUR", "USD"] = "EUR"


@dataclass
class DataOrder:
    """A dataclass with dataclasses in it."""

    item: str
    prices: list[DataPrice]


class DictPrice(TypedDict):
    """The same as a dict."""

    cents: Annotated[int, msgspec.Meta(ge=1, description="In cents.")]


class DictOrder(TypedDict):
    """A dict with dicts in it."""

    item: str
    prices: list[DictPrice]


class StructPrice(msgspec.Struct):
    """The same as a Struct."""

    cents: Annotated[int, msgspec.Meta(ge=1, description="In cents.")]
    currency: Literal["EUR", "USD"] = "EUR"


class StructOrder(msgspec.Struct):
    """A Struct with Structs in it."""

    item: str
    prices: list[StructPrice]


@dataclass
class Basket:
    """All sorts within each other."""

    model: Order
    struct: StructOrder
    more: dict[str, DictOrder]
    maybe: Price | None = None


NO_NUMBER = "input should be a valid integer, unable to parse string as an integer"
ORDERS = [Order, DataOrder, DictOrder, StructOrder]
GIVEN: dict[str, Any] = {"item": "pen", "prices": [{"cents": 5}, {"cents": 7}]}


def taking(hint: Any) -> FunctionTool[..., Any]:  # noqa: ANN401 -- a type
    """Return a tool that takes an order of some type, and gives it back."""

    def buy(order: Any, note: str = "") -> object:  # noqa: ANN401 -- as annotated below
        """Buy."""
        del note
        return order

    buy.__annotations__["order"] = hint
    return FunctionTool(buy)


def resolved(schema: Any, definitions: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON
    """Return a schema with what it refers to in place."""
    if isinstance(schema, list):
        return [resolved(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return resolved(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    return {key: resolved(each, definitions) for key, each in schema.items()}


@pytest.mark.parametrize("kind", ORDERS)
def test_a_model_is_shown_the_fields_of_what_a_tool_takes(kind: type) -> None:
    """Nested, with descriptions and bounds, each reference leading to the top of the schema."""
    schema = taking(kind).spec.parameters
    order = resolved(schema["properties"]["order"], dict(schema.get("$defs", {})))
    price = order["properties"]["prices"]["items"]

    assert schema["required"] == ["order"]
    assert set(order["required"]) == {"item", "prices"}
    assert price["properties"]["cents"]["type"] == "integer"
    assert price["properties"]["cents"]["minimum"] == 1
    assert price["properties"]["cents"]["description"] == "In cents."
    assert "'$defs'" not in str(schema["properties"])


@pytest.mark.parametrize("kind", ORDERS)
def test_a_tool_gets_objects_and_may_return_them(kind: Any) -> None:  # noqa: ANN401 -- a type
    """What it returns is JSON again, for the model and for the log."""
    buy = taking(kind)
    order = buy.fit({"order": GIVEN})["order"]
    outcome = buy.run(Call(call_id="c", arguments={"order": GIVEN}))

    assert type(order) is (dict if kind is DictOrder else kind)
    assert outcome.status == "success", outcome.error
    assert outcome.output["item"] == "pen"
    assert [each["cents"] for each in outcome.output["prices"]] == [5, 7]


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"item": "pen"}, "prices"),
        ({"item": "pen", "prices": [{"cents": 5}, {"cents": "many"}]}, "order.prices[1].cents:"),
        ({"item": "pen", "prices": [{"cents": 0}]}, "order.prices[0].cents:"),
        ({"item": 3, "prices": []}, "order.item:"),
    ],
)
def test_what_does_not_fit_is_told_by_its_field(kind: type, wrong: object, named: str) -> None:
    """So that a model can correct that one."""
    with pytest.raises(Unfit) as refused:
        taking(kind).fit({"order": wrong})

    assert named in str(refused.value)
    assert "pydantic.dev" not in str(refused.value)


def test_everything_that_is_wrong_with_a_model_is_told_at_once() -> None:
    """Each problem with its place; what was given, which may be a secret, is not shown."""
    with pytest.raises(Unfit) as refused:
        taking(Order).fit({"order": {"prices": [{"cents": "s3cret"}, {}]}})

    assert refused.value.problems == (
        "order.item: field required",
        f"order.prices[0].cents: {NO_NUMBER}",
        "order.prices[1].cents: field required",
    )


def test_all_sorts_may_be_within_each_other() -> None:
    """A model in a dataclass beside a Struct, and in a list, and perhaps not there."""
    buy = taking(Basket)
    given = {"model": GIVEN, "struct": GIVEN, "more": {"a": GIVEN}}
    basket = buy.fit({"order": given})["order"]

    assert basket == Basket(
        Order.model_validate(GIVEN),
        msgspec.convert(GIVEN, StructOrder),
        {"a": msgspec.convert(GIVEN, DictOrder)},
    )
    assert buy.run(Call(call_id="c", arguments={"order": given})).output["struct"]["item"] == "pen"
    with pytest.raises(Unfit, match=r"order\.model\.prices\[0\]\.cents: input should be"):
        buy.fit({"order": {**given, "model": {"item": "a", "prices": [{"cents": 0}]}}})


class Cash(pydantic.BaseModel):
    """One way to pay."""

    kind: Literal["cash"]


class Card(pydantic.BaseModel):
    """Another one."""

    kind: Literal["card"]
    number: str


def test_any_of_several_models_may_be_taken() -> None:
    """Pydantic finds out which one it is."""
    pay = taking(Annotated[Cash | Card, pydantic.Field(discriminator="kind")])

    assert pay.fit({"order": {"kind": "card", "number": "7"}}) == {
        "order": Card(kind="card", number="7")
    }
    assert {*pay.spec.parameters["$defs"]} == {"Cash", "Card"}
    with pytest.raises(Unfit, match=r"order\.card\.number: field required"):
        pay.fit({"order": {"kind": "card"}})


class Node(pydantic.BaseModel):
    """A model that refers to itself."""

    value: int
    children: list[Node] = []


def test_a_model_may_refer_to_itself() -> None:
    """Its schema does too."""
    walk = taking(Node)
    tree = {"value": 1, "children": [{"value": 2}]}

    assert walk.fit({"order": tree})["order"].children[0].value == 2
    assert "Node" in walk.spec.parameters["$defs"]


def test_two_models_of_one_name_are_refused() -> None:
    """One would be described as the other."""

    def other() -> type:
        class Price(pydantic.BaseModel):
            """Of the same name."""

            dollars: int

        class Bill(pydantic.BaseModel):
            """Has it."""

            price: Price

        return Bill

    with pytest.raises(BadTool, match="there are two models named Price"):
        taking(tuple[Order, other()])  # type: ignore[misc]  # made here


class Picky(pydantic.BaseModel):
    """Has checks of its own, which fail in their own way."""

    word: str

    @pydantic.field_validator("word")
    @classmethod
    def check(cls, word: str) -> str:
        """Look the word up."""
        if word == "short":
            msg = "it is too short"
            raise ValueError(msg)
        return {"known": word}[word]


@dataclass
class PickyData:
    """The same as a dataclass."""

    word: str

    def __post_init__(self) -> None:
        """Look the word up."""
        if self.word == "short":
            msg = "it is too short"
            raise ValueError(msg)
        _ = {"known": self.word}[self.word]


@pytest.mark.parametrize("kind", [Picky, PickyData])
def test_checks_of_the_apps_own_are_told_and_stop_no_turn(kind: type) -> None:
    """By their words; one that fails otherwise is an error in what was given, too."""
    look = taking(kind)

    with pytest.raises(Unfit, match=r"order(.word)?: .*it is too short"):
        look.fit({"order": {"word": "short"}})
    with pytest.raises(Unfit, match="order: cannot be read: KeyError: 'odd'"):
        look.fit({"order": {"word": "odd"}})


def test_a_model_sees_its_mistake_and_mends_it() -> None:
    """In a whole conversation: the first call is told what is wrong, the second one runs."""

    @tool
    def buy(order: Order) -> Order:
        """Buy."""
        return order

    there = talk(
        [[call("buy", order={"item": "pen"})], [call("buy", order=GIVEN)], ["bought"]], buy
    )
    result = there.session.send("go").result(10)
    (wrong, why), (right, bought) = there.model.results

    assert (result.output, wrong, right) == ("bought", "error", "success")
    assert "order.prices: field required" in why
    assert '"currency":"EUR"' in bought


def test_pydantic_is_not_imported_unless_the_app_has_it() -> None:
    """An app without it pays nothing for it."""
    code = (
        "import sys\n"
        "from runefold import Runtime, tool\n"
        "@tool\n"
        "def look(words: list[str]) -> dict[str, int]:\n"
        "    'Look.'\n"
        "    return {}\n"
        "look.fit({'words': ['a']})\n"
        "print('pydantic' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "False\n"
