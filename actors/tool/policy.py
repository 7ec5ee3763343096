"""Policy: may this tool be called with these arguments? Allow, ask a human, or deny.

A policy has a mode and, beside it, a list of rules or a function. The first rule whose pattern fits
the tool's name gives the verdict; where none fits, or the function has no opinion, the mode does:

    mode         no side effects   side effects
    read_only    allow             deny, whatever a rule says
    auto         allow             ask
    full_access  allow             allow; so it is if nothing is said

A tool that requires approval is asked about wherever it would be allowed. Every verdict comes with
the hash of the rules that gave it, so that an old log can be judged again under other rules.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

import msgspec

from actors.app_errors import report
from actors.tool.callbacks import Callback
from actors.tool.context import Context
from actors.tool.outcome import in_words
from actors.tool.output import plain
from runelog.errors import Refused

Mode: TypeAlias = Literal["read_only", "auto", "full_access"]
Word: TypeAlias = Literal["allow", "ask", "deny"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
WORDS: Final[tuple[Word, ...]] = get_args(Word)


class BadPolicy(Refused, ValueError):
    """A policy that cannot be followed; the message lists everything that is wrong with it."""


class Facts(Protocol):
    """What a policy looks at in a tool: a spec has these."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def side_effects(self) -> bool:
        """Whether it changes anything outside."""
        ...

    @property
    def requires_approval(self) -> bool:
        """Whether a human is asked wherever it would be allowed."""
        ...


class Verdict(msgspec.Struct, frozen=True):
    """What is to become of a call, why, and by which rules."""

    verdict: Word
    reason: str = ""
    rules_hash: str = ""
    frames: tuple[str, ...] = ()
    """Where the app's function failed in its own code, if it did."""


class Clause(msgspec.Struct, frozen=True):
    """One rule: what is to become of calls of the tools whose names fit a pattern."""

    pattern: str
    """As in a shell: `*`, `?`, `[a-z]`; capitals matter."""
    verdict: Word
    reason: str = ""


