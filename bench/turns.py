"""Turns through the whole runtime: how many a second, what each takes, how it grows.

Ours is heard: whoever asks follows the fragments as they are committed, also where a peer keeps
them to itself until the step is over. Each contender is a process of its own; they take turns, and
the best round of each counts. What has a bar is a peer as its documentation teaches it, synced at
each commit; what can be left out of it is shown without.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.catalogue import CODEC
from actors.model.runes import AssistantDelta
from bench.contender import Contender, Missing, Spent, best
from bench.measure import bytes_on_disk, race, rate
from bench.peers_lmdb import BareTurns, record
from bench.results import Standing
from bench.scene import LONG, LONG_FRAGMENTS, SPEC, Ours, by_turns, together
from bench.table import Row, missed
from bench.workload import BATCH
from runelog.rune import Change
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.measure import Sizes
    from bench.results import Results
    from bench.scene import Teller
    from runelog.rune import Envelope, Rune

SESSIONS: Final = 32
BLOCK: Final = 20
"""Turns at the beginning and at the end of a conversation that are compared."""
MOST_SYNCS: Final = 1.0
"""The bar: so many syncs a turn, if 32 conversations share them."""


class _Bars(NamedTuple):
    """The bars for turns a second beside a peer: of 32 conversations, and of one."""

    many: str = ""
    alone: str = ""


OURS: Final = "ours"
PLAIN: Final = "plain"
RACED: Final = {
    "burr": _Bars(">= 1.5", ">= 1.3"),
    "dbos": _Bars(">= 5", ">= 2.5"),
    "langgraph": _Bars(">= 10", ">= 8"),
    "activegraph": _Bars(">= 3"),
    "agents": _Bars(),
    PLAIN: _Bars(">= 0.9"),
    "bare": _Bars(),
}
LEAN: Final = ("unheard", "burr-lean", "langgraph-dicts", "langgraph-lean")
"""What is measured in one round only, for information."""


def rows(directory: Path, sizes: Sizes, results: Results) -> list[Row]:
    """Measure everything about turns; note what the peers were set to."""
    found: list[Row] = []
    field: dict[str, Contender] = {}
    for key in (OURS, *RACED, *LEAN):
        try:
            field[key] = Contender(key, directory)
        except Missing as missing:
            bars = RACED.get(key, _Bars())
            name = f"turns, {SESSIONS} sessions at once"
            found.append(missed(name, key, bars.many, f"{key} is not installed: {missing}"))
            continue
        results.settings.append((field[key].name, field[key].settings()))
    many = _raced(field, sizes.turn_rounds, SESSIONS, sizes.turns)
    alone = _raced(field, sizes.turn_rounds, 1, sizes.alone)
    grown = {key: field[key].grow(sizes.growth) for key in (OURS, *RACED) if key in field}
    # The best of each block, as everywhere.
    runs = [grown[OURS], *(field[OURS].grow(sizes.growth) for _ in range(sizes.grown - 1))]
    for contender in field.values():
        contender.close()
    for key, contender in field.items():
        times = grown.get(key)
        blocks = (_mean(times[:BLOCK]), _mean(times[-BLOCK:])) if times else None
        results.field.append(Standing(contender.name, many[key], alone[key], blocks))
    results.series["turns of a conversation"] = {
        field[key].name: _in_blocks(times) for key, times in grown.items()
    }
    names = {key: contender.name for key, contender in field.items()}
    found += _beside(names, many, alone)
    found += _costs(names, many, alone)
    found += _growth(directory, sizes, runs)
    envelopes = record(directory / "recorded")
    ours = Ours(directory / "fragments-ours")
    found += _fragments(directory, ours, sizes)
    ours.close()
    found.append(_stored(directory, envelopes, sizes))
    return sorted(found, key=lambda row: not row.bar)


def _raced(field: dict[str, Contender], rounds: int, sessions: int, turns: int) -> dict[str, Spent]:
    """Let all take turns; return the best of each."""
    found: dict[str, list[Spent]] = {key: [] for key in field}
    for number in range(rounds):
        # Every other round the other way about: nobody always runs in the other's wake.
        for key in field if number % 2 == 0 else reversed(field):
            if number == 0 or key not in LEAN:
                found[key].append(field[key].turns(sessions, turns))
    return {key: best(spent) for key, spent in found.items()}


def _beside(names: dict[str, str], many: dict[str, Spent], alone: dict[str, Spent]) -> list[Row]:
    """Return turns a second beside each peer's."""
    found = []
    for key, name in names.items():
        if key == OURS:
            continue
        bars = RACED.get(key, _Bars())
        for what, spent, bar in (
            (f"turns, {SESSIONS} sessions at once", many, bars.many),
            ("turns, 1 session", alone, bars.alone),
        ):
            ours, peer = spent[OURS].rate, spent[key].rate
            row = Row(
                name=what, ours=ours, peer=peer, peer_name=name, ratio=ours / peer, bar=bar,
                unit="turns/s",
            )  # fmt: skip
            found.append(row)
    return found


