"""`python -m runefold.demo`: a team of agents is killed at the worst moment, and finishes.

A child process runs the team: a planner asks a scout and a cashier, who call tools; one payment
waits for an approval. This process follows the log, as any process may, and prints the story.
When the card has been charged and the log does not have it yet, the child gets SIGKILL. A second
child opens the same directory. All it knows is in the log: it asks the payment's probe whether the
charge happened, and goes on.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from actors.catalogue import CODEC
from actors.model.providers.scripted import Scripted, call, pause
from actors.tool.adapters.function import tool
from actors.tool.context import CallId
from actors.tool.outcome import Happened
from runefold.agents import AgentTool
from runefold.runtime import Runtime
from runefold.spec import AgentSpec, Budget
from runelog.repair.verify import verify
from runelog.rune import Gap
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

    from actors.model.provider import Request
    from actors.model.providers.scripted import Line
    from runelog.rune import Envelope

CONVERSATION: Final = "conv_demo"
TASK: Final = "Book Ada a train to Oslo on Friday. Spend 120 at most."
PATIENCE: Final = 30.0
LEDGER: Final = "charges.txt"
"""What the payment service did, outside of the log."""


# -- the team, which gets killed -----------------------------------------------------------------


def _charges(directory: Path) -> Counter[str]:
    """Return how often each call was really charged."""
    path = directory / LEDGER
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return Counter(line.split()[0] for line in lines)


def team(directory: Path) -> dict[str, Any]:
    """Return the tools and the models of the team."""

    @tool(side_effects=False)
    def search_trains(to: str, day: str) -> list[dict[str, object]]:
        """Search for trains."""
        time.sleep(0.4)
        return [{"train": "IC 61", "to": to, "day": day, "price": 96}]

    @tool(side_effects=False)
    def check_seats(train: str) -> str:
        """Look whether seats are left."""
        time.sleep(0.3)
        return f"{train}: 4 seats left"

    def was_charged(call_id: str, _arguments: Mapping[str, object]) -> Happened | None:
        return Happened("charged") if _charges(directory)[call_id] else None

    @tool(requires_approval=True, on_doubt="probe", probe=was_charged)
    def charge_card(amount: int, call_id: CallId) -> str:
        """Charge the customer's card."""
        with (directory / LEDGER).open("a", encoding="utf-8") as ledger:
            ledger.write(f"{call_id} {amount}\n")
        time.sleep(1.0)  # the service has charged, and takes its time to say so
        return "charged"

    scout = AgentSpec(role="scout", model="scout", tools=["search_trains", "check_seats"])
    cashier = AgentSpec(role="cashier", model="cashier", tools=["charge_card"])
    return {
        "tools": [
            search_trains,
            check_seats,
            charge_card,
            AgentTool("ask_scout", scout, "Ask the scout for the best train."),
            AgentTool("ask_cashier", cashier, "Have the cashier pay."),
        ],
        "providers": {
            "planner": Scripted(_planner),
            "scout": Scripted(_scout),
            "cashier": Scripted(_cashier),
        },
    }


def _words(text: str) -> list[Line]:
    """Say something word by word, as models do."""
    lines: list[Line] = []
    for word in text.split():
        lines += [f"{word} ", pause(0.03)]
    return lines


def _results(request: Request) -> int:
    """Count the tool results since the last question."""
    count = 0
    for message in reversed(request.messages):
        if message.role == "user":
            break
        count += message.role == "tool"
    return count


def _planner(request: Request) -> list[Line]:
    match _results(request):
        case 0:
            ask = call("ask_scout", question="A train to Oslo on Friday, 120 at most?")
            return [*_words("The scout will find a train."), ask]
        case 1:
            ask = call("ask_cashier", question="Please pay 96 for IC 61.")
            return [*_words("IC 61 it is. The cashier will pay."), ask]
        case _:
            return _words("Ada is booked on IC 61 to Oslo on Friday, for 96.")


