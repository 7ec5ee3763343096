"""The supervisor, in the manner of OTP: the mailbox, one plan at a time, and what it can be asked.

While a plan is under way, everything else that comes in waits its turn, as it would in a mailbox of
OTP: ends of children, requests, and the request to stop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from actors.errors import Overloaded, StartFailed
from actors.operator_log import log
from actors.process.process import SHUTDOWN, Answer, Down, Exit, Ref
from runelog.errors import Refused
from supervisors.child import Child, count
from supervisors.child_manager import ChildManager, PauseOver, TryAgain
from supervisors.errors import BadSpec, NotDone, Why
from supervisors.links import Promise
from supervisors.messages import (
    CountChildren,
    DeleteChild,
    Look,
    RestartChild,
    StartChild,
    StartDynamic,
    State,
    TerminateChild,
    WhichChildren,
)

if TYPE_CHECKING:
    from supervisors.child_manager import NotStarted, Plan
    from supervisors.child_spec import ChildSpec


class _Leave(NamedTuple):
    """Stop all children, then end."""

    how: Exit


class Supervisor(ChildManager):
    """Keeps its children alive, and does with them what it is asked to."""

    # -- beginning and ending -----------------------------------------------------------------

    def launch(self) -> Ref:
        """Start all children, in order; if one fails to start, so does the supervisor.

        It then lives until the children that were started before that one have ended.
        """
        try:
            super().launch()
        except StartFailed:
            if self.failed is None:
                raise
        if self.failed is not None:
            msg = f"{self.name} could not start: {self.failed}"
            raise StartFailed(msg) from self.failed
        return self.ref

    def on_start(self) -> None:
        """Start all children, in order."""
        self._plan = self._start_all()
        self._go_on()
        self._starting = False

    def stop(self, how: Exit = SHUTDOWN) -> None:
        """Ask it to stop its children and end, after what came before."""
        self.deliver(_Leave(how), limited=False)

    # -- messages -----------------------------------------------------------------------------

    def on_receive(self, message: Any) -> object:  # noqa: ANN401 -- pykka's
        """Handle the next message now, or queue it until the present plan is done."""
        kind = type(message)
        if kind is Look:
            return [child.view() for child in self._children.values()]
        if kind is Down and message.ref in self._awaited:
            self._awaited.discard(message.ref)
            if not self._awaited:
                self._go_on()
            return None
        # Most messages are notices: no caller waits for an answer.
        promise = Promise() if self._is_asked else None
        if self._plan is None:
            self._plan = self._plan_for(message, promise)
            if self._plan is not None:
                self._go_on()
        elif len(self._later) < self._limit or isinstance(message, _NOTICES):
            self._later.append((message, promise))
        else:
            return Overloaded(f"{self.name} has {self._limit:,} requests waiting: ask later")
        return promise

    def _go_on(self) -> None:
        """Carry on with the plan; once it is done, with what came in meanwhile."""
        while self._plan is not None:
            try:
                self._awaited = next(self._plan)
            except StopIteration:
                self._plan = None
            else:
                return
            while self._plan is None and self._later:
                self._plan = self._plan_for(*self._later.popleft())

    def _plan_for(self, message: object, promise: Promise | None) -> Plan[None] | None:
        """Do what is to be done at once; return what is to be done in steps, if anything is."""
        match message:
            case Down():
                return self._ended(message)
            case StartDynamic(key, args) if self._dynamic and key not in self._children:
                return self._start_at_once(key, args, promise)
            case _Leave(how):
                return self._leave_all(how)
            case TryAgain(child):
                again = self._is_restarting(child) and child.pause is None
                return self._restart(child) if again else None
            case PauseOver(child):
                again = self._is_restarting(child) and child.pause is not None
                return self._start_group(child) if again else None
            case _:
                return self._answer(self._serve(message), promise)

    def _is_restarting(self, child: Child) -> bool:
        return self._children.get(child.id) is child and child.state is State.RESTARTING

    # -- requests -----------------------------------------------------------------------------

    def _reply(self, reply_to: Answer | None, answer: object) -> None:
        """Answer the caller; if there is no answer yet, remember the caller."""
        if not isinstance(answer, Promise):
            super()._reply(reply_to, answer)
        elif answer.is_kept:
            super()._reply(reply_to, answer.value)
        elif reply_to is not None:
            answer.to = reply_to
            self._links.add_question(reply_to, self.name)

    def _answer(self, doing: Plan[object], promise: Promise | None) -> Plan[None]:
        """Carry out a request, and answer it."""
        try:
            answer = yield from doing
        except Refused as refusal:
            # A refusal is an answer, not a failure: raised, it would end us.
            answer = refusal
        if isinstance(answer, Refused):
            log.info("refused", supervisor=self.name, reason=str(answer))
        self._keep(promise, answer)

    def _keep(self, promise: Promise | None, value: object) -> None:
        if promise is None:
            return
        promise.value, promise.is_kept = value, True
        if promise.to is not None:
            self._links.remove_question(promise.to)
            super()._reply(promise.to, value)

    def _serve(self, request: object) -> Plan[object]:
        """Carry out a request; return the answer, or raise why not."""
        match request:
            case StartChild(spec):
                return (yield from self._start_child(spec))
            case StartDynamic(key):
                raise self._not_from_template(key)
            case TerminateChild(name):
                yield from self._terminate(name)
            case RestartChild(name):
                return (yield from self._restart_by_hand(name))
            case DeleteChild(name):
                del self._children[self._at_rest(name).id]
            case WhichChildren():
                return [child.view() for child in reversed(self._children.values())]
            case CountChildren():
                return count(self._children.values(), dynamic=self._dynamic)
            case _:
                name = type(request).__name__
                msg = f"{self.name} is a supervisor and knows no {name}"
                raise Refused(msg)
        return None

    def _start_child(self, spec: ChildSpec) -> Plan[Ref | None]:
        if self._dynamic:
            raise self._not_done(spec.id, Why.SIMPLE_ONE_FOR_ONE)
        self._check(spec)
        old = self._children.get(spec.id)
        if old is not None:
            runs = old.state is State.RUNNING
            raise self._not_done(spec.id, Why.ALREADY_STARTED if runs else Why.ALREADY_PRESENT)
        return (yield from self._start_new(Child(spec.id, spec)))

    def _start_at_once(
        self, key: str, args: tuple[Any, ...], promise: Promise | None
    ) -> Plan[None] | None:
        """Start a child from the template; what is left to do is a plan only if that fails."""
        child = Child(key, self._specs[0], (key, *args), dynamic=True)
        self._children[key] = child
        failed = self._begin(child)
        if failed is not None:
            return self._answer(self._give_up(child, failed), promise)
        self._keep(promise, child.ref)
        return None

    def _not_from_template(self, key: str) -> Refused:
        """Say why no child can be made from a template."""
        if self._dynamic:
            return self._not_done(key, Why.ALREADY_STARTED)
        why = f"is missing: {self.name} has no template that children could be made from"
        return BadSpec.of_child(key, "spec", "missing_start", why)

    def _start_new(self, child: Child) -> Plan[Ref | None]:
        self._children[child.id] = child
        failed = self._begin(child)
        if failed is not None:
            yield from self._give_up(child, failed)
        return child.ref

    def _give_up(self, child: Child, failed: NotStarted) -> Plan[NoReturn]:
        """Forget a child that could not be started, once nothing of it is left, and say so."""
        if failed.remnant is not None:
            yield {failed.remnant}
        del self._children[child.id]
        raise self._not_done(child.id, Why.START_FAILED, failed.error) from failed.error

    def _restart_by_hand(self, name: str | Ref) -> Plan[Ref | None]:
        child = self._at_rest(name)
        error = yield from self._start(child)
        if error is not None:
            raise self._not_done(child.id, Why.START_FAILED, error) from error
        return child.ref

    def _at_rest(self, name: str | Ref) -> Child:
        """Return a child with a spec of its own that does not run."""
        if self._dynamic:
            raise self._not_done(name, Why.SIMPLE_ONE_FOR_ONE)
        child = self._find(name)
        if child is None:
            raise self._not_done(name, Why.NOT_FOUND)
        if child.state is not State.STOPPED:
            restarting = child.state is State.RESTARTING
            raise self._not_done(name, Why.RESTARTING if restarting else Why.RUNNING)
        return child

    def _terminate(self, name: str | Ref) -> Plan[None]:
        child = self._find(name)
        if child is not None:
            yield from self._stop_them([child])
        elif self._dynamic and name == self._specs[0].id:
            raise self._not_done(name, Why.SIMPLE_ONE_FOR_ONE)
        elif not (self._dynamic and isinstance(name, Ref) and not name.is_alive()):
            raise self._not_done(name, Why.NOT_FOUND)

    def _find(self, name: str | Ref) -> Child | None:
        """Find a child by its id or key; a dynamic one also by its ref, the last one it had."""
        if isinstance(name, str):
            return self._children.get(name)
        if not self._dynamic:
            return None
        return self._living.get(name) or next(
            (child for child in self._children.values() if child.ref is name), None
        )

    def _not_done(self, child: str | Ref, why: Why, error: BaseException | None = None) -> NotDone:
        name = child if isinstance(child, str) else child.name
        return NotDone(self.name, name, why, "" if error is None else str(error))


_NOTICES = (Down, _Leave, TryAgain, PauseOver)
"""Messages that are no requests: their number is limited, and none may be lost."""
