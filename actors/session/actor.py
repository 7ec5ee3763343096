"""Makes a session happen: has its agents live, its messages taken up, and its callers answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from msgspec.structs import replace

from actors.agent import runes as agents
from actors.children import ReportEnd
from actors.common_commands import Cancel
from actors.errors import Dead
from actors.process.process import Answer, Down, Reason
from actors.session.members import Spawn, member
from actors.session.messages import (
    Await,
    Ended,
    Interrupt,
    Look,
    Refusal,
    Send,
    Sent,
    ended,
    is_handed_over,
)
from actors.session.queue import Accept, Begin, BeginTurn, InterruptTurn, Withdraw, message_entity
from actors.session.runes import InputAccepted, InputRefused
from actors.session.suspension import is_stuck
from actors.shell.root import Root
from actors.shell.signals import Wake
from actors.tool.public_commands import is_paused, lets_run
from actors.turn import runes as turns
from runelog.errors import LogFull, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.public_command import Forward
    from actors.session.lifecycle import Action
    from actors.shell.conversation import ConversationContext
    from runelog.rune import Rune


class SessionActor(Root):
    """A session."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before replay."""
        super().__init__(ctx, me)
        self._waiting: dict[str, list[Answer]] = {}
        self._turns: dict[str, str] = {}
        """Which message a turn answers, of those that are running."""
        self._halts: dict[str, Cancel] = {}
        """Turns that were told to stop, why and by whom, until they have ended."""

    def on_start(self) -> None:
        """Take over, with the turns that are running."""
        super().on_start()
        self._turns = {each.turn_id: each.message_id for each in self.state.running}
        self.watch(self._ended)

    def _ended(self, down: Down) -> None:
        """Fail the callers of an actor that was killed, for which no hook is called."""
        if down.exit.reason is Reason.KILLED:
            self.lane.run(self._dismiss)

    def on_stop(self) -> None:
        """Fail the callers that wait for a turn to end, so that they ask again."""
        self._dismiss()
        super().on_stop()

    def on_failure(self, *about: object) -> None:
        """Fail the callers that wait for a turn to end: the next actor does not know them."""
        self._dismiss()
        super().on_failure(*about)

    def _dismiss(self) -> None:
        for message_id, waiting in self._waiting.items():
            for each in waiting:
                each.fail(Dead(f"{self.name} has ended: it cannot tell how {message_id} ends"))
        self._waiting.clear()

    def is_done(self) -> bool:
        """Stay until it is passivated: a session that is archived can still be asked about."""
        return False

    def is_idle(self) -> bool:
        """Stay awake with a message that is not admitted, so that `Rested` can be recorded."""
        held_up = any(isinstance(effect, BeginTurn) for effect in self._under_way)
        return super().is_idle() and not held_up

    # -- messages -----------------------------------------------------------------------------

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand a message to an agent; whether it came before is asked of the log."""
        match message:
            case Send(message_id, content, mode, to, own_id, asked_in):
                return Accept(
                    message_id=message_id,
                    content=content,
                    now=self._now(),
                    mode=mode,
                    to=to,
                    earlier=self._earlier(message_id) if own_id else None,
                    begin=self.ctx.services.gate.admits(asked_in),
                    asked_in=asked_in,
                )
            case Spawn(agent_id) if member(self.state.members, agent_id) is None:
                known = self._is_there(agent_id)
                return replace(message, known=known)
            case Await() | Look() | Interrupt() | Wake():
                return None
            case _:
                return super().understand(message)

    def _earlier(self, message_id: str) -> InputAccepted | None:
        found = self.ctx.birth(message_entity(message_id))
        assert found is None or isinstance(found, InputAccepted)
        return found

    def _is_there(self, entity: str) -> bool:
        self.ctx.sync()
        return self.ctx.log.version(self.ctx.conversation, entity) > 0

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Carry out a command; a caller that waits for a turn is answered when that has ended."""
        before = self.event
        answer = super().on_receive(message)
        match message:
            case Send(message_id, own_id=own_id) if answer is self.state:
                return Sent(message_id, 0 if own_id else before, self._end_of(message_id))
            case Await(message_id, halt):
                if halt is not None:
                    self._interrupt(halt, again=True)
                return _Later(message_id)
            case Interrupt():
                return self._interrupt(message)
            case _:
                return answer

    def _reply(self, reply_to: Any, answer: object) -> None:  # noqa: ANN401 -- pykka's
        if isinstance(answer, _Later):
            self._promise(answer.message_id, reply_to)
        else:
            super()._reply(reply_to, answer)

    def _end_of(self, message_id: str) -> Answer | None:
        """Return an answer for the end of a message's turn, which senders mostly ask for next."""
        end = Answer()
        return end if self._will_tell(message_id, end) else None

    def _will_tell(self, message_id: str, reply_to: Answer) -> bool:
        """Answer a caller when a message's turn ends; return False if it has ended already."""
        state = self.state
        if any(message_id == each.message_id for each in (*state.running, *state.waiting)):
            self._waiting.setdefault(message_id, []).append(reply_to)
            return True
        return False

    def _promise(self, message_id: str, reply_to: Any) -> None:  # noqa: ANN401 -- pykka's
        """Answer when a message's turn has ended; now, if it has already."""
        if self._will_tell(message_id, reply_to):
            return
        self.ctx.sync()
        found = ended(self.ctx.log, self.ctx.conversation, message_id)
        unknown = Refused(f"{self.ctx.conversation} has no message {message_id}")
        super()._reply(reply_to, unknown if found is None else found)

    def why_not(self, order: Forward) -> str:
        """Return why a command cannot be passed on: its agent is gone, or nothing may run."""
        if order.kind == agents.NAME and member(self.state.members, order.entity) is None:
            return f"there is no agent {order.entity} any more in {self.ctx.conversation}"
        if is_stuck(self.state) and lets_run(order.message):
            return (
                f"session is {self.state.phase.value}: it kept failing, so that no tool runs in it "
                f"until it is unsuspended; do that first, then answer for {order.entity}"
            )
        if lets_run(order.message) and self.ctx.is_halted(self.caller_of(order.entity)):
            return is_paused(order.entity)
        return ""

    def on_folded(self, rune: Rune) -> None:
        """Answer the callers that wait for a turn that has ended, once that is on disk."""
        match rune:
            case turns.Completed() | turns.Interrupted() | turns.Error():
                self._halts.pop(rune.turn_id, None)
                message_id = self._turns.pop(rune.turn_id, None)
                if message_id is not None and not is_handed_over(rune):
                    self._tell_all(message_id, Ended(rune.turn_id, rune))
            case turns.Started(turn_id=turn_id, message_id=message_id):
                self._turns[turn_id] = message_id
            case InputRefused(message_id, reason):
                self._tell_all(message_id, Refusal(message_id, reason))
            case _:
                pass

    def _tell_all(self, message_id: str, answer: object) -> None:
        for waiting in self._waiting.pop(message_id, []):
            self.ctx.answer(_giving(waiting, answer), _failing(waiting, message_id))

    def _interrupt(self, wish: Interrupt, *, again: bool = False) -> list[str]:
        """Stop turns that run, said `again` only those not told yet; return their messages."""
        stop = Cancel(wish.reason, wish.actor)
        only, state = wish.turns, self.state
        running = [each for each in state.running if not only or each.turn_id in only]
        for each in running:
            if not again or each.turn_id not in self._halts:
                self._stop_turn(each.turn_id, stop)
        return [each.message_id for each in running]

    # -- effects ------------------------------------------------------------------------------

    def perform(self, effect: Action) -> None:
        """Do what is due."""
        match effect:
            case BeginTurn(_, message_id):
                waiting = self.state.waiting
                asked = [each.asked_in for each in waiting if each.message_id == message_id]
                if self.ctx.services.gate.admits(*asked):
                    self.carry_out(Begin(message_id, self._now()))
            case InterruptTurn(turn_id, reason, actor):
                self._stop_turn(turn_id, Cancel(reason, actor))
            case ReportEnd():
                super().perform(effect)
            case _:
                assert_never(effect)

    def resend_to(self, entity: str) -> None:
        """Stop a turn anew that was to stop and begins anew."""
        super().resend_to(entity)
        if any(each.turn_id == entity for each in self.state.running):
            stop = self._halts.get(entity)
            if stop is not None:
                self._stop_turn(entity, stop)

    def _stop_turn(self, turn_id: str, stop: Cancel) -> None:
        agent = next(each.agent_id for each in self.state.running if each.turn_id == turn_id)
        # What it has asked others and they have not taken up is not asked any more.
        self.carry_out(Withdraw(f"the turn that asks is stopped: {stop.reason}", turn_id))
        # The first reason counts, even if the turn's actor crashes over it and it is due no more.
        self.ctx.children.ensure(turns.NAME, turn_id, agent)
        self.ctx.tell(turn_id, self._halts.setdefault(turn_id, stop))


class _Later(NamedTuple):
    message_id: str


def _giving(waiting: Answer, answer: object) -> Callable[[], None]:
    return lambda: waiting.set(answer)


def _failing(waiting: Answer, message_id: str) -> Callable[[Exception], None]:
    def fail(error: Exception) -> None:
        if isinstance(error, LogFull):
            # It has not ended after all: the caller asks again.
            error = Dead(f"there was no room for how {message_id} ended: {error}")
        waiting.fail(error)

    return fail
