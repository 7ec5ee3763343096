"""What users asked for, held against what the log makes of it.

The invariants see that a log agrees with itself. Here it is held to what was wanted: the words that
were sent, to whom, in which order; and what humans were told that counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.session import runes as sessions
from actors.tool import runes as tools
from actors.tool.lifecycle import meant
from actors.turn import runes as turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.model.provider import Message
    from actors.session.lifecycle import State as Session
    from actors.tool.lifecycle import State as Call
    from runefold.testing.simulation.checks.ground_truth import GroundTruth
    from runefold.testing.simulation.world.users import Sent
    from runelog.rune import Rune


class Requests:
    """Remembers what was asked for, and complains of what is done otherwise."""

    def __init__(self, truth: GroundTruth) -> None:
        """Begin with no requests."""
        self._truth = truth
        self._sent: dict[tuple[str, str], list[Sent]] = {}
        self._accepted: dict[tuple[str, str], sessions.InputAccepted] = {}
        self._waiting: dict[str, list[sessions.InputAccepted]] = {}
        """By conversation, in the order in which they came."""
        self._messages: dict[tuple[str, str], str] = {}
        """By conversation and turn, which message it is about."""
        self._answers: dict[tuple[str, str], list[str]] = {}
        """By conversation and call, what humans said that is on disk."""

    # -- messages -----------------------------------------------------------------------------

    def sends(self, conversation: str, message: str, sent: Sent) -> None:
        """Take notice of a message that is about to be sent, be it once more."""
        self._sent.setdefault((conversation, message), []).append(sent)

    def about_messages(self, name: str, session: Session | None, rune: Rune) -> None:
        """Hold a rune about a message to how it was sent."""
        match rune:
            case sessions.InputAccepted(message_id=message):
                self._accepted[name, message] = rune
                self._waiting.setdefault(name, []).append(rune)
                if not rune.asked_in:
                    self._as_sent(name, "" if session is None else session.default_agent, rune)
            case sessions.InputRefused(message_id=message):
                self._left(name, message)
            case turns.Started(message_id=message):
                self._in_order(name, rune)
                self._left(name, message)
                self._messages[name, rune.turn_id] = message
            case turns.Completed(turn_id=turn, handed_to=to) if to:
                # Taken up again, before all others that wait for the agent it was handed to.
                asked = self._accepted[name, self._messages[name, turn]]
                again = replace(asked, to=to, mode="queue")
                self._waiting.setdefault(name, []).insert(0, again)
            case _:
                pass

    def _as_sent(self, name: str, front: str, rune: sessions.InputAccepted) -> None:
        sent = self._sent.get((name, rune.message_id), [])
        wanted = {(each.word, each.to or front, each.mode) for each in sent}
        found = (rune.content, rune.to, rune.mode)
        if found not in wanted:
            told = f"{rune.message_id} is kept as {found}, and was sent as {sorted(wanted)}"
            self._truth.complain("as sent", told)

    def _in_order(self, name: str, rune: turns.Started) -> None:
        """Look whether a turn is about the message that is next, and says what that says."""
        mine = [each for each in self._waiting.get(name, ()) if each.to == rune.agent_id]
        steering = [each for each in mine if each.mode == "steer"]
        following = (steering or mine)[:1]
        if [each.message_id for each in following] != [rune.message_id]:
            waiting = [each.message_id for each in mine]
            told = f"{rune.agent_id} takes {rune.message_id} up, and {waiting} wait for it"
            self._truth.complain("in order", told)
        elif following[0].content != rune.input:
            told = f"{rune.turn_id} is about {rune.input!r}, not {following[0].content!r}"
            self._truth.complain("as sent", told)

    def _left(self, name: str, message: str) -> None:
        waiting = self._waiting.get(name, [])
        self._waiting[name] = [each for each in waiting if each.message_id != message]

    # -- humans -------------------------------------------------------------------------------

    def about_answers(self, name: str, call: Call | None, rune: Rune) -> None:
        """Take notice of what a human said about a call, and look whether it came in time."""
        match rune:
            case tools.Approved(call_id=call_id, actor="user", trigger=word, at=at):
                self._answers.setdefault((name, call_id), []).append(meant(word))
                until = None if call is None else call.deadline
                if until is not None and at >= until:
                    told = f"{call_id} is approved at {at}, and that had to be before {until}"
                    self._truth.complain("in time", told)
            case tools.Denied(call_id=call_id, actor="user", trigger=word):
                self._answers.setdefault((name, call_id), []).append(meant(word))
            case _:
                pass

    def counts(self, name: str, call_id: str, verdict: str) -> None:
        """Hold it against the log that a human was told that an answer counts."""
        found = self._answers.get((name, call_id), [])
        if meant(verdict) not in found:
            told = f"a human was told that {verdict} counts for {call_id}; on disk is {found}"
            self._truth.complain("never lost", told)

    # -- models -------------------------------------------------------------------------------

    def shown(self, call: str, messages: Sequence[Message]) -> None:
        """Look whether a model is shown what tools really returned."""
        for message in messages:
            if message.role == "tool" and message.status == "success":
                self._as_returned(call, message)

    def _as_returned(self, call: str, message: Message) -> None:
        truth, name = self._truth, message.call_id
        said: list[Any] = [*truth.returned.get(name, ()), *truth.told.get(name, ())]
        if said and message.text not in said:
            told = f"{call} is shown {message.text!r} of {name}, which returned {said!r}"
            truth.complain("as returned", told)
