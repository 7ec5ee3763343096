"""The arguments of a tool: their JSON schema, and whether what a model sent fits it.

A schema is taken from a signature, its descriptions from the docstring. What comes in is bounded
before anything looks at it closely, and what does not fit is refused in words a model can act on.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.tool import models
from actors.tool.outcome import in_words
from actors.tool.output import plain
from runelog import codec
from runelog.decoders import get_to_know

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_DEPTH: Final = codec.MAX_DEPTH - 8
"""Deeper arguments are refused: with what runes put around them, the log takes no more."""
MAX_BYTES: Final = 1 << 20
"""Larger arguments are refused."""

_SHOWN = 60
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_PLACE = re.compile(r"(.*) - at `(?:key in )?\$(.*)`", re.DOTALL)


class Unfit(ValueError):
    """Arguments that do not fit, with every problem in words."""

    def __init__(self, problems: Sequence[str]) -> None:
        """List what is wrong."""
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Parameter:
    """One argument that a tool takes."""

    name: str
    type: Any
    default: Any = inspect.Parameter.empty
    """What is taken if it is not given."""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is inspect.Parameter.empty


class Parameters:
    """The arguments that a tool takes: their schema, and how a call's are checked.

    >>> takes = Parameters([Parameter("city", str), Parameter("days", int, 3)])
    >>> takes.fit({"city": "Oslo"})
    {'city': 'Oslo'}
    >>> takes.fit({"town": "Oslo", "days": "3"})
    Traceback (most recent call last):
    ...
    actors.tool.schema.Unfit: city: is missing; town: no such argument, use city or days; \
days: expected int, got str
    """

    def __init__(
        self, parameters: Sequence[Parameter], descriptions: Mapping[str, str] | None = None
    ) -> None:
        """Take what `parameters` say; refuse, by a `TypeError`, types that JSON cannot describe."""
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._adapters: Final = _known(parameters)
        """Those of types that msgspec cannot read."""
        self.schema: Final = _schema(parameters, self._adapters, descriptions or {})
        """The JSON schema of the object that holds all arguments."""

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the types say, or raise `Unfit` with all that is wrong.

        Only those that were given are returned: what a default is, the tool knows.
        """
        check_json(arguments)
        problems = [
            f"{name}: is missing"
            for name, parameter in self._parameters.items()
            if parameter.required and name not in arguments
        ]
        fitting = {}
        for name, value in arguments.items():
            if (parameter := self._parameters.get(name)) is None:
                problems.append(f"{_short(name)}: no such argument, {self._hint(name)}")
                continue
            try:
                if (adapter := self._adapters.get(name)) is not None:
                    fitting[name] = adapter.read(value)
                else:
                    fitting[name] = msgspec.convert(value, parameter.type, dec_hook=models.read)
            except Exception as error:  # noqa: BLE001 -- a type may have checks of the app's own
                problems += self._problems(name, error)
        if problems:
            raise Unfit(problems)
        return fitting

    def _hint(self, name: str) -> str:
        if not self._parameters:
            return "there are none"
        close = difflib.get_close_matches(name[:_SHOWN], self._parameters, n=1)
        return f"use {_listed(close or list(self._parameters))}"

    def _problems(self, name: str, error: Exception) -> list[str]:
        """Return what is wrong with an argument, each with the field that it is about."""
        misfit = error if isinstance(error, models.Misfit) else error.__cause__
        if isinstance(misfit, models.Misfit):
            found = _PLACE.fullmatch(str(error))
            within = found.group(2) if found else ""
            return [
                plain(f"{name}{within}{place}: {why[:1].lower()}{why[1:]}")
                for place, why in misfit.problems
            ]
        if isinstance(error, msgspec.ValidationError | RecursionError):
            return [self._problem(name, str(error))]
        return [plain(f"{name}: cannot be read: {in_words(error)}")]

    def _problem(self, name: str, message: str) -> str:
        if found := _PLACE.fullmatch(message):
            message, place = found.groups()
        else:
            place = ""
        said = message.replace("`", "")
        choices = self.schema["properties"][name].get("enum")
        if choices and not place:
            said += f", use {_listed([repr(choice) for choice in choices])}"
        return plain(f"{name}{place}: {said[:1].lower()}{said[1:]}")


def parse(arguments: Mapping[str, Any] | str | bytes) -> dict[str, Any]:
    """Return arguments as a dict, whether they came as one or as JSON text; else raise `Unfit`.

    Nothing at all stands for no arguments, as several providers send it.

    >>> parse('{"city": "Oslo"}')
    {'city': 'Oslo'}
    >>> parse("")
    {}
    """
    if not isinstance(arguments, str | bytes):
        check_json(arguments)
        return dict(arguments)
    data = arguments.encode("utf-8", "replace") if isinstance(arguments, str) else arguments
    if len(data) > MAX_BYTES:
        raise Unfit([f"the arguments have {len(data):,} bytes, send at most {MAX_BYTES:,}"])
    if not data.strip():
        return {}
    _check_brackets(data)
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unfit([f"the arguments are not valid JSON ({error}), send one object"]) from None
    if not isinstance(value, dict):
        raise Unfit([f"the arguments are {_kind(value)}, send an object of names and values"])
    check_json(value)
    return value


def _check_brackets(data: bytes) -> None:
    depth = 0
    for found in _BRACKETS.finditer(data):
        first = found.group()[:1]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise Unfit([_TOO_DEEP])
        elif first in b"]}":
            depth -= 1


_TOO_DEEP = f"the arguments are nested more than {MAX_DEPTH} deep, send them flatter"


