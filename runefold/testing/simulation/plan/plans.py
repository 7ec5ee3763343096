"""What is played: a world, what happens in it, and in which order everybody takes a step.

A plan is data and nothing else. It can be kept in a file, played again, and made smaller: wherever
it names something by number, the number is taken modulo what there is, so that a plan from which
parts were taken out still is one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Trouble: TypeAlias = Literal[
    "busy", "down", "refused", "raises", "cut_off", "garbage", "silent", "slow", "endless_wait"
]
"""What befalls one answer of a model."""
LineKind: TypeAlias = Literal["say", "call", "pause", "used", "unknown_tool", "bad_arguments"]
ToolKind: TypeAlias = Literal["look", "blind", "keyed", "probed", "asked", "agent", "hand_over"]
"""What is to be done about a call of it that is in doubt, or whom it reaches."""
RunKind: TypeAlias = Literal[
    "fine", "talks", "slow", "late", "raises", "raises_after", "hangs", "hangs_after"
]
"""How one run of a tool goes."""
ActKind: TypeAlias = Literal[
    "send",
    "resend",
    "wait",
    "interrupt",
    "pause",
    "resume",
    "suspend",
    "unsuspend",
    "replenish",
    "close",
    "archive",
    "spawn",
    "hand_over",
    "dismiss",
    "approve",
    "deny",
    "answer",
    "answer_again",
    "doze",
    "cut",
    "cut_at_append",
    "cut_in_tool",
    "cut_at_rune",
    "crash_at_rune",
    "no_room",
    "turn_away",
    "fail_sync",
    "overload",
    "crash",
    "kill",
    "jump",
    "reopen",
    "forget",
    "begin",
    "begin_again",
    "command",
]
"""What an app, its users or the machine do."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a model's answer."""

    kind: LineKind = "say"
    n: int = 0
    """How many fragments are said, which tool is called, how many tenths of a second pass."""


class Round(msgspec.Struct, frozen=True, omit_defaults=True):
    """One answer of a model, and what befalls its first attempts after so many lines."""

    lines: tuple[Line, ...] = ()
    troubles: tuple[tuple[Trouble, int], ...] = ()


class Word(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user says, and with that what a model answers, round by round."""

    rounds: tuple[Round, ...] = ()


class ToolPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool."""

    kind: ToolKind = "look"
    approval: bool = False
    parallel: bool = False
    timeout: int = 120
    approval_timeout: int = 86_400
    runs: tuple[RunKind, ...] = ()
    """How its runs go, over and over; fine if nothing is said."""
    agent: int = 0
    """Of a tool that is an agent: which."""
    grace: int = 0
    """Seconds within which it ends once it is told to; nought if it cannot be stopped."""
    deaf: bool = False
    """Whether it comes to its own end all the same: it is past the point where it could stop."""


class AgentPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """An agent; the first one is the root."""

    tools: tuple[int, ...] = ()
    retries: int = 3
    on_crash: Literal["retry", "interrupt"] = "retry"
    on_exhausted: Literal["suspend", "terminate"] = "suspend"
    turn_timeout: int = 1_800
    patience: int = 60
    """Seconds until the first byte, and of silence within a stream."""
    tokens: int = 0
    """What it may spend; nought is without limit."""
    calls: int = 0
    asks: int = 0
    seconds: int = 0


class World(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who and what there is."""

    agents: tuple[AgentPlan, ...] = (AgentPlan(),)
    tools: tuple[ToolPlan, ...] = ()
    words: tuple[Word, ...] = (Word(),)
    sessions: int = 1
    mode: Literal["full_access", "auto", "read_only"] = "full_access"
    tokens: int = 0
    """What a session may spend; nought is without limit."""
    calls: int = 0
    asks: int = 0
    seconds: int = 0
    idle_after: int = 60
    lazy_disk: bool = False
    """Whether what nobody waits for gets to disk only when time passes."""
    snapshot_every: int = 0
    """How many runes of a conversation are between two snapshots; nought is none at all."""
    app: str = ""
    """The app whose machines are played, as `package.module:name`; empty for none."""
    app_tools: tuple[ToolPlan, ...] = (ToolPlan(),)
    """How the tools of the app go, over and over; their names and parameters are the app's."""
    asynchronous: bool = False
    """Whether the model's answers are read on the event loop."""
    stalls: int = 0
    """How many steps apart, at least, the next alarm rings though others could take a step."""


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is done, so many steps after what was done before it."""

    kind: ActKind
    after: int = 0
    session: int = 0
    who: int = 0
    what: int = 0
    how: int = 0


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a run follows from."""

    seed: int = 0
    world: World = World()
    acts: tuple[Act, ...] = ()
    order: tuple[int, ...] | None = None
    """Who of those who could takes each step, the first in line beyond its end.

    None leaves it to the seed.
    """
    disorder: int = 0
    """How often, in a hundred, the seed lets another than the first in line go first."""


def encode(plan: Plan) -> str:
    """Return a plan as text, short enough for a test.

    >>> encode(Plan(seed=5, acts=(Act("send", what=1),)))
    '{"seed":5,"acts":[{"kind":"send","what":1}]}'
    """
    return msgspec.json.encode(plan).decode()


def decode(text: str | bytes) -> Plan:
    """Read a plan."""
    return msgspec.json.decode(text, type=Plan)
