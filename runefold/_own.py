"""Whether `actors`, `runelog` and `supervisors` are ours.

They are names that a host application may well have given to packages of its own. Python would
import whichever comes first and fail later, with a message that explains nothing; so this looks
before any of them is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN: Final = ("runelog", "actors", "supervisors")


def check(names: Iterable[str] = OWN) -> None:
    """Raise an `ImportError` that names the intruder unless all `names` lie beside this one."""
    home = Path(__file__).absolute().parent.parent
    for name in names:
        places = _places(name)
        if not places:
            msg = (
                f"runefold's own package `{name}` is missing from {home}: "
                "the installation is incomplete; install runefold again"
            )
            raise ImportError(msg, name=name)
        if not any(_same(place, home / name) for place in places):
            raise _intruded(name, places[0], home)


def _places(name: str) -> list[Path]:
    """Where Python finds the package: its directories, or its file if it is a single module."""
    module = sys.modules.get(name)
    if module is not None and module.__spec__ is None:
        # It was put there by hand.
        return [Path(getattr(module, "__file__", None) or repr(module))]
    spec = importlib.util.find_spec(name)
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place).absolute() for place in spec.submodule_search_locations]
    return [Path(spec.origin or repr(spec))]


def _same(one: Path, other: Path) -> bool:
    """Compare as written and with links followed: an environment may link packages file by file."""
    return one == other or one.resolve() == other.resolve()


def _intruded(name: str, place: Path, home: Path) -> ImportError:
    advice = "Rename that one"
    if place.is_absolute():
        advice += (
            f"; or, if it is not needed here, take {place.parent} off sys.path or put it behind "
            f"{home}, and do not start Python in that directory"
        )
    return ImportError(
        f"runefold needs its own package `{name}`, which lies in {home}, but Python finds "
        f"{place} under that name. {advice}.",
        name=name,
        path=str(place),
    )
