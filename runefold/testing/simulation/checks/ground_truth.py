"""What really happened outside, kept where no crash can lose it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple


class Wrong(NamedTuple):
    """Something that must not be."""

    rule: str
    """Which rule it breaks, in a word or two: the same for the same kind of bug."""
    message: str


class GroundTruth:
    """Counts effects, and remembers what tools and models really said."""

    def __init__(self) -> None:
        """Begin with nothing in them."""
        self.wrong: list[Wrong] = []
        self.effects: Counter[str] = Counter()
        """How often a call took effect."""
        self.permitted: Counter[str] = Counter()
        """How often a human said that a call is to run again."""
        self.returned: dict[str, list[Any]] = {}
        """What a call returned."""
        self.done: set[str] = set()
        """The calls whose last run returned something, in this life of the process."""
        self.told: dict[str, list[Any]] = {}
        """What a human said that came out of a call."""
        self.runs: Counter[str] = Counter()
        """How often a tool ran."""
        self.at_work: dict[tuple[str, str], dict[str, bool]] = {}
        """By conversation and turn, the calls that run just now, and whether they may together."""
        self.said: dict[tuple[str, str], str] = {}
        """What a model call said."""
        self.used: dict[tuple[str, str], int] = {}
        """How many tokens a model call said that it used, the last time it said so."""
        self.finished: set[tuple[str, str]] = set()
        """The model calls that said everything."""

        self.streaming: dict[int, str] = {}
        """The model calls whose streams are read on the event loop, in this life of the process."""
        self.streams = 0
        """How many were begun there."""
        self.cancelled = 0
        """How many of them were cancelled."""

    def begin_stream(self, call_id: str) -> int:
        """Note that a stream is read on the event loop; return its number."""
        self.streams += 1
        self.streaming[self.streams] = call_id
        return self.streams

    def complain(self, rule: str, message: str) -> None:
        """Note that a rule was broken."""
        self.wrong.append(Wrong(rule, message))
