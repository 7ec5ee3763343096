"""Rules about redaction: what fits a pattern is replaced, in one piece or in many."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.public_command import Order
from actors.redaction.keys import PROVIDER_KEYS
from actors.redaction.machine import MOST_HELD
from actors.redaction.patterns import BadPattern
from actors.redaction.redactor import DEFAULT, Redactor, Replacer, mark
from actors.session.public_commands import Pause
from actors.tool.lifecycle import Fail
from actors.tool.secrets import SecretMask

PATTERNS: Final = (r"sk-[a-z]{3,}", r"[a-c]+\d", r"\bab+c", r"(?:xy|z)+!", r"1{2}-(?P<n>[^-\s]{2})")
REDACTOR: Final = Redactor(PATTERNS)
texts = st.text(st.sampled_from("abcskxyz-1! _"), max_size=40)
sizes = st.lists(st.integers(1, 9), min_size=1)


def pieces(text: str, lengths: list[int]) -> list[str]:
    """Cut a text into pieces of these lengths, again and again."""
    found, at, number = [], 0, 0
    while at < len(text):
        found.append(text[at : at + lengths[number % len(lengths)]])
        at += len(found[-1])
        number += 1
    return found


def streamed(redactor: Redactor, parts: list[str]) -> str:
    """Return what is shown of a text that comes in pieces."""
    flow = redactor.flow()
    return "".join(flow.feed(part) for part in parts) + flow.end()


KEYS: Final = {
    "openai": "sk-" + "aB3d" * 8,
    "openai, of a project": "sk-proj-" + "aB3_-" * 8,
    "anthropic": "sk-ant-api03-" + "aB3_-" * 8,
    "google": "AIza" + "aB3_-" * 7,
    "aws": "AKIA" + "A1B2" * 4,
    "groq": "gsk_" + "aB3d" * 8,
    "hugging face": "hf_" + "aB3d" * 8,
    "xai": "xai-" + "aB3d" * 8,
    "github": "ghp_" + "aB3d" * 9,
    "github, fine": "github_pat_" + "aB3_" * 9,
    "gitlab": "glpat-" + "aB3_-" * 4,
    "slack": "xoxb-" + "12-aB" * 5,
    "pem": f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIaB3+/=' * 60}\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("whose", KEYS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_the_keys_of_providers_are_known_by_their_looks(whose: str, size: int) -> None:
    """Nobody has to register them; wherever they are in a text, and however it is cut."""
    key = KEYS[whose]
    text = f"it is {key}, keep it. ({key})"

    assert DEFAULT.text(text) == f"it is {mark(key)}, keep it. ({mark(key)})"
    assert streamed(DEFAULT, pieces(text, [size])) == DEFAULT.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "a risk-assessment-of-the-new-and-improved-system",
        "task-abcdefghijklmnopqrstuvwxyz",
        "sk-learn, ask-me-anything, sk-",
        "AKIA, ghp_short, xox",
        "-----BEGIN CERTIFICATE-----",
        "",
    ],
)
def test_what_only_begins_like_a_key_is_left_alone(text: str) -> None:
    """A word that has a key's first letters in it is a word."""
    assert DEFAULT.text(text) == text
    assert streamed(DEFAULT, list(text)) == text


def test_the_mark_tells_secrets_apart_and_does_not_tell_them() -> None:
    """The same secret has the same mark, another one another, and neither is in it."""
    one, other = KEYS["aws"], KEYS["groq"]

    assert mark(one) == mark(one) != mark(other)
    assert msgspec.json.decode(mark(one)).keys() == {"redacted"}
    assert one[:8] not in mark(one)


@given(texts, sizes)
def test_however_a_text_is_cut_the_same_is_shown(text: str, lengths: list[int]) -> None:
    """What is shown of a stream does not depend on where one piece ends and the next begins."""
    assert streamed(REDACTOR, pieces(text, lengths)) == REDACTOR.text(text)


@given(texts)
def test_it_is_what_regular_expressions_say(text: str) -> None:
    """Exactly that is replaced which `re` finds, but that an underscore is no part of a word."""
    patterns = "|".join(PATTERNS).replace(r"\b", r"(?<![^\W_])")
    expected = re.sub(patterns, lambda found: mark(found[0]), text)

    assert REDACTOR.text(text) == expected


