"""Small apps to crash: one that is sound, and others with one thing wrong each."""

from __future__ import annotations

import os
import secrets
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from actors.model.providers.scripted import Scripted, call, pause
from actors.tool import lifecycle
from actors.tool.adapters.function import tool
from actors.tool.context import CallId, progress
from actors.tool.outcome import Happened
from runefold.runtime import Runtime
from runefold.spec import AgentSpec
from runefold.testing import CrashApp
from runelog.errors import UnknownConversation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runefold.sessions import Session
    from runefold.testing import Effects

NAME: Final = "conv_bot"
PATIENCE: Final = 20.0
MODEL: Final = Scripted([["I pay. ", call("pay", cents=5)], ["Paid."]])


class Bank:
    """A service outside: it writes down what it did."""

    def __init__(self, directory: Path) -> None:
        """Keep the book in the app's directory."""
        self._book = directory / "bank"

    def pay(self, key: str) -> None:
        """Pay once more, whatever the key."""
        handle = os.open(self._book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{key}\n".encode())
        os.close(handle)

    def paid(self) -> list[str]:
        """Return the keys of all payments."""
        return self._book.read_text("utf-8").splitlines() if self._book.exists() else []


def talk(runtime: Runtime, name: str = NAME, tools: Sequence[str] = ("pay",)) -> Session:
    """Return the conversation; begin it if it is not there."""
    try:
        return runtime.session(name)
    except UnknownConversation:
        spec = AgentSpec(role="bot", model="bot", tools=list(tools))
        return runtime.create_session(spec, conversation_id=name)


def open_with(directory: Path, **options: Any) -> Runtime:  # noqa: ANN401 -- those of a tool
    """Open a runtime with a tool that pays."""
    bank = Bank(directory)

    @tool(**options)
    def pay(cents: int, key: CallId) -> str:  # noqa: ARG001 -- what a model would say
        """Pay somebody."""
        bank.pay(key)
        return "paid"

    return Runtime.open(directory, tools=[pay], providers={"bot": MODEL})


def build(directory: Path) -> Runtime:
    """Open a bot whose payments can be asked about."""
    bank = Bank(directory)

    def was_paid(key: str, _arguments: Mapping[str, Any]) -> Happened | None:
        return Happened("paid") if key in bank.paid() else None

    return open_with(directory, on_doubt="probe", probe=was_paid)


def build_lying(directory: Path) -> Runtime:
    """Open a bot whose probe always says that nothing happened."""
    return open_with(directory, on_doubt="probe", probe=lambda _key, _arguments: None)


def build_careless(directory: Path) -> Runtime:
    """Open a bot that says it may pay again under the same key, though its bank ignores keys."""
    return open_with(directory, idempotent=True)


def build_blind(directory: Path) -> Runtime:
    """Open a bot whose payments nobody can ask about."""
    return open_with(directory)


def build_repeating(directory: Path) -> Runtime:
    """Open a bot that says something on the way, in a runtime with a bug: doubts are run again."""
    bank = Bank(directory)
    opened: list[Runtime] = []

    def run_again(state: Any, now: int) -> list[Any]:  # noqa: ANN401 -- a call, and what follows
        return [lifecycle._retried(state, now, "why not", "in_doubt")]

    @tool
    def pay(cents: int, key: CallId) -> str:  # noqa: ARG001 -- what a model would say
        """Pay somebody, and do not come back before that is known."""
        bank.pay(key)
        progress("paid")
        opened[0].wait_for(NAME, "tool.progress", PATIENCE)
        return "paid"

    # Nobody takes it out again: it is put in where the app lives, and dies with it.
    mock.patch.object(lifecycle, "_in_doubt", run_again).start()
    opened.append(Runtime.open(directory, tools=[pay], providers={"bot": MODEL}))
    return opened[0]


def scenario(runtime: Runtime) -> None:
    """Have one payment made."""
    talk(runtime).send("pay", message_id="m1").result(PATIENCE)


async def scenario_async(runtime: Runtime) -> None:
    """Do the same without holding an event loop up."""
    await talk(runtime).send("pay", message_id="m1")


def build_moody(directory: Path) -> Runtime:
    """Open a bot whose model says something else each time."""
    return Runtime.open(directory, providers={"bot": Scripted(lambda _: f"I feel {uuid.uuid4()}")})


def build_slow(directory: Path) -> Runtime:
    """Open a bot whose model says nothing for a long while."""
    return Runtime.open(directory, providers={"bot": Scripted([[pause(50), "Well."]])})


def scenario_small(runtime: Runtime) -> None:
    """Have a word with a bot that has no tools."""
    try:
        session = runtime.session(NAME)
    except UnknownConversation:
        spec = AgentSpec(role="bot", model="bot")
        session = runtime.create_session(spec, conversation_id=NAME)
    session.send("How are you?", message_id="m1").result(PATIENCE)


def scenario_twice(runtime: Runtime) -> None:
    """Have a payment made under a new id each time: it cannot be called again."""
    talk(runtime).send("pay").result(PATIENCE)


def remembered(runtime: Runtime, make: Callable[[], str]) -> str:
    """Return an id that is made up once and kept in a file."""
    file: Path = runtime.log.directory / "name"  # type: ignore[attr-defined]  # wherever it is
    if not file.exists():
        file.write_text(make(), "utf-8")
    return file.read_text("utf-8")


def scenario_own_id(runtime: Runtime) -> None:
    """Have a payment made in a conversation whose id is another one in each run."""
    name = remembered(runtime, lambda: f"conv_{uuid.uuid4().hex}")
    talk(runtime, name).send("pay", message_id="m1").result(PATIENCE)


def scenario_nowhere(runtime: Runtime) -> None:
    """Do the same under a name by which nobody can find it again."""
    name = remembered(runtime, lambda: "conv_" + "".join(secrets.choice("ghij") for _ in range(20)))
    talk(runtime, name).send("pay", message_id="m1").result(PATIENCE)


def scenario_anew(runtime: Runtime) -> None:
    """Begin the conversation, whether it is there or not."""
    spec = AgentSpec(role="bot", model="bot", tools=["pay"])
    session = runtime.create_session(spec, conversation_id=NAME)
    session.send("pay", message_id="m1").result(PATIENCE)


def scenario_stuck(runtime: Runtime) -> None:
    """Wait for ever, but only after a crash."""
    scenario(runtime)
    if any(each.kind == "session.reopened" for each in runtime.log.read(NAME)):
        threading.Event().wait()


def scenario_dying(runtime: Runtime) -> None:
    """End the process without a word, but only after a crash."""
    scenario(runtime)
    if any(each.kind == "session.reopened" for each in runtime.log.read(NAME)):
        os._exit(3)


def check(runtime: Runtime, effects: Effects) -> None:
    """Hold the bank to one payment."""
    paid = Bank(runtime.log.directory).paid()  # type: ignore[attr-defined]  # wherever it is

    per_call = effects.per_call("pay")

    assert len(paid) == len(set(paid)) == 1, paid
    assert effects.count("pay") == sum(per_call.values()) >= 1
    assert [*per_call] == paid
    assert effects.twice() == {key: count for key, count in per_call.items() if count > 1}


def check_undisturbed(_runtime: Runtime, effects: Effects) -> None:
    """Find fault with every run but the undisturbed one."""
    assert not effects.point, "something is wrong here"


def check_where(_runtime: Runtime, effects: Effects) -> None:
    """Say in which process it was looked at."""
    if effects.point:
        Path(os.environ["KIT_PLACES"], str(os.getpid())).touch()


SOUND: Final = CrashApp(build, scenario, check, "a sound bot")
LIAR: Final = CrashApp(build_lying, scenario, check, "a lying bot")
LOST: Final = CrashApp(build, scenario_nowhere, name="a bot that is nowhere met")
