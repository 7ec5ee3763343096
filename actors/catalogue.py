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

MACHINES_TO_COME: Final = frozenset(
    {
        *("plan", "channel", "participant", "part", "run", "research", "hypothesis", "hyp"),
        *("task", "health", "worker", "resource", "episode", "epi", "memory", "provider", "mcp"),
    }
)
"""Names, prefixes and families of runes that machines of ours will have."""

CLI_VERBS: Final = frozenset(
    {
        *("acknowledge", "alerts", "answer", "approve", "archive", "close", "crash-test", "deny"),
        *("demo", "hand-over", "new-session", "spending"),
        *("history", "interrupt", "lifecycles", "log", "pause", "phases", "policy-check"),
        *("replenish", "resume", "send", "serve", "sessions", "suspend", "tree", "unsuspend"),
        *("verify",),
    }
)
"""Verbs of the command line. The name of a kind is the first word of its commands there, so no
kind, of ours or of an app, may be named like one."""

RESERVED: Final = {
    **dict.fromkeys(("conv", "child", "lost", "backup", "new", "stats"), "taken"),
    **dict.fromkeys(MACHINES_TO_COME, "taken by a machine that will be added to runefold"),
    **dict.fromkeys(CLI_VERBS, "taken by a verb of the command line"),
}
"""Every word that no app may take, and why: those above, and others that logs and tools use."""

COMMANDS: Final = KINDS.commands
"""What users may ask of the product's own kinds."""
CODEC: Final = KINDS.codec
"""Reads and writes the runes of the product's own kinds."""