def _costs(names: dict[str, str], many: dict[str, Spent], alone: dict[str, Spent]) -> list[Row]:
    """Return what a turn takes beside loops that only append."""
    crowd, single, least = many[OURS], alone[OURS], alone[PLAIN]
    cpu, switches = "CPU of a turn", "voluntary switches a turn"
    kilobytes = "KB written to the device a turn, 1 session"
    at_once, plain, bare = f"{SESSIONS} sessions", names[PLAIN], names["bare"]
    pairs = [
        (f"{cpu}, {at_once}", crowd.cpu, many[PLAIN].cpu, plain, "<= 3", "ms"),
        (f"{cpu}, 1 session", single.cpu, least.cpu, plain, "", "ms"),
        (f"{cpu}, {at_once}", crowd.cpu, many["bare"].cpu, bare, "", "ms"),
        (kilobytes, single.written, least.written, plain, "<= 1.6", "KB"),
        (kilobytes, single.written, alone["bare"].written, bare, "", "KB"),
        (f"syncs a turn, {at_once}", crowd.syncs, MOST_SYNCS, "what it may be", "<= 1", "syncs"),
        ("syncs a turn, 1 session", single.syncs, least.syncs, plain, "", "syncs"),
        (f"{switches}, {at_once}", crowd.switches, many[PLAIN].switches, plain, "", "switches"),
        (f"{switches}, 1 session", single.switches, least.switches, plain, "", "switches"),
    ]
    return [
        _row(name, (ours, peer), peer_name, bar, unit)
        for name, ours, peer, peer_name, bar, unit in pairs
    ]


def _row(name: str, pair: tuple[float, float], peer_name: str, bar: str, unit: str) -> Row:
    ours, peer = pair
    return Row(
        name=name, ours=ours, peer=peer, peer_name=peer_name, ratio=ours / peer, bar=bar, unit=unit
    )


def _mean(times: Sequence[float]) -> float:
    return sum(times) / len(times)


def _in_blocks(times: Sequence[float]) -> list[tuple[float, float]]:
    """Return the mean of each block of turns, behind the number of its last one."""
    ends = range(BLOCK, len(times) + 1, BLOCK)
    return [(end, _mean(times[end - BLOCK : end])) for end in ends]


# -- fragments ----------------------------------------------------------------------------------


