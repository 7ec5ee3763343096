"""Values of any Struct, told from its annotations: the same ones in every process.

Each class has one sample with its required fields alone, one with all of its fields, and one for
each further value that a field of few values may have.
"""

from __future__ import annotations

import functools
import types
import typing
from enum import Enum
from typing import Any, Final, Literal, TypeVar, Union

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_PLAIN: Final[dict[Any, tuple[Any, ...]]] = {
    str: ("text", "ein Wörtchen\n"),
    int: (7, 1_700_000_000_000_000_000),
    float: (0.5, 2.0),
    bool: (True, False),
    bytes: (b"\x00\xff",),
    type(None): (None,),
    Any: ({"deep": [1, 2.5, None, "x"]}, "text", None),
    object: ("text",),
}


@functools.cache
def samples(cls: type[T]) -> tuple[T, ...]:
    """Return values of a Struct, each different from the others."""
    hints = typing.get_type_hints(cls)
    fields = msgspec.structs.fields(cls)
    least = {field.name: values(hints[field.name])[0] for field in fields if field.required}
    full = {field.name: _other(field, values(hints[field.name])) for field in fields}
    made = [cls(**least), cls(**full)]
    for field in fields:
        if _is_one_of_few(hints[field.name]):
            made += [cls(**{**full, field.name: each}) for each in values(hints[field.name])]
    return tuple({msgspec.msgpack.encode(each): each for each in made}.values())


def _other(field: msgspec.structs.FieldInfo, found: tuple[Any, ...]) -> Any:  # noqa: ANN401 -- of any field
    """Return a value that is not the field's default, so that it is stored."""
    default = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return next((each for each in reversed(found) if each != default), found[0])


def _is_one_of_few(hint: Any) -> bool:  # noqa: ANN401 -- whatever an annotation says
    return typing.get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, Enum))


def values(hint: Any) -> tuple[Any, ...]:  # noqa: ANN401, PLR0911 -- as above; one for each form
    """Return values that an annotation allows."""
    origin, given = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Literal:
        return given
    if origin in {Union, types.UnionType}:
        # None comes last, so that a field has a value if it can.
        inner = sorted(given, key=lambda each: each is type(None))
        return tuple(value for each in inner for value in values(each))
    if origin is tuple and given[-1] is Ellipsis:
        return (values(given[0])[:2], ())
    if origin is tuple:
        return (tuple(values(each)[0] for each in given),)
    if origin in {list, frozenset, set}:
        return (origin(values(given[0])[:2]),)
    if origin is dict:
        return (dict(zip(("one", "two"), values(given[1]), strict=False)),)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return tuple(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return samples(hint)
    msg = f"no sample for {hint}: say in {__name__} what its values are"
    raise TypeError(msg)
