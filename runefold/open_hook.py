"""What a runtime is opened with, and who opens it.

That is the runtime itself, unless a test kit takes its place.

A test kit that wants to see every append and every effect of an app has to be there when the app
opens its runtime, and the app's code must not know of it. So `Runtime.open` asks here first.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import inspect
import tempfile
from collections.abc import Mapping
from contextvars import ContextVar
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, TypedDict

from actors.catalogue import KINDS, RESERVED
from actors.kind import Kind
from actors.model.provider import Price
from actors.operator_log import log as operator
from actors.redaction.redactor import DEFAULT, Redactor
from actors.tool.adapters.command import CommandTool
from actors.tool.policy import BadPolicy, Policy
from actors.tool.toolbox import Toolbox
from runefold import checks
from runefold.agents import AskMember, HandOver
from runefold.naming import explained, imported
from runelog.errors import Refused
from runelog.files import path_of
from runelog.rune import kind_of

if TYPE_CHECKING:
    import os
    import re
    from collections.abc import Callable, Iterable, Iterator

    from actors.kind import Kinds
    from actors.model.provider import AsyncProvider, Provider
    from actors.ports import Chance, Clock, Scheduler
    from actors.tool.spec import Tool
    from runefold.runtime import Runtime
    from runelog.log import Log


class Options(TypedDict, total=False):
    """What a runtime can be opened with: what `Runtime` itself takes beside a log."""

    tools: Iterable[Tool]
    kinds: Iterable[Kind]
    providers: Mapping[str, Provider | AsyncProvider] | None
    policy: Policy | None
    secret: Callable[[str], str] | None
    app: object
    redact: Iterable[str | re.Pattern[str]]
    clock: Clock | None
    chance: Chance | None
    scheduler: Scheduler | None
    idle_after: float
    snapshot_every: int
    views: str | os.PathLike[str] | None
    loop: asyncio.AbstractEventLoop | None


def check_names(kind: type[Runtime], options: Mapping[str, object]) -> None:
    """Refuse an option that this kind of runtime does not have, before anything is opened."""
    takes = inspect.signature(kind)
    try:
        takes.bind(None, **options)
    except TypeError as error:
        known = ", ".join([*takes.parameters][1:])
        msg = f"{kind.__name__}.open {error}; it takes {known}"
        raise TypeError(msg) from None


# -- what it is opened with ----------------------------------------------------------------------


def event_loop(given: object) -> asyncio.AbstractEventLoop | None:
    """Return the event loop of the app, or refuse what is none."""
    if given is None or isinstance(given, asyncio.AbstractEventLoop):
        return given
    msg = f"loop is {checks.shown(given)}: give an event loop, such as asyncio.get_running_loop()"
    raise Refused(msg)


def models(
    providers: Mapping[str, Provider | AsyncProvider],
) -> dict[str, Provider | AsyncProvider]:
    """Return the models by name, or refuse what is no model."""
    if not isinstance(providers, Mapping):
        msg = f"providers is {checks.shown(providers)}: give each by its name, in a dict"
        raise Refused(msg)
    for name, provider in providers.items():
        checks.text(name, "a model's name")
        if not callable(getattr(provider, "stream", None)):
            msg = (
                f"providers[{name!r}] is {checks.shown(provider)}, which is no model: give one "
                "that has a stream(request), such as those in runefold.providers"
            )
            raise Refused(msg)
        price = getattr(provider, "price", None)
        if price is not None:
            _check_price(name, price)
    return dict(providers)


def _check_price(name: str, price: object) -> None:
    if not isinstance(price, Price):
        msg = f"the price of {name!r} is {checks.shown(price)}: give a Price of runefold.providers"
        raise Refused(msg)
    for what in ("input", "output"):
        checks.number(getattr(price, what), f"the {what} price of {name!r}", zero=True)


def known_kinds(given: Iterable[Kind]) -> Kinds:
    """Return our kinds and the app's, or refuse those that do not fit together."""
    found = [*checks.several(given, "kinds", "kinds")]
    return KINDS.plus(found, RESERVED) if found else KINDS


def check_codec(log: Log, kinds: Kinds) -> None:
    """Refuse a log that cannot read the runes of the kinds that are to run on it."""
    missing = [kind_of(rune) for rune in kinds.runes if kind_of(rune) not in log.codec.kinds]
    if missing:
        msg = (
            f"this log was opened without the kinds of the app and cannot read {missing[0]}: use "
            "Runtime.open(directory, kinds=[...]), or open the log with the codec of all kinds"
        )
        raise Refused(msg)


def toolbox(tools: Iterable[Tool], directory: Path | None) -> Toolbox:
    """Return the tools there are; say of programs what they cannot be kept from here.

    Those by which the agents of a team reach each other need not be registered.
    """
    found = Toolbox(checks.several(tools, "tools", "tools"), beside=[AskMember(), HandOver()])
    for tool in found:
        if isinstance(tool, CommandTool):
            if directory is not None:
                tool.keep_out_of(directory)
            if tool.isolation.missing:
                operator.warning(
                    "tool_not_isolated",
                    tool=tool.spec.name,
                    missing=tool.isolation.missing,
                    reason=tool.isolation.reason,
                )
    return found


