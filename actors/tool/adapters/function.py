"""Tools that are Python functions.

    @tool(side_effects=False)
    def weather(city: str, days: int = 3) -> str:
        "Tell the weather of a city."

The function runs on the thread that calls `run`; the runtime lends it a pooled one. A thread cannot
be killed: a function that outlives its time limit is *abandoned* by the runtime, which records that
it may still happen, and what `run` returns is dropped. A function that can stop early asks
`cancelled()`.

An async function is awaited on the event loop of the runtime, which it shares with all others and
with async providers: so an HTTP client, a semaphore or a pool works across calls, and one that
blocks holds up the others. It is cancelled at its time limit and when the call is.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
import typing
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, overload

from actors.redaction.strands import Strands
from actors.tool import secrets as secret
from actors.tool.callbacks import hints_of, is_context
from actors.tool.context import CallId, Cancelled, during
from actors.tool.outcome import Outcome, in_words
from actors.tool.output import plain
from actors.tool.schema import Parameter, Parameters, Unfit, described
from actors.tool.spec import BadTool, Declared, ToolSpec, reported, returned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Unpack

    from actors.tool.context import Call, Context, Progress

P = ParamSpec("P")
R = TypeVar("R")

_BY_NAME: Final = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}


class Options(Declared, total=False):
    """What `@tool` can be told; `ToolSpec` says what each means."""

    name: str
    secrets: tuple[str, ...] | list[str]
    call_id: str
    """The parameter that takes the call id, where it is not annotated `CallId`."""


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    **options: Unpack[Options],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[P, R] | None = None, /, **options: Unpack[Options]) -> Any:
    """Declare a function as a tool; it can still be called as the function it is.

    >>> @tool
    ... def shout(text: str) -> str:
    ...     '''Say it louder.
    ...
    ...     Args:
    ...         text: What to say.
    ...     '''
    ...     return text.upper()
    >>> shout("hi")
    'HI'
    >>> shout.spec.parameters["properties"]
    {'text': {'type': 'string', 'description': 'What to say.'}}

    A service that honours idempotency keys makes a call safe to repeat after a crash:

    >>> @tool(idempotent=True, timeout=20)
    ... def pay(cents: int, key: CallId) -> str:
    ...     "Pay an amount."
    ...     return f"paid {cents} under {key}"
    >>> from actors.tool.context import Call
    >>> pay.run(Call(call_id="call_1", arguments={"cents": 5})).output
    'paid 5 under call_1'

    A parameter that is annotated `Context` is given what the call has around it, such as the
    session, its client and the app's own object. A model sees neither.

    What can be said of a tool, by default the worst:

    - `name`, `description`: what the model is told; else the function's own name and docstring.
    - `side_effects`: whether it changes anything outside (True).
    - `idempotent`: whether a second run under the same call id does no more than the first (False).
    - `parallel_safe`: whether it may run beside other calls (if it has no side effects).
    - `requires_approval`: whether a human is always asked, whatever the policy lets pass (False).
    - `timeout`: seconds that it may take (120).
    - `approval_timeout`: seconds until a question to a human lapses (a day).
    - `max_output_bytes`: what is longer is cut in the middle (256 KiB).
    - `secrets`: the names of the secrets that it may be given.
    - `call_id`: the parameter that takes the call id, where it is not annotated `CallId`.
    - `on_doubt`: what becomes of a call that a crash caught between its start and its result:

        - `"rerun"`: it runs again under the same call id. The default of what is idempotent or has
          no side effects; refused for anything else.
        - `"probe"`: `probe` is asked whether it happened.
        - `"ask"`: a human says: run it again, it happened with this result, or give it up.
        - `"unknown"`: its result is unknown, and model, app and operator are told so. The default
          of everything else.

    - `probe`: a function of the call id and the arguments, of a `Context` too if it takes one. It
      returns `Happened(output)`, or None if it did not happen: then the call runs. One that raises,
      or takes longer than `timeout`, cannot tell: the result is unknown, and the operator's log
      has the stack.
    """
    if function is not None:
        return FunctionTool(function)
    return functools.partial(FunctionTool, **options)


class FunctionTool(Generic[P, R]):
    """A function that a model can call; it can still be called as a function."""

    __name__: str
    is_plain: Final = True
    """Whether its outcomes can be kept as they are, without a second look."""

    def __init__(self, function: Callable[P, R], /, **options: Unpack[Options]) -> None:
        """Take schema and descriptions from the function; refuse what cannot be described."""
        if not callable(function):
            msg = f"{function!r:.80} is not a function: use @tool, or @tool(option=...)"
            raise BadTool(msg)
        if isinstance(function, FunctionTool):
            msg = f"{function!r:.80} is a tool already: say @tool once, with all its options"
            raise BadTool(msg)
        given: dict[str, Any] = {**options}
        if unknown := sorted(given.keys() - Options.__annotations__.keys()):
            known = ", ".join(Options.__annotations__)
            msg = f"@tool takes no option {unknown[0]!r}; it takes {known}"
            raise BadTool(msg)
        name = str(given.pop("name", "") or getattr(function, "__name__", ""))
        if not name or name == "<lambda>":
            msg = f"{function!r:.80} has no name: give it one with name='...'"
            raise BadTool(msg)
        listed = tuple(given.pop("secrets", ()))
        keyed = given.pop("call_id", None)
        about, texts = described(inspect.getdoc(function))
        self._function: Final = function
        self.is_async: Final = inspect.iscoroutinefunction(function)
        """Whether the runtime awaits it on its event loop."""
        own, self._secrets, takes = _declared(name, function, keyed, listed)
        self._call_id, self._context = own.get("call id"), own.get("context")
        try:
            self._parameters: Final = Parameters(takes, texts)
        except TypeError as error:
            msg = f"tool {name}: {error}; use a type such as str, int, list[str] or a Struct"
            raise BadTool(msg) from None
        given.setdefault("description", about)
        self.spec: Final = ToolSpec(
            name=name, parameters=self._parameters.schema, secrets=listed, **given
        )
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no log, no limits."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        """Name the tool."""
        return f"<tool {self.spec.name}>"

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function's types say, or raise `Unfit`."""
        return self._parameters.fit(arguments)

    def run(self, call: Call) -> Outcome:
        """Run the function on this thread. Never raises, whatever the function does.

        An async function has an event loop of its own here; the runtime awaits `run_async`.
        """
        if call.cancellation.cancelled:
            return Outcome("cancelled", error=_NOT_BEGUN)
        mask = _NO_MASK
        try:
            kwargs, mask = self._ready(call)
            # In a context of its own: what the function sets there ends with the call.
            reporter = _Reporter(call.progress, mask, self.spec.max_output_bytes)
            try:
                value = contextvars.copy_context().run(self._called, kwargs, call, reporter)
            finally:
                reporter.end()
        except BaseException as error:  # noqa: BLE001 -- nothing of it may end the thread it runs on
            return self._failed(error, mask, call)
        return returned(value, self.spec, mask, call.redactor)

    async def run_async(self, call: Call) -> Outcome:
        """Run an async function on the event loop that this runs on.

        Raises only `CancelledError`, if the loop itself ends: how the call ends is not known then.

        >>> @tool
        ... async def later(text: str) -> str:
        ...     "Say it in a moment."
        ...     await asyncio.sleep(0)
        ...     return text
        >>> from actors.tool.context import Call
        >>> asyncio.run(later.run_async(Call(call_id="call_1", arguments={"text": "so"}))).output
        'so'
        """
        if call.cancellation.cancelled:
            return Outcome("cancelled", error=_NOT_BEGUN)
        mask = _NO_MASK
        function: Callable[..., Awaitable[object]] = self._function  # type: ignore[assignment]  # it is async
        try:
            kwargs, mask = self._ready(call)
            reporter = _Reporter(call.progress, mask, self.spec.max_output_bytes)
            try:
                with during(self._given(kwargs, call, reporter)):
                    value = await _awaited(function(**kwargs), call, self._limit(call))
            finally:
                reporter.end()
        except BaseException as error:
            task = asyncio.current_task()
            ends = isinstance(error, asyncio.CancelledError) and task is not None
            if ends and task.cancelling() and not call.cancellation.cancelled:  # type: ignore[union-attr]  # as asked
                raise
            return self._failed(error, mask, call)
        return returned(value, self.spec, mask, call.redactor)

    def _ready(self, call: Call) -> tuple[dict[str, Any], secret.SecretMask]:
        """Return what the function is called with, and what masks its secrets."""
        kwargs = self.fit(call.arguments)
        known = self._reveal(kwargs, call)
        if self._call_id is not None:
            kwargs[self._call_id] = CallId(call.call_id)
        return kwargs, secret.SecretMask(known) if known else _NO_MASK

    def _given(self, kwargs: dict[str, Any], call: Call, reporter: Progress) -> Context[Any]:
        """Return the context of a call, passed to the function if that takes it."""
        context = call.context(reporter)
        if self._context is not None:
            kwargs[self._context] = context
        return context

    def _failed(self, error: BaseException, mask: secret.SecretMask, call: Call) -> Outcome:
        """Return the outcome of a call that raised."""
        if isinstance(error, Unfit):
            return Outcome("error", error=f"the arguments do not fit: {error}")
        if isinstance(error, _OutOfTime):
            return Outcome("timeout", error=f"it was stopped after {self._limit(call):g} s")
        asked = isinstance(error, Cancelled | asyncio.CancelledError)
        if asked and call.cancellation.cancelled:
            return Outcome("cancelled", error="it was cancelled")
        frames = reported("tool_failed", self.spec, call, error, mask)
        return Outcome("error", error=in_words(error, mask, call.redactor), frames=frames)

    def _limit(self, call: Call) -> float:
        return self.spec.timeout if call.timeout is None else max(call.timeout, 0)

    def _reveal(self, kwargs: dict[str, Any], call: Call) -> dict[str, str]:
        known = {}
        for parameter, default in self._secrets.items():
            name = secret.named(kwargs.get(parameter, default))
            if name is not None:
                known[name] = kwargs[parameter] = secret.revealed(name, call.secret)
        return known

    def _called(self, kwargs: dict[str, Any], call: Call, reporter: _Reporter) -> object:
        # The function is called by name: those of its parameters were checked when it was declared.
        function: Callable[..., object] = self._function
        with during(self._given(kwargs, call, reporter)):
            value = function(**kwargs)
            if type(value) not in _NO_AWAITABLES and inspect.isawaitable(value):
                with asyncio.Runner() as runner:
                    return runner.run(_awaited(value, call, self._limit(call)))
            return value


