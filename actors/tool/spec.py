"""What is declared of a tool: what it is called and takes, what it may do, what limits it has.

A spec says everything that others need to know in order to judge a call: the model (name,
description, schema), the policy (side effects, approval), the turn (may it run beside others?) and
recovery (what if we crash in the middle of it?). How a call is run is known to its adapter alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypedDict, runtime_checkable

import msgspec

from actors.app_errors import report
from actors.redaction.redactor import DEFAULT
from actors.tool import models, runes
from actors.tool.callbacks import Callback
from actors.tool.lifecycle import Probed
from actors.tool.outcome import MAX_ERROR_BYTES, Happened, Outcome, in_words
from actors.tool.output import clip, plain
from actors.tool.schema import MAX_DEPTH
from actors.tool.weight import outweighs
from actors.units import SECOND
from runelog.codec import check_depth
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.redaction.redactor import Redactor, Replacer
    from actors.tool.context import Call
    from actors.tool.runes import InDoubt

    Probe: TypeAlias = Callable[..., Happened | None]
    """Given the call id and the arguments, and the context where it takes one."""

TIMEOUT: Final = runes.TIMEOUT / SECOND
"""Seconds a tool may take unless it says otherwise."""
APPROVAL_TIMEOUT: Final = runes.APPROVAL_TIMEOUT / SECOND
"""Seconds a human has for an answer unless the tool says otherwise."""
MAX_OUTPUT_BYTES: Final = 256 << 10
"""What a tool may return unless it says otherwise; more is cut in the middle."""
MOST_RETURNED: Final = 4 << 20
"""How many bytes a tool may return for its output to be cut to its limit, rather than refused."""

_MOST_OUTPUT: Final = 32 << 20
"""A rune has room for 64 MiB, and for more than an output."""
_MOST_SECONDS: Final = 1_000_000_000
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BadTool(Refused, ValueError):
    """A tool that cannot be declared like this."""


class Declared(TypedDict, total=False):
    """What can be declared of any tool; `ToolSpec` says what each means."""

    description: str
    side_effects: bool
    idempotent: bool
    parallel_safe: bool | None
    requires_approval: bool
    timeout: float
    approval_timeout: float
    max_output_bytes: int
    on_doubt: InDoubt | None
    probe: Probe | None


_PROBED: Final = ("call_id", "arguments")
_FLAGS: Final = (
    "side_effects",
    "idempotent",
    "parallel_safe",
    "requires_approval",
    "network",
    "sub_call",
)


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """What is declared of a tool.

    What it may do is assumed to be the worst unless it says otherwise: side effects, not
    repeatable, not beside others.

    >>> look = ToolSpec(name="look_up", description="Look a word up.", side_effects=False)
    >>> look.on_doubt, look.parallel_safe
    ('rerun', True)
    >>> ToolSpec(name="send_mail", description="Send a mail.").on_doubt
    'unknown'
    >>> ToolSpec(name="send mail", description="Send a mail.")
    Traceback (most recent call last):
    ...
    actors.tool.spec.BadTool: 'send mail' cannot name a tool: use 1 to 64 of A-Z, a-z, 0-9, _ and -
    """

    name: str
    description: str = ""
    """What it does: read by the model."""
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}, "additionalProperties": False}
    )
    """The JSON schema of its arguments."""
    side_effects: bool = True
    """Whether it changes anything outside."""
    idempotent: bool = False
    """Whether a second run under the same call id does no more than the first."""
    parallel_safe: bool | None = None
    """Whether it may run beside other calls; if not said, whether it has no side effects."""
    requires_approval: bool = False
    """Whether a human is always asked, whatever the policy lets pass."""
    timeout: float = TIMEOUT
    approval_timeout: float = APPROVAL_TIMEOUT
    max_output_bytes: int = MAX_OUTPUT_BYTES
    on_doubt: InDoubt | None = None
    """What to do about a call that a crash caught in the middle.

    If not said: run again what is idempotent or has no side effects, and say of everything else
    that the outcome is unknown.
    """
    probe: Probe | None = None
    """Given the call id and the arguments: `Happened(output)`, or None if it did not happen.

    With a parameter that is annotated `Context` it is given that too. An error means that it cannot
    tell, and the outcome stays unknown.
    """
    secrets: tuple[str, ...] = ()
    """The names of the secrets that it may be given."""
    paths: tuple[str, ...] = ()
    """Where a command tool's path arguments may lead."""
    network: bool = True
    """Whether a command tool may use the network."""
    sub_call: bool = False
    """Whether it asks another agent: then a budget of sub-calls is spent on it as well."""
    grace: float = 0.0
    """Seconds within which it really ends once it is told to; 0 if it cannot be stopped.

    The result of one that can be stopped comes when it has ended, so that nothing runs beside it.
    """

    def __post_init__(self) -> None:
        """Refuse what makes no sense, and settle what was left open."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            shown = f"{clip(str(self.name), 80)[0]!r}"
            msg = f"{shown} cannot name a tool: use 1 to 64 of A-Z, a-z, 0-9, _ and -"
            raise BadTool(msg)
        if not isinstance(self.description, str):
            msg = f"tool {self.name}: its description is {self.description!r}: give a text"
            raise BadTool(msg)
        for flag in _FLAGS:
            self._check_flag(flag)
        for limit in ("timeout", "approval_timeout", "max_output_bytes"):
            self._check_limit(limit)
        # The dataclass is frozen for others, not yet for itself.
        if self.parallel_safe is None:
            object.__setattr__(self, "parallel_safe", not self.side_effects)
        if self.on_doubt is None:
            object.__setattr__(self, "on_doubt", "rerun" if self._repeatable else "unknown")
        self._check_on_doubt()

    @property
    def _repeatable(self) -> bool:
        return self.idempotent or not self.side_effects

    def _check_flag(self, flag: str) -> None:
        """Refuse what is neither true nor false: `idempotent="no"` would count as yes."""
        value = getattr(self, flag)
        if not isinstance(value, bool) and not (value is None and flag == "parallel_safe"):
            msg = f"tool {self.name}: {flag} is {value!r}: say True or False"
            raise BadTool(msg)

    def _check_limit(self, limit: str) -> None:
        value = getattr(self, limit)
        kinds = (int,) if limit == "max_output_bytes" else (int, float)
        most = _MOST_OUTPUT if limit == "max_output_bytes" else _MOST_SECONDS
        if not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value <= most:
            msg = f"tool {self.name}: {limit} is {value!r}: give a positive number up to {most:,}"
            raise BadTool(msg)

    def _check_on_doubt(self) -> None:
        if self.on_doubt not in {"rerun", "probe", "ask", "unknown"}:
            msg = (
                f"tool {self.name}: on_doubt is {self.on_doubt!r}: "
                "use 'rerun', 'probe', 'ask' or 'unknown'"
            )
            raise BadTool(msg)
        if self.on_doubt == "rerun" and not self._repeatable:
            msg = (
                f"tool {self.name} has side effects, so on_doubt='rerun' could do them twice: "
                "declare it idempotent=True if a call id makes a second run harmless, "
                "or use 'probe', 'ask' or 'unknown'"
            )
            raise BadTool(msg)
        if self.on_doubt == "probe" and not callable(self.probe):
            msg = (
                f"tool {self.name}: on_doubt='probe' needs probe=, a function of call id and "
                "arguments that returns Happened(output), or None if it did not happen"
            )
            raise BadTool(msg)
        if self.probe is not None:
            self._check_probe()
        if self.probe is not None and self.on_doubt != "probe":
            msg = f"tool {self.name} has a probe that is never asked: say on_doubt='probe' too"
            raise BadTool(msg)

    def _check_probe(self) -> None:
        try:
            Callback(self.probe, _PROBED)  # type: ignore[arg-type]  # checked by who calls this
        except TypeError as error:
            msg = f"tool {self.name}: its probe does not fit: {error}"
            raise BadTool(msg) from None

    def description_for_model(self) -> dict[str, Any]:
        """Return what a model is told: name, description and the schema of the arguments."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