_FULL_ACCESS: Final = Policy(mode="full_access")


_WILDCARDS: Final = frozenset("*?[")


def policy(given: Policy | None, tools: Toolbox) -> Policy:
    """Return which calls are allowed: all, if nothing is said.

    A rule for a tool that is not there is refused: with a slip in it, the calls that it is about
    would go unasked. A `Policy` by itself knows no tools, so that `runefold policy-check` judges an
    old log by any rules. Apps that share one write a pattern with a wildcard for a tool that not
    all of them have: one that fits no tool is only told to the operator.
    """
    if given is None:
        return _FULL_ACCESS
    if not isinstance(given, Policy):
        msg = (
            f"policy is {checks.shown(given)}: give a Policy, such as Policy(mode='auto'), "
            "Policy(rules=[...]) or Policy(function=...)"
        )
        raise Refused(msg)
    for number, clause in enumerate(given.clauses, 1):
        _check_pattern(f"rule {number}", clause.pattern, tools)
    return given


def _check_pattern(rule: str, pattern: str, tools: Toolbox) -> None:
    names = sorted(tool.spec.name for tool in tools)
    if any(fnmatchcase(each.spec.name, pattern) for each in (*tools, *tools.beside)):
        return
    if _WILDCARDS & {*pattern}:
        operator.warning("policy_rule_fits_no_tool", rule=rule, pattern=pattern, tools=names)
        return
    close = difflib.get_close_matches(pattern, names, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    msg = (
        f"{rule} of the policy is for the tool {pattern!r:.80}, which is not registered; "
        f"there are: {', '.join(names) or 'none'}{meant}"
    )
    raise BadPolicy(msg)


def redactor(given: Iterable[str | re.Pattern[str]]) -> Redactor:
    """Return what keeps secrets out of the log: text that matches these, or looks like a key."""
    # To read the patterns takes a while, and most apps have none of their own.
    patterns = list(checks.several(given, "redact", "patterns"))
    return Redactor(patterns) if patterns else DEFAULT


def secrets(given: Callable[[str], str] | None) -> Callable[[str], str]:
    """Return what gives a secret by its name: nothing does, if nothing is said."""
    if given is None:
        return _no_secret
    if not callable(given):
        # Not shown: it may well hold the secrets.
        msg = f"secret is a {type(given).__name__}: give a function that takes a secret's name"
        raise Refused(msg)
    return given


def _no_secret(name: str) -> str:
    msg = f"no secret is named {name!r} here: pass secret=a function to Runtime.open"
    raise Refused(msg)


def views(given: str | os.PathLike[str] | None, directory: Path | None) -> Path | None:
    """Return where the files of views are kept: in the log's directory, if nothing is said."""
    if given is not None:
        return path_of(given, "a directory of views").absolute()
    return None if directory is None else directory / "views"


# -- who opens it --------------------------------------------------------------------------------


class Opener(Protocol):
    """Opens runtimes in another way."""

    def __call__(self, kind: type[Runtime], directory: Path, options: dict[str, Any]) -> Runtime:
        """Open a runtime of this kind, or of one derived from it, with the app's options."""
        ...


_opener: ContextVar[Opener | None] = ContextVar("runefold_opener", default=None)


def current() -> Opener | None:
    """Return the opener that is in effect here, or None."""
    return _opener.get()


@contextlib.contextmanager
def through(opener: Opener) -> Iterator[None]:
    """Have every `Runtime.open` in the block go through `opener`."""
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


class _Opened(Exception):
    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__()
        self.options = options


def kinds_of(app: str) -> list[Kind]:
    """Return the kinds of an app: a list of them, or those that its function opens a runtime with.

    The function is called with a temporary directory, and no runtime is opened.
    """
    found = imported(app, "kinds")
    if callable(found) and (options := _options(app, found)) is not None:
        found = options.get("kinds", ())
    if isinstance(found, list | tuple) and all(isinstance(each, Kind) for each in found):
        return [*found]
    msg = f"{app} names no kinds: name a list of them, or a function that opens a runtime with them"
    raise Refused(msg)


def object_of(app: str) -> object:
    """Return the `app=` that the function of an app opens its runtime with; it is not opened."""
    build = imported(app, "app")
    options = _options(app, build) if callable(build) else None
    if not options or options.get("app") is None:
        msg = f"{app} gives no object: name a function that opens a runtime with app=..."
        raise Refused(msg)
    return options["app"]


def _options(app: str, build: Callable[..., object]) -> Mapping[str, Any] | None:
    """Return what an app's function opens its runtime with; None if it opens none."""
    # The app may write files before it opens its runtime.
    with through(_catch), tempfile.TemporaryDirectory(prefix="runefold-") as directory:
        try:
            build(Path(directory))
        except _Opened as caught:
            return caught.options
        except Exception as error:  # the app's own code
            msg = f"{app} failed before it opened a runtime: {explained(error)}"
            raise Refused(msg) from error
    return None


def _catch(kind: object, directory: Path, options: Mapping[str, Any]) -> NoReturn:
    del kind, directory
    raise _Opened(options)
