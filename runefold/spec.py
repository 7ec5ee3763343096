"""What an app says of its agents: who they are, what they may use, what they may spend."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypedDict

from actors.agent.runes import AgentConfig
from actors.budget.runes import Limits
from actors.session.members import Spawn
from actors.session.runes import SessionConfig
from actors.units import COST, SECOND
from runefold import checks
from runelog.errors import Refused
from runelog.rune import check_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from actors.kind import Kinds
    from actors.redaction.redactor import Redactor


_FRACTIONS: Final = {"wall_seconds": SECOND, "cost": COST}
"""What need not be a whole number, and in how many parts it is counted."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may be spent, by an agent with its children or by a whole session. None: no limit.

    >>> Budget(tokens=10_000, tool_calls=5).tokens
    10000
    >>> Budget(tokens=-5)
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: a budget of tokens=-5 is no budget: give a whole number, 0 or more
    """

    tokens: int | None = None
    tool_calls: int | None = None
    wall_seconds: float | None = None
    """Time of running turns."""
    retries: int | None = None
    sub_calls: int | None = None
    """Calls of other agents."""
    cost: float | Decimal | None = None
    """In whatever currency the providers count, such as 1.50 or `Decimal("1.50")`.

    Where a provider has a `price`, no call is made that might pass the limit. Where it has none,
    what a call costs is known only once it was made: the one that reaches the limit may go past
    it, and none is made after that.
    """

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            try:
                if name in _FRACTIONS:
                    checks.number(value, name, zero=True)
                else:
                    checks.count(value, name)
                # One that is less than the least that is counted would be no budget either.
                fits = not value or round(value * _FRACTIONS.get(name, 1)) > 0
            except Refused:
                fits = False
            if not fits:
                kind = "number" if name in _FRACTIONS else "whole number"
                shown = checks.shown(value)
                msg = f"a budget of {name}={shown} is no budget: give a {kind}, 0 or more"
                raise Refused(msg)

    def limits(self) -> Limits:
        """Return it as it is stored: whole numbers.

        >>> Budget(wall_seconds=0.5).limits().wall  # nanoseconds
        500000000
        """
        return Limits(
            tokens=self.tokens,
            tool_calls=self.tool_calls,
            wall=None if self.wall_seconds is None else round(self.wall_seconds * SECOND),
            retries=self.retries,
            sub_calls=self.sub_calls,
            cost=None if self.cost is None else round(self.cost * COST),
        )


def check_room(budget: Budget, agent: AgentSpec, whose: str) -> None:
    """Refuse a limit of tokens under which an agent could not even make its first call.

    What its model may answer is set aside before each call. A limit of 0 is meant: it may not call.
    """
    cap = agent.max_output_tokens
    if budget.tokens and budget.tokens < cap:
        msg = (
            f"agent {agent.name or agent.role}: {whose} budget of {budget.tokens:,} tokens has no "
            f"room for one answer, for which max_output_tokens={cap:,} are set aside: raise the "
            "one or lower the other"
        )
        raise Refused(msg)


def checked_budget(given: object, whose: str) -> Budget:
    """Return a budget, or refuse what is none.

    >>> checked_budget(10_000, "agent helper:")
    Traceback (most recent call last):
    ...
    runelog.errors.Refused: agent helper: budget is 10000: give a Budget
    """
    if not isinstance(given, Budget):
        msg = f"{whose} budget is {checks.shown(given)}: give a Budget"
        raise Refused(msg)
    return given


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """An agent, as an app describes it.

    `on_exhausted` says what follows when its own budget is spent: `"suspend"` has the session wait
    for a hand, `"terminate"` ends the agent. A model that has not begun to answer after
    `first_byte_timeout` seconds, or pauses for `silence_timeout`, has failed; after an error that
    may pass it is asked again, up to `retries` times in one round.

    >>> AgentSpec(role="helper", model="demo", tools=["add"]).role
    'helper'
    """

    role: str
    """What it is, in a word or two."""
    model: str
    """The name of a registered provider."""
    name: str = ""
    """What it is called in its session, where no other is called so; by default its role."""
    instructions: str = ""
    """What its model is told before everything else."""
    tools: Sequence[str] = ()
    """The names of registered tools."""
    can_ask: Sequence[str] = ()
    """The names of the agents of its session that it may ask."""
    can_hand_over_to: Sequence[str] = ()
    """The names of those that it may hand the conversation over to."""
    budget: Budget = field(default_factory=Budget)
    on_exhausted: Literal["suspend", "terminate"] = "suspend"
    """When its own budget is spent: the session waits for a hand, or the agent ends."""
    on_crash: Literal["retry", "interrupt"] = "retry"
    """What becomes of a turn that was streaming when the process died."""
    retries: int = 3
    """How often a model is asked again in one round, after a crash or an error that may pass."""
    max_rounds: int = 50
    """How often its model may answer in one turn. If the last of these answers asks for tools, none
    of them runs, and the turn ends with the error `too_many_rounds`."""
    turn_timeout: float = 30 * 60.0
    """Seconds that a turn may take; the time that it waits for a human is not counted."""
    first_byte_timeout: float = 60.0
    """Seconds until a model must have begun to answer; if not, the call has failed."""
    silence_timeout: float = 60.0
    """Seconds that a model may pause within an answer; if it pauses longer, the call has failed."""
    max_output_tokens: int = 4096
    """The most tokens of one answer; they are set aside from the budget before each call."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        for name in ("tools", "can_ask", "can_hand_over_to"):
            _check_names(name, getattr(self, name))
        for name in ("role", "model", "instructions", "name"):
            checks.text(getattr(self, name), f"an agent's {name}")
        if not self.role:
            msg = "an agent has a role: say in a word or two what it is"
            raise Refused(msg)
        whose = f"agent {self.role}:"
        for each in self.tools:
            checks.text(each, f"{whose} the name of a tool")
        for each in (*self.can_ask, *self.can_hand_over_to):
            checks.text(each, f"{whose} the name of an agent")
        if (self.name or self.role) in {*self.can_ask, *self.can_hand_over_to}:
            msg = f"{whose} it cannot ask itself, nor hand over to itself: name other agents"
            raise Refused(msg)
        for name in ("turn_timeout", "first_byte_timeout", "silence_timeout"):
            checks.number(getattr(self, name), f"{whose} {name}")
        checks.count(self.max_output_tokens, f"{whose} max_output_tokens", least=1)
        checks.count(self.max_rounds, f"{whose} max_rounds", least=1)
        checks.count(self.retries, f"{whose} retries")
        checks.choice(self.on_crash, f"{whose} on_crash", ("retry", "interrupt"))
        checks.choice(self.on_exhausted, f"{whose} on_exhausted", ("suspend", "terminate"))
        check_room(checked_budget(self.budget, whose), self, "its")

    def config(self) -> AgentConfig:
        """Return it as it is stored.

        >>> AgentSpec(role="helper", model="demo", tools=["add"]).config().tools
        ('add',)
        """
        return AgentConfig(
            instructions=self.instructions,
            tools=tuple(self.tools),
            budget=self.budget.limits(),
            on_exhausted=self.on_exhausted,
            max_rounds=self.max_rounds,
            retries=self.retries,
            on_crash=self.on_crash,
            turn_timeout=round(self.turn_timeout * SECOND),
            first_byte_timeout=round(self.first_byte_timeout * SECOND),
            silence_timeout=round(self.silence_timeout * SECOND),
            max_output_tokens=self.max_output_tokens,
            asks=tuple(self.can_ask),
            hands_over_to=tuple(self.can_hand_over_to),
        )

    def spawn(self, agent_id: str, parent: str | None = None, *, only: bool = False) -> Spawn:
        """Return the command that brings it into a session.

        >>> AgentSpec(role="helper", model="demo", name="Ada").spawn("agt_1").name
        'Ada'
        """
        return Spawn(
            agent_id, self.role, self.model, parent, self.config(), name=self.name, only=only
        )


