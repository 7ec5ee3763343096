"""The runtime, in a process of its own: `runefold serve desk helpdesk:build`."""

from pathlib import Path

from runefold import Runtime
from runefold.providers import Request, Scripted


def answer(request: Request) -> str:
    """Stand in for a model."""
    return f"You said: {request.messages[-1].text}"


def build(directory: Path) -> Runtime:
    """Open the runtime: tools, providers and policies are here and nowhere else."""
    return Runtime.open(directory, providers={"demo": Scripted(answer)})
