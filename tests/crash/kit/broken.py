"""Apps in which something is wrong that only one verdict can tell, from the first crash on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import msgspec

from actors.scheduling.group_commit import GroupCommit
from actors.session.lifecycle import Phase
from actors.session.runes import InputAccepted
from actors.tool.runes import Result
from runefold.spec import AgentSpec
from runelog.errors import UnknownConversation
from runelog.rune import Change
from runelog.writer import leader
from tests.crash.core.mutants import MUTANTS
from tests.crash.kit import bots
from tests.scenarios.app import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from runefold.runtime import Runtime
    from runefold.testing import Effects
    from runelog.rune import Envelope


def kinds(runtime: Runtime) -> list[str]:
    """Return the kinds of all that happened, in order."""
    return [each.kind for each in runtime.log.read(bots.NAME)]


def was_killed(runtime: Runtime) -> bool:
    """Tell whether the conversation was broken off."""
    return "session.reopened" in kinds(runtime)


# -- a log that does not keep what it has taken ----------------------------------------------------


def scenario_lacking(runtime: Runtime) -> None:
    """After a crash, have a log that has lost a rune."""
    _reading(runtime, lambda _: None)


def scenario_changed(runtime: Runtime) -> None:
    """After a crash, have a log in which a rune is another one."""
    _reading(runtime, Forged)


class Forged:
    """An envelope with something else in it."""

    def __init__(self, real: Envelope) -> None:
        """Keep all of it but what the message says."""
        assert isinstance(real.payload, InputAccepted)
        self._real = real
        self.payload = msgspec.structs.replace(real.payload, content="sell")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- whatever an envelope has
        """Be the same otherwise."""
        return getattr(self._real, name)


def _reading(runtime: Runtime, change: Callable[[Envelope], Any]) -> None:
    bots.scenario(runtime)
    if not was_killed(runtime):
        return
    real = runtime.log.read

    def read(conversation: str, *given: Any, **named: Any) -> Iterator[Envelope]:  # noqa: ANN401 -- as asked
        for each in real(conversation, *given, **named):
            if each.kind != "session.input_accepted":
                yield each
            elif (found := change(each)) is not None:
                yield found

    # Of this log alone: another one that the same process opens is whole.
    vars(runtime.log)["read"] = read


# -- a state that is not what its runes add up to --------------------------------------------------


class Drifted:
    """A session whose live state is another one."""

    def __init__(self, real: Any) -> None:  # noqa: ANN401 -- a session
        """Stand in for one."""
        self._real = real

    @property
    def state(self) -> Any:  # noqa: ANN401 -- a session's
        """Count one failed turn more than there was."""
        state = self._real.state
        return msgspec.structs.replace(state, failures=state.failures + 1)


def scenario_drifting(runtime: Runtime) -> None:
    """After a crash, have a session that believes something else than is in the log."""
    bots.scenario(runtime)
    if was_killed(runtime):
        real = runtime.session
        vars(runtime)["session"] = lambda name: Drifted(real(name))


# -- what an app is told too early -----------------------------------------------------------------


TOLD: Final = threading.Event()
"""Set once the app was told that its message is kept."""


def build_early(directory: Path) -> Runtime:
    """Open a bot in a runtime that says that a message is kept before it is on disk."""
    MUTANTS["told before it is on disk"].bug()
    # Whether the log writes it by itself meanwhile, or the commit is there before the app has taken
    # note, would be a matter of luck.
    mock.patch.object(leader, "FLUSH_AFTER", bots.PATIENCE).start()
    commit = GroupCommit.commit

    def late(commits: GroupCommit) -> None:
        TOLD.wait(0.1)
        commit(commits)

    mock.patch.object(GroupCommit, "commit", late).start()
    return bots.build(directory)


def scenario_paused(runtime: Runtime) -> None:
    """Send a message to a session that begins nothing yet; let it go on then."""
    session = bots.talk(runtime)
    TOLD.clear()
    until(runtime, lambda: session.state.phase is not Phase.CREATED)
    session.pause()
    turn = session.send("pay", message_id="m1")
    TOLD.set()
    session.resume()
    turn.result(bots.PATIENCE)


# -- what is wrong without a crash -----------------------------------------------------------------

STRAY: Final = Result(call_id="call_ffffffffffffffff", status="success")


def scenario_stray(runtime: Runtime) -> None:
    """Have a result in the log of a call that there is not."""
    bots.scenario(runtime)
    if STRAY not in [each.payload for each in runtime.log.read(bots.NAME)]:
        runtime.log.append(bots.NAME, [Change(STRAY.call_id, None, (STRAY,))])


# -- others ----------------------------------------------------------------------------------------


def scenario_gives_up(runtime: Runtime) -> None:
    """Talk to a bot whose model is asked once and never again."""
    try:
        session = runtime.session(bots.NAME)
    except UnknownConversation:
        spec = AgentSpec(role="bot", model="bot", tools=["pay"], retries=0)
        session = runtime.create_session(spec, conversation_id=bots.NAME)
    session.send("pay", message_id="m1").result(bots.PATIENCE)


def scenario_leaves(runtime: Runtime) -> None:
    """Have a payment made, and do not wait for it."""
    bots.talk(runtime).send("pay", message_id="m1")


def check_over(runtime: Runtime, _effects: Effects) -> None:
    """See that its turn was over when this was asked."""
    assert kinds(runtime)[-1] == "turn.completed"


def check_restarted(runtime: Runtime, effects: Effects) -> None:
    """See that an actor was started again, and that no process was."""
    found = kinds(runtime)

    assert ("session.child_restarted" in found) == bool(effects.point)
    assert not was_killed(runtime)
