"""Every machine there is: one line each. Apps add theirs with `Runtime.open(kinds=[...])`."""

from __future__ import annotations

from typing import Final

from actors.agent.kind import KIND as AGENT
from actors.approval.kind import KIND as APPROVAL
from actors.budget.kind import KIND as BUDGET
from actors.kind import Kinds
from actors.model.kind import KIND as MODEL
from actors.request.kind import KIND as REQUEST
from actors.session.kind import KIND as SESSION
from actors.system.kind import KIND as SYSTEM
from actors.tool.kind import KIND as TOOL
from actors.turn.kind import KIND as TURN

KINDS: Final = Kinds(
    (
        SESSION,
        AGENT,
        TURN,
        MODEL,
        TOOL,
        APPROVAL,
        BUDGET,
        REQUEST,
        SYSTEM,
    )
)
"""The kinds of the product; their codec reads and writes its runes."""

RESERVED: Final = frozenset(
    {
        *("plan", "channel", "participant", "part", "run", "research", "hypothesis", "hyp"),
        *("task", "health", "worker", "resource", "episode", "epi", "memory", "provider"),
        *("mcp", "conv", "child", "log", "lost"),
        # Verbs of the command line: a kind's name is the first word of its commands there.
        *("alerts", "answer", "approve", "archive", "close", "deny", "history", "interrupt"),
        *("lifecycles", "pause", "phases", "replenish", "resume", "send", "sessions", "suspend"),
        *("tree", "unsuspend", "verify", "new", "backup", "stats"),
    }
)
"""Names and prefixes that machines of ours will have, and other words that no app may take."""

COMMANDS: Final = KINDS.commands
"""What users may ask of the product's own kinds."""
CODEC: Final = KINDS.codec
"""Reads and writes the runes of the product's own kinds."""
