"""Whole conversations on a hand-driven clock: a stage with a session on it, and a strict model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.budget.runes import Reserves, Settles
from actors.model.providers.scripted import Scripted
from runefold.spec import AgentSpec
from runefold.testing.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors.model.provider import Event, Message, Provider, Request
    from actors.model.providers.scripted import Script
    from actors.tool.spec import Tool
    from runefold.sessions import Session
    from runelog.rune import Rune

NAME = "conv_a"


class Strict(Scripted):
    """A scripted model that refuses a history in which a call has not exactly one result."""

    def __init__(self, script: Script) -> None:
        """Begin with nothing asked."""
        super().__init__(script)
        self.requests: list[Request] = []

    def stream(self, request: Request) -> Iterator[Event]:
        """Look at the history, then answer by the script."""
        self.requests.append(request)
        check(request.messages)
        yield from super().stream(request)

    @property
    def last(self) -> list[tuple[str, str]]:
        """What it was shown last: who said what."""
        return [(message.role, message.text) for message in self.requests[-1].messages]

    @property
    def results(self) -> list[tuple[str, str]]:
        """What it was shown last of tools: how each call came out, and with what."""
        shown = self.requests[-1].messages
        return [(each.status, each.text) for each in shown if each.role == "tool"]


class Raw:
    """A model whose stream is whatever a function makes of a request."""

    def __init__(self, answer: Callable[[Request], Any]) -> None:
        """Begin with nothing asked."""
        self._answer = answer
        self.asked = 0

    def stream(self, request: Request) -> Any:  # noqa: ANN401 -- that is the point of it
        """Return what the function returns."""
        self.asked += 1
        return self._answer(request)


def check(messages: Sequence[Message]) -> None:
    """Fail unless every call has exactly one result, before anybody else speaks."""
    open_calls: list[str] = []
    known: set[str] = set()
    for message in messages:
        if message.role == "tool":
            open_calls.remove(message.call_id)
            continue
        assert not open_calls, f"{open_calls} have no result when {message.role} speaks"
        open_calls = [asked.call_id for asked in message.calls]
        assert known.isdisjoint(open_calls), "an id was used twice"
        known.update(open_calls)
    assert not open_calls, f"{open_calls} have no result at the end"
    assert messages[0].role == "user"
    assert messages[-1].role in {"user", "tool"}, "there is nothing to answer"


@dataclass
class Talk:
    """A stage with one session on it."""

    stage: Stage
    session: Session
    model: Any

    def runes(self, *kinds: str) -> list[Rune]:
        """Return what happened of these kinds, so far as it is on disk."""
        self.stage.log.flush()
        return [envelope.payload for envelope in self.session.runes(kinds=kinds or None)]

    def reserved(self) -> list[Reserves]:
        """Return the beginnings of all that is paid for."""
        return [rune for rune in self.runes() if isinstance(rune, Reserves)]

    def settled(self) -> list[Settles]:
        """Return the ends of all that was begun and is paid for."""
        begun = {rune.key for rune in self.reserved()}
        return [rune for rune in self.runes() if isinstance(rune, Settles) and rune.key in begun]

    def kinds(self) -> list[str]:
        """Return the kinds of everything that happened."""
        self.stage.log.flush()
        return [envelope.kind for envelope in self.session.runes()]

    def until(self, kind: str) -> None:
        """Go on until something of this kind has happened, and not a step further."""

        def happened() -> bool:
            self.stage.log.flush()
            return any(True for _ in self.session.runes(kinds={kind}))

        assert self.stage.run_until(happened)

    def reopen(self, **options: Any) -> Session:  # noqa: ANN401 -- those of Runtime
        """Pull the plug, open again with other options if any are given, and go on."""
        self.stage.crash()
        self.stage.change(**options)
        self.session = self.stage.reopen().session(NAME)
        return self.session


def talk(
    script: Script | Provider,
    *tools: Tool,
    stage: dict[str, Any] | None = None,
    others: Mapping[str, Provider] | None = None,
    session: dict[str, Any] | None = None,
    **agent: Any,  # noqa: ANN401 -- those of AgentSpec
) -> Talk:
    """Begin a conversation with an agent whose model follows a script; there may be `others`."""
    model: Any = script if hasattr(script, "stream") else Strict(script)
    there = Stage(tools=tools, providers={"demo": model, **(others or {})}, **(stage or {}))
    agent.setdefault("tools", [tool.spec.name for tool in tools])
    spec = AgentSpec(role="helper", model="demo", **agent)
    made = there.runtime.create_session(spec, conversation_id=NAME, **(session or {}))
    return Talk(there, made, model)