@given(texts, sizes)
def test_nothing_is_shown_that_may_become_a_secret(text: str, lengths: list[int]) -> None:
    """At no time has a stream shown a part of what is replaced in the end."""
    whole, flow, shown = REDACTOR.text(text), REDACTOR.flow(), ""
    for piece in pieces(text, lengths):
        shown += flow.feed(piece)

        assert whole.startswith(shown)


@given(texts)
def test_what_cannot_become_a_secret_is_shown_at_once(text: str) -> None:
    """Nothing is held back behind a character that no pattern has."""
    flow = REDACTOR.flow()

    assert flow.feed(text + "?") == REDACTOR.text(text + "?")


def test_a_match_that_grows_is_replaced_as_a_whole() -> None:
    """As long as more may belong to it, it is held back; the first that does not ends it."""
    flow = Redactor([r"key:\w{4,}"]).flow()

    assert flow.feed("my key:abcd") == "my "
    assert flow.feed("efgh") == ""
    assert flow.feed(" and") == mark("key:abcdefgh") + " and"


def test_what_is_never_a_match_is_let_go_in_the_end() -> None:
    """Held back is only so much; what began like a secret and is longer than any is shown."""
    flow = Redactor([r"<[^>]+>"]).flow()
    shown = "".join(flow.feed("<" + "a" * 999) for _ in range(20))

    assert 20_000 - MOST_HELD <= len(shown) < 20_000
    assert len(shown + flow.end()) == 20_000


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?:a+)+b", "a" * 200_000),
        (r"[a-z]+@[a-z]+\.com", "a" * 200_000),
        (r"a[ab]{500}c", "ab" * 100_000),
        (r"(?:a|aa)+$"[:-1] + "b", "a" * 200_000),
    ],
)
def test_no_text_takes_long(pattern: str, text: str) -> None:
    """Each character is looked at so many times at most, however the pattern is built.

    An engine that goes back and tries again would not come to an end here.
    """
    assert Redactor([pattern]).text(text) == text


def test_values_are_looked_through_wherever_they_hold_text() -> None:
    """In lists and mappings, their keys included; in commands and words of people."""
    key, hidden = KEYS["groq"], mark(KEYS["groq"])
    value = {"a": [1, None, {"b": f"x {key}"}], key: 2.5, "c": True}
    word = Order(Pause(f"because {key}"), f"from {key}")

    assert DEFAULT.value(value) == {"a": [1, None, {"b": f"x {hidden}"}], hidden: 2.5, "c": True}
    assert DEFAULT.value(word) == Order(Pause(f"because {hidden}"), f"from {hidden}")
    assert DEFAULT.value(Fail(f"oh {key}", output=(key,))) == Fail(f"oh {hidden}", output=(hidden,))


def test_what_holds_no_secret_is_the_very_same() -> None:
    """A command without one is passed on as it is."""
    command = Fail("oh", output={"a": 1})

    assert DEFAULT.value(command) is command


class Told(msgspec.Struct, frozen=True):
    """A command with a text in every place where one can be."""

    said: Any = None
    words: tuple[str, ...] = ()
    more: Told | None = None


HARD: Final = Redactor(
    [r"CORP\\[a-z]+", r'"pin"=\d{4}', "\u00fc[a-z]{3}", r"a\nb+", "\x1b7x+", r"\d{6}"]
)
"""Patterns with characters that JSON writes in another way, and one that numbers in JSON fit."""
pieces_of_text = st.lists(
    st.sampled_from(
        [
            *KEYS.values(),
            *("CORP\\ada", 'x"pin"=1234', "\u00fcber", "a\nbb", "\x1b7xx", "123456", "sk-"),
            *("%67hp_" + "aB3d" * 9, r"\u0067hp_" + "aB3d" * 9, r"\n", "\\", '"', "%"),
            *("\x1b", "\ud800", "word", " ", "\n", "7", "_"),
        ]
    ),
    max_size=4,
).map("".join)
told = st.recursive(
    st.builds(
        Told,
        st.recursive(
            pieces_of_text | st.integers(0, 2**70) | st.none(),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(pieces_of_text, inner, max_size=2)
            ),
            max_leaves=4,
        ),
        st.lists(pieces_of_text, max_size=2).map(tuple),
    ),
    lambda inner: st.builds(Told, pieces_of_text, st.just(()), inner),
    max_leaves=3,
)