def check_json(value: object) -> None:
    """Raise `Unfit` unless `value` is made of what JSON knows and the log can store, within bounds.

    Goes round in a loop and not into itself: nesting without end is found, not fallen into.
    """
    waiting: list[tuple[object, int]] = [] if _is_simple(value) else [(value, 1)]
    # An item takes two bytes at least, so there cannot be more of them than that.
    for _ in range(MAX_BYTES // 2):
        if not waiting:
            break
        item, depth = waiting.pop()
        if isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise Unfit([_TOO_DEEP])
            _check_keys(item)
            inside = item.values() if isinstance(item, dict) else item
            waiting += [(child, depth + 1) for child in inside]
        else:
            _check_scalar(item)
    try:
        size = MAX_BYTES + 1 if waiting else len(msgspec.json.encode(value))
    except UnicodeEncodeError:
        raise Unfit(["the arguments hold half characters (lone surrogates), send text"]) from None
    if size > MAX_BYTES:
        raise Unfit([f"the arguments have more than {MAX_BYTES:,} bytes, send less"])


def _is_simple(value: object) -> bool:
    """Tell at a glance that there is nothing in it to refuse, as mostly: names and short values."""
    if type(value) is not dict:
        return False
    for name, item in value.items():
        kind = type(item)
        if type(name) is not str or not (
            kind is str or kind is bool or item is None or (kind is int and abs(item) < _LARGE)
        ):
            return False
    return True


_LARGE: Final = 1 << 63


def _check_keys(item: object) -> None:
    if isinstance(item, dict):
        for key in item:
            if not isinstance(key, str):
                raise Unfit([f"the key {_short(repr(key))} is {_kind(key)}, names are text"])


def _check_scalar(item: object) -> None:
    if isinstance(item, int):
        if not -(1 << 63) <= item < 1 << 64:
            raise Unfit(["a whole number has more than 64 bits, send it as text"])
    elif isinstance(item, float):
        if not math.isfinite(item):
            raise Unfit([f"the number {item} is not one that JSON knows"])
    elif not (item is None or isinstance(item, str)):
        raise Unfit([f"{_short(repr(item))} is {_kind(item)}, which JSON does not know"])


# -- the schema -----------------------------------------------------------------------------------


def _known(parameters: Sequence[Parameter]) -> dict[str, models.Adapter]:
    """Get to know the types; return what reads those that only pydantic knows."""
    adapters = {}
    for parameter in parameters:
        try:
            get_to_know(parameter.type)
            msgspec.json.schema(parameter.type, schema_hook=models.schema_of)
        except (TypeError, NotImplementedError) as error:
            try:
                if not models.has_model(parameter.type):
                    raise
                adapters[parameter.name] = models.Adapter(parameter.type)
            except (TypeError, NotImplementedError):
                why = (str(error).strip() or f"{parameter.type!r} is unknown").splitlines()[-1]
                msg = f"JSON cannot describe the parameter {parameter.name}: {why}"
                raise TypeError(msg) from None
    return adapters


def _schema(
    parameters: Sequence[Parameter],
    adapters: Mapping[str, models.Adapter],
    descriptions: Mapping[str, str],
) -> dict[str, Any]:
    fields: list[Any] = []
    for parameter in parameters:
        kind = Any if parameter.name in adapters else parameter.type
        if parameter.required:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    # A name that none of the types within can have.
    whole: Any = msgspec.defstruct(_WHOLE, fields, kw_only=True, forbid_unknown_fields=True)
    _, found = msgspec.json.schema_components(
        [whole], ref_template="#/$defs/{name}", schema_hook=models.schema_of
    )
    for name, adapter in adapters.items():
        found[_WHOLE]["properties"][name] |= adapter.schema
    components: dict[str, Any] = {}
    schema: dict[str, Any] = models.hoisted({**found.pop(_WHOLE), "$defs": found}, components)
    del schema["title"]
    schema.setdefault("required", [])
    for name, text in descriptions.items():
        if name in schema["properties"]:
            schema["properties"][name].setdefault("description", text)
    if components:
        schema["$defs"] = components
    return schema


_WHOLE = "arguments_of_the_call"


def _default(value: object) -> object:
    # Only for show: what is not given stays away, and the tool takes its own default.
    if models.is_model(type(value)):
        value = models.written(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return msgspec.field(default_factory=lambda: value)


# -- the docstring --------------------------------------------------------------------------------


def described(docstring: str | None) -> tuple[str, dict[str, str]]:
    r"""Return what a docstring says about the tool, and about each of its parameters.

    >>> described('''Tell the weather.
    ...
    ... Args:
    ...     city: Where.
    ...     days (int): How many days
    ...         ahead.
    ... ''')
    ('Tell the weather.', {'city': 'Where.', 'days': 'How many days ahead.'})
    """
    text = inspect.cleandoc(docstring or "")
    first = " ".join(text.split("\n\n")[0].split())
    if _HEADING.fullmatch(first.split(" ")[0]):
        first = ""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if _HEADING.fullmatch(line):
            break
    inset, name = 0, ""
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if not line.strip():
            continue
        if depth == 0:
            break
        inset = inset or depth
        entry = _ENTRY.fullmatch(line.strip())
        if entry and depth <= inset:
            name = entry.group(1)
            found[name] = entry.group(2)
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return first, found


_HEADING = re.compile(r"(?:Args|Arguments|Parameters):\s*")
_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


# -- words ----------------------------------------------------------------------------------------


def _short(text: str) -> str:
    return plain(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _listed(names: Sequence[str]) -> str:
    """Name several: a, b or c."""
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kind = {list: "an array", dict: "an object", str: "text", bool: "true or false"}.get(
        type(value)
    )
    return kind or ("a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