def _fragments(directory: Path, ours: Ours, sizes: Sizes) -> list[Row]:
    """Stream one long answer to somebody who follows it, beside as many runes for the log."""
    count = len(LONG_FRAGMENTS)
    length = sum(map(len, LONG_FRAGMENTS))
    log = Runelog.open(directory / "fragments", CODEC)
    runes: list[Rune] = [AssistantDelta(text=text) for text in LONG_FRAGMENTS]
    numbers = itertools.count()

    def streaming() -> float:
        session = ours.runtime.create_session(SPEC)

        def run() -> None:
            seen = 0
            for envelope in session.send(LONG).runes(kinds={"turn.assistant_delta"}):
                rune = envelope.payload
                assert isinstance(rune, AssistantDelta)
                seen += len(rune.text)
            assert seen == length, f"{seen} of {length} characters came"

        return rate(count, run)

    def appending(size: int) -> float:
        conversation, call = f"conv_{next(numbers)}", "turn_1-r0-a0"
        parts = [runes[at : at + size] for at in range(0, count, size)]
        changes = [Change(call, None, part, agent="agt_1", turn="turn_1") for part in parts]

        def run() -> None:
            for change in changes:
                log.append(conversation, [change], durable=False)
            log.flush()

        return rate(count, run)

    rounds = sizes.turn_rounds * 2
    fastest = race(rounds, streaming, lambda: appending(1), lambda: appending(BATCH))
    log.close()
    name = f"{count:,} fragments to a live subscriber"
    peers = (("the runelog, one rune a call", ">= 0.3"), (f"the runelog, {BATCH:,} a call", ""))
    return [
        _row(name, (fastest[0], found), peer, bar, "fragments/s")
        for found, (peer, bar) in zip(fastest[1:], peers, strict=True)
    ]


# -- bytes and growth ---------------------------------------------------------------------------


def _stored(directory: Path, envelopes: Sequence[Envelope], sizes: Sizes) -> Row:
    """Count what turns add to the files, ours and the bare loop's, all of them closed."""
    turns = max(sizes.turns * 2, 4)
    place, bare_place = directory / "stored", directory / "stored.lmdb"
    # The sessions are there before, as is what a log begins with.
    ours = Ours(place)
    names = [f"stored-{number}" for number in range(SESSIONS)]
    for name in names:
        ours.begin(name)
    ours.close()
    before = bytes_on_disk(place)
    ours = Ours(place)
    together([ours.begin(name) for name in names], turns)
    ours.close()
    mine = bytes_on_disk(place) - before
    bare = BareTurns(bare_place, envelopes)
    empty = bytes_on_disk(bare_place)
    by_turns(bare, SESSIONS, turns)
    bare.close()
    theirs = bytes_on_disk(bare_place) - empty
    each = SESSIONS * turns
    return _row("bytes on disk a turn", (mine / each, theirs / each), bare.name, "<= 1.5", "bytes")


def _growth(directory: Path, sizes: Sizes, runs: Sequence[Sequence[float]]) -> list[Row]:
    """Compare the last turns of long conversations with their first, by time and by bytes."""
    early = min(_mean(times[:BLOCK]) for times in runs)
    late = min(_mean(times[-BLOCK:]) for times in runs)
    taken = [
        _sized_growth(Ours, directory / f"grown-{number}", sizes.growth)
        for number in range(sizes.grown)
    ]
    # Of the sizes, which nothing disturbs, all.
    small, large = (sum(each[place] for each in taken) for place in (0, 1))
    turns = BLOCK * sizes.grown
    what = f"of turns {sizes.growth - BLOCK + 1} to {sizes.growth} of one conversation"
    first = f"turns 1 to {BLOCK}"
    return [
        _row(f"time {what}", (late, early), first, "<= 1.1", "ms a turn"),
        _row(f"bytes {what}", (large / turns, small / turns), first, "<= 1.1", "bytes a turn"),
    ]


def _sized_growth(make: Callable[[Path], Teller], place: Path, turns: int) -> tuple[int, int]:
    """Return the bytes of the first turns and of the last, each time as they lie closed."""
    taken = []
    for count in (0, BLOCK, turns - 2 * BLOCK, BLOCK):
        teller = make(place)
        talk = teller.begin("sized")
        for _ in range(count):
            talk()
        teller.close()
        taken.append(bytes_on_disk(place))
    return taken[1] - taken[0], taken[3] - taken[2]
