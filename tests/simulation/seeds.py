"""Seeds in the order in which tests try them: first those that had what is looked for before.

What a seed plays changes with the runtime and with what is drawn. Then the others are tried as
well, and nothing is lost but time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

LIKELY: Final = {
    "read_on": (107, 119),
    "approval_applied_twice": (42,),
    "denied_and_run": (10, 6),
    "stopped_by_nobody": (26,),
    "lost_buffer_unnoticed": (10,),
    "history_without_results": (25, 42),
    "snapshot_ahead": (2,),
    "to_whoever_is_in_front": (18,),
    "steered_by_nobody": (5,),
    "crashes_for_nothing": (5,),
    "all_calls_at_once": (36,),
    "nothing_held_back": (10, 148),
    "whatever can happen": (80, 21, 26, 48, 49, 2, 4, 10, 18, 25, 81, 123, 107, 45, 99, 78),
    "every phase of an app's machines": (30, 6, 82, 51),
    "TIMELESS": (8,),
}
"""By the bug that is planted, or by what is to come to pass."""


def likely_first(what: str, most: int) -> Iterator[int]:
    """Yield so many seeds, those first that are likely to have something."""
    likely = [seed for seed in LIKELY.get(what, ()) if seed < most]
    yield from likely
    yield from (seed for seed in range(most) if seed not in likely)
