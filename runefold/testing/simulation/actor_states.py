"""The actors and entities of a running runtime, which only a simulation looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

from runefold.core import core_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.ports import Edge
    from actors.process.process import Ref
    from actors.shell.conversation import ConversationContext
    from actors.shell.shell import Shell
    from runefold.runtime import Runtime


class Injected(Exception):
    """Raised in an actor that the plan has crash."""


class Poison:
    """A message that crashes the actor that handles it."""

    @property  # type: ignore[misc]  # everything has a class that can be set, but for this one
    def __class__(self) -> NoReturn:  # type: ignore[override]  # and here it strikes
        """Crash the actor that asks for its type."""
        msg = "it was told to crash"
        raise Injected(msg)


class FoldedEntity(Protocol):
    """An entity that is held in memory: its state as of some version of its stream."""

    state: Any
    version: int


class Live(NamedTuple):
    """An actor that is alive, and the entity it stands for."""

    conversation: str
    entity: str
    shell: Shell


def living(runtime: Runtime, conversation: str | None = None) -> Iterator[Live]:
    """Yield every actor of a conversation that is awake, or of all."""
    tree = core_of(runtime).tree
    for name in tree.awake() if conversation is None else [conversation]:
        running = tree.running(name)
        if running is not None:
            for entity, shell in [*running.ctx._members.items()]:  # noqa: SLF001 -- as above
                yield Live(name, entity, shell)  # type: ignore[arg-type]  # every member is a shell


def contexts(runtime: Runtime) -> Iterator[tuple[str, ConversationContext]]:
    """Yield every conversation that is awake, unless it lost what is believed in it."""
    for name, running in core_of(runtime).tree._running.items():  # noqa: SLF001 -- as above
        if running.ctx.buffer.failed is None:
            yield name, running.ctx


def folded_entities(ctx: ConversationContext) -> Iterator[tuple[str, FoldedEntity]]:
    """Yield every entity that a conversation holds in memory, with an actor or without one.

    Called after every step, hence nothing is copied here: no other step runs meanwhile.
    """
    yield from ctx._members.items()  # noqa: SLF001 -- as above
    yield from ctx._passive.items()  # noqa: SLF001 -- as above


def is_behind(ctx: ConversationContext, entity: str) -> bool:
    """Tell whether an entity's actor has fragments in the log that it has not folded yet."""
    shell = ctx._members.get(entity)  # noqa: SLF001 -- as above
    return bool(getattr(shell, "_fragments", ()))


class Waking:
    """How many callers wait for a conversation of a runtime to wake."""

    def __init__(self, runtime: Runtime) -> None:
        """Count from now on."""
        self.count = 0
        tree = core_of(runtime).tree
        start = tree._start  # noqa: SLF001 -- as above

        async def counted(edge: Edge, conversation: str) -> Ref:
            self.count += 1
            try:
                return await start(edge, conversation)
            finally:
                self.count -= 1

        tree._start = counted  # type: ignore[method-assign]  # noqa: SLF001 -- as above
