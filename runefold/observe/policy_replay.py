"""What a log's calls would have come to under another policy."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actors.tool.policy import Policy, judge
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


def judged(envelopes: Iterable[Envelope], policy: Policy) -> Iterator[Judged]:
    """Judge again every call among the runes that some policy had to judge.

    A call of no known tool, or with arguments that did not fit, was never a question of policy.
    """
    for envelope in envelopes:
        rune = envelope.payload
        if not isinstance(rune, Called) or rune.rule.verdict not in {"allow", "ask", "deny"}:
            continue
        rule = rune.rule
        facts = _Facts(rune.tool_name, rule.side_effects, rule.requires_approval)
        now = judge(policy, facts, rune.arguments)
        yield Judged(
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