_NO_MASK: Final = secret.SecretMask({})
_NOT_BEGUN: Final = "it was cancelled before it began"
_NO_AWAITABLES: Final = frozenset({str, int, float, bool, list, dict, tuple, type(None)})
"""What functions mostly return: to ask whether that can be awaited takes longer than to run it."""


_NOT_SHOWN: Final = "[more is not shown]"


class _Reporter:
    """What a function says on the way: without secrets, and no more than it may return."""

    def __init__(self, progress: Progress, mask: secret.SecretMask, limit: int) -> None:
        self._progress, self._room = progress, limit
        self._strands = Strands(mask) if mask else None
        self._lock = threading.Lock()

    def __call__(self, stream: str, chunk: str, /) -> None:
        if len(chunk) > self._room > 0:
            # Not even looked through: it has at least as many bytes.
            self._room = -1
            self._progress(stream, _NOT_SHOWN)
        if self._room <= 0:
            return
        chunk = plain(chunk)
        if self._strands is None:
            self._pass_on(stream, chunk)
            return
        with self._lock:
            for name, text in self._strands.feed(stream, chunk):
                self._pass_on(name, text)

    def end(self) -> None:
        """Pass on what may have become a secret and has not."""
        if self._strands is not None:
            with self._lock:
                for name, text in self._strands.end():
                    self._pass_on(name, text)

    def _pass_on(self, stream: str, chunk: str) -> None:
        if self._room > 0:
            self._room -= len(chunk.encode())
            self._progress(stream, chunk if self._room >= 0 else _NOT_SHOWN)


