"""Rules about what a terminal is given: nothing of a log acts on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import unicodedata
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runefold.cli.terminal import wording
from runefold.cli.terminal.screen import Part, table
from tests.runefold.cli_scenes import ROOT, command, environment, make_log, real, run

if TYPE_CHECKING:
    from pathlib import Path

ACTIVE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
KEYS = st.text() | st.integers() | st.binary(max_size=8) | st.none()
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=99)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20
)


def acts(text: str) -> bool:
    """Tell whether something in a text would act rather than be shown."""
    return any(unicodedata.category(char) in ACTIVE and char not in "\u200c\u200d" for char in text)


@given(st.text() | st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs"])))
def test_nothing_that_acts_is_left(text: str) -> None:
    """Controls, marks of direction and half characters are shown by their number."""
    assert not acts(wording.safe(text))
    assert not acts(wording.name(text))
    assert not acts(wording.fields({text: text}))


@given(VALUES, st.none() | st.integers(0, 50))
def test_a_value_is_one_harmless_line(item: object, limit: int | None) -> None:
    """Whatever a payload holds, however deep."""
    line = wording.value(item, limit)

    assert not acts(line)
    assert len(line.splitlines()) <= 1


@given(VALUES)
def test_every_value_has_its_json(item: object) -> None:
    """What JSON has no word for is spelt out: bytes, infinities, keys that are no text."""
    encoded = json.dumps(wording.plain(item), allow_nan=False)

    assert encoded.isascii()
    assert json.loads(encoded) == wording.plain(item)


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_ordinary_text_is_left_alone(text: str) -> None:
    """What is harmless is shown as it is."""
    assert wording.safe(text) == text


@pytest.mark.parametrize("text", ["日本語", "می\u200cخوریم", "👩\u200d💻", "naïve “quotes”"])
def test_every_language_is_shown(text: str) -> None:
    """What is written in other letters than ours is no danger."""
    assert wording.safe(text) == text


def test_extensions_of_msgpack_are_shown() -> None:
    """A foreign log may hold types of its own; times are told as such."""
    found = msgspec.msgpack.decode(
        msgspec.msgpack.encode([msgspec.msgpack.Ext(5, b"ab"), msgspec.msgpack.Ext(-1, bytes(4))])
    )

    assert wording.plain(found) == [
        {"$ext": 5, "$base64": "YWI="},
        "1970-01-01T00:00:00+00:00",
    ]


def test_times_beyond_the_calendar_are_numbers() -> None:
    """A time that is no date does not stop a command."""
    assert wording.moment(1 << 70) == f"{1 << 70} ns"
    assert wording.moment(-1, 9) == "1969-12-31T23:59:59.999999999Z"


def test_sizes_keep_to_their_unit() -> None:
    """A size is never told as a thousand of a unit."""
    told = [wording.size(count) for count in (0, 999, 1_000, 999_949, 999_950, 10**13)]

    assert told == ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "10.0 TB"]


def test_columns_end_and_begin_together() -> None:
    """A table lines up, numbers to the right."""
    rows: list[list[Part]] = [["a", "10", "x"], ["bcd", "1", ("y", "red")]]
    lines = [
        "".join(part if isinstance(part, str) else part[0] for part in line)
        for line in table(rows, right=frozenset({1}))
    ]

    assert lines == ["a    10  x", "bcd   1  y"]


def test_a_hostile_payload_is_shown_harmless(tmp_path: Path) -> None:
    """Escape sequences, markup and turned writing are seen as what they are."""
    log = make_log(tmp_path / "log")
    result = run("log", "show", log, "conv_hostile")
    line = result.stdout.splitlines()[0]

    assert not any(acts(line) for line in result.stdout.splitlines())
    assert len(result.stdout.splitlines()) == 3
    assert '"odd\\u001b[2Jkind"' in line
    assert "\\u001b]0;owned\\u0007\\u001b[31mred\\u009b2J\\u202etxet\\u2066\\r\\n\\u0000" in line
    assert "[bold]loud[/bold]" in line


def test_a_hostile_payload_is_json_like_any_other(tmp_path: Path) -> None:
    """JSON is ASCII, valid, and gives back exactly what was written."""
    log = make_log(tmp_path / "log")
    result = run("log", "show", log, "conv_hostile", "--json")
    first = json.loads(result.stdout.splitlines()[0])

    assert result.stdout.isascii()
    assert not any(acts(line) for line in result.stdout.splitlines())
    assert first["kind"] == "odd\x1b[2Jkind"
    assert first["payload"]["text"].startswith("\x1b]0;owned\x07")


def on_terminal(*arguments: str | Path, **more: str) -> bytes:
    """Run a command on a terminal of its own, and return everything that it was sent."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        env=environment(**more),
    ) as child:
        os.close(theirs)
        sent = b""
        try:
            while data := os.read(ours, 1 << 16):
                sent += data
        except OSError:
            # How Linux says that nobody has the other end open any more.
            pass
        finally:
            os.close(ours)
    assert child.returncode == 0
    return sent


def test_a_terminal_is_sent_our_colours_and_nothing_else(tmp_path: Path) -> None:
    """On a terminal the only escape sequences are colours, and none comes out of a payload."""
    log = make_log(tmp_path / "log")
    sent = on_terminal("log", "show", log, "conv_hostile")
    text = COLOUR.sub(b"", sent).replace(b"\r\n", b"\n").decode()

    assert COLOUR.search(sent)
    assert text == run("log", "show", log, "conv_hostile").stdout


def test_no_color_means_no_colours(tmp_path: Path) -> None:
    """`NO_COLOR` is honoured on a terminal too."""
    log = make_log(tmp_path / "log")

    assert b"\x1b" not in on_terminal("log", "show", log, "conv_hostile", NO_COLOR="1")
    assert b"\x1b" not in on_terminal("log", "list", log, NO_COLOR="1")


def test_progress_is_for_terminals(tmp_path: Path) -> None:
    """Long work shows a bar to those who watch, and writes nothing into a pipe."""
    log = make_log(tmp_path / "log")
    piped = real("log", "verify", log)

    assert piped.stderr == b""
    assert b"verifying" in on_terminal("log", "verify", log)


def test_a_stream_that_knows_only_ascii_is_enough(tmp_path: Path) -> None:
    """A character that cannot be written is written by its number; nothing fails over it."""
    log = make_log(tmp_path / "log")
    result = real("log", "show", log, "conv_work", PYTHONIOENCODING="ascii")

    assert result.returncode == 0
    assert b"\\u2026 (5,000 characters)" in result.stdout
