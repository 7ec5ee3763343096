"""An app to be crashed: how it is opened, what it does, what must be true of it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import io
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from runefold.naming import imported
from runefold.runtime import Runtime
from runefold.testing.driving_event_loop import loop_for
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from runefold.testing.crash.effects import Effects


@dataclass(frozen=True)
class CrashApp:
    """What is swept: three functions.

    `build(runtime_dir)` opens a runtime there, with the app's tools and models, and returns it. All
    that the app keeps lies in that directory too. `scenario(runtime)` drives conversations to their
    end; it is called again after a crash, on the runtime that was opened again, so it gives every
    conversation and every message an id of its own. `check(runtime, effects)` raises if something
    is not as it must be.
    """

    build: Callable[[Path], Runtime]
    scenario: Callable[[Runtime], Any]
    check: Callable[[Runtime, Effects], Any] | None = None
    name: str = ""

    def opened(self, directory: Path) -> Runtime:
        """Open the runtime as the app does."""
        runtime = self.build(directory)
        if not isinstance(runtime, Runtime):
            msg = (
                f"build returned a {type(runtime).__name__}: it must return the runtime that it "
                "opened with Runtime.open"
            )
            raise Refused(msg)
        return runtime

    def played(self, runtime: Runtime) -> None:
        """Have the app do what it does."""
        _called(self.scenario, runtime)

    def checked(self, runtime: Runtime, effects: Effects) -> None:
        """Ask the app whether all is well."""
        if self.check is not None:
            _called(self.check, runtime, effects)


def _called(function: Callable[..., Any], runtime: Runtime, *more: object) -> None:
    found = function(runtime, *more)
    if inspect.isawaitable(found):
        with asyncio.Runner(loop_factory=loop_for(runtime.scheduler)) as runner:
            runner.run(_awaited(found))


async def _awaited(found: Any) -> None:  # noqa: ANN401 -- anything that can be awaited
    await found


class Source(msgspec.Struct, frozen=True):
    """A function or an object that another process can make anew: pickled, with what it needs."""

    pickled: bytes
    files: dict[str, str]
    """Where the modules lie that it comes from: a test's is found under no name."""


def source_of(part: object) -> Source | None:
    """Return how another process gets the same; None if it is made while the program runs."""
    try:
        pickled = pickle.dumps(part)
        reader = _Reader(io.BytesIO(pickled))
        reader.load()
    except Exception:  # noqa: BLE001 -- whatever an object makes of being pickled
        return None
    names = reader.modules
    files = {name: getattr(sys.modules.get(name), "__file__", None) or "" for name in names}
    return None if "__main__" in names else Source(pickled, files)


def loaded(source: Source) -> Any:  # noqa: ANN401 -- whatever it is
    """Make anew what another process has named."""
    return _Reader(io.BytesIO(source.pickled), source.files).load()


class _Reader(pickle.Unpickler):
    """Reads what this very kit has pickled, and takes note of the modules it comes from."""

    def __init__(self, file: io.BytesIO, files: Mapping[str, str] | None = None) -> None:
        super().__init__(file)
        self._files = files or {}
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str, /) -> Any:  # noqa: ANN401 -- as in pickle
        self.modules.add(module)
        if file := self._files.get(module):
            _import(module, file)
        return super().find_class(module, name)


def _import(name: str, file: str) -> None:
    """Have a module under its name: imported as usual, or loaded from its file."""
    known = sys.modules.get(name)
    if known is None:
        with contextlib.suppress(ImportError):
            known = importlib.import_module(name)
    if known is not None and _is_from(known, file):
        return
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _is_from(module: ModuleType, file: str) -> bool:
    found = getattr(module, "__file__", None)
    return found is not None and Path(found).resolve() == Path(file).resolve()


def named(reference: str) -> CrashApp:
    """Import an app by its name, `package.module:app`; the current directory counts too."""
    return as_app(imported(reference, "app"), reference)


def as_app(found: Any, reference: str) -> CrashApp:  # noqa: ANN401 -- whatever was found under a name
    """Take anything that has `build` and `scenario` for an app: a `CrashApp`, a module, a class."""
    parts: list[Any] = [getattr(found, part, None) for part in ("build", "scenario", "check")]
    _check_parts(reference, parts)
    build, scenario, check = parts
    return CrashApp(build, scenario, check, name=getattr(found, "name", "") or reference)


def _check_parts(where: str, parts: Sequence[Any]) -> None:
    for name, part in zip(("build", "scenario"), parts, strict=False):
        if not callable(part):
            msg = f"{where} has no function {name}: an app has build, scenario and maybe check"
            raise Refused(msg)
    if parts[2] is not None and not callable(parts[2]):
        msg = f"{where}: its check is no function"
        raise Refused(msg)
