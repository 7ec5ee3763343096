"""What only a simulation looks at: behind the curtain of a runtime that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.hall import Hall
    from actors.shell import Shell
    from runefold.runtime import Runtime


class Injected(Exception):
    """An actor crashes because it was told to."""


class Poison:
    """A message that whoever looks at it crashes of."""

    @property  # type: ignore[misc]  # everything has a class that can be set, but for this one
    def __class__(self) -> NoReturn:  # type: ignore[override]  # and here it strikes
        """Strike whoever asks what it is."""
        msg = "it was told to crash"
        raise Injected(msg)


class Believer(Protocol):
    """Somebody who knows the state of an entity, as of some version of its stream."""

    state: Any
    version: int


class Live(NamedTuple):
    """An actor that is alive, and the entity it stands for."""

    conversation: str
    entity: str
    shell: Shell


def living(runtime: Runtime, conversation: str | None = None) -> Iterator[Live]:
    """Yield every actor of a conversation that is awake, or of all."""
    tree = runtime.tree_of_actors
    for name in tree.awake() if conversation is None else [conversation]:
        house = tree.house(name)
        if house is not None:
            for entity, shell in [*house.hall._members.items()]:  # noqa: SLF001 -- as above
                yield Live(name, entity, shell)  # type: ignore[arg-type]  # every member is a shell


def halls(runtime: Runtime) -> Iterator[tuple[str, Hall]]:
    """Yield every conversation that is awake, unless it lost what is believed in it."""
    for name, house in runtime.tree_of_actors._houses.items():  # noqa: SLF001 -- as above
        if house.hall.page.failed is None:
            yield name, house.hall


def believers(hall: Hall) -> Iterator[tuple[str, Believer]]:
    """Yield everybody in a conversation who stands for an entity, with an actor or without one.

    Called after every step, hence nothing is copied here: nobody takes one meanwhile.
    """
    yield from hall._members.items()  # noqa: SLF001 -- as above
    yield from hall._wards.items()  # noqa: SLF001 -- as above


def is_behind(hall: Hall, entity: str) -> bool:
    """Tell whether an entity's actor has heard of something that it has not folded yet."""
    shell = hall._members.get(entity)  # noqa: SLF001 -- as above
    return shell is not None and bool(shell._news)  # type: ignore[attr-defined]  # noqa: SLF001 -- as above


def is_waking(runtime: Runtime) -> bool:
    """Tell whether somebody waits for a conversation to wake."""
    return bool(runtime.tree_of_actors.registry._flights)  # noqa: SLF001 -- as above
