"""What only a simulation looks at: behind the curtain of a runtime that is under way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.hall import Ward
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

    @property
    def is_behind(self) -> bool:
        """Whether it has heard of something that it has not folded yet."""
        return bool(self.shell._news)  # noqa: SLF001 -- that is what this module is for


def living(runtime: Runtime, conversation: str | None = None) -> Iterator[Live]:
    """Yield every actor of a conversation that is awake, or of all."""
    tree = runtime.tree_of_actors
    for name in tree.awake() if conversation is None else [conversation]:
        house = tree.house(name)
        if house is not None:
            for entity, shell in [*house.hall._members.items()]:  # noqa: SLF001 -- as above
                yield Live(name, entity, shell)  # type: ignore[arg-type]  # every member is a shell


def wards(runtime: Runtime) -> Iterator[tuple[str, str, Ward]]:
    """Yield every entity without an actor that somebody keeps in mind."""
    tree = runtime.tree_of_actors
    for name in tree.awake():
        house = tree.house(name)
        if house is not None and house.hall.broken is None:
            for entity, ward in [*house.hall._wards.items()]:  # noqa: SLF001 -- as above
                yield name, entity, ward


def is_ahead(runtime: Runtime, conversation: str) -> bool:
    """Tell whether what is believed in a conversation is not what the log has, as yet or at all."""
    house = runtime.tree_of_actors.house(conversation)
    return house is not None and (house.hall.broken is not None or bool(house.hall.page.touched))


def is_waking(runtime: Runtime) -> bool:
    """Tell whether somebody waits for a conversation to wake."""
    return bool(runtime.tree_of_actors.registry._flights)  # noqa: SLF001 -- as above
