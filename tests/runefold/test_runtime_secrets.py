"""Rules about secrets in whole conversations: wherever one comes from, the log does not have it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from actors.model.provider import Done, Failure, Text, ToolCall
from actors.model.providers.scripted import call, pause
from actors.operator_log import log as operator
from actors.redaction.patterns import BadPattern
from actors.redaction.redactor import mark
from actors.session.public_commands import Send
from actors.tool.adapters.command import CommandTool
from actors.tool.adapters.function import tool
from actors.tool.context import progress
from actors.tool.outcome import Happened
from actors.tool.policy import Policy
from runefold.control.offline import OfflineCommands
from runefold.spec import AgentSpec
from runefold.testing.stage import Stage
from runelog.errors import Refused
from tests.runefold.talks import NAME, Raw, Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.model.provider import Request

SECRET: Final = "acct-0123456789"
KEY: Final = "sk-" + "aB3d" * 8
REDACT: Final = {"redact": [r"acct-\d{10}"]}


def everything(there: Talk) -> str:
    """Return all that the log has, as text."""
    there.stage.log.flush()
    runes = [each for name in there.stage.log.conversations() for each in _runes(there, name.id)]
    return "\n".join(runes)


def _runes(there: Talk, conversation: str) -> list[str]:
    return [f"{each.kind} {each.payload!r}" for each in there.stage.log.read(conversation)]


@tool(side_effects=False)
def leak(how: str) -> Any:  # noqa: ANN401 -- that is the point of it
    """Tell the secret, in some way."""
    match how:
        case "returned":
            return {"deep": [f"it is {SECRET}"], SECRET: 1}
        case "raised":
            raise ValueError(SECRET)
        case "cut":
            # Half of it would be left at either side of the cut.
            return f"{'x' * 31}{SECRET}" + "y" * 500 + f"{SECRET}{'z' * 31}"
        case _:
            for piece in ("it is ", *SECRET[:-2], SECRET[-2:] + " there"):
                progress(piece)
            return "done"


def _spoken(words: list[str]) -> Talk:
    there = talk([words], stage=dict(REDACT))
    there.session.send("go").result(10)
    return there


def _said_by_the_model() -> Talk:
    return _spoken(["It is ", *SECRET, "."])


def _said_at_the_end() -> Talk:
    return _spoken(["It is ", SECRET])


def _interrupted_within_it() -> Talk:
    there = talk([["It is ", SECRET, pause(60)]], stage=dict(REDACT))
    turn = there.session.send("go")
    there.stage.advance(1)
    there.session.interrupt(f"no {SECRET} please")
    assert turn.result(10).output == f"It is {mark(SECRET)}"
    return there


def _sent() -> Talk:
    there = talk(lambda request: ["You said ", request.messages[-1].text], stage=dict(REDACT))
    result = there.session.send(f"My account is {SECRET}.").result(10)
    assert result.output == f"You said My account is {mark(SECRET)}."
    return there


def _asked_for(event: Any) -> Talk:  # noqa: ANN401 -- any event
    there = talk(
        Raw(lambda request: iter([Text("x"), event, Done()] if _first(request) else [Done()])),
        leak,
        stage=dict(REDACT),
    )
    there.session.send("go").result(10)
    return there


def _first(request: Request) -> bool:
    return request.messages[-1].role == "user"


def _leaked(how: str, **options: Any) -> Talk:  # noqa: ANN401 -- those of a tool
    used = tool(**options)(leak._function) if options else leak
    there = talk([[call("leak", how=how)], ["done"]], used, stage=dict(REDACT))
    there.session.send("go").result(10)
    return there


def _failed(error: Any) -> Talk:  # noqa: ANN401 -- an event, or what is raised
    def answer(_request: Request) -> Any:  # noqa: ANN401 -- as above
        if isinstance(error, BaseException):
            raise error
        return iter([error])

    there = talk(Raw(answer), stage=dict(REDACT))
    there.session.send("go").result(100)
    return there


def _described() -> Talk:
    @tool(description=f"Use it with {SECRET}.", side_effects=False)
    def look() -> str:
        return "seen"

    there = talk(["fine"], look, stage=dict(REDACT), instructions=f"The account is {SECRET}.")
    there.session.send("go").result(10)
    spec = AgentSpec(role=f"for {SECRET}", model="demo")
    there.stage.runtime.create_session(spec, labels={"account": SECRET})
    return there


def _decided_by_people() -> Talk:
    @tool(requires_approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    there = talk([[call("pay")], ["done"]], pay, stage=dict(REDACT))
    turn = there.session.send("go")
    there.stage.run()
    [waiting] = there.session.approvals()
    there.session.deny(waiting.call_id, reason=f"{SECRET} is empty", approver=f"ada {SECRET}")
    turn.result(10)
    session = there.session
    session.pause(f"because of {SECRET}")
    session.resume()
    session.suspend(f"because of {SECRET}")
    session.unsuspend(f"{SECRET} is fine")
    kid = session.spawn(AgentSpec(role=f"kid of {SECRET}", model="demo"))
    there.stage.run()
    session.terminate(kid, reason=f"it had {SECRET}")
    session.close(f"{SECRET} was closed")
    return there


def _by_policy(judge: Callable[[str, Any, Any], Any]) -> Talk:
    there = talk(
        [[call("leak", how="returned")], ["done"]],
        leak,
        stage={**REDACT, "policy": Policy(function=judge)},
    )
    there.session.send("go").result(10)
    return there


def _judged() -> Talk:
    return _by_policy(lambda _name, _arguments, _spec: ("deny", f"not for {SECRET}"))


def _misjudged() -> Talk:
    def judge(_name: str, _arguments: Any, _spec: Any) -> Any:  # noqa: ANN401 -- a policy's
        raise ValueError(SECRET)

    return _by_policy(judge)


def _probed() -> Talk:
    def probe(_call_id: str, _arguments: Any) -> Happened:  # noqa: ANN401 -- whatever they are
        return Happened(f"paid from {SECRET}")

    @tool(on_doubt="probe", probe=probe)
    def pay() -> str:
        """Pay."""
        there.stage.crash()
        return "paid"

    there = talk([[call("pay")], ["done"]], pay, stage=dict(REDACT))
    there.session.send("go", message_id="m1")
    there.stage.run()
    there.reopen().send("go", message_id="m1").result(10)
    return there


def _answered() -> Talk:
    @tool(on_doubt="ask")
    def pay() -> str:
        """Pay."""
        there.stage.crash()
        return "paid"

    there = talk([[call("pay")], ["done"]], pay, stage=dict(REDACT))
    there.session.send("go", message_id="m1")
    there.stage.run()
    session = there.reopen()
    there.stage.run()
    [waiting] = session.approvals()
    session.answer(waiting.call_id, "happened", approver="ada", output={"from": SECRET})
    session.send("go", message_id="m1").result(10)
    return there


WAYS: Final[dict[str, Callable[[], Talk]]] = {
    "a model that says it letter by letter": _said_by_the_model,
    "a model whose last words it is": _said_at_the_end,
    "a model that is interrupted": _interrupted_within_it,
    "a message": _sent,
    "arguments of a call": lambda: _asked_for(ToolCall("leak", f'{{"how": "{SECRET}"}}')),
    "arguments with escapes": lambda: _asked_for(
        ToolCall("leak", '{"how": "\\u0061cct-0123456789"}')
    ),
    "arguments that cannot be read": lambda: _asked_for(ToolCall("leak", f'{{"how": "{SECRET}"')),
    "arguments that do not fit": lambda: _asked_for(ToolCall("leak", f'{{"{SECRET}": 1}}')),
    "the name of a tool": lambda: _asked_for(ToolCall(SECRET, "{}")),
    "a reason to stop": lambda: _asked_for(Done(f"out of {SECRET}")),
    "what a tool returns": lambda: _leaked("returned"),
    "what a tool raises": lambda: _leaked("raised"),
    "what a tool says on the way": lambda: _leaked("said"),
    "a provider that breaks off": lambda: _failed(Failure("refused", f"no {SECRET}")),
    "the name of an error": lambda: _failed(Failure(f"no {SECRET}")),
    "a provider that raises": lambda: _failed(ValueError(f"no {SECRET}")),
    "instructions, roles, labels, tools": _described,
    "what people say": _decided_by_people,
    "a policy": _judged,
    "a policy that fails": _misjudged,
    "a probe": _probed,
    "an answer in doubt": _answered,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_does_not_reach_the_log(way: str) -> None:
    """Wherever it comes from, what fits a registered pattern is replaced before it is kept."""
    text = everything(WAYS[way]())

    assert SECRET not in text
    assert mark(SECRET) in text or mark(SECRET).replace('"', '\\"') in text
    assert not any(SECRET[:size] in text for size in range(9, len(SECRET)))


def test_no_half_of_a_secret_is_left_where_an_output_is_cut() -> None:
    """What is too long is cut after it was looked through: half a secret is not recognised."""
    text = everything(_leaked("cut", side_effects=False, max_output_bytes=80))

    assert "bytes left out" in text
    assert SECRET[:6] not in text
    assert SECRET[-6:] not in text


def test_what_is_held_back_and_is_no_secret_is_there_in_the_end() -> None:
    """Last words that might have become a secret are kept: a model's, and those of a tool."""

    @tool(side_effects=False)
    def murmur() -> str:
        """Say something."""
        progress("one ")
        progress("acct-01")
        return "done"

    there = talk([[call("murmur")], ["It is ", "acct-01"]], murmur, stage=dict(REDACT))
    result = there.session.send("go").result(10)
    shown = "".join(rune.chunk for rune in there.runes("tool.progress"))  # type: ignore[attr-defined]  # by its kind
    said = "".join(rune.text for rune in there.runes("turn.assistant_delta"))  # type: ignore[attr-defined]  # by its kind

    assert shown == "one acct-01"
    assert said == result.output == "It is acct-01"


