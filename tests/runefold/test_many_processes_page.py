"""Rules about the page on many processes: copied and typed as it stands, it works."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from typing import TYPE_CHECKING, Any, Final

import pytest

from runefold.connected import ConnectedRuntime
from runefold.runtime import Runtime
from tests.runefold.cli_scenes import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE: Final = (ROOT / "docs" / "many-processes.md").read_text("utf-8")
EXAMPLE: Final = ROOT / "examples" / "many_processes"
FILES: Final = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
UNITS: Final = dict(re.findall(r"```ini\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
[COMMANDS] = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
SERVE, WEB = (shlex.split(line) for line in COMMANDS.splitlines())
PATIENCE: Final = 120.0
WORKERS: Final = 4


def test_the_page_shows_the_example() -> None:
    """Every file of it, line for line, and every block of the page is one."""
    shown = {name for name in FILES if (EXAMPLE / name).read_text("utf-8") == FILES[name]}

    assert shown == {each.name for each in EXAMPLE.glob("*.py")} - {"test_desks.py"}
    assert PAGE.count("```python") == len(FILES)


def test_the_units_start_what_the_page_types() -> None:
    """The same commands, in an environment of their own, with what keeps the runtime alive."""
    found = {}
    for name, text in UNITS.items():
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]  # names as they are written
        unit.read_string(text)
        found[name] = unit["Service"]
    desk, web = found["desk.service"], found["desk-web.service"]
    drain = shlex.split(desk["ExecStart"])[-2:]

    assert desk["ExecStart"].removeprefix(f"{desk['WorkingDirectory']}/.venv/bin/") == " ".join(
        [*SERVE, *drain]
    )
    assert web["ExecStart"].removeprefix(f"{web['WorkingDirectory']}/.venv/bin/") == " ".join(WEB)
    assert desk["Restart"] == web["Restart"] == "always"
    assert (desk["KillMode"], drain[0]) == ("mixed", "--drain")
    assert int(drain[1]) < int(desk["TimeoutStopSec"])
    assert (desk["User"], desk["WorkingDirectory"]) == (web["User"], web["WorkingDirectory"])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with what was copied from the page, and nothing else."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    return tmp_path


@contextlib.contextmanager
def started(command: list[str], folder: Path, ready: str, times: int) -> Iterator[Any]:
    """Run a command of the page until it has said that it is ready, so often."""
    program = [sys.executable, "-m", *command]
    with subprocess.Popen(
        program,
        cwd=folder,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    ) as process:
        assert process.stdout is not None
        told: list[str] = []
        try:
            while sum(ready in line for line in told) < times:
                told.append(process.stdout.readline())
                assert told[-1], told
            # What it says later is not read, and must not fill the pipe.
            with ThreadPoolExecutor(1) as reader:
                reader.submit(process.stdout.read)
                try:
                    yield process
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def asked(port: int, method: str, path: str, **headers: str) -> Iterator[HTTPResponse]:
    """Give what is answered to a request."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        yield answer


def test_four_workers_behind_one_port_outlive_the_runtime(folder: Path) -> None:
    """Every request is answered, and each message counts once, though the runtime is killed."""
    port = free_port()
    serve = ["runefold", *SERVE[1:]]
    web = [*WEB, "--port", str(port)]
    assert WEB[-2:] == ["--workers", str(WORKERS)]

    def say(number: int) -> dict[str, Any]:
        path = f"/chats/chat_{number % 3}/m{number}?text=Hi"
        with asked(port, "PUT", path) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    with (
        ThreadPoolExecutor(8) as pool,
        started(serve, folder, "running", 1) as owner,
        started(web, folder, "Application startup complete", WORKERS),
    ):
        before = [*pool.map(say, range(24))]
        later = [pool.submit(say, number) for number in range(12, 48)]
        later[0].result(PATIENCE)
        owner.kill()
        owner.wait()
        with started(serve, folder, "running", 1):
            after = [each.result(PATIENCE) for each in later]
            with Runtime.connect(folder / SERVE[2]) as runtime:
                counts = {each.id: each.state.stats.messages for each in runtime.sessions()}
                ends = [*runtime.session("chat_0").runes(kinds={"turn.completed"})]
            seen = ends[3].event_id
            with asked(port, "GET", "/chats/chat_0", **{"Last-Event-ID": str(seen - 1)}) as stream:
                streamed = [stream.readline().decode().strip() for _ in range(2)]

    assert {each["answer"] for each in [*before, *after]} == {"You said: Hi"}
    assert 1 < len({each["worker"] for each in [*before, *after]}) <= WORKERS
    assert isinstance(runtime, ConnectedRuntime)
    assert counts == {"chat_0": 16, "chat_1": 16, "chat_2": 16}
    assert streamed == [f"id: {seen}", "event: turn.completed"]
