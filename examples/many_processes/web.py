"""The web workers, as many as you like: `uvicorn web:app --workers 4`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

from fastapi import FastAPI, Header
from fastapi.responses import StreamingResponse

from runefold import AgentSpec, Envelope, Runtime, Session, Visibility
from runefold.errors import Refused, UnknownConversation

HELPER = AgentSpec(role="helper", model="demo")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect when the worker starts; while the runtime is down, requests wait for 30 seconds."""
    with Runtime.connect(os.environ.get("DESK", "desk"), wait=30) as app.state.runtime:
        yield


app = FastAPI(lifespan=lifespan)


def chat(name: str) -> Session:
    """Return a chat; begin it if it is not there."""
    runtime: Runtime = app.state.runtime
    with suppress(UnknownConversation):
        return runtime.session(name)
    with suppress(Refused):  # another worker was first
        return runtime.create_session(HELPER, conversation_id=name)
    return runtime.session(name)


@app.put("/chats/{name}/{message_id}")
def say(name: str, message_id: str, text: str) -> dict[str, str | int]:
    """Send a message; a client that gets no answer repeats the request, and it counts once."""
    turn = chat(name).send(text, message_id=message_id)
    return {"answer": turn.result(timeout=60).output, "worker": os.getpid()}


@app.get("/chats/{name}")
async def live(name: str, last_event_id: Annotated[int, Header()] = 0) -> StreamingResponse:
    """Stream a chat as server-sent events; a browser that comes back misses nothing."""

    async def lines() -> AsyncIterator[str]:
        found = chat(name).follow(last_event_id, visibility=Visibility.PUBLIC, wait=20)
        async for rune in found:
            if isinstance(rune, Envelope):
                yield f"id: {rune.event_id}\nevent: {rune.kind}\ndata:\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")