def test_what_is_held_back_at_a_clean_end_is_written() -> None:
    """A runtime that is closed in the middle of a stream keeps what may be a secret, or is one."""
    there = talk([["acct-01", pause(60), "x"]], stage=dict(REDACT), on_crash="interrupt")
    there.session.send("go", message_id="m1")
    there.stage.advance(1)
    there.stage.runtime._core.tree.close()
    there.stage.run()
    there.stage.log.flush()
    session = there.stage.reopen().session(NAME)

    assert session.send("go", message_id="m1").result(10).output == "acct-01"


def test_the_keys_of_providers_need_not_be_registered() -> None:
    """What looks like one is replaced in every runtime."""
    there = talk([["Use ", KEY[:9], KEY[9:], " now."]])

    assert there.session.send(KEY).result(10).output == f"Use {mark(KEY)} now."
    assert KEY not in everything(there)


def test_the_model_is_shown_what_the_log_has() -> None:
    """A prompt is made of what was kept: neither model nor provider gets to see a secret again."""
    there = talk([["one"], ["two"]], stage=dict(REDACT))
    there.session.send(f"remember {SECRET}").result(10)
    there.session.send("what was it?").result(10)

    assert there.model.last[0] == ("user", f"remember {mark(SECRET)}")


def test_a_program_does_not_tell_it_either(tmp_path: Path) -> None:
    """What a command writes is looked through before it is cut, and while it is shown."""
    code = f"print('x' * 100 + '{SECRET[:7]}', end=''); print('{SECRET[7:]}' + 'y' * 300)"
    command = CommandTool(
        "run", [sys.executable, "-c", code], root=tmp_path, side_effects=False, max_output_bytes=220
    )
    there = talk([[call("run")], ["done"]], command, stage=dict(REDACT))
    there.session.send("go").result(30)
    text = everything(there)

    assert "bytes left out" in text
    assert SECRET[:6] not in text
    assert mark(SECRET) in text


