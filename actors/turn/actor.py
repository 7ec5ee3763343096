"""Makes a turn happen: asks the model, has its calls made, and ends when there are no more."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from actors.agent.actor import KITS
from actors.agent.history import HISTORIES, RUNES, History
from actors.budget import lifecycle as ledger
from actors.budget import wall
from actors.budget.runes import Amounts, Exhausted, Reserved, Warning  # noqa: A004 -- its kind
from actors.budget.sums import tokens_of
from actors.clock import SECOND
from actors.commands import Cancel, TimeUp
from actors.model import runes as model
from actors.model.lifecycle import TIMEOUT
from actors.model.prompted import PROMPTS, Prompted
from actors.shell import NEAR, Shell
from actors.telling import tell_of_birth
from actors.tool.commands import Go
from actors.turn.clock import is_over, next_key
from actors.turn.commands import (
    Ask,
    AskModel,
    ClockEffect,
    CloseRound,
    Complete,
    Effect,
    Ending,
    EnsureModel,
    EnsureTool,
    Fail,
    FinishEarly,
    FinishTurn,
    GiveUp,
    GoOn,
    Halt,
    HoldUp,
    Interrupt,
    ReceiveCalls,
    Release,
    RestartStream,
    Run,
    Stand,
    StartClock,
    StopClock,
    TakeCalls,
    Tick,
)
from actors.turn.lifecycle import time_limit
from actors.turn.said import asked_for, forget, said
from actors.turn.state import Phase, before_it, under_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.agent.actor import Kit, Ruling
    from actors.hall import Hall
    from actors.ports import Steps
    from runelog.rune import Rune

FIRST_PAUSE: Final = 0.5
"""Seconds before a model is asked again for the first time; then twice as long each time."""
LONGEST_PAUSE: Final = 30.0


class Stop(Cancel, frozen=True):
    """Stop the turn at the next safe boundary; answered once it has ended."""


class Judged(NamedTuple):
    """It was said of each call that the model asks for what is to become of it."""

    effect: ReceiveCalls
    rules: Sequence[Ruling]


class TurnActor(Shell):
    """One turn of an agent."""

    def __init__(self, hall: Hall, me: str) -> None:
        """Begin before anything is asked."""
        super().__init__(hall, me)
        self._rested: AskModel | None = None
        self._asked: dict[str, tuple[model.AskedCall, ...]] = {}
        self._halting: Cancel | None = None
        """Why it is to end as soon as nothing is under way, and who wants it; None if it is not."""

    # -- history ------------------------------------------------------------------------------

    def on_start(self) -> None:
        """Take over; after a crash the history is read from the log again."""
        super().on_start()
        if self.replayed:
            self.hall.trays[HISTORIES].pop(self.state.agent_id, None)

    @property
    def _kit(self) -> Kit:
        return self.hall.trays[KITS][self.state.agent_id]

    def _history(self) -> History:
        histories = self.hall.trays[HISTORIES]
        history = histories.get(self.state.agent_id)
        if history is None:
            self.hall.settle()
            history = History.read(
                self.hall.log, self.hall.conversation, self.state.agent_id, self.event
            )
            histories[self.state.agent_id] = history
        return history

    def believed(self, rune: Rune) -> None:
        """Take what happened into the history, if that is at hand."""
        if type(rune) is model.Completed:
            self._asked = {rune.model_call_id: rune.calls}
        if type(rune) in RUNES:
            history = self.hall.trays[HISTORIES].get(self.state.agent_id)
            if history is not None:
                history.take(rune, self._said)

    def _said(self, model_call_id: str) -> str:
        return said(self.hall, model_call_id)

    # -- messages -----------------------------------------------------------------------------

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand a wish to stop as cancelling what is under way; the law does the rest."""
        match message:
            case Stop(reason, actor):
                return self._halt(Cancel(reason, actor))
            case TimeUp(now) if not self._is_late(now):
                return self._stretch(now) if is_over(self.state, now) else None
            case TimeUp():
                # Also if nothing is under way any more: what was said until then is kept.
                late = Cancel(TIMEOUT, "timeout")
                self._cancel(late)
                self._halting = self._halting or late
                return None
            case Judged(effect, rules):
                # The turn may have ended meanwhile.
                if effect in self.kind.lifecycle.due(self.state):
                    self._take(effect, rules)
                return None
            case _:
                return super().understand(message)

    def near(self) -> int | None:
        """Return when most of the turn's time has passed."""
        by, kit = time_limit(self.state), self.hall.trays[KITS].get(self.state.agent_id)
        # Without its agent it is about to be stopped anyway.
        return None if by is None or kit is None else by - kit.config.turn_timeout // NEAR

    def _is_late(self, now: int) -> bool:
        limit = time_limit(self.state)
        return limit is not None and now >= limit

    def _halt(self, wish: Cancel) -> Interrupt | None:
        """Cancel what is under way, and remember why: it may come to its end by itself before."""
        if not self._cancel(wish):
            return Interrupt(wish.reason, self._text_so_far(), wish.actor, self._now())
        self._halting = self._halting or wish
        return None

    def _cancel(self, wish: Cancel) -> bool:
        """Cancel what is under way; tell whether anything was."""
        kind = "model" if self.state.phase is Phase.STREAMING else "tool"
        for entity in (going := under_way(self.state)):
            # After a restart we may be asked to stop before they are there.
            self.hall.children.ensure(kind, entity, self.state.agent_id)
            self.hall.tell(entity, wish)
        return bool(going)

    def _now(self) -> int:
        return self.hall.offices.clock.now()

    def _end_if_still(self, wish: Cancel) -> None:
        """End now, as that was asked for, if nothing is under way any more."""
        if under_way(self.state) or not self.kind.is_open(self.state):
            return
        self._halting = None
        text = self._text_so_far()
        now = self._now()
        if wish.actor == "timeout":
            self.carry_out(Fail(TIMEOUT, "the turn took longer than it may", text, now))
        else:
            self.carry_out(Interrupt(wish.reason, text, wish.actor, now))

    def _text_so_far(self) -> str:
        # Between two attempts, that of the one that failed is all there is.
        return said(self.hall, self.state.model_call_id or before_it(self.state))

    # -- effects ------------------------------------------------------------------------------

    def perform(self, effect: Effect) -> None:
        """Do what is due."""
        match effect:
            case AskModel() | ReceiveCalls() if self.state.agent_id not in self.hall.trays[KITS]:
                # Its agent is not there: gone, and it is about to be stopped; or yet to come.
                clock = self.hall.offices.clock
                clock.at(clock.now() + round(FIRST_PAUSE * SECOND), lambda: self.again(effect))
            case AskModel():
                self._ask(effect)
            case EnsureModel(model_call_id):
                self.hall.children.ensure("model", model_call_id, self.state.agent_id)
            case ReceiveCalls():
                self._receive(effect)
            case EnsureTool(call_id):
                self.hall.children.ensure("tool", call_id, self.state.agent_id)
            case Release(call_id):
                self._release(call_id)
            case FinishTurn() | FinishEarly() | GiveUp():
                self._conclude(effect)
            case StartClock() | Tick() | StopClock() | Halt():
                self._keep_time(effect)
            case CloseRound() | RestartStream() | HoldUp() | GoOn():
                pass  # internal
            case _:
                assert_never(effect)

    def _conclude(self, effect: Ending) -> None:
        text, now = said(self.hall, effect.model_call_id), self._now()
        match effect:
            case FinishTurn():
                self.carry_out(Complete(text, now))
            case FinishEarly(_, reason, actor):
                self.carry_out(Interrupt(reason, text, actor, now))
            case GiveUp(_, error_type, message):
                self.carry_out(Fail(error_type, message, text, now))
            case _:
                assert_never(effect)

    def _keep_time(self, effect: ClockEffect) -> None:
        match effect:
            case StartClock():
                self.carry_out(self._stretch(self._now()))
            case StopClock():
                self.carry_out(Stand(self._now()))
            case Halt(reason):
                self._cancel(Cancel(reason, "system"))
            case Tick():
                pass  # it passes by itself, and the deadline says when it has
            case _:
                assert_never(effect)

    def _stretch(self, now: int) -> Run:
        """Ask the budget for more time; what has passed counts, be it used or set aside."""
        account, state = self.hall.ward("budget").state, self.state
        length, key = wall.stretch(account, state.agent_id), next_key(state)
        amounts = Amounts(wall=max(length, 1))
        return Run(now, length, ledger.check(account, state.agent_id, amounts, key))

    def _ask(self, effect: AskModel) -> None:
        clock = self.hall.offices.clock
        if effect.attempt and self._rested != effect:
            self._rested = effect
            longest = min(FIRST_PAUSE * 2 ** (effect.attempt - 1), LONGEST_PAUSE)
            pause = self.hall.offices.chance.between(longest / 2, longest)
            clock.at(clock.now() + round(pause * SECOND), lambda: self.again(effect))
            return
        kit = self._kit
        provider = kit.provider
        if provider is None:
            self.carry_out(Fail("unknown_model", kit.missing, self._text_so_far(), clock.now()))
            return
        history = self._history()
        sent = tokens_of(history.characters + kit.characters)
        reserved = Amounts(
            tokens=sent + kit.config.max_output_tokens,
            retries=1 if effect.attempt else 0,
            cost=self._cost(sent, kit),
        )
        exhausted, warnings = self._afford(effect.model_call_id, reserved)
        now = clock.now()
        facts = {
            "model": kit.model,
            "system": kit.system,
            "tools": kit.tools,
            "max_output_tokens": kit.config.max_output_tokens,
            "conversation": self.hall.conversation,
            "agent_id": self.state.agent_id,
            "turn_id": self.me,
            "round": effect.round,
            "attempt": effect.attempt,
        }
        waits = kit.config.first_byte_timeout, kit.config.silence_timeout
        prompted = Prompted(provider, history, waits, facts)
        self.hall.trays[PROMPTS][effect.model_call_id] = prompted
        self.carry_out(
            Ask(
                model_call_id=effect.model_call_id,
                upto=self.event,
                prompt=kit.hash,
                reserved=reserved,
                first_byte_by=now + kit.config.first_byte_timeout,
                turn_by=now + kit.config.turn_timeout,
                exhausted=exhausted,
                warnings=warnings,
                now=now,
                sent=sent,
                text="" if exhausted is None else self._text_so_far(),
            )
        )

    def _cost(self, sent: int, kit: Kit) -> int:
        """Return what a call may cost; without a price, something where cost is limited."""
        if kit.price is not None:
            return kit.price.of(sent, kit.config.max_output_tokens)
        account = self.hall.ward("budget").state
        if ledger.is_limited(account.scopes):
            for each in ledger.lineage(account, self.state.agent_id):
                if each.limits.cost is not None:
                    return 1
        return 0

    def _afford(self, key: str, amounts: Amounts) -> tuple[Exhausted | None, tuple[Warning, ...]]:
        """Ask the budget; return what it says against it, or what it warns of."""
        found = ledger.reserve(self.hall.ward("budget").state, key, self.state.agent_id, amounts)
        if isinstance(found, Exhausted):
            return found, ()
        warnings: tuple[Warning, ...] = ()
        for rune in found:
            if isinstance(rune, Warning):
                warnings += (rune,)
            else:
                assert isinstance(rune, Reserved), rune
        return None, warnings

    def _receive(self, effect: ReceiveCalls) -> None:
        """Have it judged what may be called; by a function of the app's beside the lane.

        That may take its time, and the turn can be stopped meanwhile.
        """
        kit, asked = self._kit, self._asked_for(effect.model_call_id)
        if not kit.judged_by_hand:
            self._take(effect, kit.rules(asked))
            return

        def steps() -> Steps:
            yield None
            return partial(self.ref.notify, Judged(effect, kit.rules(asked)))

        self.hall.offices.scheduler.work(f"{self.name} policy", steps())

    def _asked_for(self, model_call_id: str) -> tuple[model.AskedCall, ...]:
        return self._asked.get(model_call_id) or asked_for(self.hall, model_call_id)

    def _take(self, effect: ReceiveCalls, rules: Sequence[Ruling]) -> None:
        """Have the calls made, by what was said of them."""
        account, asked = self.hall.ward("budget").state, self._asked_for(effect.model_call_id)
        plans = self._kit.plans(asked, rules, self.me, self._now(), account)
        refused = self.carry_out(TakeCalls(plans))
        assert refused is None, refused
        for call in self.state.calls:
            if call.status is not None:
                # It was over as soon as it was born: no actor comes for it that could tell.
                tell_of_birth(self.hall, call.call_id)

    def missed(self, entity: str) -> None:
        """Cancel anew what was cancelled and begins anew."""
        super().missed(entity)
        if self._halting is not None and entity in under_way(self.state):
            self.hall.tell(entity, self._halting)

    def _release(self, call_id: str) -> None:
        self.hall.tell(call_id, Go(now=self._now()))

    def on_stop(self) -> None:
        """Count the time until now: whoever goes on with the turn cannot know it any more."""
        if self.state.stretch is not None and self.hall.broken is None:
            self.carry_out(Stand(self._now(), anyhow=True))
        super().on_stop()

    def is_idle(self) -> bool:
        """Tell whether it waits for nothing but a human, or others."""
        at_work = any(isinstance(e, AskModel | ReceiveCalls) for e in self._under_way)
        return super().is_idle() and not at_work

    def held_up(self) -> tuple[str, ...]:
        """Name the calls that ask an agent which waits for a human."""
        return tuple(call.call_id for call in self.state.calls if call.asked and not call.status)

    def act(self) -> None:
        """Do what is due; once it is over, forget the words of its model calls."""
        if self._halting is not None:
            self._end_if_still(self._halting)
        super().act()
        if not self.kind.is_open(self.state):
            forget(self.hall, self.me)
