"""A chat in FastAPI: answers as they come, refunds that a human approves. See README.md."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from fastapi import Depends, FastAPI, Header
from fastapi.requests import Request as HttpRequest
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse

from runefold import AgentSpec, AsyncRuntime, AsyncSession, Envelope, tool
from runefold.errors import Overloaded, Refused, UnknownConversation
from runefold.providers import Done, Event, Request, Text, call

HERE = Path(__file__).parent
PACE = float(os.environ.get("CHAT_PACE", "0.04"))
"""Seconds between two words of the stand-in for a model."""
HEARTBEAT = 15.0
"""Seconds of silence after which a stream says that it is still there."""

SHOWN = {
    "session.input_accepted": "message",
    "turn.assistant_delta": "delta",
    "turn.stream_restarted": "restarted",
    "tool.call": "call",
    "tool.approval_requested": "approval",
    "tool.result": "result",
    "turn.completed": "end",
    "turn.interrupted": "end",
    "turn.error": "end",
}
"""The runes that the page is shown, and what they are called there."""


@tool(requires_approval=True, idempotent=True)
def refund(order: str, euros: int) -> str:
    """Give a customer money back."""
    return f"{euros} euros were paid back for order {order}"


class Clerk:
    """Stands in for a model: it runs on the app's own event loop, as an HTTP client would."""

    async def stream(self, request: Request) -> AsyncIterator[Event]:
        """Ask for the refund that is spoken of, or talk a little."""
        last = request.messages[-1]
        if last.role == "tool":
            answer = f"Done: {last.text}. Is there anything else?"
        elif "refund" in last.text.lower():
            answer = "I can do that. Somebody has to approve it first. "
        else:
            answer = f"You wrote: “{last.text}” I can tell you a lot about that, word by word. " + (
                "Each of them is on disk before you see it, so that nothing is lost. " * 3
            )
        for word in answer.split():
            yield Text(f"{word} ")
            await asyncio.sleep(PACE)
        if last.role == "user" and "refund" in last.text.lower():
            yield call("refund", order="A-17", euros=25)
        yield Done()


CLERK = AgentSpec(
    role="clerk", model="clerk", instructions="You help customers of a shop.", tools=["refund"]
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the runtime; when the app stops, turns that run may end first."""
    directory = os.environ.get("CHAT_DATA", "data")
    models = {"clerk": Clerk()}
    async with AsyncRuntime.open(directory, tools=[refund], providers=models) as runtime:
        app.state.runtime = runtime
        yield
        await runtime.close(drain=True, timeout=10)


app = FastAPI(title="A chat that survives", lifespan=lifespan)


def runtime_of(request: HttpRequest) -> AsyncRuntime:
    """Return the runtime of the app."""
    found: AsyncRuntime = request.app.state.runtime
    return found


Runtime = Annotated[AsyncRuntime, Depends(runtime_of)]


async def chat_of(chat: str, runtime: Runtime) -> AsyncSession:
    """Return the chat that a path names."""
    return await runtime.session(chat)


Chat = Annotated[AsyncSession, Depends(chat_of)]


@app.exception_handler(UnknownConversation)
@app.exception_handler(Refused)
@app.exception_handler(Overloaded)
async def refused(_: HttpRequest, error: Exception) -> JSONResponse:
    """Say why not: the runtime's errors name the thing and the way out."""
    status = {UnknownConversation: 404, Overloaded: 503}.get(type(error), 409)
    return JSONResponse({"error": str(error)}, status)


# -- chats --------------------------------------------------------------------------------------


class Message(msgspec.Struct):
    """What a user writes."""

    text: str


@app.post("/chats", status_code=201)
async def begin(runtime: Runtime) -> dict[str, str]:
    """Begin a chat."""
    return {"id": (await runtime.create_session(CLERK)).id}


@app.get("/chats")
async def chats(runtime: Runtime) -> list[str]:
    """List the chats."""
    return [session.id async for session in runtime.sessions()]


@app.put("/chats/{chat}/messages/{message_id}", status_code=202)
async def say(chat: Chat, message_id: str, request: HttpRequest) -> dict[str, str]:
    """Take a message. Sent again under the same id, as after a lost answer, it counts once."""
    message = msgspec.json.decode(await request.body(), type=Message)
    turn = await chat.send(message.text, message_id=message_id)
    return {"message_id": turn.message_id}


@app.post("/chats/{chat}/calls/{call_id}/{verdict}", status_code=204)
async def decide(chat: Chat, call_id: str, verdict: str) -> None:
    """Approve a call that waits for a human, or deny it."""
    if verdict == "approve":
        await chat.approve(call_id, approver="page")
    else:
        await chat.deny(call_id, approver="page", reason="denied on the page")


# -- live ---------------------------------------------------------------------------------------


@app.get("/chats/{chat}/events")
async def events(chat: Chat, last_event_id: Annotated[int, Header(ge=0)] = 0) -> StreamingResponse:
    """Stream a chat as server-sent events, behind the last one that the browser had."""
    return StreamingResponse(
        live(chat, last_event_id),
        media_type="text/event-stream",
        headers={"cache-control": "no-store"},
    )


async def live(chat: AsyncSession, after: int) -> AsyncIterator[bytes]:
    """Give the events of a chat, each with its id; a heartbeat where nothing happens."""
    while True:
        async for rune in chat.follow(after, kinds=SHOWN, wait=HEARTBEAT):
            if isinstance(rune, Envelope):
                after = rune.event_id
                yield event(rune)
        yield b": still here\n\n"


def event(rune: Envelope) -> bytes:
    """Return a rune as a server-sent event, with no more of it than the page needs."""
    fields: dict[str, Any] = msgspec.to_builtins(rune.payload)
    wanted = ("content", "text", "call_id", "tool_name", "arguments", "status", "output", "reason")
    data = {"kind": SHOWN[rune.kind]} | {name: fields[name] for name in wanted if name in fields}
    return b"id: %d\ndata: %s\n\n" % (rune.event_id, msgspec.json.encode(data))


# -- the page -----------------------------------------------------------------------------------


@app.get("/")
async def page() -> FileResponse:
    """Give the page."""
    return FileResponse(HERE / "page.html")


@app.get("/page.{kind}")
async def part(kind: str) -> FileResponse:
    """Give its script and its style."""
    return FileResponse(HERE / ("page.js" if kind == "js" else "page.css"))
