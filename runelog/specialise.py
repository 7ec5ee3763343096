"""The same function once more, for Python to fit to what this one is used with.

Since 3.11 the interpreter fits every place where an attribute is read or a function is called to
the type it finds there, and takes the long way if it keeps finding others. What all kinds of entity
share, as the fold and the shell, finds all of them: that costs a twentieth of a turn's time. A
function apart for each kind finds only that one.
"""

from __future__ import annotations

import functools
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

F = TypeVar("F", bound="Callable[..., object]")


def apart(function: F) -> F:
    """Return a function that does the same, with code of its own.

    >>> def double(number):
    ...     return number * 2
    >>> twin = apart(double)
    >>> twin(4), twin.__name__, twin.__code__ is double.__code__
    (8, 'double', False)
    """
    assert isinstance(function, FunctionType), function
    twin = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(twin, name, getattr(function, name))
    twin.__dict__.update(function.__dict__)
    return twin  # type: ignore[return-value]  # of the same type


def set_apart(instance: object, names: Iterable[str]) -> None:
    """Give an instance, be it frozen, these methods of its class apart."""
    for name in names:
        method = MethodType(apart(getattr(type(instance), name)), instance)
        object.__setattr__(instance, name, method)


def set_class_apart(cls: type, root: type) -> None:
    """Give a class all methods apart that it has from `root`, or from what lies between."""
    inherited: dict[str, FunctionType] = {}
    for base in reversed(cls.__mro__[1 : cls.__mro__.index(root) + 1]):
        own = vars(base).items()
        inherited |= {name: each for name, each in own if isinstance(each, FunctionType)}
    for name in inherited.keys() - vars(cls).keys():
        setattr(cls, name, apart(inherited[name]))
