"""An app to be run by `runefold serve`: its model has its say when the runtime is about to end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.model.providers.scripted import Scripted
from runefold.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.model.provider import Event, Request


class Waiting(Scripted):
    """A model that answers as soon as no turn begins any more; or never, if it is told so."""

    runtime: Runtime

    def stream(self, request: Request) -> Iterator[Event]:
        """Answer when it is time."""
        for_ever = request.messages[-1].text == "for ever"
        gate, pause = self.runtime._services.gate, threading.Event()
        while for_ever or gate.admits():
            pause.wait(0.01)
        yield from super().stream(request)


def build(directory: Path) -> Runtime:
    """Open the app's runtime."""
    model = Waiting(["So it is."], blocks=True)
    model.runtime = runtime = Runtime.open(directory, providers={"demo": model})
    return runtime


def inside(directory: Path) -> Runtime:
    """Open it in a directory of its own, beside what else the app keeps."""
    return build(directory / "log")


def nothing(_directory: Path) -> str:
    """Be no app."""
    return "nothing"


WORD = "nothing"