@settings(max_examples=500)
@given(told, st.sampled_from([DEFAULT, HARD, SecretMask({"PIN": "123456", "QUOTE": 'x"pin"'})]))
def test_a_command_that_is_searched_at_once_is_looked_through_all_the_same(
    command: Told, replacer: Replacer
) -> None:
    """Whatever texts it holds and wherever: it comes to what its fields come to one by one."""
    by_field = Told(
        replacer.value(command.said),
        tuple(map(replacer.text, command.words)),
        replacer.value(command.more),
    )

    assert replacer.value(command) == by_field


class Opaque(str):
    """A text that no JSON is written of."""

    __slots__ = ()


@pytest.mark.parametrize(
    "beside", [object(), Opaque("x"), "\ud800", 2**70, {"deep": {1: object()}}], ids=range(5)
)
def test_what_cannot_be_written_as_json_hides_nothing(beside: object) -> None:
    """A command with such a value is walked; so is one of a text that JSON does not know."""
    key, hidden = KEYS["groq"], mark(KEYS["groq"])

    assert DEFAULT.value(Told(beside, (key,))).words == (hidden,)
    assert DEFAULT.value(Told(Opaque(key))).said == hidden


BAD: Final = {
    "looks ahead": (r"a(?=b)", "looks around"),
    "looks back": (r"(?<=a)b", "looks around"),
    "refers back": (r"(a)\1", "not known"),
    "is nowhere": (r"^secret", "leave it out"),
    "ends a line": (r"secret$", "leave it out"),
    "is a boundary inside": (r"a\b-b", "not known"),
    "fits nothing": (r"a*", "empty"),
    "counts too far": (r"(?:[a-z]{900}){9}", "counts too far"),
    "is no expression": (r"(a", "unterminated"),
}


@pytest.mark.parametrize("why", BAD)
def test_what_cannot_be_looked_for_is_refused_with_a_reason(why: str) -> None:
    """A pattern that an automaton cannot follow is refused where it is registered."""
    pattern, reason = BAD[why]

    with pytest.raises(BadPattern, match=reason):
        Redactor([pattern])
    with pytest.raises(BadPattern, match="a pattern is a text"):
        Redactor([5])  # type: ignore[list-item]  # on purpose


@pytest.mark.parametrize(
    ("pattern", "text", "secret"),
    [
        (r"\b\d{3}-\d{2}-\d{4}\b", "it is 123-45-6789.", "123-45-6789"),
        (re.compile("TOKEN=[a-z]+", re.IGNORECASE), "set token=ABC;", "token=ABC"),
        (r"(?i)pass(?:word)?: \S+", "PassWord: hunter2 ok", "PassWord: hunter2"),
        (re.escape("p@ss (w)ord+"), "is p@ss (w)ord+!", "p@ss (w)ord+"),
        (r"a{,2}b", "xaab", "aab"),
        (r"[]x]{2}", "a]x", "]x"),
        (r"a.c", "xabcx", "abc"),
        (r"k=\w+?", "k=ab ", "k=ab"),
        (r"a{x}", "ba{x}", "a{x}"),
        (r"über\s\D", "das über 3 über x", "über x"),
    ],
)
def test_a_pattern_means_what_it_says(
    pattern: str | re.Pattern[str], text: str, secret: str
) -> None:
    """Counts, classes, choices, case, and values that are given as they are."""
    expected = text.replace(secret, mark(secret))

    assert Redactor([pattern]).text(text) == expected
    assert streamed(Redactor([pattern]), list(text)) == expected


def test_patterns_of_an_app_are_looked_for_beside_the_others() -> None:
    """To register one does not switch off what is always looked for."""
    key = KEYS["openai"]

    assert Redactor([r"acct-\d+"]).text(f"{key} acct-12") == f"{mark(key)} {mark('acct-12')}"
    assert len(PROVIDER_KEYS) > 5
