"""Functions that an app gives beside its tools: how they are called, checked before they are.

A policy or a probe is called with what it judges. One with a parameter annotated `Context` is given
that as well, wherever it stands.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from typing import TYPE_CHECKING, Any, Final

from actors.tool.context import Context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_OPTIONAL: Final = (typing.Union, types.UnionType)


def is_context(hint: object) -> bool:
    """Return True if an annotation asks for the context: `Context`, or `Context[App]`, or None.

    >>> is_context(Context), is_context(Context[int] | None), is_context(int)
    (True, True, False)
    """
    if typing.get_origin(hint) in _OPTIONAL:
        return any(map(is_context, typing.get_args(hint)))
    return hint is Context or typing.get_origin(hint) is Context


class Callback:
    """A function of the app's that is called with arguments of these names, in this order.

    >>> def judge(name: str, context: Context[int], arguments: dict[str, int]) -> str:
    ...     return f"{name} {arguments} for {context.client_id}"
    >>> Callback(judge, ("name", "arguments"))(Context(client_id="ada"), "pay", {"cents": 5})
    "pay {'cents': 5} for ada"
    >>> Callback(lambda name: "allow", ("name", "arguments"))
    Traceback (most recent call last):
    ...
    TypeError: it is called with (name, arguments): too many positional arguments
    """

    def __init__(self, function: Callable[..., Any], names: Sequence[str]) -> None:
        """Find where it takes the context; `TypeError` says why it cannot be called so."""
        self._function: Final = function
        self._at: int | None = None
        """How many arguments come before the context, if it stands among them."""
        self._named = ""
        """The parameter that takes the context."""
        called = f"it is called with ({', '.join(names)})"
        if inspect.iscoroutinefunction(_inner(function)):
            msg = f"{called} on a thread of its own, where it may block, and is async: use `def`"
            raise TypeError(msg)
        try:
            signature = inspect.signature(function)
        except ValueError:
            return  # one that is written in C, and does not say
        self._find(signature, len(names))
        try:
            args, kwargs = self._arguments(None, tuple(names))
            signature.bind(*args, **kwargs)
        except TypeError as error:
            with_it = f"{called} and the context" if self._named else called
            msg = f"{with_it}: {error}"
            raise TypeError(msg) from None

    def _find(self, signature: inspect.Signature, given: int) -> None:
        hints, _ = hints_of(self._function)
        found = [name for name in signature.parameters if is_context(hints.get(name))]
        if len(found) > 1:
            msg = f"it takes the context twice, as {found[0]} and {found[1]}"
            raise TypeError(msg)
        if found:
            self._named = found[0]
            before = [*signature.parameters].index(self._named)
            kind = signature.parameters[self._named].kind
            if before <= given and kind is not inspect.Parameter.KEYWORD_ONLY:
                self._at = before

    def _arguments(
        self, context: Context[Any] | None, given: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if not self._named:
            return given, {}
        if self._at is None:
            return given, {self._named: context}
        return (*given[: self._at], context, *given[self._at :]), {}

    def __call__(self, context: Context[Any], /, *given: Any) -> Any:  # noqa: ANN401 -- as it takes and gives
        """Call it."""
        args, kwargs = self._arguments(context, given)
        return self._function(*args, **kwargs)


def _inner(function: Any) -> Any:  # noqa: ANN401 -- anything that can be called
    while isinstance(function, functools.partial):
        function = function.func
    return function if inspect.isroutine(function) else type(function).__call__


def hints_of(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the types of parameters by name, and why those are unknown that are.

    Many a type is known to checkers only. That a parameter takes the context is found all the same,
    as what the app's object is need not be known for that.
    """
    inner = _inner(function)
    try:
        return typing.get_type_hints(inner, include_extras=True), {}
    except (NameError, TypeError, AttributeError):
        pass
    found, unknown = dict[str, Any](), dict[str, str]()
    within = getattr(inspect.unwrap(inner), "__globals__", {})
    for name, hint in getattr(inner, "__annotations__", {}).items():
        try:
            found[name] = _evaluated(hint, within)
        except (NameError, TypeError, AttributeError, SyntaxError) as error:
            unknown[name] = str(error)
            if isinstance(hint, str) and _begins_as_context(hint, within):
                found[name] = Context
    return found, unknown


def _evaluated(hint: object, within: dict[str, Any]) -> Any:  # noqa: ANN401 -- a type
    holder: Any = types.SimpleNamespace(__annotations__={"it": hint})
    return typing.get_type_hints(holder, within, include_extras=True)["it"]


def _begins_as_context(hint: str, within: dict[str, Any]) -> bool:
    with contextlib.suppress(NameError, TypeError, AttributeError, SyntaxError):
        return is_context(_evaluated(hint.partition("[")[0], within))
    return False