def test_an_id_cannot_be_a_secret() -> None:
    """Ids are kept as they are, so that one that is a secret is refused, and not repeated."""
    there = talk([["fine"]])

    with pytest.raises(Refused, match="redacted"):
        there.session.send("hello", message_id=KEY)
    with pytest.raises(Refused, match="redacted"):
        there.stage.runtime.create_session(AgentSpec(role="x", model="demo"), conversation_id=KEY)
    assert KEY not in everything(there)


def test_a_pattern_that_cannot_be_followed_is_refused_at_once() -> None:
    """A runtime is not opened with a pattern that it could not look for."""
    with pytest.raises(BadPattern, match="cannot be looked for"):
        Stage(redact=["(?=x)"])


def test_operators_are_not_told_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """What is logged is looked through as well: fields, and the details of errors."""
    stage = Stage(redact=REDACT["redact"])
    with caplog.at_level(logging.DEBUG, logger="runefold"):
        error = ValueError(f"no {SECRET}")
        operator.error("went_wrong", reason=f"because of {SECRET}", also=[KEY], exc_info=error)
        try:
            int(SECRET)
        except ValueError:
            operator.exception("went_wrong_again")
        operator.warning("fine", exc_info=ValueError("just so"))
    stage.crash()
    record, again, fine = caplog.records
    told = f"{vars(record)} {vars(again)} {caplog.text}"

    assert SECRET not in told
    assert KEY not in told
    assert record.reason == f"because of {mark(SECRET)}"  # type: ignore[attr-defined]  # of ours
    assert again.exc_text is not None
    assert mark(SECRET) in again.exc_text
    assert "just so" in vars(fine)["exception"]


def test_a_letter_that_is_left_is_looked_through_for_what_is_known_by_its_looks() -> None:
    """Where nobody runs the log, the keys of providers are kept out of it all the same."""
    there = talk([["fine"]])
    there.stage.log.flush()
    OfflineCommands(there.stage.log, clock=there.stage.clock).do(NAME, Send(f"use {KEY}"))

    assert KEY not in everything(there)
    assert mark(KEY) in everything(there)
