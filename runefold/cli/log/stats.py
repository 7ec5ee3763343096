"""`runefold log stats`: size, contents and state of a log."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from runefold.cli.terminal.wording import NOTHING, many, moment, safe, size
from runelog import manifest
from runelog.decoders import from_json
from runelog.errors import Corrupt
from runelog.rune import State

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from runefold.cli.terminal.screen import Part
    from runelog.store import Runelog

ARCHIVE: Final = ".runes"
_PLACES: Final = {
    "archives": "archive",
    "blobs": "blobs",
    "snapshots": "snapshots",
    "set_aside": "damaged",
}


def gather(log: Runelog) -> tuple[dict[str, Any], Corrupt | None]:
    """Return the figures as JSON has them, and the damage that kept some from being read."""
    directory = log.directory
    listed = log.log_directory.segments.manifest
    writer = holder(directory)
    clean = manifest.read_clean(directory) is not None
    found: dict[str, Any] = {
        "directory": str(directory),
        "log": listed.log,
        "format": manifest.FORMAT,
        "writer": writer,
        "closed_cleanly": None if writer is not None else clean,
        "damage": None,
    }
    damage = None
    try:
        found |= _index(log)
    except Corrupt as error:
        damage = error
        found["damage"] = str(error)
    found["segments"] = [
        {
            "name": info.name,
            "state": "damaged"
            if info.number in log.log_directory.segments.damaged
            else str(info.status),
            "first": info.first,
            "last": info.last or None,
            "bytes": _measure(log.log_directory.segments.path(info))[1],
        }
        for info in listed.segments
    ]
    for what, place in _PLACES.items():
        # The directory of archives also has a mark for each erased conversation.
        files, taken = _measure(directory / place, ARCHIVE if what == "archives" else "")
        found[what] = {"files": files, "bytes": taken}
    found["disk_bytes"] = _measure(directory)[1]
    return found, damage


def _index(log: Runelog) -> dict[str, Any]:
    """Return what the index knows, without reading a rune."""
    states: Counter[State] = Counter()
    runes = encoded = 0
    times: list[int] = []
    for conversation in log.conversations():
        states[conversation.state] += 1
        if conversation.state is not State.ERASED:
            runes += conversation.head
            encoded += conversation.size
            # A conversation of which a repair found nothing has no times.
            times += filter(None, (conversation.first_time, conversation.last_time))
            times = [min(times), max(times)] if times else []
    work = list(log.open_work())
    deadlines = [entry.deadline for entry in work if entry.deadline is not None]
    return {
        "position": log.position,
        "runes": runes,
        "encoded_bytes": encoded,
        "first_time": moment(times[0], 9) if times else None,
        "last_time": moment(times[1], 9) if times else None,
        "conversations": {state.name.lower(): states[state] for state in State},
        "open_work": {
            "entities": len(work),
            "conversations": len({entry.conversation for entry in work}),
            "earliest_deadline": moment(min(deadlines), 9) if deadlines else None,
        },
    }


def holder(directory: Path) -> dict[str, Any] | None:
    """Return the process that writes to a log right now; None if there is none."""
    if not manifest.writer_alive(directory):
        return None
    try:
        found = from_json(dict[str, Any])((directory / "LOCK").read_bytes())
    except (OSError, msgspec.DecodeError):
        found = {}
    return {"pid": found.get("pid"), "host": found.get("host")}


def _measure(path: Path, suffix: str = "") -> tuple[int, int]:
    """Count files and their bytes on the disk; those that vanish meanwhile are left out."""
    files = taken = 0
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in [str(path)] if path.is_file() else _files(path):
            with contextlib.suppress(FileNotFoundError):
                taken += os.lstat(entry).st_blocks * 512
                files += entry.endswith(suffix)
    return files, taken


def _files(path: Path) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 -- walk gives texts


def rows(found: dict[str, Any]) -> Iterator[tuple[Part, Part]]:
    """Yield the figures as lines for people."""
    yield "log", f"{safe(found['log'])} in {safe(found['directory'])}"
    yield "state", _state(found)
    if found["damage"] is None:
        yield from _index_rows(found)
    yield "segments", _segments(found["segments"])
    for what, name in (("archives", "archives"), ("blobs", "blobs"), ("snapshots", "snapshots")):
        if found[what]["files"]:
            yield name, f"{many(found[what]['files'], 'file')}, {size(found[what]['bytes'])}"
    if found["set_aside"]["files"]:
        told = f"{many(found['set_aside']['files'], 'file')}, {size(found['set_aside']['bytes'])}"
        yield "set aside", (f"{told}, by an earlier repair", "yellow")
    yield "disk", size(found["disk_bytes"])


def _index_rows(found: dict[str, Any]) -> Iterator[tuple[Part, Part]]:
    counts = found["conversations"]
    told = ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
    yield "conversations", f"{sum(counts.values()):,}" + (f" ({told})" if told else "")
    yield (
        "runes",
        f"{found['runes']:,} ({size(found['encoded_bytes'])}), position {found['position']:,}",
    )
    if found["first_time"]:
        yield "first, last", f"{_second(found['first_time'])}, {_second(found['last_time'])}"
    work = found["open_work"]
    told = NOTHING
    if work["entities"]:
        entities = many(work["entities"], "entity", "entities")
        told = f"{entities} in {many(work['conversations'], 'conversation')}"
        if work["earliest_deadline"]:
            told += f", earliest deadline {_second(work['earliest_deadline'])}"
    yield "open work", told


def _state(found: dict[str, Any]) -> Part:
    if found["damage"] is not None:
        return "damaged", "bold red"
    writer = found["writer"]
    if writer is not None:
        told = f"being written by process {writer['pid']} on {writer['host']}"
        return safe(told), "green"
    if found["closed_cleanly"]:
        return "closed cleanly", "green"
    return "not closed cleanly: the next open recovers it", "yellow"


def _segments(segments: list[dict[str, Any]]) -> Part:
    states = Counter(entry["state"] for entry in segments)
    told = ", ".join(f"{count:,} {state}" for state, count in states.items())
    text = f"{len(segments):,} ({told}), {size(sum(entry['bytes'] for entry in segments))}"
    return (text, "red") if states["damaged"] else text


def _second(time: str) -> str:
    return time.partition(".")[0] + "Z"
