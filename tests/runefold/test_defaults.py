"""What is so unless somebody says otherwise, and how it is said otherwise."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from actors.budget.lifecycle import WARN_AT
from actors.model.providers.scripted import Scripted, fail, pause
from actors.process.process import MAILBOX
from actors.session.lifecycle import Phase
from actors.session.runes import SessionConfig
from actors.shell.snapshot_policy import SNAPSHOT_EVERY
from actors.tool.spec import ToolSpec
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runelog.errors import Refused
from runelog.store import Runelog
from runelog.writer.commit import ROLL_AT
from supervisors.child_spec import ChildSpec, Flags
from supervisors.conversation_supervisor import ConversationSupervisor
from supervisors.strategy import Strategy
from supervisors.supervisor import Supervisor
from tests.runefold.talks import Talk, talk

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SPEC = AgentSpec(role="helper", model="demo")


def said(call: Callable[..., Any], name: str) -> Any:  # noqa: ANN401 -- whatever it is
    """Return what an option is unless somebody says otherwise."""
    return inspect.signature(call).parameters[name].default


def test_an_agent_has_a_minute_for_a_word_and_half_an_hour_for_a_turn() -> None:
    """And three retries."""
    assert (SPEC.first_byte_timeout, SPEC.silence_timeout, SPEC.turn_timeout) == (60, 60, 1_800)
    assert SPEC.retries == 3


def test_a_tool_has_two_minutes_and_a_human_a_day() -> None:
    """And room for 256 KiB."""
    spec = ToolSpec(name="look")

    assert (spec.timeout, spec.approval_timeout) == (120, 24 * 3600)
    assert spec.max_output_bytes == 256 * 1024


def test_a_session_is_given_up_after_three_opens_or_five_turns() -> None:
    """Whoever creates one can say otherwise."""
    config = SessionConfig()

    assert (config.unclean_opens, config.failed_turns) == (3, 5)
    assert said(Runtime.create_session, "unclean_opens") == 3
    assert said(Runtime.create_session, "failed_turns") == 5


def test_a_supervisor_restarts_one_for_one_three_times_in_five_seconds() -> None:
    """A child has five seconds to end; those of models and tools are restarted after a pause."""
    flags = Flags()
    there = talk([[pause(50)]])
    there.session.send("go")
    there.stage.advance(1)
    running = there.stage.runtime._core.tree.running(there.session.id)
    assert isinstance(running, ConversationSupervisor)
    (agents,) = running._agents.values()

    assert (flags.strategy, flags.intensity, flags.period) == (Strategy.ONE_FOR_ONE, 3, 5)
    assert ChildSpec("child", lambda: None).patience == 5
    assert isinstance(agents._process, Supervisor)
    (template,) = agents._process._specs
    assert template.backoff is not None
    assert template.backoff.jitter > 0


def test_the_rest_is_as_it_is_said_to_be() -> None:
    """Mailboxes, snapshots, sleep, warnings, segments and durability."""
    assert (MAILBOX, SNAPSHOT_EVERY, WARN_AT) == (10_000, 1_000, 80)
    assert said(Runtime, "idle_after") == 60
    assert said(Runtime, "snapshot_every") == SNAPSHOT_EVERY
    assert (said(Runelog.open, "segment_size"), ROLL_AT) == (256 << 20, 0.8)
    assert (said(Runelog.open, "durability"), said(Runtime.open, "durability")) == ("commit",) * 2


# -- otherwise -----------------------------------------------------------------------------------


def failing(there: Talk, turns: int, **options: Any) -> Phase:  # noqa: ANN401 -- of create_session
    """Create a session and have so many turns of it fail; return what it is then."""
    session = there.stage.runtime.create_session(SPEC, **options)
    for _ in range(turns):
        session.send("go").result(10)
    return session.state.phase


def test_how_many_turns_may_fail_can_be_said_for_a_session() -> None:
    """Neither sooner nor later."""
    there = talk([[fail("bad_key")]])

    assert failing(there, 1, failed_turns=2) is Phase.ACTIVE
    assert failing(there, 2, failed_turns=2) is Phase.SUSPENDED
    assert failing(there, 6, failed_turns=7) is Phase.ACTIVE


def test_how_often_it_may_be_opened_in_vain_can_be_said_for_a_session() -> None:
    """One crash too many, and it waits for a hand."""
    there = talk([["so ", pause(50), "so"]])
    session = there.stage.runtime.create_session(SPEC, unclean_opens=1)
    session.send("go")
    there.stage.advance(5)
    there.stage.crash()
    again = there.stage.reopen().session(session.id)
    there.stage.run()

    assert again.state.phase is Phase.SUSPENDED


@pytest.mark.parametrize("name", ["failed_turns", "unclean_opens"])
@pytest.mark.parametrize("number", [0, -1, 1.5, "3"])
def test_what_is_no_such_number_is_refused(name: str, number: object) -> None:
    """Nothing is written then."""
    there = talk(["Hello!"])
    options: dict[str, Any] = {name: number}
    with pytest.raises(Refused, match=name):
        there.stage.runtime.create_session(SPEC, **options)

    assert len([*there.stage.runtime.sessions()]) == 1


def test_a_runtime_can_be_opened_relaxed(tmp_path: Path) -> None:
    """The log is told; what is neither is refused."""
    model = {"demo": Scripted(["Hello!"])}
    syncs = {}
    for level in ("commit", "relaxed"):
        options: dict[str, Any] = {"durability": level, "providers": model}
        with Runtime.open(tmp_path / level, **options) as runtime:
            assert runtime.create_session(SPEC).send("Hi").result(30).output == "Hello!"
            assert isinstance(runtime.log, Runelog)
            syncs[level] = runtime.log.log_directory.segments.metasync
    wrong: dict[str, Any] = {"durability": "none"}

    assert syncs == {"commit": True, "relaxed": False}
    with pytest.raises(Refused, match="durability"):
        Runtime.open(tmp_path / "none", **wrong)
