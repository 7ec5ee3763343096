"""The proof for `chat.py`: a real server, a hundred clients, a kill in the middle of an answer."""

import asyncio
import contextlib
import json
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENTS = 100
PATIENCE = 120.0


class Server:
    """The app, served by uvicorn in a process of its own."""

    def __init__(self, directory: Path, pace: float, port: int = 0) -> None:
        """Start it, and wait until it takes requests."""
        command = [sys.executable, "-m", "uvicorn", "chat:app", "--port", str(port)]
        paths = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.process = subprocess.Popen(  # noqa: S603 -- the app itself
            [*command, "--timeout-graceful-shutdown", "1", "--no-access-log"],
            cwd=HERE,
            env=os.environ
            | {"CHAT_DATA": str(directory), "CHAT_PACE": str(pace), "PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.url = ""
        self.said: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        assert self._ready.wait(PATIENCE)
        assert self.url, "".join(self.said)

    def _read(self) -> None:
        """Read what it says, all the while: it would wait with a pipe that is full."""
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.said.append(line)
                if found := re.search(r"running on (http://127.0.0.1:(\d+))", line):
                    self.url, self.port = found[1], int(found[2])
                    self._ready.set()
        self._ready.set()

    def end(self) -> str:
        """End it in order, if it still runs; return what it said."""
        self.process.terminate()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return "".join(self.said)


@contextlib.contextmanager
def serving(directory: Path, pace: float = 0.0, port: int = 0) -> Iterator[Server]:
    """Serve the app within the block."""
    server = Server(directory, pace, port)
    try:
        yield server
    finally:
        server.end()


def client(server: Server) -> httpx.AsyncClient:
    """Return a client of a server. It need not read the certificates of the world for that."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE, verify=context)


async def stream(
    http: httpx.AsyncClient, chat: str, after: int = 0
) -> AsyncGenerator[tuple[int, dict[str, Any]]]:
    """Yield the events of a chat behind one, each with its id."""
    headers = {"last-event-id": str(after)}
    async with http.stream("GET", f"/chats/{chat}/events", headers=headers) as answer:
        assert answer.status_code == 200
        at = 0
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                at = int(value)
            elif name == "data":
                yield at, json.loads(value)


async def until(
    http: httpx.AsyncClient, chat: str, kind: str, after: int = 0
) -> list[tuple[int, dict[str, Any]]]:
    """Return the events of a chat behind one, up to the first of a kind."""
    found = []
    async with contextlib.aclosing(stream(http, chat, after)) as events:
        async for event in events:
            found.append(event)
            if event[1]["kind"] == kind:
                break
    return found


async def begun(http: httpx.AsyncClient, text: str) -> str:
    """Begin a chat with a message; return its id."""
    chat = str((await http.post("/chats")).json()["id"])
    path = f"/chats/{chat}/messages/first"
    # Twice, as a client would that had no answer.
    for _ in range(2):
        assert (await http.put(path, json={"text": text})).status_code == 202
    return chat


def words(events: list[tuple[int, dict[str, Any]]]) -> str:
    """Return what was answered."""
    return "".join(event["text"] for _, event in events if event["kind"] == "delta")


def test_a_hundred_clients_have_their_answers_and_nobody_elses(tmp_path: Path) -> None:
    """Each follows its own chat, word by word; then the server ends in order, streams and all."""

    async def one(server: Server, number: int) -> None:
        async with client(server) as http:
            chat = await begun(http, f"I am client {number}.")
            events = await until(http, chat, "end")
            ids = [at for at, _ in events]
            assert [event["kind"] for _, event in events].count("message") == 1
            assert f"“I am client {number}.”" in words(events)
            assert all(first < second for first, second in pairwise(ids))
            # A browser that comes back is told what comes behind, and nothing twice.
            again = await until(http, chat, "end", ids[0])
            assert again == events[1:]

    async def main(server: Server) -> int:
        await asyncio.gather(*(one(server, number) for number in range(CLIENTS)))
        async with client(server) as http:
            return len((await http.get("/chats")).json())

    with serving(tmp_path) as server:
        assert asyncio.run(main(server)) == CLIENTS
        said = server.end()

    assert "Application shutdown complete" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("verdict", "says"), [("approve", "25 euros"), ("deny", "denied")])
def test_a_refund_waits_for_a_button(tmp_path: Path, verdict: str, says: str) -> None:
    """What is pressed happens, once: pressed again, the second answer is refused by name."""

    async def main(server: Server) -> tuple[list[int], dict[str, Any]]:
        async with client(server) as http:
            chat = await begun(http, "A refund, please.")
            *_, (at, asked) = await until(http, chat, "approval")
            path = f"/chats/{chat}/calls/{asked['call_id']}/{verdict}"
            first, second = await http.post(path), await http.post(path.replace("deny", "approve"))
            [(_, result), *_] = await until(http, chat, "result", at)
            await until(http, chat, "end", at)
            return [first.status_code, second.status_code], result

    with serving(tmp_path) as server:
        status, result = asyncio.run(main(server))

    assert status[0] == 204
    assert status[1] == (204 if verdict == "approve" else 409)
    assert says in json.dumps(result)


def test_a_client_misses_nothing_although_the_server_is_killed(tmp_path: Path) -> None:
    """In the middle of an answer, with SIGKILL: it comes back with the last id it had."""

    async def before(server: Server) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
        async with client(server) as http:
            chat = await begun(http, "Tell me.")
            found = []
            async with contextlib.aclosing(stream(http, chat)) as events:
                async for event in events:
                    found.append(event)
                    if [each["kind"] for _, each in found].count("delta") == 3:
                        server.process.kill()
                        break
            return chat, found

    async def after(server: Server, chat: str, last: int) -> list[list[tuple[int, dict[str, Any]]]]:
        async with client(server) as http:
            return [await until(http, chat, "end", last), await until(http, chat, "end")]

    with serving(tmp_path, pace=0.05) as server:
        chat, seen = asyncio.run(before(server))
        server.process.wait(PATIENCE)
    with serving(tmp_path, port=server.port) as server:
        rest, everything = asyncio.run(after(server, chat, seen[-1][0]))

    kinds = [event["kind"] for _, event in everything]
    restarted = kinds.index("restarted")
    assert "end" not in [event["kind"] for _, event in seen]
    assert seen + rest == everything
    assert "“Tell me.”" in words(everything[restarted:])
    assert kinds.count("message") == kinds.count("end") == 1


def test_what_is_not_there_is_said_in_words(tmp_path: Path) -> None:
    """An unknown chat, an empty message, and the page itself."""

    async def main(server: Server) -> list[httpx.Response]:
        async with client(server) as http:
            chat = (await http.post("/chats")).json()["id"]
            return [
                await http.get("/chats/none/events"),
                await http.put(f"/chats/{chat}/messages/one", json={"text": " "}),
                await http.get("/"),
                await http.get("/page.js"),
                await http.get("/page.css"),
            ]

    with serving(tmp_path) as server:
        unknown, empty, *page = asyncio.run(main(server))

    assert (unknown.status_code, empty.status_code) == (404, 409)
    assert "empty" in empty.json()["error"]
    assert [each.status_code for each in page] == [200] * 3
