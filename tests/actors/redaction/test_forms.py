"""Rules about keys that are written in other ways, and about what only looks like them."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import sys
import uuid
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.redaction import machine
from actors.redaction.escapes import INTRODUCE, RESTLESS, decoded, ending
from actors.redaction.redactor import DEFAULT, Redactor, mark
from actors.redaction.strands import Strands
from actors.tool.secrets import SecretMask
from tests.actors.redaction.forms import ENDLESS, FORMS, KEYS
from tests.actors.redaction.test_redactor import pieces, streamed

ROOT: Final = Path(__file__).parents[3]
REDACTOR: Final = Redactor([r"k=[a-c]{2,}", r"\bxy+", r"a-\d{3}"])
PARTS: Final = (
    *("k", "=", "a", "b", "xy", "y", "a-12", "3", " ", "_", "%", "\\", "n", "u00", "\x1b["),
    *("%3D", "%253d", "%6B", "\\u0061", "\\x79", "\\n", "\\\\n", "%5Cn", "\x1b[1m", "\\u001b[0m"),
)
written = st.lists(
    st.sampled_from(PARTS),
    max_size=14,
).map("".join)
sizes = st.lists(st.integers(1, 9), min_size=1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("whose", KEYS)
def test_a_key_is_found_however_it_is_written(whose: str, form: str) -> None:
    """Nothing is left of it that can be read; and however the text is cut, the same is shown."""
    key = KEYS[whose]
    text = f"see: {FORMS[form](key)} ok."
    shown = DEFAULT.text(text)
    readable = decoded(shown)

    assert '{"redacted": "' in shown
    assert shown.startswith("see: ")
    assert not any(key[at : at + 12] in readable for at in range(4, len(key) - 12, 4))
    for size in (1, 2, 3, 7, 20, 64):
        assert streamed(DEFAULT, pieces(text, [size])) == shown


@pytest.mark.parametrize("around", ["so many words, ", "%67", "\\u0067 ", "\\", "\x1b[1m so "])
@pytest.mark.parametrize("form", FORMS)
def test_a_key_is_found_in_a_long_text(form: str, around: str) -> None:
    """Long texts are searched in another way than short ones; no form of a key is missed there."""
    before = around * (2 * machine.LONG // len(around)) + " "
    for key in KEYS.values():
        hidden = FORMS[form](key)
        shown = DEFAULT.text(f"{before}{hidden}")
        readable = decoded(shown)

        assert '{"redacted": "' in shown
        assert not any(key[at : at + 12] in readable for at in range(4, len(key) - 12, 4))
        assert shown.startswith(before)


def test_a_key_is_found_however_many_orders_are_in_it() -> None:
    """Its first characters may be as far apart as orders to a terminal can take them."""
    key = KEYS["github"]
    text = "%67" + "\x1b[m" * machine.LONG + key[1:]

    assert DEFAULT.text(text) == mark(key)


@pytest.mark.parametrize("junk", ["%67" * 200, "g\x1b[1m" * 300])
@pytest.mark.parametrize("whose", ["github", "private key without its end"])
def test_nothing_of_a_key_is_left_behind_much_that_begins_like_one(whose: str, junk: str) -> None:
    """Where it is not known where a key begins, it is still replaced to its end, and no further."""
    text = f"{junk}{KEYS[whose]}. ok"
    shown = DEFAULT.text(text)

    assert re.fullmatch(r'\{"redacted": "[0-9a-f]{8}"\}\. ok', shown)
    for size in (1, 7, 500):
        assert streamed(DEFAULT, pieces(text, [size])) == shown


def test_escaped_letters_are_not_walked_over_where_no_key_can_be() -> None:
    """A text that is made of them is searched and no more: no step is taken for each of them."""
    for piece in ("%67", "\\u0067", "\\x67"):
        text = piece * 4_000

        assert _steps(text, len(text)) < 10_000
        assert _steps(text, len(text)) < 1.2 * _steps(text[:-6_000], len(text)) + 100


def test_the_whole_escaped_key_is_replaced_and_nothing_else() -> None:
    """What is around it stays, and it has the mark that it has where it is written plainly."""
    key = KEYS["github"]
    text = f"a%20{FORMS['all of it as in URLs'](key)}%20b"

    assert DEFAULT.text(text) == f"a%20{mark(key)}%20b"


@given(written, sizes)
def test_however_escapes_are_cut_the_same_is_shown(text: str, lengths: list[int]) -> None:
    """What is shown of a stream with escapes does not depend on where its pieces end."""
    assert streamed(REDACTOR, pieces(text, lengths)) == REDACTOR.text(text)


@given(written)
def test_a_glance_at_two_characters_misses_no_escape_that_has_begun(text: str) -> None:
    """Whatever has begun at the end of a text is looked for, as its last characters show."""
    begun = ending(text) is not None

    assert not begun or text[-2:] in RESTLESS or text[-1] in INTRODUCE


def test_pieces_without_keys_are_not_walked_over() -> None:
    """A piece of a stream takes so many steps, whatever its length; escapes in it take few more."""
    plain, escaped = "so many words, ", "%20so%0Amany\\u00e9 \x1b[1mwords\x1b[0m, "
    for piece, most in ((plain, 20), (escaped, 40)):
        steps = [_steps(piece * (size * 10), len(piece) * size) for size in (1, 50)]

        assert max(steps) < 10 * most + 100


@given(written)
def test_nothing_is_readable_that_a_pattern_fits(text: str) -> None:
    """A text that was looked through has no match in it, as it is or as it is read."""
    redactor = Redactor([r"k=[a-c]{2,}", r"a-\d{3}"])
    shown = redactor.text(text)

    assert redactor.text(shown) == shown


def test_a_key_longer_than_what_is_held_back_is_hidden_to_its_end() -> None:
    """However long a private key is, and without an end: nothing of it is shown."""
    body = "MIIEpAIBAAKCAQEA7aB3+/xyzABCDEFGHIJKLMNOPQRSTUVW\n" * 600
    text = f"it is {ENDLESS[:32]}{body}. ok"
    for size in (9, 5_000, len(text)):
        shown = streamed(DEFAULT, pieces(text, [size]))

        assert shown.startswith('it is {"redacted": "')
        assert shown.endswith('"}. ok')
        assert len(shown) < 50


_RANDOM: Final = random.Random(7)
LONG: Final = _RANDOM.randbytes(9_000).hex()
_IMAGE: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n" + _RANDOM.randbytes(200_000)).decode()
ORDINARY: Final = {
    "digests": " ".join(hashlib.sha256(bytes([each])).hexdigest() for each in range(200)),
    "uuids": " ".join(str(uuid.UUID(int=_RANDOM.getrandbits(128))) for _ in range(500)),
    "an image": f"data:image/png;base64,{_IMAGE}",
    "base64 for URLs": base64.urlsafe_b64encode(_RANDOM.randbytes(200_000)).decode(),
    "a certificate": f"-----BEGIN CERTIFICATE-----\n{_IMAGE[:1_200]}\n-----END CERTIFICATE-----",
    "a public key": f"-----BEGIN PUBLIC KEY-----\n{_IMAGE[:300]}\n-----END PUBLIC KEY-----",
    "a word for private keys": "It begins with -----BEGIN PRIVATE KEY----- and ends with a line.",
    "words": "risk-based task-oriented desk_test_live ask-or-tell-and-other-long-winded-words-too",
    "paths": r"C:\new\task-list\u00e9\x41.txt /usr/lib/python3/ghp/glpat-/hf_hub/xai-grok",
    "links": "https://example.org/a%20b?q=%C3%A9&next=%2Fhome%2Fsk-learn&t=task%2Dmanager",
    "colours": "\x1b[1;32mPASSED\x1b[0m tests/test_sk-learn.py::\x1b[33mtest_hf_model\x1b[0m",
    "ids": "conv_0123456789abcdef call_0123456789abcdef msg_0123456789abcdef sk-",
}


@pytest.mark.parametrize("what", ORDINARY)
def test_what_is_no_key_stays_as_it_is(what: str) -> None:
    """Digests, ids, images, links and words are kept to the letter."""
    text = ORDINARY[what]

    assert DEFAULT.text(text) == text
    assert streamed(DEFAULT, pieces(text, [23])) == text


@pytest.mark.parametrize("write", [str, json.dumps, quote, repr])
def test_programs_and_prose_stay_as_they_are(write: type[str]) -> None:
    """Real source code and documentation, as they are and as programs pass them on."""
    for path in [
        *(ROOT / "runelog").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        Path(json.__file__),
    ]:
        text = write(path.read_text())

        assert DEFAULT.text(text) == text, path


def test_a_secret_is_hidden_that_is_said_on_two_streams() -> None:
    """In part on each of them, or on one with the other in between: no part of it is shown."""
    said = [
        ("out", "it is hun"),
        ("err", "ter2 and "),
        ("out", "hunt"),
        ("err", "!"),
        ("out", "er2."),
    ]
    strands = Strands(SecretMask({"KEY": "hunter2"}))
    shown = [each for name, text in said for each in strands.feed(name, text)] + strands.end()
    by_stream = {
        stream: "".join(text for name, text in shown if name == stream) for stream in ("out", "err")
    }

    assert by_stream == {"out": "it is secret:KEYsecret:KEY.", "err": " and !"}


def test_the_value_of_a_secret_is_hidden_however_it_is_written() -> None:
    """In a URL, in JSON, in colour, as a number; and one that is longer than any key."""
    password = 'p"a/ss 1'
    mask = SecretMask({"PASSWORD": password, "PIN": "123456", "LONG": LONG})

    assert mask.text(f"?q={quote(password, safe='')}") == "?q=secret:PASSWORD"
    assert mask.text(json.dumps(password)) == '"secret:PASSWORD"'
    assert mask.text(FORMS["each character in a colour"](password)).endswith("msecret:PASSWORD")
    assert mask.value({"pin": 123456, "at": [1, 123]}) == {"pin": "secret:PIN", "at": [1, 123]}
    assert streamed_by(mask, f"({LONG})", 1_000) == "(secret:LONG)"


def streamed_by(mask: SecretMask, text: str, size: int) -> str:
    """Return what is shown of a text that comes in pieces."""
    flow = mask.flow()
    return "".join(flow.feed(each) for each in pieces(text, [size])) + flow.end()


def test_hostile_texts_take_time_in_proportion() -> None:
    """Each character is looked at so many times at most: steps are counted, not seconds."""
    for piece in ("%67", "\\u0067", "\\", "%25", "\x1b[", "-----BEGIN PRIVATE KEY-----\n", "sk-ab"):
        steps = [_steps(piece * count) for count in (200, 400)]

        assert steps[1] < 2.5 * steps[0] + 1_000


def _steps(text: str, size: int = 5) -> int:
    """Return how many lines of Python are run to look through a text in pieces."""
    count, parts = 0, pieces(text, [size])

    def trace(_frame: object, _event: str, _argument: object) -> Any:  # noqa: ANN401 -- itself
        nonlocal count
        count += 1
        return trace

    # What is prepared once, such as an expression, is not counted, whichever test comes first.
    streamed(DEFAULT, parts)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        streamed(DEFAULT, parts)
    finally:
        sys.settrace(before)
    return count
