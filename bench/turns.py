"""Turns through the whole runtime: how many a second, what they take on disk, how they grow.

Like is compared with like. Where whoever runs a peer's turn hears its fragments as they come, ours
are heard too; where a peer keeps them to itself until the step is over, nobody follows ours. What
has a bar is the peer as its documentation teaches it; what can be left out of it is shown without.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from actors.catalogue import CODEC
from actors.model.runes import AssistantDelta
from bench.measure import bytes_on_disk, race, rate
from bench.peers_burr import Burr, BurrJoined
from bench.peers_dbos import Dbos
from bench.peers_langgraph import LangGraph
from bench.peers_langgraph_lean import LangGraphDicts, LangGraphJoined
from bench.peers_lmdb import BareTurns, record
from bench.scene import (
    LONG,
    LONG_FRAGMENTS,
    SPEC,
    Ours,
    OursHeard,
    at_once,
    by_turns,
    together,
)
from bench.table import Row
from bench.workload import BATCH
from runelog.rune import Change
from runelog.store import Runelog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.measure import Sizes
    from bench.scene import Teller
    from runelog.rune import Envelope, Rune

SESSIONS: Final = 32
BLOCK: Final = 20
"""Turns at the beginning and at the end of a conversation that are compared."""

Settings = list[tuple[str, str]]


class _Pair(NamedTuple):
    """Ours and a peer that does the same, and the bars for it."""

    ours: Ours
    peer: Teller
    many: str = ""
    alone: str = ""


def rows(directory: Path, sizes: Sizes, settings: Settings) -> list[Row]:
    """Measure everything about turns; note what the peers were set to."""
    envelopes = record(directory / "recorded")
    ours, heard = Ours(directory / "ours"), OursHeard(directory / "heard")
    pairs = [
        _Pair(heard, LangGraph(directory / "langgraph.sqlite"), ">= 6", ">= 4"),
        _Pair(ours, Dbos(directory / "dbos.sqlite"), ">= 4", ">= 2"),
        _Pair(heard, Burr(directory / "burr.sqlite"), ">= 1.5"),
        _Pair(ours, BareTurns(directory / "turns.lmdb", envelopes), ">= 0.4"),
        _Pair(heard, LangGraphDicts(directory / "dicts.sqlite")),
        _Pair(ours, LangGraphJoined(directory / "graph-joined.sqlite")),
        _Pair(ours, BurrJoined(directory / "burr-joined.sqlite")),
    ]
    tellers: list[Teller] = [ours, heard, *(pair.peer for pair in pairs)]
    for teller in tellers:
        at_once(teller, 1, 2)  # nobody is measured while it still imports or makes its tables
        settings.append((teller.name, teller.settings()))
    many, alone = _many(tellers, sizes), _alone(tellers, sizes)
    found = [
        *(_row(f"{SESSIONS} sessions at once", pair, many, pair.many) for pair in pairs),
        *(_row("1 session", pair, alone, pair.alone) for pair in pairs),
    ]
    found.sort(key=lambda row: not row.bar)
    found += _fragments(directory, ours, sizes)
    for teller in tellers:
        teller.close()
    return [*found, _stored(directory, envelopes, sizes), *_growth(directory, sizes)]


def _row(what: str, pair: _Pair, rates: dict[str, float], bar: str) -> Row:
    ours, peer = rates[pair.ours.name], rates[pair.peer.name]
    heard = ", fragments heard" if isinstance(pair.ours, OursHeard) else ""
    return Row(
        name=f"turns, {what}{heard}", ours=ours, peer=peer, peer_name=pair.peer.name,
        ratio=ours / peer, bar=bar, unit="turns/s",
    )  # fmt: skip


def _many(tellers: Sequence[Teller], sizes: Sizes) -> dict[str, float]:
    """Let 32 conversations go on at once."""

    def run(teller: Teller) -> Callable[[], float]:
        # A loop without threads is the fastest that bare lmdb can do: there is one writer.
        measure = by_turns if isinstance(teller, BareTurns) else at_once
        return lambda: measure(teller, SESSIONS, sizes.turns)

    return _raced(tellers, sizes, run)


def _alone(tellers: Sequence[Teller], sizes: Sizes) -> dict[str, float]:
    """Let one conversation go on by itself."""

    def run(teller: Teller) -> Callable[[], float]:
        return lambda: by_turns(teller, 1, sizes.alone)

    return _raced(tellers, sizes, run)


def _raced(
    tellers: Sequence[Teller], sizes: Sizes, run: Callable[[Teller], Callable[[], float]]
) -> dict[str, float]:
    """Let all take turns; return the best of each, by its name."""
    found = race(sizes.turn_rounds, *map(run, tellers))
    return {teller.name: best for teller, best in zip(tellers, found, strict=True)}


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
    best = race(rounds, streaming, lambda: appending(1), lambda: appending(BATCH))
    log.close()
    name = f"{count:,} fragments to a live subscriber"
    peers = (("the runelog, one rune a call", ">= 0.3"), (f"the runelog, {BATCH:,} a call", ""))
    return [
        Row(
            name=name, ours=best[0], peer=found, peer_name=peer, ratio=best[0] / found, bar=bar,
            unit="fragments/s",
        )
        for found, (peer, bar) in zip(best[1:], peers, strict=True)
    ]  # fmt: skip


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
    return Row(
        name="bytes on disk a turn", ours=mine / each, peer=theirs / each, peer_name=bare.name,
        ratio=mine / theirs, bar="<= 1.5", unit="bytes",
    )  # fmt: skip


class _Grown(NamedTuple):
    """Blocks of turns at the beginning and at the end of a conversation."""

    seconds: tuple[float, float]
    size: tuple[int, int]


def _growth(directory: Path, sizes: Sizes) -> list[Row]:
    """Compare the last turns of a long conversation with its first, and with those of peers."""
    places = [directory / f"grown-{number}" for number in range(sizes.grown)]
    ours = [_grow(Ours, place, sizes.growth) for place in places]
    # Slow, and for information only: once will do.
    graphs = [_grow(LangGraph, directory / "grown-graph.sqlite", sizes.growth)]
    burr = _timed_growth(Burr, directory / "grown-burr.sqlite", sizes.growth)
    what = f"turns {sizes.growth - BLOCK + 1} to {sizes.growth} of one conversation"
    first = f"turns 1 to {BLOCK}"
    late = min(each.seconds[1] for each in ours)
    return [
        *_grown_rows(what, first, ours, "<= 1.2"),
        _timed_row(what, late, LangGraph.name, graphs[0].seconds[1]),
        _timed_row(what, late, Burr.name, burr[1]),
        *_grown_rows(f"LangGraph, {what}", f"LangGraph, {first}", graphs, ""),
        _timed_row(f"Burr, {what}", burr[1], f"Burr, {first}", burr[0]),
    ]


def _timed_row(what: str, ours: float, peer_name: str, peer: float, bar: str = "") -> Row:
    """Return a row of the seconds that two blocks of turns took."""
    return Row(
        name=f"time of {what}", ours=ours / BLOCK * 1e3, peer=peer / BLOCK * 1e3,
        peer_name=peer_name, ratio=ours / peer, bar=bar, unit="ms a turn",
    )  # fmt: skip


def _grow(make: Callable[[Path], Teller], place: Path, turns: int) -> _Grown:
    return _Grown(_timed_growth(make, place, turns), _sized_growth(make, place, turns))


def _timed_growth(make: Callable[[Path], Teller], place: Path, turns: int) -> tuple[float, float]:
    """Return the seconds of the first turns and of the last, without a break between them."""
    teller = make(place)
    # Another conversation goes first: what is done once only is not a conversation's.
    by_turns(teller, 1, 5)
    talk = teller.begin("timed")

    def seconds(count: int) -> float:
        start = time.perf_counter()
        for _ in range(count):
            talk()
        return time.perf_counter() - start

    early = seconds(BLOCK)
    seconds(turns - 2 * BLOCK)
    late = seconds(BLOCK)
    teller.close()
    return early, late


def _sized_growth(make: Callable[[Path], Teller], place: Path, turns: int) -> tuple[int, int]:
    """Return the bytes of the first turns and of the last, each time as they lie closed."""
    taken = []
    for count in (0, BLOCK, turns - 2 * BLOCK, BLOCK):
        teller = make(place)
        talk = teller.begin("sized")
        for _ in range(count):
            talk()
        teller.close()
        taken.append(_taken(place))
    return taken[1] - taken[0], taken[3] - taken[2]


def _taken(place: Path) -> int:
    """Return what a directory takes, or a database with the files beside it."""
    return sum(bytes_on_disk(path) for path in place.parent.glob(f"{place.name}*"))


def _grown_rows(what: str, first: str, found: Sequence[_Grown], bar: str) -> list[Row]:
    # The best of each block, as everywhere; of the sizes, which nothing disturbs, all.
    early, late = (min(each.seconds[place] for each in found) for place in (0, 1))
    small, large = (sum(each.size[place] for each in found) for place in (0, 1))
    turns = BLOCK * len(found)
    return [
        _timed_row(what, late, first, early, bar),
        Row(
            name=f"bytes of {what}", ours=large / turns, peer=small / turns,
            peer_name=first, ratio=large / max(small, 1), bar=bar, unit="bytes a turn",
        ),
    ]  # fmt: skip
