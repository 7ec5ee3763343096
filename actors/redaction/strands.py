"""Several streams of one source: a secret may be said on one of them, or a part of it on each."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.redaction.flow import Flow, Part
    from actors.redaction.redactor import Replacer


class Strands:
    r"""Looks through streams that come in pieces: all together as they come, then each by itself.

    >>> from actors.redaction.redactor import Redactor
    >>> strands = Strands(Redactor([r"acct-\d{6}"]))
    >>> strands.feed("out", "it is acct-12") + strands.feed("err", "3456.") + strands.end()
    [('out', 'it is '), ('out', '{"redacted": "3d9f36cb"}'), ('err', '.')]
    """

    def __init__(self, replacer: Replacer) -> None:
        """Begin before anything has come."""
        self._replacer = replacer
        self._together = replacer.flow()
        self._lengths: deque[list[str | int]] = deque()
        """What is held back of all together: of which stream, and how many characters."""
        self._flows: dict[str, Flow] = {}

    def feed(self, name: str, piece: str) -> list[tuple[str, str]]:
        """Take in a piece of one stream; return what may be shown by now, and of which."""
        if not piece:
            return []
        self._lengths.append([name, len(piece)])
        return _joined(self._each(self._together.parts(piece)))

    def end(self) -> list[tuple[str, str]]:
        """Return what was held back: nothing more will come."""
        rest = [*self._each(self._together.parts("", last=True))]
        rest += [(name, flow.end()) for name, flow in self._flows.items()]
        return _joined(rest)

    def _each(self, parts: Iterable[Part]) -> Iterator[tuple[str, str]]:
        for part in parts:
            for name, text in self._shared_out(part):
                flow = self._flows.get(name)
                if flow is None:
                    flow = self._flows[name] = self._replacer.flow()
                if shown := flow.feed(text):
                    yield name, shown

    def _shared_out(self, part: Part) -> Iterator[tuple[str, str]]:
        """Yield what each stream has of a part; of a secret, all is where it began."""
        at, left = 0, part.length
        while left:
            first = self._lengths[0]
            name, length = str(first[0]), int(first[1])
            taken = min(left, length)
            if not part.is_mark:
                yield name, part.shown[at : at + taken]
            elif not at and part.shown:
                yield name, part.shown
            at += taken
            left -= taken
            if taken == length:
                self._lengths.popleft()
            else:
                first[1] = length - taken


def _joined(pieces: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the same with what follows on each other on one stream as one piece."""
    found: list[tuple[str, str]] = []
    for name, text in pieces:
        if found and found[-1][0] == name:
            found[-1] = name, found[-1][1] + text
        elif text:
            found.append((name, text))
    return found
