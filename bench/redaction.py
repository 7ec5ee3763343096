"""Looking through text for keys: kinds of text, as tools and models give them."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import quote

from actors.redaction.keys import PROVIDER_KEYS
from actors.redaction.redactor import DEFAULT
from bench.table import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.measure import Sizes
    from bench.results import Results

T = TypeVar("T")
SIZE: Final = 1_000_000
ROUNDS: Final = 5
PIECE: Final = 20
"""About as many characters as a model streams at once."""
_ROOT: Final = Path(__file__).parents[1]


def rows(_directory: Path, _sizes: Sizes, _results: Results) -> list[Row]:
    """Measure 1 MB of each kind beside `re` with the same patterns, which reads no escapes."""
    plainly = re.compile("|".join(PROVIDER_KEYS)).search

    def each_plainly(pieces: list[str]) -> None:
        for piece in pieces:
            plainly(piece)

    found: list[Row] = []
    for name, text in _texts().items():
        assert DEFAULT.text(text) == text
        pieces = [text[at : at + PIECE] for at in range(0, SIZE, PIECE)]
        found += [
            _row(
                f"1 MB of {name} looked through for keys",
                _seconds(DEFAULT.text, text),
                _seconds(plainly, text),
                "<= 0.1",
            ),
            _row(
                f"1 MB of {name} in pieces of {PIECE} characters",
                _seconds(_stream, pieces),
                _seconds(each_plainly, pieces),
                "<= 1.5",
            ),
        ]
    return found


def _row(name: str, ours: float, peer: float, bar: str) -> Row:
    return Row(
        name=name,
        ours=ours * 1_000,
        peer=peer * 1_000,
        peer_name="re, all patterns as one",
        ratio=ours / peer,
        bar=bar,
        unit="ms",
    )


def _stream(pieces: list[str]) -> None:
    flow = DEFAULT.flow()
    for piece in pieces:
        flow.feed(piece)
    flow.end()


def _texts() -> dict[str, str]:
    prose = "".join(path.read_text() for path in sorted((_ROOT / "docs").rglob("*.md")))
    code = "".join(path.read_text() for path in sorted((_ROOT / "runelog").rglob("*.py")))
    data = random.Random(1).randbytes(SIZE)
    texts = {
        "prose": prose,
        "code": code,
        "code in JSON": json.dumps(code),
        "letters in JSON as escapes": json.dumps("naïve café über — “quoted” "),
        "code in a URL": quote(code),
        "code in JSON in a URL": quote(json.dumps(code)),
        "escaped letters": "%67",
        "backslashes": "\\",
        "words in colours": "".join(f"\x1b[32m{each}\x1b[0m " for each in code.split()),
        "base64": base64.b64encode(data).decode(),
        "hex digits": data.hex(),
    }
    return {name: (text * (SIZE // len(text) + 1))[:SIZE] for name, text in texts.items()}


def _seconds(look: Callable[[T], object], given: T) -> float:
    """Return the least time that it takes."""
    least = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        look(given)
        least = min(least, time.thread_time() - began)
    return least