def _scout(request: Request) -> list[Line]:
    if _results(request):
        return _words("IC 61 for 96, with seats left.")
    look = [call("search_trains", to="Oslo", day="Friday"), call("check_seats", train="IC 61")]
    return [*_words("I look at trains and seats at once."), *look]


def _cashier(request: Request) -> list[Line]:
    if _results(request):
        return _words("Paid, once.")
    return [*_words("I charge 96, if I may."), call("charge_card", amount=96)]


def run_team(directory: Path) -> int:
    """Run the team until its task is done; a human approves after a moment."""
    with Runtime.open(directory / "log", **team(directory)) as runtime:
        if any(session.id == CONVERSATION for session in runtime.sessions()):
            session = runtime.session(CONVERSATION)
        else:
            tools = ["ask_scout", "ask_cashier"]
            spec = AgentSpec(role="planner", model="planner", tools=tools)
            session = runtime.create_session(
                spec, conversation_id=CONVERSATION, budget=Budget(tokens=200_000)
            )
        turn = session.send(TASK, message_id="task")
        for rune in session.follow(kinds={"approval.awaiting", "turn.completed"}, wait=PATIENCE):
            if isinstance(rune, Gap):
                continue
            if rune.kind == "approval.awaiting":
                time.sleep(0.8)  # a human looks at it
                for approval in session.approvals():
                    session.approve(approval.call_id, approver="you")
            elif rune.owner == turn.id:
                break
        return 0 if turn.result(PATIENCE) else 1


# -- the story -----------------------------------------------------------------------------------


class Story:
    """Tells what the log says, in a reader's words."""

    def __init__(self, console: Console) -> None:
        """Begin without any name."""
        self._console = console
        self._roles: dict[str, str] = {}
        self._calls: dict[str, str] = {}
        self._said: dict[str, str] = {}

    def tell(self, envelope: Envelope) -> None:
        """Tell of one rune, if it is worth a line."""
        rune: Any = envelope.payload
        who = self._roles.get(envelope.agent or "", "")
        match envelope.kind:
            case "agent.spawning":
                self._roles[rune.agent_id] = rune.role
                self._line(envelope, "white", f"{rune.role} joins")
            case "turn.started":
                self._line(envelope, "cyan", f"{self._roles[rune.agent_id]} is asked: {rune.input}")
            case "turn.assistant_delta":
                said = self._said.get(envelope.owner, "") + rune.text
                self._said[envelope.owner] = said
            case "model.completed":
                words = self._said.pop(envelope.owner, "").strip()
                self._line(envelope, "green", f"{who}: “{words}”")
            case "tool.call":
                self._calls[rune.call_id] = rune.tool_name
                self._line(envelope, "yellow", f"{who} calls {rune.tool_name} {rune.arguments}")
            case "tool.approval_requested":
                self._line(envelope, "magenta", f"waits for your approval: {rune.policy_reason}")
            case "tool.approved":
                self._line(envelope, "magenta", f"approved by {rune.approver}")
            case "tool.result":
                name = self._calls.get(rune.call_id, rune.call_id)
                self._line(envelope, "yellow", f"{name}: {rune.status} {rune.output or ''}")
            case "session.reopened":
                self._line(envelope, "bold blue", "opened again: something was under way")
            case "tool.doubted":
                self._line(envelope, "bold blue", "in doubt: did it happen? Its probe is asked")
            case "turn.stream_restarted":
                self._line(envelope, "bold blue", "the model is asked again")
            case _:
                pass

    def _line(self, envelope: Envelope, style: str, text: str) -> None:
        self._console.print(f"[dim]{envelope.event_id:>4}[/]  [{style}]{_plain(text)}[/]")


def _plain(text: str) -> str:
    return text.replace("[", "\\[")


def _child(directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "runefold.demo", "--team", str(directory)]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL)


