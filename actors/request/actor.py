"""Makes a request happen: tells the other conversation until that has it, and hears the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from actors.children import AskedFor, Asker, ChildEnd
from actors.operator_log import log as operator
from actors.request.lifecycle import Deliver, Hear
from actors.shell.mail import Echo, echo_to, is_answer
from actors.shell.shell import Shell
from actors.units import SECOND
from runelog.errors import Refused, RunefoldError, UnknownConversation

if TYPE_CHECKING:
    from actors.public_command import Command
    from actors.shell.conversation import ConversationContext

FIRST_PAUSE: Final = 1 * SECOND
"""Before the other conversation is told again for the first time; then twice as long each time."""
LONGEST_PAUSE: Final = 60 * SECOND


class RequestActor(Shell):
    """One request to another conversation."""

    def __init__(self, ctx: ConversationContext, me: str) -> None:
        """Begin before the other conversation was told."""
        super().__init__(ctx, me)
        self._pause = FIRST_PAUSE
        self._taken: Deliver | None = None
        """What the other conversation has recorded: it answers by itself."""

    def understand(self, message: Any) -> Any:  # noqa: ANN401 -- whatever is sent
        """Understand what the other conversation says as the answer, or tell it again."""
        match message:
            case ChildEnd(_, phase, answer, event) | Echo(_, ChildEnd(_, phase, answer, event)):
                return Hear("ended", phase, answer, event=event)
            case Echo(_, Refused() as refusal) if is_answer(refusal):
                return Hear("refused", message=str(refusal))
            case Echo(effect, Exception() as error):
                return self._not_taken(effect, error)
            case Echo(effect):
                self._taken = effect
                return None
            case _:
                return super().understand(message)

    def perform(self, effect: Deliver) -> None:
        """Tell the other conversation, once this side is on disk."""
        sent = self.state.sent
        try:
            command = self._command()
        except Refused:
            # The app that knows the kind is not here: it may be back at the next open.
            self._pause_before(effect)
            return
        asker = Asker(self.ctx.conversation, self.me)
        asked = AskedFor(sent.machine, sent.child, command, asker, effect.withdrawn)
        self.ctx.sync()
        self.ctx.services.mail.send(sent.to, asked, echo_to(self.ref, effect))

    def _command(self) -> Command:
        sent = self.state.sent
        fields = {**sent.command}
        found = self.ctx.kinds.commands.find(sent.machine, str(fields.pop("do", "")))
        try:
            return msgspec.convert(fields, found)
        except msgspec.ValidationError as error:
            msg = f"{sent.machine} does not know the command of {self.me} any more: {error}"
            raise Refused(msg) from None

    def _not_taken(self, effect: Deliver, error: Exception) -> Hear | None:
        """Tell the other conversation again after a pause; give up if there is none any more."""
        operator.debug("not_delivered", entity=self.name, reason=str(error))
        to = self.state.sent.to
        try:
            self.ctx.log.conversation(to)
        except UnknownConversation:
            if not self.ctx.kinds.root(to).conversation:
                return Hear("lost", message=f"there is no conversation {to}")
        except RunefoldError:
            # It may be read again later.
            pass
        self._pause_before(effect)
        return None

    def _pause_before(self, effect: Deliver) -> None:
        self.retry_effect(effect, self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def is_idle(self) -> bool:
        """Return True once the other conversation has it: that answers by itself, and wakes us."""
        due = self.kind.lifecycle.due(self.state)
        return super().is_idle() and all(effect == self._taken for effect in due)
