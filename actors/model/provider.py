"""What a model is, to us: asked with a request, it streams events.

The canonical events are these, whatever an API calls its own. A provider knows nothing of runes,
turns or logs. It may block: it is read on a thread, unless it says that it never does (`blocks`).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeAlias

import msgspec


class Text(msgspec.Struct, frozen=True, gc=False):
    """A piece of the answer."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A tool that the model asks for, its arguments as it wrote them."""

    name: str
    arguments: str = "{}"
    """JSON, if the model did as it was told."""
    id: str = ""
    """What the provider calls it, if it does: kept beside the id that it has here."""


class Used(msgspec.Struct, frozen=True):
    """What the call cost, as far as it is known by now; a later one replaces it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | Decimal = 0
    """In the app's currency, as in `Budget(cost=0.50)`; 0 if the provider does not know."""


class Price(msgspec.Struct, frozen=True):
    """What a model costs, in the app's currency for a million tokens.

    >>> Price(input=3, output=15).of(1_000, 200)
    0.006
    """

    input: float | Decimal = 0
    output: float | Decimal = 0

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return what so many tokens cost, in the app's currency."""
        millions = input_tokens * float(self.input) + output_tokens * float(self.output)
        return millions / 1_000_000


class Failure(msgspec.Struct, frozen=True):
    """The stream ends here, without an answer."""

    error_type: str
    message: str = ""
    retryable: bool = False
    """Whether the same request may well work a little later."""


class Done(msgspec.Struct, frozen=True):
    """The answer is complete."""

    stop_reason: str = "stop"


class Pause(msgspec.Struct, frozen=True):
    """Nothing comes for a while: for scripts, which must not sleep."""

    seconds: float


Event: TypeAlias = Text | ToolCall | Used | Failure | Done | Pause


class Asked(msgspec.Struct, frozen=True):
    """A tool call in history, with the id it has here."""

    call_id: str
    name: str
    arguments: dict[str, Any] = {}
    raw: str = ""
    provider_id: str = ""
    """What the provider called it that asked for it; empty if it had no name for it."""


class Message(msgspec.Struct, frozen=True):
    """One message of the history that a model is shown."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    calls: tuple[Asked, ...] = ()
    """Of an assistant: what it asked for."""
    call_id: str = ""
    """Of a tool: which call this is the result of."""
    status: str = ""
    """Of a tool: success, error, timeout, cancelled, denied or unknown."""


class Request(msgspec.Struct, frozen=True):
    """One call of a model."""

    model: str
    system: str
    messages: Sequence[Message]
    """Every call in it has exactly one result."""
    tools: Sequence[dict[str, Any]] = ()
    max_output_tokens: int = 4096
    conversation: str = ""
    call_id: str = ""
    """The id of this call of the model."""
    caller: str = ""
    """The entity that asks: a turn, or any machine."""
    agent_id: str = ""
    key: str = ""
    """Names the call within a caller that is no turn."""
    round: int = 0
    attempt: int = 0
    cancelled: Callable[[], bool] = bool
    """Returns True once the answer is not wanted any more, so that a provider can stop early."""


class Provider(Protocol):
    """Something that answers requests.

    One that has a `price` is charged for by that where it does not say itself what a call cost; and
    so much is set aside before the call. Without one, the cost is not known beforehand.

    It is read on a thread, unless it says that it never blocks, with `blocks = False`: then it is
    read between the messages of actors, and has them wait if it does block.
    """

    def stream(self, request: Request) -> Iterable[Event]:
        """Yield the answer as it comes. An exception counts as a failure that is not retryable."""
        ...


class AsyncProvider(Protocol):
    """Something that answers requests with `async def stream`, on the runtime's event loop.

    All async providers and tools share that loop, and so may share what belongs to one: an HTTP
    client, say. When an answer is not wanted any more, what its stream awaits raises
    `CancelledError`.
    """

    def stream(self, request: Request) -> AsyncIterable[Event]:
        """Yield the answer as it comes. An exception counts as a failure that is not retryable."""
        ...


def is_async(provider: object) -> bool:
    """Return True if a provider has an `async def stream`."""
    stream = getattr(provider, "stream", None)
    method = getattr(stream, "__func__", None)
    return is_async_function(stream) if method is None else _is_async_method(method)


def is_async_function(stream: object) -> bool:
    """Return True for an `async def`."""
    return inspect.isasyncgenfunction(stream) or inspect.iscoroutinefunction(stream)


_is_async_method = lru_cache(maxsize=128)(is_async_function)


def blocks(provider: object) -> bool:
    """Return True if reading a provider may block; one that never does says so with `blocks`."""
    return bool(getattr(provider, "blocks", True))


def price_of(provider: object) -> Price | None:
    """Return what a model costs, None if it does not say."""
    price = getattr(provider, "price", None)
    return price if isinstance(price, Price) else None
