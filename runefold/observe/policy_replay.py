"""What a log's calls would have come to under another policy."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.agent.runes import Spawning
from actors.session.runes import Created, SessionConfig
from actors.tool.context import Call
from actors.tool.policy import Policy
from actors.tool.policy import judged as judged_by
from actors.tool.runes import Called
from runefold.naming import imported
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runelog.rune import Envelope


class Judged(msgspec.Struct, frozen=True):
    """A call, how it was judged when it was made, and how it is judged now."""

    conversation: str
    event_id: int
    call_id: str
    tool: str
    was: str
    now: str
    reason: str
    """Why it is judged like that now."""
    rules: str
    """The hash of the rules that it was judged by."""

    @property
    def is_other(self) -> bool:
        """Whether it would have come out otherwise."""
        return self.was != self.now


class _Facts(msgspec.Struct, frozen=True):
    """What a policy looks at, as it was when the call was made."""

    name: str
    side_effects: bool
    requires_approval: bool


KINDS: Final = frozenset({"session.created", "agent.spawning", "tool.call"})
"""The runes that are needed of a conversation: its calls, and for whom they were made."""


def judged(envelopes: Iterable[Envelope], policy: Policy, app: object = None) -> Iterator[Judged]:
    """Judge again every call among the runes of a conversation that some policy had to judge.

    A call of no known tool, or with arguments that did not fit, was never a question of policy. A
    function is given a context as the log has it, its time that of the call; with `app` as the
    app's object. Without one, a function that asks for it fails, which counts as its denial.
    """
    config, names = SessionConfig(), dict[str, str]()
    for envelope in envelopes:
        match envelope.payload:
            case Created():
                config = envelope.payload.config
            case Spawning(agent_id=agent, name=name):
                names[agent] = name
            case Called() as rune if rune.rule.verdict in {"allow", "ask", "deny"}:
                call = Call(
                    call_id=rune.call_id,
                    arguments=rune.arguments,
                    conversation=envelope.conversation,
                    labels=config.labels,
                    client_id=config.client_id,
                    caller=rune.caller,
                    agent_id=rune.agent_id,
                    agent_name=names.get(rune.agent_id, ""),
                    app=app,
                    clock=partial(int, envelope.time),
                )
                yield _judged(envelope, rune, policy, call)
            case _:
                pass


def _judged(envelope: Envelope, rune: Called, policy: Policy, call: Call) -> Judged:
    rule = rune.rule
    facts = _Facts(rune.tool_name, rule.side_effects, rule.requires_approval)
    now = judged_by(policy, facts, rune.arguments, call.context())
    return Judged(
        envelope.conversation,
        envelope.event_id,
        rune.call_id,
        rune.tool_name,
        rule.verdict,
        now.verdict,
        now.reason,
        rule.rules_hash,
    )


def policy_of(reference: str) -> Policy:
    """Return a policy that is named as `package.module:policy`, or written in a file.

    A file, `.toml` or `.json`, has a `mode` and `rules`, as a `Policy` is made.
    """
    path = Path(reference)
    if path.suffix not in {".toml", ".json"}:
        found = imported(reference, "policy")
        if not isinstance(found, Policy):
            msg = f"{reference} is a {type(found).__name__} and no Policy"
            raise Refused(msg)
        return found
    return Policy(**_read(path))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        fields: Any = (
            tomllib.loads(content.decode())
            if path.suffix == ".toml"
            else msgspec.json.decode(content)
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        msg = f"{path} cannot be read: {why}"
        raise Refused(msg) from error
    if not isinstance(fields, dict) or not fields.keys() <= {"mode", "rules"}:
        msg = f"{path} is no policy: give it a mode and rules, nothing else"
        raise Refused(msg)
    return fields
