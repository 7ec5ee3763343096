"""The web workers, as many as you like: `uvicorn web:app --workers 4`."""

import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

from runefold import AgentSpec, AsyncRuntime, AsyncSession, Envelope, Visibility

HELPER = AgentSpec(role="helper", model="demo")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect when the worker starts; while the runtime is down, requests wait for 30 seconds."""
    directory = os.environ.get("DESK", "desk")
    async with AsyncRuntime.connect(directory, wait=30) as app.state.runtime:
        yield


app = FastAPI(lifespan=lifespan)


def chat(name: str) -> Awaitable[AsyncSession]:
    """Return a chat, to be awaited; whichever worker is first begins it."""
    runtime: AsyncRuntime = app.state.runtime
    return runtime.session(name, create=HELPER)


@app.put("/chats/{name}/{message_id}")
async def say(name: str, message_id: str, text: str) -> dict[str, str | int]:
    """Send a message; a client that gets no answer repeats the request, and it counts once."""
    session = await chat(name)
    turn = await session.send(text, message_id=message_id)
    return {"answer": (await turn.result(timeout=60)).output, "worker": os.getpid()}


@app.get("/chats/{name}")
async def live(name: str, last_event_id: Annotated[int, Header()] = 0) -> StreamingResponse:
    """Stream a chat as server-sent events; a browser that comes back misses nothing."""
    session = await chat(name)

    async def lines() -> AsyncIterator[str]:
        async for rune in session.follow(last_event_id, visibility=Visibility.PUBLIC, wait=20):
            if isinstance(rune, Envelope):
                yield f"id: {rune.event_id}\nevent: {rune.kind}\ndata:\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")
