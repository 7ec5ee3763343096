"""A model that answers by the plan, and does so in every bad way that a provider can."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.model.provider import Done, Failure, Pause, Text, ToolCall, Used
from actors.redaction.redactor import mark

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator

    from actors.model.provider import Event, Request
    from runefold.testing.simulation.checks.ground_truth import GroundTruth
    from runefold.testing.simulation.checks.log_checker import LogChecker
    from runefold.testing.simulation.plan.plans import Line, Round, Trouble, World
    from runefold.testing.simulation.world.disk import Disk

KEY: Final = "key-0123456789-of-the-house"
"""A secret that the app wants kept out, and that models and tools let slip."""
MARK: Final = mark(KEY)
"""What is kept in its place."""
TELLING: Final = 2
"""The number of those who let it slip."""
FOR_EVER: Final = 10_000_000
"""Seconds, longer than any time limit."""


class ModelContext(Protocol):
    """What models and tools know of the world they are in."""

    world: World
    truth: GroundTruth
    checker: LogChecker
    disk: Disk

    def is_calm(self) -> bool:
        """Return True if no more faults are injected."""
        ...


def tool_name(number: int) -> str:
    """Return what the tool with this number is called."""
    return f"t{number}"


def says(number: int) -> str:
    """Return what a user says for the word with this number."""
    return f"w{number}"


class Model:
    """Answers what the plan says to the last word that a user said."""

    def __init__(self, context: ModelContext) -> None:
        """Belong to a world."""
        self._context = context

    def stream(self, request: Request) -> Generator[Event, None, None]:
        """Yield the answer as it comes."""
        context = self._context
        call = request.call_id
        key = (request.conversation, call)
        context.checker.model_asked(context.disk, request, call)
        context.truth.said[key] = raw = ""
        for event in self._answer(request):
            if isinstance(event, Text):
                # A fragment may end in the middle of a secret.
                raw += event.text
                context.truth.said[key] = raw.replace(KEY, MARK)
            elif isinstance(event, Used):
                context.truth.used[key] = event.input_tokens + event.output_tokens
            elif isinstance(event, Done):
                context.truth.finished.add(key)
            yield event

    def _answer(self, request: Request) -> Iterator[Event]:
        word = self._word(request)
        script = self._script(word, request)
        where = f"{word}.{request.round}.{request.attempt}"
        if script is None:
            yield Text(f"{where} done.")
            yield Used(input_tokens=1, output_tokens=2)
            yield Done()
            return
        kind, at = self._trouble(script, request.attempt)
        for number, line in enumerate((*script.lines, None)):
            if kind is not None and number == min(at, len(script.lines)):
                yield from _trouble(kind)
                if kind != "slow":
                    return
            if line is not None:
                yield from self._line(line, f"{where}.{number}", word, request)
        yield Used(input_tokens=1, output_tokens=2)
        yield Done()

    def _word(self, request: Request) -> int:
        said = [message.text for message in request.messages if message.role == "user"]
        number = said[-1][1:] if said else ""
        return int(number) if number.isdecimal() else 0

    def _script(self, word: int, request: Request) -> Round | None:
        """Return the plan's answer in this round; None if it has nothing more to say."""
        words = self._context.world.words
        rounds = words[word].rounds if word < len(words) else ()
        return rounds[request.round] if request.round < len(rounds) else None

    def _trouble(self, script: Round, attempt: int) -> tuple[Trouble | None, int]:
        if self._context.is_calm() or attempt >= len(script.troubles):
            return None, 0
        return script.troubles[attempt]

    def _line(self, line: Line, where: str, word: int, request: Request) -> Iterator[Event]:
        match line.kind:
            case "say":
                for piece in range(line.n + 1):
                    yield Text(f"{where}.{piece} ")
                if line.n == TELLING:
                    yield from (Text(KEY[:5]), Text(KEY[5:20]), Text(f"{KEY[20:]} "))
            case "call":
                yield self._call(line.n, word, request)
            case "pause":
                yield Pause(line.n / 10)
            case "used":
                yield Used(input_tokens=line.n, output_tokens=line.n)
            case "unknown_tool":
                yield ToolCall("no_such_tool", "{}")
            case "bad_arguments":
                name = tool_name(line.n % max(len(self._context.world.tools), 1))
                yield ToolCall(name, '{"n": "many", ' * (line.n % 2) + "}")

    def _call(self, number: int, word: int, request: Request) -> ToolCall:
        tools = self._context.world.tools
        if not tools:
            return ToolCall("no_such_tool", "{}")
        at = number % len(tools)
        arguments: dict[str, Any] = {"n": number}
        match tools[at].kind:
            case "agent":
                # Always a later word, so that agents do not ask each other for ever.
                arguments = {"question": says(word + 1 + number % 2)}
            case "hand_over":
                state = self._context.checker.session(request.conversation)
                members = () if state is None else state.members
                to = members[number % len(members)].agent_id if members else "nobody"
                arguments = {"to": to}
            case _:
                pass
        return ToolCall(tool_name(at), json.dumps(arguments))


class AsyncModel:
    """The same model, read on the event loop; what is done with its stream is noted."""

    def __init__(self, context: ModelContext) -> None:
        """Belong to a world."""
        self._context = context
        self._model = Model(context)

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        """Yield the answer as it comes, each event in a step of its own."""
        truth = self._context.truth
        number = truth.begin_stream(request.call_id)
        answer = self._model.stream(request)
        try:
            while True:
                await asyncio.sleep(0)
                if request.cancelled():
                    # Nobody takes what it would say now; it is about to be cancelled.
                    await asyncio.sleep(FOR_EVER)
                # What is noted as said is given away in the same step.
                event = next(answer, None)
                if event is None:
                    return
                yield event
        except asyncio.CancelledError:
            truth.cancelled += 1
            raise
        finally:
            answer.close()
            truth.streaming.pop(number, None)


class PlannedFailure(Exception):
    """What a provider raises that has a bad day."""


def _trouble(kind: Trouble) -> Iterator[Any]:
    match kind:
        case "busy":
            yield Failure("overloaded", "429: come back later", retryable=True)
        case "down":
            yield Failure("server_error", "500: try again", retryable=True)
        case "refused":
            yield Failure("bad_request", "400: not like this")
        case "raises":
            msg = "no connection"
            raise PlannedFailure(msg)
        case "cut_off":
            pass
        case "garbage":
            yield Used(input_tokens=-5)
            yield {"type": "text", "text": None}
        case "silent":
            yield Text("")
            yield Pause(FOR_EVER)
        case "slow":
            yield Pause(2)
        case "endless_wait":
            yield Pause(FOR_EVER)