class _OutOfTime(BaseException):
    """An async function was stopped at its time limit."""


async def _awaited(awaitable: Awaitable[object], call: Call, limit: float) -> object:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    timer = asyncio.timeout(limit)
    try:
        async with timer:
            with call.cancellation.calling(lambda: loop.call_soon_threadsafe(task.cancel)):
                return await awaitable
    except TimeoutError:
        # A function has time-outs of its own: those are its errors.
        if timer.expired():
            raise _OutOfTime from None
        raise


# -- what a signature says ------------------------------------------------------------------------


def _declared(
    name: str, function: Callable[..., object], call_id: str | None, listed: tuple[str, ...]
) -> tuple[dict[str, str], dict[str, Any], list[Parameter]]:
    """Return the parameters that the runtime fills, those for secrets with defaults, the model's.

    Of the first, one takes the call id and one the context.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"tool {name} yields: return one value, and say progress(...) on the way"
        raise BadTool(msg)
    hints, unknown, parameters = _hints(name, function)
    own = {} if call_id is None else {"call id": call_id}
    secrets, takes = dict[str, Any](), []
    for parameter in parameters.values():
        _check_kind(name, parameter)
        hint = hints.get(parameter.name, parameter.empty)
        if what := _filled_in(parameter.name == call_id, hint):
            if own.setdefault(what, parameter.name) != parameter.name:
                msg = f"tool {name} takes the {what} twice, as {own[what]} and {parameter.name}"
                raise BadTool(msg)
            continue
        if parameter.name in unknown:
            why = f"{unknown[parameter.name]}; its types must be known at run time"
            msg = f"tool {name}: parameter {parameter.name}: {why}, not to checkers only"
            raise BadTool(msg)
        if hint is parameter.empty:
            msg = (
                f"tool {name}: parameter {parameter.name} has no type, write {parameter.name}: str"
            )
            raise BadTool(msg)
        if _takes_secret(name, parameter.name, hint):
            secrets[parameter.name] = parameter.default
            hint = _reference(name, listed, parameter.default)
        takes.append(Parameter(parameter.name, hint, parameter.default))
    if call_id is not None and call_id not in parameters:
        msg = f"tool {name} has no parameter {call_id} that could take the call id"
        raise BadTool(msg)
    if listed and not secrets:
        msg = f"tool {name} lists secrets, but no parameter takes one: annotate it as Secret"
        raise BadTool(msg)
    return own, secrets, takes


def _filled_in(is_call_id: bool, hint: object) -> str:  # noqa: FBT001 -- of this module alone
    """Return what the runtime passes to a parameter; nothing if it is the model's."""
    if is_call_id or hint is CallId:
        return "call id"
    return "context" if is_context(hint) else ""


