"""The disk that loses power: what is tried is all that can be left, and what was synced is."""

from __future__ import annotations

import random
from typing import Final

from tests.crash.calls import Change
from tests.crash.disk import ALL_SUBSETS, PAGE, SECTOR, Cuts, cuts, subsets

SEED: Final = 7
ROOT: Final = "/disk"
FILE: Final = f"{ROOT}/file"
MADE: Final = (Change("open", "make", FILE), Change("fsync", "sync", ROOT))


def page(at: int, fill: bytes = b"x", size: int = SECTOR) -> Change:
    """Write the first bytes of a page."""
    return Change("pwrite64", "write", FILE, "", at * PAGE, fill * size)


def left(*changes: Change) -> Cuts:
    """Cut the power at every moment of these changes."""
    return cuts(ROOT, changes, [0] * (len(changes) + 1), SEED)


def at_the_end(found: Cuts) -> list[dict[str, dict[int, bytes]]]:
    """Return what the files may hold when all is over: their pages, without what is empty."""
    return [
        {name: {at: data.rstrip(b"\0") for at, data in file.pages} for name, file in case.state[1]}
        for case in found.cases
        if case.where == "end"
    ]


def test_few_changes_are_kept_in_every_combination() -> None:
    """Of five pages that were not synced any may be there: there are 32 states, each another."""
    found = at_the_end(left(*MADE, *(page(at) for at in range(5))))

    assert {frozenset(files["file"]) for files in found} == {
        frozenset(at for at in range(5) if mask >> at & 1) for mask in range(32)
    }
    assert len(found) == 32


def test_what_was_synced_is_there() -> None:
    """A page that was synced is in every state, what came behind it in some."""
    found = at_the_end(left(*MADE, page(0), Change("fsync", "sync", FILE), page(1)))

    assert [sorted(files["file"]) for files in found] == [[0], [0, 1]]


def test_a_name_may_be_lost_with_all_that_is_in_it() -> None:
    """A file whose directory was not synced may be gone, although it was synced itself."""
    found = at_the_end(left(MADE[0], page(0), Change("fsync", "sync", FILE)))

    assert [sorted(files) for files in found] == [[], ["file"]]


def test_states_that_are_alike_are_tried_once() -> None:
    """Eight writes of the same bytes leave two states, not 256, and all subsets are accounted for.

    The power is cut before the sync and at the end.
    """
    found = left(*MADE, *(page(0) for _ in range(8)))

    assert len(at_the_end(found)) == 2
    assert found.tally.subsets == (1 << 1) + (1 << 8)
    assert (found.tally.moments, found.tally.pending, found.tally.chosen) == (2, 8, 0)


def test_a_page_may_be_written_in_part() -> None:
    """Any sectors from its start on: beside all others, beside those before it, or alone."""
    found = at_the_end(left(*MADE, *(page(at, b"abc"[at : at + 1], 2_048) for at in range(3))))
    parts = {tuple(len(files["file"].get(at, b"")) // SECTOR for at in range(3)) for files in found}

    assert parts == {
        *((one, two, three) for one in (0, 4) for two in (0, 4) for three in (0, 4)),
        *((size, rest, rest) for size in (1, 2, 3) for rest in (0, 4)),
        *((one, size, rest) for size in (1, 2, 3) for one, rest in ((0, 0), (4, 0), (4, 4))),
        *((rest, rest, size) for size in (1, 2, 3) for rest in (0, 4)),
    }


def test_files_that_are_there_to_be_locked_multiply_nothing() -> None:
    """They are there or not, as it happens, and no state is tried twice for them."""
    lock = f"{FILE}-lock"
    locked = (Change("open", "make", lock), Change("ftruncate", "grow", lock, "", PAGE))
    found = at_the_end(left(*MADE, *locked, *(page(at) for at in range(6))))

    assert len(found) == 64
    assert {"file-lock" in files for files in found} == {False, True}


def test_of_many_changes_any_two_are_kept_and_lost() -> None:
    """Beyond what can be enumerated: any two alone, all but any two, any one behind any start."""
    count = ALL_SUBSETS + 6
    everything = (1 << count) - 1
    found = {*subsets(count, random.Random(SEED))}

    for one in range(count):
        for other in range(count):
            two = 1 << one | 1 << other
            assert {two, everything & ~two, (1 << one) - 1 | 1 << other} <= found
    assert {0, everything} <= found
    tally = left(*MADE, *(page(at) for at in range(count))).tally
    assert (tally.chosen, tally.pending, tally.subsets) == (1, count, 2 + len(found))