def _live(directory: Path, child: subprocess.Popen[bytes]) -> Iterator[Envelope]:
    """Follow the team's log from this process, once it is there."""
    end = time.monotonic() + PATIENCE
    while not (directory / "log" / "MANIFEST").exists():
        if child.poll() is not None or time.monotonic() > end:
            return
        time.sleep(0.02)
    with Runelog.open(directory / "log", CODEC, readonly=True) as log:
        while not any(each.id == CONVERSATION for each in log.conversations()):
            if child.poll() is not None or time.monotonic() > end:
                return
            time.sleep(0.02)
        for item in log.follow(CONVERSATION, wait=PATIENCE):
            if not isinstance(item, Gap):
                yield item


def _first_life(console: Console, directory: Path, story: Story) -> int:
    """Follow the team until the card is charged, and kill it there; return the last event seen."""
    child = _child(directory)
    last = 0
    charge = ""
    for envelope in _live(directory, child):
        story.tell(envelope)
        last = envelope.event_id
        rune: Any = envelope.payload
        if envelope.kind == "tool.call" and rune.tool_name == "charge_card":
            charge = rune.call_id
        if envelope.kind == "tool.started" and envelope.owner == charge:
            end = time.monotonic() + PATIENCE
            while not _charges(directory)[charge] and time.monotonic() < end:
                time.sleep(0.01)
            child.send_signal(signal.SIGKILL)
            break
    code = child.wait()
    console.print(
        f"\n  [bold red]kill -9[/] (exit {code}): the card is charged, "
        "and the log does not know it\n"
    )
    return last if code == -signal.SIGKILL else -1


def _second_life(console: Console, directory: Path, story: Story, last: int) -> int:
    """Open it again in a new process, and follow it to the end."""
    console.print("  opening the same directory in a new process …\n")
    child = _child(directory)
    for envelope in _live(directory, child):
        if envelope.event_id > last:
            story.tell(envelope)
        if envelope.kind == "turn.completed" and envelope.owner == "turn_1":
            break
    return child.wait()


def _judge(directory: Path, last: int) -> list[str]:
    """Return what went wrong; nothing if nothing did."""
    wrong = []
    charges = _charges(directory)
    if list(charges.values()) != [1]:
        wrong.append(f"the card was charged {sum(charges.values())} times")
    with Runelog.open(directory / "log", CODEC, readonly=True) as log:
        runes = list(log.read(CONVERSATION))
        if [rune.event_id for rune in runes] != list(range(1, len(runes) + 1)) or len(runes) < last:
            wrong.append("events are missing")
        results = Counter(rune.owner for rune in runes if rune.kind == "tool.result")
        called = Counter(rune.owner for rune in runes if rune.kind == "tool.call")
        if results != called:
            wrong.append("a call has no result, or more than one")
    if not verify(directory / "log").ok:
        wrong.append("the log does not verify")
    return wrong


def main() -> int:
    """Tell the story; return 0 if it ended well."""
    if sys.argv[1:2] == ["--team"]:
        return run_team(Path(sys.argv[2]))
    if importlib.util.find_spec("rich") is None:
        print("the demo needs rich: pip install 'runefold[cli]'")
        return 1
    from rich.console import Console  # noqa: PLC0415 -- an extra

    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="runefold-demo-"))
    try:
        console.print(
            f"\n  [bold]{TASK}[/]\n  a planner, a scout and a cashier; no network, no key\n"
        )
        story = Story(console)
        last = _first_life(console, directory, story)
        code = _second_life(console, directory, story, last) if last >= 0 else 1
        wrong = _judge(directory, last) if last >= 0 else ["the team ended before it was killed"]
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if code or wrong:
        console.print(f"\n  [bold red]failed[/]: {'; '.join(wrong) or 'the team did not finish'}")
        return 1
    console.print(
        "\n  [bold green]nothing lost, nothing run twice[/]: one charge, every call has one result,"
        "\n  every rune that was acknowledged is there, and the log verifies.\n"
    )
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status) if sys.argv[1:2] == ["--team"] else sys.exit(status)