def _hints(
    name: str, function: Callable[..., object]
) -> tuple[dict[str, Any], dict[str, str], Mapping[str, inspect.Parameter]]:
    try:
        return *hints_of(function), inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        msg = f"tool {name}: {error}"
        raise BadTool(msg) from None


def _check_kind(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind not in _BY_NAME:
        stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}
        shown = stars.get(parameter.kind.name, "positional-only ") + parameter.name
        msg = f"tool {name} takes {shown}: a model passes arguments by name, so list each by name"
        raise BadTool(msg)


def _takes_secret(name: str, parameter: str, hint: object) -> bool:
    if secret.IS_SECRET in getattr(hint, "__metadata__", ()):
        return True
    waiting = list(typing.get_args(hint))
    while waiting:
        inner = waiting.pop()
        waiting += typing.get_args(inner)
        if secret.IS_SECRET in getattr(inner, "__metadata__", ()):
            # Within another type the value would not be put in the place of the name.
            msg = f"tool {name}: a secret within {parameter}: annotate a parameter of its own"
            raise BadTool(msg)
    return False


def _reference(name: str, listed: tuple[str, ...], default: object) -> object:
    usual = secret.named(default)
    named = [*listed, usual] if usual is not None else listed
    if not listed or set(named) != set(listed) or not all(map(secret.is_secret_name, listed)):
        msg = f"tool {name} takes a secret: list those it may be given, secrets=['GITHUB_TOKEN']"
        raise BadTool(msg)
    references = tuple(secret.PREFIX + one for one in listed)
    return typing.Literal[references]
