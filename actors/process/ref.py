"""How others reach an actor, and what becomes of what they send to one that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors.errors import Dead, Unanswered
from actors.operator_log import log
from actors.process.answer import Answer
from actors.process.exits import SHUTDOWN, Down

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.ports import Scheduler
    from actors.process.exits import Exit
    from actors.process.process import Process

ASK_TIMEOUT: Final = 30.0
"""How many seconds a caller waits for an answer by default."""


class Ref:
    """How others reach an actor: by message only."""

    __slots__ = ("_exit", "_process", "name")

    def __init__(self, process: Process) -> None:
        """Refer to this actor, and to none that may come after it under the same name."""
        self._process: Process | None = process
        self._exit: Exit | None = None
        self.name = process.name

    def __repr__(self) -> str:
        """Show the name and whether it is alive."""
        process = self._process
        how = self._exit if process is None else process.exit
        return f"<{self.name}: {'alive' if how is None else how}>"

    def let_go(self, how: Exit) -> None:
        """Forget the actor and keep only how it ended, so that its memory is freed.

        Held by what it holds itself, it would be there until Python looks for such circles, which
        takes long if each of the short-lived actors is one.
        """
        self._exit, self._process = how, None

    def is_alive(self) -> bool:
        """Return True if it has not ended yet."""
        process = self._process
        return process is not None and process.exit is None

    def tell(self, message: object) -> None:
        """Send a message; `Overloaded` if its mailbox is full. To the dead, it is a dead letter."""
        self._send(message, None, limited=True)

    def notify(self, message: object) -> None:
        """Send what must not be refused: news of what happened, of which there is an end."""
        self._send(message, None, limited=False)

    def ask(
        self, message: object, scheduler: Scheduler, timeout: float | None = ASK_TIMEOUT
    ) -> Any:  # noqa: ANN401 -- whatever is answered
        """Send a message and wait for the answer. For the edge: actors only tell each other."""
        # Before it is sent: who is refused has asked nothing.
        scheduler.check_may_wait()
        answer = self.ask_later(message)
        if not scheduler.wait(answer, timeout):
            msg = (
                f"{self.name} gave no answer to {type(message).__name__} within {timeout} s; "
                "it may still be handled"
            )
            raise Unanswered(msg)
        return answer.result()

    def ask_later(self, message: object) -> Answer:
        """Send a message; the answer is waited for elsewhere."""
        answer = Answer()
        self._send(message, answer, limited=True)
        return answer

    def _send(self, message: object, reply_to: Answer | None, *, limited: bool) -> None:
        process = self._process
        if process is None:
            dead_letter(self.name, message, reply_to)
        else:
            process.deliver(message, reply_to, limited=limited)

    def stop(self, how: Exit = SHUTDOWN) -> None:
        """Ask it to end before it handles anything else."""
        process = self._process
        if process is not None:
            process.stop(how)

    def kill(self) -> None:
        """End it without asking."""
        process = self._process
        if process is not None:
            process.kill()

    def watch(self, told: Callable[[Down], None]) -> None:
        """Call `told` once the actor has ended. It must be quick, such as to send a message."""
        process = self._process
        if process is not None:
            process.watch(told)
        else:
            assert self._exit is not None
            tell_watcher(told, Down(self.name, self, self._exit))


def tell_watcher(told: Callable[[Down], None], down: Down) -> None:
    """Call a watcher with an actor's end; an error in it does not concern the actor."""
    try:
        told(down)
    except BaseException:  # noqa: BLE001 -- the next one is to be told whatever this one does
        log.exception("watcher_failed", actor=down.name)


def dead_letter(name: str, message: object, reply_to: Answer | None) -> None:
    """Log a message that no actor will handle, and fail it if a caller waits for the answer."""
    if reply_to is not None:
        reply_to.fail(Dead(f"{name} has ended: {type(message).__name__} was not handled"))
    else:
        log_dead_letter(name, message)


def log_dead_letter(name: str, message: object) -> None:
    """Log a message that no actor will handle."""
    # Not `message`: the standard logger keeps that word for itself, and raises.
    log.debug("dead_letter", actor=name, letter=type(message).__name__)