class Tool(Protocol):
    """Something that can be called by a model: what is declared of it, and how it is run."""

    @property
    def spec(self) -> ToolSpec:
        """What is declared of it."""
        ...

    def fit(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as it takes them, or raise `actors.tool.schema.Unfit`."""
        ...

    def run(self, call: Call) -> Outcome:
        """Run it on this thread until it ends. Never raises."""
        ...


@runtime_checkable
class TeamTool(Tool, Protocol):
    """A tool by which an agent reaches others of its session."""

    def narrowed(self, names: Sequence[str]) -> Tool:
        """Return one that reaches those of these names only."""
        ...


def asked(spec: ToolSpec, call: Call) -> Probed:
    """Ask a tool's probe what became of a call in doubt. Never raises.

    >>> from actors.tool.context import Call
    >>> sent = {"call_1": "sent at noon"}
    >>> def was_sent(call_id, arguments):
    ...     return Happened(sent[call_id]) if call_id in sent else None
    >>> spec = ToolSpec(name="send", on_doubt="probe", probe=was_sent)
    >>> asked(spec, Call(call_id="call_1")).output
    'sent at noon'
    >>> asked(spec, Call(call_id="call_2")).happened
    False
    """
    if spec.probe is None:
        return Probed(None, error=f"tool {spec.name} has no probe")
    try:
        ask = Callback(spec.probe, _PROBED)
        answer = ask(call.context(), call.call_id, call.arguments)
    except BaseException as error:  # noqa: BLE001 -- an app's function must not end our thread
        why = f"the probe failed: {in_words(error, call.redactor)}"
        return Probed(None, error=why, frames=reported("probe_failed", spec, call, error))
    if answer is None:
        return Probed(happened=False)
    if not isinstance(answer, Happened):
        kind = type(answer).__name__
        why = f"the probe returned a {kind}: it must return Happened(output) or None"
        return Probed(None, error=why)
    outcome = returned(answer.output, spec, call.redactor)
    if outcome.status == "error":
        return Probed(None, error=outcome.error)
    return Probed(happened=True, output=outcome.output)


def reported(
    event: str, spec: ToolSpec, call: Call, error: BaseException, *hiding: Replacer
) -> tuple[str, ...]:
    """Tell operators of an error of a tool's code, with its stack; return the app's own frames."""
    about = {"tool": spec.name, "call": call.call_id, "conversation": call.conversation}
    return report(event, error, *hiding, call.redactor, **about)


def returned(
    value: object,
    spec: ToolSpec,
    *hiding: Replacer,
) -> Outcome:
    """Make an outcome of what a function returned: as JSON knows it, and within its limit.

    What is longer than that and no text is cut as the text of its JSON. Secrets are replaced
    before that: half of one would not be recognised any more. What is longer by far is refused
    before there is any copy of it.
    """
    if (refused := _too_heavy(value, spec)) is not None:
        return refused
    try:
        if isinstance(value, str):
            # An operating system's names need not be text; the log's must.
            value = value.encode("utf-8", "backslashreplace").decode()
        encoded = msgspec.json.encode(value, enc_hook=models.written)
        bare = msgspec.json.decode(encoded)
        if b"null" in encoded:
            _check_finite(value)
        discreet = bare
        for each in hiding or (DEFAULT,):
            discreet = each.value(discreet)
        if discreet != bare:
            value, encoded = discreet, msgspec.json.encode(discreet)
        if len(encoded) <= spec.max_output_bytes + 2 * isinstance(value, str):
            output = msgspec.json.decode(encoded)
            # The log is msgpack, where a whole number has 64 bits, and takes no depth without end.
            check_depth(msgspec.msgpack.encode(output), MAX_DEPTH)
            return Outcome("success", output)
    except Exception as error:  # noqa: BLE001 -- whatever an app's value makes of being encoded
        msg = (
            f"{spec.name} ran to its end, but what it returned (a {type(value).__name__}) "
            f"cannot be passed on as JSON: {in_words(error)}"
        )
        return Outcome("error", error=msg)
    text = msgspec.json.decode(encoded) if isinstance(value, str) else encoded.decode()
    cut, dropped = clip(text, spec.max_output_bytes)
    return Outcome("success", cut, truncated=dropped)


def _too_heavy(value: object, spec: ToolSpec) -> Outcome | None:
    """Return what is told of a value that is too large to be looked through; None if it is not."""
    most = max(MOST_RETURNED, 4 * spec.max_output_bytes)
    if not outweighs(value, most):
        return None
    msg = (
        f"{spec.name} ran to its end, but what it returned (a {type(value).__name__}) has more "
        f"than {most:,} bytes and cannot be passed on: return less, such as a part of it, or the "
        "name of a file that holds it"
    )
    return Outcome("error", error=msg)


def _check_finite(value: object) -> None:
    """Refuse a number that JSON does not know: it would be passed on as nothing at all."""
    ahead: list[object] = [msgspec.to_builtins(value, enc_hook=models.written)]
    while ahead:
        found = ahead.pop()
        if isinstance(found, dict):
            ahead += found.values()
        elif isinstance(found, list | tuple):
            ahead += found
        elif isinstance(found, float) and not math.isfinite(found):
            msg = f"{found} is no number there"
            raise ValueError(msg)


def fitted(outcome: Outcome, spec: ToolSpec, redactor: Redactor = DEFAULT) -> Outcome:
    """Return an outcome that can be kept: as it is, unless an app's own adapter made it otherwise.

    >>> fitted(Outcome("success", object()), ToolSpec(name="look")).status
    'error'
    """
    error = _within(str(outcome.error), redactor)
    if (refused := _too_heavy(outcome.output, spec)) is not None:
        status = refused.status if outcome.status == "success" else outcome.status
        return Outcome(status, error=" ".join(filter(None, (error, refused.error))))
    with contextlib.suppress(Exception):  # as above
        encoded = msgspec.msgpack.encode((outcome.output, error))
        check_depth(encoded, MAX_DEPTH)
        if outcome.truncated or len(encoded) <= spec.max_output_bytes + _ROOM:
            same = error == outcome.error
            return outcome if same else msgspec.structs.replace(outcome, error=error)
    made = returned(outcome.output, spec, redactor)
    status = made.status if outcome.status == "success" else outcome.status
    error = " ".join(filter(None, (error, made.error)))
    return Outcome(status, made.output, clip(error, MAX_ERROR_BYTES)[0], made.truncated)


def _within(error: str, redactor: Redactor) -> str:
    """Return an error cut to its limit: without secrets first, as half of one is not recognised."""
    # What lies around this cut goes with the next one.
    shorter = plain(clip(error, 16 * MAX_ERROR_BYTES)[0])
    cut, dropped = clip(shorter, MAX_ERROR_BYTES)
    return clip(redactor.text(shorter), MAX_ERROR_BYTES)[0] if dropped else cut


_ROOM: Final = 64 + MAX_ERROR_BYTES
"""What an error and the names of things may take beside an output."""


def digest(value: object) -> str:
    """Return a hash of `value` that does not depend on the order of its keys."""
    encoded = msgspec.json.encode(value, order="sorted")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()