Judge: TypeAlias = Callable[..., Verdict | Word | tuple[Word, str] | None]
"""Given name, arguments and tool, and the context where it has a parameter annotated `Context`.

It returns 'allow', 'ask' or 'deny', a pair of that and a reason, or None for the mode's default.
"""
_GIVEN: Final = ("name", "arguments", "tool")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A mode, and the rules or the function that go before it. It checks itself when it is made.

    Rules may be given as clauses, as tuples or as mappings.

    >>> policy = Policy(rules=[("git_*", "allow"), ("rm_*", "deny", "nothing is deleted here")])
    >>> policy.clauses[1].reason
    'nothing is deleted here'
    >>> Policy(rules=[("git_*", "perhaps")])
    Traceback (most recent call last):
    ...
    actors.tool.policy.BadPolicy: rule 1: 'perhaps' is no verdict: use allow, ask or deny
    """

    mode: Mode = "full_access"
    """What is without rules and function: to give those alone does not change it."""
    rules: Sequence[Clause | Sequence[str] | Mapping[str, str]] = ()
    function: Judge | None = None
    clauses: tuple[Clause, ...] = field(init=False)
    """The rules, read."""
    hash: str = field(init=False)
    """The same for the same rules in any process."""
    ask: Callback | None = field(init=False, repr=False, compare=False, default=None)
    """The function, as it is called."""

    def __post_init__(self) -> None:
        """Refuse what cannot be followed, saying everything that is wrong with it."""
        wrong: list[str] = []
        clauses = _read(self.rules, wrong)
        if self.mode not in MODES:
            wrong.append(f"{self.mode!r:.80} is no mode: use read_only, auto or full_access")
        if self.function is not None:
            self._check_function(wrong)
        if self.function is not None and clauses:
            wrong.append("it has both rules and a function: give one of them")
        if wrong:
            raise BadPolicy("; ".join(wrong))
        # The dataclass is frozen for others, not yet for itself.
        object.__setattr__(self, "clauses", clauses)
        object.__setattr__(self, "hash", _hash(self.mode, clauses, self.function))

    def _check_function(self, wrong: list[str]) -> None:
        if not callable(self.function):
            wrong.append(f"{self.function!r:.80} is no function of name, arguments and tool")
            return
        try:
            object.__setattr__(self, "ask", Callback(self.function, _GIVEN))
        except TypeError as error:
            wrong.append(f"the policy {_name(self.function)} does not fit: {error}")


def judge(
    policy: Policy,
    tool: Facts,
    arguments: Mapping[str, Any],
    context: Context[Any] = Context(),  # noqa: B008 -- it cannot change
) -> Verdict:
    """Say what is to become of a call, why, and by which rules.

    >>> class Mail:
    ...     name, side_effects, requires_approval = "send_mail", True, False
    >>> judge(Policy(mode="auto"), Mail(), {}).verdict
    'ask'
    >>> judge(Policy(mode="read_only", rules=[("*", "allow")]), Mail(), {}).verdict
    'deny'
    """
    word, reason = _opinion(policy, tool, arguments, context)
    if word == "allow" and tool.requires_approval:
        word, reason = "ask", f"{tool.name} requires approval"
    return Verdict(word, reason, policy.hash)


def judged(
    policy: Policy, tool: Facts, arguments: Mapping[str, Any], context: Context[Any]
) -> Verdict:
    """Do as `judge`; a call that cannot be judged, as the function fails, is not let through.

    >>> policy = Policy(function=lambda name, arguments, tool: arguments["cents"] < 5)
    >>> class Mail:
    ...     name, side_effects, requires_approval = "send_mail", True, False
    >>> judged(policy, Mail(), {}, Context()).reason
    "the policy failed: KeyError: 'cents'"
    """
    try:
        return judge(policy, tool, arguments, context)
    except BaseException as error:  # noqa: BLE001 -- a policy may be any function of the app's
        about = {"tool": tool.name, "call": context.call_id, "conversation": context.session_id}
        frames = report("policy_failed", error, **about)
        return Verdict("deny", f"the policy failed: {in_words(error)}", policy.hash, frames)


def _opinion(
    policy: Policy, tool: Facts, arguments: Mapping[str, Any], context: Context[Any]
) -> tuple[Word, str]:
    if policy.mode == "read_only" and tool.side_effects:
        # Before any rule: a mode that could be talked out of this would promise nothing.
        return "deny", f"{tool.name} has side effects, and the mode is read_only"
    if policy.function is not None and policy.ask is not None:
        said = policy.ask(context, tool.name, arguments, tool)
        if said is not None:
            return _said(said, policy.function)
    for clause in policy.clauses:
        if fnmatchcase(tool.name, clause.pattern):
            return clause.verdict, clause.reason or f"rule {clause.pattern}: {clause.verdict}"
    if policy.mode == "auto" and tool.side_effects:
        return "ask", f"{tool.name} has side effects, and the mode is auto"
    return "allow", f"the mode is {policy.mode}"


def _said(said: object, function: Judge) -> tuple[Word, str]:
    """Read what a function returned."""
    by = f"{_name(function)} says so"
    match said:
        case "allow" | "ask" | "deny":
            return said, by
        case (("allow" | "ask" | "deny") as word, str(reason)):
            return word, reason or by
        case Verdict(("allow" | "ask" | "deny") as word, str(reason)):
            return word, reason or by
        case _:
            msg = (
                f"the policy {_name(function)} returned {said!r:.80}: return 'allow', 'ask' or "
                "'deny', a pair of that and a reason, or None for the mode's default"
            )
            raise BadPolicy(msg)


def _read(rules: object, wrong: list[str]) -> tuple[Clause, ...]:
    """Read a list of rules, adding what is wrong with them to `wrong`."""
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        wrong.append(f"{rules!r:.80} is no list of rules")
        return ()
    read = [_clause(rule) for rule in rules]
    wrong += [f"rule {n}: {each}" for n, each in enumerate(read, 1) if isinstance(each, str)]
    return tuple(each for each in read if isinstance(each, Clause))


def _clause(rule: object) -> Clause | str:
    """Read one rule, or say what is wrong with it."""
    pattern: object
    reason: object = ""
    match rule:
        case Clause(pattern, verdict, reason):
            pass
        case {"pattern": pattern, "verdict": verdict, **rest} if rest.keys() <= {"reason"}:
            reason = rest.get("reason", "")
        case [pattern, verdict]:
            pass
        case [pattern, verdict, reason]:
            pass
        case _:
            return f"{rule!r:.80} is not pattern, verdict and reason"
    if not isinstance(pattern, str) or not pattern:
        return f"{pattern!r:.80} is no pattern of tool names"
    if verdict not in WORDS:
        return f"{verdict!r:.80} is no verdict: use allow, ask or deny"
    if not isinstance(reason, str):
        return f"{reason!r:.80} is no reason: give text"
    for text in (pattern, reason):
        if plain(text) != text:
            return f"{text!r:.80} holds half of a character: give whole ones"
    return Clause(pattern, verdict, reason)


def _hash(mode: Mode, clauses: tuple[Clause, ...], function: Judge | None) -> str:
    """Hash what the verdicts follow from."""
    code = None if function is None else [_name(function), _source(function)]
    whole = msgspec.json.encode([mode, clauses, code])
    return hashlib.sha256(whole).hexdigest()[:16]


def _name(function: Judge) -> str:
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _source(function: Judge) -> str:
    """Return the text of a function, nothing if there is none to be had."""
    named: Any = function if hasattr(function, "__qualname__") else type(function)
    try:
        return inspect.cleandoc(inspect.getsource(named))
    except (OSError, TypeError):
        return ""
