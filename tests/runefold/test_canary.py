"""A canary in every form goes through every door: neither the log nor operators get to see it.

Held against the files themselves, and against all that a handler is given of a record.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.model.provider import Done, Failure, Text, ToolCall
from actors.redaction.escapes import decoded
from actors.session.public_commands import Close, Pause, Send
from actors.tool.adapters.function import tool
from actors.tool.context import progress
from actors.tool.policy import Policy
from actors.tool.public_commands import Deny
from actors.tool.secrets import Secret
from runefold.control.offline import OfflineCommands
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.rune import Envelope
from tests.actors.redaction.forms import FORMS, KEYS
from tests.runefold.talks import Raw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Event, Request
    from runefold.sessions import Session

VALUE: Final = "correct-horse-battery-staple"
BODY: Final = re.compile(r"aB3daB3daB3d|A1B2A1B2A1B2|IBAAKCAQEA7aB3")
"""Parts of the keys: of their random characters."""


class Canary:
    """Says it in every way in which an app, its models and its tools can say something."""

    def __init__(self, text: str) -> None:
        """Say this text."""
        self.text = text
        pieces = [text[at : at + 5] for at in range(0, len(text), 5)]
        self.pieces = pieces
        worse = type(f"No_{text}", (Exception,), {})

        @tool(side_effects=False, description=f"Use {text}.")
        def returns() -> Any:  # noqa: ANN401 -- that is the point of it
            """Return it."""
            return {"deep": [text, {text: 1}]}

        @tool(side_effects=False)
        def says() -> str:
            """Say it on one stream, then on two."""
            for piece in pieces:
                progress(piece)
            for number, piece in enumerate(pieces):
                progress(piece, f"stream {number % 2}")
            return "said"

        @tool(side_effects=False)
        def raises() -> str:
            """Raise it, as a message and as the name of an error."""
            raise worse(text)

        @tool(side_effects=False, secrets=["KEY"])
        def knows(key: Secret = "secret:KEY") -> str:
            """Say a secret in two pieces, and on two streams."""
            progress(key[:9])
            progress(key[9:])
            progress(key[:9], "stdout")
            progress(key[9:], "stderr")
            raise ValueError(key)

        @tool(requires_approval=True)
        def pay() -> str:
            """Pay."""
            return "paid"

        self.tools: list[Any] = [returns, says, raises, knows, pay]
        self.answers: Iterator[list[Event] | None] = iter(
            [
                [*map(Text, pieces), Done(text)],
                [*(ToolCall(each.spec.name) for each in self.tools[:-1]), Done()],
                [ToolCall(text, text), ToolCall("returns", f'{{"{text}'), Done()],
                [Done()],
                [Failure(f"No_{text}", text)],
                None,
                [ToolCall("pay"), Done()],
                [Done()],
                [ToolCall("pay"), Done()],
            ]
        )
        self.worse = worse

    def stream(self, _request: Request) -> Iterator[Event]:
        """Answer with what is next, or fail."""
        found = next(self.answers)
        if found is None:
            raise self.worse(self.text)
        return iter(found)

    def judge(self, name: str, _arguments: object, _spec: object) -> Any:  # noqa: ANN401 -- a policy's
        """Deny one tool, with a reason."""
        return ("deny", f"no {self.text}") if name == "returns" else None


def _visit(canary: Canary, directory: Path, **options: Any) -> None:  # noqa: ANN401 -- of Runtime
    """Go through every door that a running app has."""
    text = canary.text
    with Runtime.open(
        directory,
        tools=canary.tools,
        providers={"demo": Raw(canary.stream)},
        secret={"KEY": VALUE}.__getitem__,
        **options,
    ) as runtime:
        names = [each.spec.name for each in canary.tools]
        spec = AgentSpec(role=f"for {text}", model="demo", tools=names, instructions=text)
        session = runtime.create_session(spec, labels={"of": text[:200]}, conversation_id="conv_a")
        for _ in range(4):
            session.send(text).result(30)
        turn = session.send("pay")
        session.deny(_waiting(session), reason=text, approver=f"ada {text}")
        turn.result(30)
        session.pause(text)
        session.resume()
        session.suspend(text)
        session.unsuspend(text)
        session.interrupt(text)
        session.send("pay")
        _waiting(session)


def _waiting(session: Session) -> str:
    """Wait until a call waits for a human; return it."""
    for envelope in session.follow(wait=30):
        if (
            isinstance(envelope, Envelope)
            and envelope.kind == "approval.requested"
            and session.approvals()
        ):
            return session.approvals()[0].call_id
    raise AssertionError


def _everything(directory: Path) -> str:
    """Return every byte of a log directory as text."""
    return "\n".join(
        each.read_bytes().decode("latin-1") for each in directory.rglob("*") if each.is_file()
    )


@pytest.mark.parametrize("whose", ["github", "private key with headers, without its end"])
@pytest.mark.parametrize("form", FORMS)
def test_a_canary_is_seen_nowhere(
    form: str, whose: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Through every door, online and offline: no part is kept, and operators are told none."""
    canary = Canary(f"see {FORMS[form](KEYS[whose])} ok.")
    with caplog.at_level(logging.DEBUG, logger="runefold"):
        _visit(canary, tmp_path / "log")
        with OfflineCommands.open(tmp_path / "log") as offline:
            waiting = [
                each.entity for each in offline.log.open_work("conv_a") if "call_" in each.entity
            ]
            offline.do("conv_a", Send(canary.text))
            offline.do("conv_a", Deny(canary.text, canary.text), waiting[0])
            offline.do("conv_a", Pause(canary.text))
            offline.do("conv_a", Close(canary.text))
    logged = "\n".join(f"{vars(record)} {record.getMessage()}" for record in caplog.records)
    stored = _everything(tmp_path / "log")

    assert "redacted" in stored
    for found in (stored, decoded(stored), logged, decoded(logged), caplog.text):
        assert BODY.search(found) is None
        assert VALUE[:9] not in found
        assert VALUE[9:] not in found


def test_the_reason_of_a_policy_is_looked_through(tmp_path: Path) -> None:
    """What an app's own function says why a call is denied is kept without keys."""
    canary = Canary(f"TOKEN_{KEYS['github']}")
    _visit(canary, tmp_path / "log", policy=Policy(function=canary.judge))

    assert BODY.search(_everything(tmp_path / "log")) is None
