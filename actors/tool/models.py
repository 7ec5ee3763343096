"""Pydantic models as arguments and results, where the app has pydantic: it is never imported here.

Dataclasses, TypedDicts and msgspec's Structs need none of this: msgspec knows them. Of a model,
which it does not know, it asks here how it is described, read and written, however deep it stands.
"""

from __future__ import annotations

import sys
import typing
from typing import Any, Final

_REF: Final = "#/$defs/{model}"


class Misfit(ValueError):
    """A value that does not fit a model: where in it, and why, for each thing that is wrong."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        """List what is wrong, each with its place, such as `.items[0].price`."""
        super().__init__("; ".join(f"{place}: {why}" for place, why in problems))
        self.problems: Final = problems


def _pydantic() -> Any:  # noqa: ANN401 -- a module, if there is one
    return sys.modules.get("pydantic")


def is_model(kind: object) -> bool:
    """Return True if a type is a pydantic model."""
    found = _pydantic()
    return found is not None and isinstance(kind, type) and issubclass(kind, found.BaseModel)


def has_model(hint: object) -> bool:
    """Return True if there is a pydantic model in an annotation."""
    return is_model(hint) or any(map(has_model, typing.get_args(hint)))


def schema_of(kind: Any) -> dict[str, Any]:  # noqa: ANN401 -- a type that msgspec does not know
    """Return the JSON schema of a model."""
    if not is_model(kind):
        raise NotImplementedError
    found: dict[str, Any] = kind.model_json_schema(ref_template=_REF)
    return found


def read(kind: Any, value: object) -> Any:  # noqa: ANN401 -- as above
    """Return a value as a model, or raise `Misfit`."""
    if not is_model(kind):
        raise NotImplementedError
    return _validated(kind.model_validate, value)


def _validated(validate: Any, value: object) -> Any:  # noqa: ANN401 -- a function of pydantic's
    try:
        return validate(value)
    except _pydantic().ValidationError as error:
        # Without what was given: that may be a secret.
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise Misfit(tuple((_place(each["loc"]), str(each["msg"])) for each in found)) from None


def _place(steps: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


def written(value: Any) -> Any:  # noqa: ANN401 -- whatever a tool returns
    """Return a model as JSON knows it; raise `TypeError` for what is none."""
    if not is_model(type(value)):
        msg = f"Encoding objects of type {type(value).__name__} is unsupported"
        raise TypeError(msg)
    return value.model_dump(mode="json", by_alias=True)


class Adapter:
    """Reads a type that only pydantic knows: several models, of which a value may be any."""

    def __init__(self, hint: object) -> None:
        """Take the type; `TypeError` if pydantic does not know it either."""
        try:
            self._adapter: Final = _pydantic().TypeAdapter(hint)
            self.schema: Final[dict[str, Any]] = self._adapter.json_schema(ref_template=_REF)
        except _pydantic().PydanticUserError as error:
            raise TypeError(str(error)) from None

    def read(self, value: object) -> Any:  # noqa: ANN401 -- of that type
        """Return a value as the type says, or raise `Misfit`."""
        return _validated(self._adapter.validate_python, value)


def hoisted(schema: Any, found: dict[str, Any]) -> Any:  # noqa: ANN401 -- what JSON knows
    """Return a schema without definitions within, which are `found`: references lead to the top.

    Two different models of one name are refused, by a `TypeError`.
    """
    if isinstance(schema, list):
        return [hoisted(each, found) for each in schema]
    if not isinstance(schema, dict):
        return schema
    for name, inner in schema.get("$defs", {}).items():
        made = hoisted(inner, found)
        if found.setdefault(name, made) != made:
            msg = f"there are two models named {name}: give one of them another name"
            raise TypeError(msg)
    return {key: hoisted(each, found) for key, each in schema.items() if key != "$defs"}