def check_agent(given: object) -> None:
    """Refuse what describes no agent."""
    if not isinstance(given, AgentSpec):
        msg = f"an agent is described by an AgentSpec, not by a {type(given).__name__}"
        raise Refused(msg)


def _check_names(what: str, value: object) -> None:
    if isinstance(value, str):
        msg = f"{what}={value!r} is one string: give a list of names"
        raise Refused(msg)
    if not isinstance(value, Collection):
        # What can be gone through only once would be gone when it is needed.
        msg = f"an agent's {what} are {checks.shown(value)}: give a list of names"
        raise Refused(msg)


def check_team(team: Sequence[AgentSpec]) -> None:
    """Refuse agents of one name, and one that reaches for another that is not among them."""
    names: set[str] = set()
    for each in team:
        if (name := each.name or each.role) in names:
            msg = f"there are two agents {name} in the team: give one of them another name"
            raise Refused(msg)
        names.add(name)
    for each in team:
        if missing := sorted({*each.can_ask, *each.can_hand_over_to} - names):
            known = ", ".join(sorted(names))
            msg = (
                f"agent {each.name or each.role}: there is no agent {missing[0]} in its team; "
                f"there are: {known}"
            )
            raise Refused(msg)


def check_client(session: str, whose: str, given: str) -> None:
    """Refuse to give a session to another client than it was begun for, if one is named."""
    if given and whose != given:
        owner = f"client {whose!r}" if whose else "no client"
        msg = f"{session} belongs to {owner}: it is not given to {given!r}; use another id"
        raise Refused(msg)


class SessionOptions(TypedDict, total=False):
    """What a session can begin with, beside its agents."""

    budget: Budget | None
    """What all its agents may spend together."""
    labels: Mapping[str, str] | None
    """Whatever the app wants to find it by: `runtime.sessions(labels=...)`."""
    client_id: str
    """An id of the user or customer it is for: tools and policies find it in their `Context`."""
    failed_turns: int
    """So many failed turns in a row suspend it."""
    unclean_opens: int
    """So many opens that each followed a crash, without a result in between, suspend it."""
    timeouts: Mapping[str, float] | None
    """Seconds by `kind.phase`, for machines that are to have another time-out than their law's."""


_DEFAULTS: Final = SessionConfig()


def config_of(
    kinds: Kinds,
    redactor: Redactor,
    *,
    budget: Budget | None = None,
    labels: Mapping[str, str] | None = None,
    client_id: str = "",
    failed_turns: int = _DEFAULTS.failed_turns,
    unclean_opens: int = _DEFAULTS.unclean_opens,
    timeouts: Mapping[str, float] | None = None,
) -> SessionConfig:
    """Return the options of a session as they are stored, or refuse what makes no sense."""
    return SessionConfig(
        budget=checked_budget(Budget() if budget is None else budget, "a session's").limits(),
        failed_turns=checks.count(failed_turns, "failed_turns", least=1),
        unclean_opens=checks.count(unclean_opens, "unclean_opens", least=1),
        timeouts=checks.timeouts(timeouts, kinds),
        labels=checks.labels(labels),
        client_id=check_id(redactor.value(client_id), "client id") if client_id else "",
    )
