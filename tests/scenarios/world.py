"""The world outside: a till that counts what was really done, the tools that reach it, a model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from actors.model.providers.scripted import Scripted, call, fail, pause
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened
from tests.scenarios.labour import LONG, labours

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.model.provider import Request
    from actors.model.providers.scripted import Reply
    from actors.tool.runes import Result
    from actors.tool.spec import Tool

MANY: Final = 5
"""How many customers there are."""


class Till:
    """Counts what was done outside, on disk: it outlives every crash."""

    def __init__(self, path: Path) -> None:
        """Keep it in this directory."""
        self.place = path
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


def tools(till: Till) -> list[Tool]:
    """Return tools that reach a till."""

    def took_effect(call_id: str, _arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("charged") if call_id in till.entries() else None

    def book(call_id: str) -> str:
        till.book(call_id)
        return "charged"

    @tool(on_doubt="probe", probe=took_effect)
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

    @tool(on_doubt="ask")
    def charge_by_hand(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Charge a customer; whether it was done, a human can look up."""
        return book(call_id)

    @tool(requires_approval=True, on_doubt="probe", probe=took_effect)
    def refund(cents: int, call_id: CallId) -> str:  # noqa: ARG001 -- as above
        """Pay a customer back, if a human agrees."""
        return book(call_id)

    @tool(side_effects=False)
    def look_up(number: int) -> str:
        """Look a customer up."""
        return f"customer {number}"

    charges: list[Tool] = [charge, charge_blindly, charge_by_key, charge_by_hand, refund, look_up]
    return [*charges, *labours(till)]


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
    "dig until interrupted": ["I dig. ", call("dig", until="interrupted")],
    "dig until steered": ["I dig. ", call("dig", until="steered")],
    "dig until dismissed": ["I dig. ", call("dig", until="dismissed")],
    "churn until interrupted": ["I churn. ", call("churn", until="interrupted")],
    "churn until steered": ["I churn. ", call("churn", until="steered")],
    "haul": ["I haul. ", call("haul")],
    "write": ["I write. ", call("write", receipt="one"), call("write", receipt="two")],
    "ask": ["I ask. ", call("ask_expert", question="charge")],
    "ask in vain": ["I ask. ", call("ask_expert", question="dig until dismissed")],
    "ask the deputy": ["I ask. ", call("ask_agent", agent="deputy", question="charge")],
    "hand over": ["I go. ", call("hand_over", to="deputy")],
    "hand back": ["I go. ", call("hand_over", to="clerk")],
    "refund soon": ["I ask. ", call("refund_soon")],
    "think": ["Let me think. ", pause(LONG), "I thought."],
}
"""What the model says to a message; after tools it repeats what they told it."""


def _reply(request: Request) -> Reply:
    told = []
    for message in reversed(request.messages):
        if message.role == "tool":
            told.append(message.text)
        elif message.role == "user":
            if message.text.startswith("["):
                # What was said before it took over is all that it goes by.
                return ["Heard: ", " / ".join(each.text for each in request.messages)]
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
