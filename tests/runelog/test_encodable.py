"""What is acknowledged can be read back: a rune that could not be is refused at the append."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pytest

from runelog.codec import MAX_DEPTH, Codec
from runelog.errors import Refused, TooLarge
from runelog.rune import Change, Rune
from runelog.store import Runelog

if TYPE_CHECKING:
    from pathlib import Path


class Plain(Rune, frozen=True, tag="legible.plain"):
    """Plain values only."""

    text: str = ""
    number: int = 0
    share: float = 0.0
    raw: bytes | None = None
    sure: bool = False


class Rich(Rune, frozen=True, tag="legible.rich"):
    """Values that only decoding can tell about."""

    words: list[str] = msgspec.field(default_factory=list)
    age: Annotated[int, msgspec.Meta(ge=0)] = 0
    other: Plain | None = None


class Part(msgspec.Struct, frozen=True):
    """Something within a rune, and perhaps within itself."""

    name: str
    side: Literal["left", "right"] = "left"
    parts: tuple[Part, ...] = ()


class Nested(Rune, frozen=True, tag="legible.nested"):
    """Values within values, none of them deeper than its type."""

    part: Part = Part("all")
    names: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    side: Literal["left", "right"] | None = None
    rest: Any = None


class Empty(Rune, frozen=True, tag="legible.empty"):
    """No fields at all."""


CODEC = Codec([Plain, Rich, Nested, Empty])


def fitting() -> list[Rune]:
    """Return runes that read back as they are."""
    return [
        Plain(),
        Plain(text="a", number=-5, share=1.5, raw=b"b", sure=True),
        Rich(words=["a", "b"], age=3, other=Plain(text="in")),
        Nested(),
        Nested(part=Part("a", "right"), names=("b", "c"), parts=(Part("d"),), side="left", rest=1),
        Nested(part=Part("a", parts=(Part("b", parts=(Part("c"),)),)), rest={"d": [1, {}]}),
        Empty(),
    ]


def unfit() -> list[Rune]:
    """Return runes that type checkers would not let pass."""
    anything: Any = None
    number: Any = 5
    wrong: list[dict[str, Any]] = [
        *({"text": value} for value in (5, None, b"x", ["a"])),
        *({"number": value} for value in ("5", True, 1.5, None)),
        *({"share": value} for value in ("1", None, True)),
        *({"raw": value} for value in (5, ["x"])),
        *({"sure": value} for value in (0, "yes", None)),
    ]
    rich: list[dict[str, Any]] = [
        {"words": "ab"},
        {"words": ["a", 5]},
        {"words": anything},
        {"age": -1},
        {"other": Plain(text=number)},
        {"other": Empty()},
    ]
    inner: list[dict[str, Any]] = [
        *({"side": value} for value in ("up", anything, ["left"])),
        *({"parts": value} for value in ("b", (number,), (Part(number),))),
    ]
    several: list[Any] = ["ab", anything, (Part("a"), 5), ("a", 5), ({},)]
    nested: list[dict[str, Any]] = [
        *({"part": value} for value in (None, Plain(text="a"), Part(number), ("a", "left"))),
        *({"part": Part("a", **fields)} for fields in inner),
        *({"names": value} for value in several),
        *({"parts": value} for value in several),
        *({"side": value} for value in ("up", 5, ["left"])),
    ]
    return [
        *(Plain(**fields) for fields in wrong),
        *(Rich(**fields) for fields in rich),
        *(Nested(**fields) for fields in nested),
    ]


@pytest.mark.parametrize("rune", fitting(), ids=repr)
def test_what_fits_is_stored_and_read_back(tmp_path: Path, rune: Rune) -> None:
    """Runes whose fields are of their types are not in the way of the check."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        log.append("conv_a", [Change("note_1", 0, [rune])])

        assert [envelope.payload for envelope in log.read("conv_a")] == [rune]


def test_a_whole_number_is_a_share_too(tmp_path: Path) -> None:
    """Whatever the decoder takes is taken, also where the type is not the very same."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        log.append("conv_a", [Change("note_1", 0, [Plain(share=2)])])

        assert [envelope.payload for envelope in log.read("conv_a")] == [Plain(share=2.0)]


@pytest.mark.parametrize("rune", unfit(), ids=repr)
def test_what_could_not_be_read_again_is_refused(tmp_path: Path, rune: Rune) -> None:
    """The append is refused as a whole: nothing of it is acknowledged, nothing is stored."""
    with Runelog.open(tmp_path / "log", CODEC) as log:
        with pytest.raises(Refused, match="could not be read again"):
            log.append("conv_a", [Change("note_1", 0, [Empty(), rune])])

        assert list(log.conversations()) == []
        with pytest.raises(Refused):
            CODEC.encode("conv_a", Change("note_1", 0, [rune]))


def test_depth_is_checked_where_a_plain_value_should_be() -> None:
    """A kind that cannot be deep is, if a field holds what it should not."""
    deep: Any = "leaf"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]

    with pytest.raises(TooLarge):
        CODEC.encode("conv_a", Change("note_1", 0, [Plain(text=deep)]))
