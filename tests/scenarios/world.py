"""The world outside: a till that counts what was really done, the tools that reach it, a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.model.providers.scripted import Scripted, call, fail, pause
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from actors.tool.runes import Result
    from actors.tool.spec import Tool

LONG: Final = 30.0
"""Seconds that the model thinks where it is meant to be cut short: nobody ever waits for them."""

MANY: Final = 5
"""How many customers there are."""


class Till(Protocol):
    """Counts what was done outside, and outlives every crash."""

    def book(self, call_id: str) -> None:
        """Note that a call took effect."""
        ...

    def entries(self) -> list[str]:
        """Return the calls that took effect, as often as they did."""
        ...

    def promise(self, what: str) -> None:
        """Note what the app was told: from then on it counts on it."""
        ...

    def promises(self) -> list[str]:
        """Return what the app was told."""
        ...


class MemoryTill:
    """A till for runtimes in this process: they come and go, it stays."""

    def __init__(self) -> None:
        """Begin with nothing in it."""
        self._entries: list[str] = []
        self._promises: list[str] = []

    def book(self, call_id: str) -> None:
        """Note that a call took effect."""
        self._entries.append(call_id)

    def entries(self) -> list[str]:
        """Return the calls that took effect."""
        return list(self._entries)

    def promise(self, what: str) -> None:
        """Note what the app was told."""
        self._promises.append(what)

    def promises(self) -> list[str]:
        """Return what the app was told."""
        return list(self._promises)


class FileTill:
    """A till on disk, for processes that are killed."""

    def __init__(self, path: Path) -> None:
        """Keep it in this directory."""
        self._entries = path / "entries"
        self._promises = path / "promises"

    def book(self, call_id: str) -> None:
        """Note that a call took effect."""
        _note(self._entries, call_id)

    def entries(self) -> list[str]:
        """Return the calls that took effect."""
        return _noted(self._entries)

    def promise(self, what: str) -> None:
        """Note what the app was told."""
        _note(self._promises, what)

    def promises(self) -> list[str]:
        """Return what the app was told."""
        return _noted(self._promises)


def _note(path: Path, line: str) -> None:
    """Write a line, past all buffers and in one piece."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def _noted(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _nothing(_when: str) -> None:
    """Let it be."""


def tools(till: Till, mishap: Callable[[str], None] = _nothing) -> list[Tool]:
    """Return tools that reach a till; `mishap` is told `before` and `after` each effect."""

    def took_effect(call_id: str, _arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("charged") if call_id in till.entries() else None

    def book(call_id: str) -> str:
        mishap("before")
        till.book(call_id)
        mishap("after")
        return "charged"

    @tool(in_doubt="probe", probe=took_effect)
    def charge(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- what a model would say
        """Charge a customer; whether it was done can be asked."""
        return book(call_id)

    @tool
    def charge_blindly(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Charge a customer; nobody can tell afterwards whether it was done."""
        return book(call_id)

    @tool(idempotent=True)
    def charge_by_key(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Charge a customer; the service takes the same key for the same charge."""
        return "charged" if call_id in till.entries() else book(call_id)

    @tool(in_doubt="ask")
    def charge_by_hand(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Charge a customer; whether it was done, a human can look up."""
        return book(call_id)

    @tool(requires_approval=True, in_doubt="probe", probe=took_effect)
    def refund(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Pay a customer back, if a human agrees."""
        return book(call_id)

    @tool(side_effects=False)
    def look_up(number: int) -> str:
        """Look a customer up."""
        return f"customer {number}"

    return [charge, charge_blindly, charge_by_key, charge_by_hand, refund, look_up]


def is_charge(result: Result) -> bool:
    """Tell whether a result says that a customer was charged, or paid back."""
    return result.status == "success" and result.output == "charged"


WORDS: Final[Mapping[str, Reply]] = {
    "hello": ["It ", "is ", "fine."],
    "charge": ["I charge. ", call("charge", cents=5)],
    "charge blindly": ["I charge. ", call("charge_blindly", cents=5)],
    "charge by key": ["I charge. ", call("charge_by_key", cents=5)],
    "charge by hand": ["I charge. ", call("charge_by_hand", cents=5)],
    "look and charge": [
        "I look. ",
        call("look_up", number=1),
        call("charge", cents=2),
        call("look_up", number=3),
        call("charge", cents=4),
    ],
    "charge all": ["I charge all. ", *[call("charge", cents=each) for each in range(MANY)]],
    "refund": ["I ask. ", call("refund", cents=5)],
    "think": ["Let me think. ", pause(LONG), "I thought."],
}
"""What the model says to a message; after tools it repeats what they told it."""


def _reply(request: Request) -> Reply:
    told = []
    for message in reversed(request.messages):
        if message.role == "tool":
            told.append(message.text)
        elif message.role == "user":
            if told:
                # Tools that run beside each other come back in any order.
                return ["Done: ", " | ".join(sorted(told))]
            if message.text == "stumble":
                hurt = fail("overloaded", "come back later", retryable=True)
                return ["I stum", hurt] if request.attempt == 0 else ["I stand."]
            return WORDS[message.text]
    return "Nobody said anything."


PROVIDERS: Final = {"clerk": Scripted(_reply)}
"""A model whose answers depend on the request alone."""
