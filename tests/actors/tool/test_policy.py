"""Rules about policies."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.tool.policy import MODES, WORDS, BadPolicy, Clause, Mode, Policy, Verdict, Word, judge
from actors.tool.spec import ToolSpec
from runelog.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping


class Facts(NamedTuple):
    """What a policy looks at in a tool."""

    name: str = "send_mail"
    side_effects: bool = True
    requires_approval: bool = False


MAIL = Facts()
LOOK = Facts("look_up", side_effects=False)
PAY = Facts("pay", requires_approval=True)


def said(policy: Policy, tool: Facts, **arguments: object) -> str:
    """Return the verdict alone."""
    return judge(policy, tool, arguments).verdict


@pytest.mark.parametrize(
    ("mode", "look", "mail", "pay"),
    [
        ("read_only", "allow", "deny", "deny"),
        ("auto", "allow", "ask", "ask"),
        ("full_access", "allow", "allow", "ask"),
    ],
)
def test_a_mode_says_what_no_rule_says(mode: Mode, look: Word, mail: Word, pay: Word) -> None:
    """Side effects are denied, asked about or let pass; what requires approval is asked about."""
    policy = Policy(mode=mode)

    assert said(policy, LOOK) == look
    assert said(policy, MAIL) == mail
    assert said(policy, PAY) == pay


def test_the_first_rule_that_fits_wins() -> None:
    """Patterns are a shell's; capitals matter; where none fits the mode decides."""
    policy = Policy(
        mode="auto",
        rules=[
            Clause("send_[lm]*", "allow", "letters and mails"),
            ("send_*", "deny"),
            {"pattern": "look_?p", "verdict": "ask", "reason": "curious"},
            {"pattern": "PAY", "verdict": "deny"},
        ],
    )

    assert judge(policy, MAIL, {}) == Verdict("allow", "letters and mails", policy.hash)
    assert judge(policy, Facts("send_parcel"), {}).reason == "rule send_*: deny"
    assert judge(policy, LOOK, {}) == Verdict("ask", "curious", policy.hash)
    assert said(policy, PAY) == "ask"
    assert said(policy, Facts("resend_mail")) == "ask"


def test_a_spec_can_be_judged() -> None:
    """What is declared of a tool is all that a policy needs."""
    spec = ToolSpec(name="look_up", description="Look a word up.", side_effects=False)

    assert judge(Policy(), spec, {}).verdict == "allow"


tools = st.builds(Facts, st.sampled_from(["a", "ab", "b"]), st.booleans(), st.booleans())
rules = st.lists(
    st.builds(Clause, st.sampled_from(["a", "a*", "*", "?b", "c"]), st.sampled_from(WORDS)),
    max_size=4,
)


@given(st.sampled_from(MODES), rules, tools)
def test_what_no_rule_can_talk_away(mode: Mode, clauses: list[Clause], tool: Facts) -> None:
    """Read-only denies side effects, required approval is asked for, and a denial stands."""
    verdict = judge(Policy(mode=mode, rules=clauses), tool, {})

    assert verdict.reason
    if mode == "read_only" and tool.side_effects:
        assert verdict.verdict == "deny"
    if tool.requires_approval:
        assert verdict.verdict != "allow"
    if mode != "read_only" and Clause("*", "deny") in clauses[:1]:
        assert verdict.verdict == "deny"


# -- functions ---------------------------------------------------------------------------------


def careful(name: str, arguments: Mapping[str, Any], spec: Facts) -> Word | None:
    """Ask about money, and leave the rest to the mode."""
    del name, spec
    return "ask" if "money" in arguments else None


def test_a_function_may_look_at_the_arguments() -> None:
    """It says what is to become of this very call, or leaves it to the mode."""
    policy = Policy(mode="full_access", function=careful)

    assert said(policy, MAIL, money=5) == "ask"
    assert said(policy, MAIL) == "allow"
    assert "careful says so" in judge(policy, MAIL, {"money": 5}).reason
    assert said(Policy(mode="read_only", function=careful), MAIL, money=5) == "deny"


@pytest.mark.parametrize(
    "answer", ["deny", ("deny", "no"), Verdict("deny", "no"), ("deny", ""), Verdict("deny")]
)
def test_a_function_may_give_its_reason(answer: Any) -> None:  # noqa: ANN401 -- whatever a function may return
    """A word, a pair of word and reason, or a verdict: there is always a reason in the end."""
    policy = Policy(function=lambda _name, _arguments, _spec: answer)
    verdict = judge(policy, MAIL, {})

    assert verdict.verdict == "deny"
    assert verdict.rules_hash == policy.hash
    assert verdict.reason == "no" or "says so" in verdict.reason


@pytest.mark.parametrize("answer", [True, "", "perhaps", ("deny",), ("deny", 1), 0, []])
def test_what_a_function_returns_is_not_guessed_at(answer: Any) -> None:  # noqa: ANN401 -- as above
    """An answer that is none is an error that says what to return."""
    policy = Policy(function=lambda _name, _arguments, _spec: answer)

    with pytest.raises(BadPolicy, match="return 'allow', 'ask' or 'deny'"):
        judge(policy, MAIL, {})


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "yolo"}, "'yolo' is no mode: use read_only, auto or full_access"),
        ({"rules": "git_*"}, "'git_*' is no list of rules"),
        ({"rules": {"git_*": "ask"}}, "{'git_*': 'ask'} is no list of rules"),
        ({"rules": ["git_*"]}, "rule 1: 'git_*' is not pattern, verdict and reason"),
        ({"rules": [("a", "ask"), ("a",)]}, "rule 2: ('a',) is not pattern, verdict and reason"),
        ({"rules": [{"pattern": "a"}]}, "rule 1: {'pattern': 'a'} is not pattern, verdict"),
        ({"rules": [{"pattern": "a", "verdict": "ask", "x": 1}]}, "rule 1: {'pattern': 'a', 've"),
        ({"rules": [("", "ask")]}, "rule 1: '' is no pattern of tool names"),
        ({"rules": [(3, "ask")]}, "rule 1: 3 is no pattern of tool names"),
        ({"rules": [("a", ["ask"])]}, "rule 1: ['ask'] is no verdict: use allow, ask or deny"),
        ({"rules": [Clause("a", "no")]}, "rule 1: 'no' is no verdict: use allow, ask or deny"),  # type: ignore[arg-type]  # wrong on purpose
        ({"rules": [("a", "ask", 1)]}, "rule 1: 1 is no reason: give text"),
        ({"rules": [("a", "ask", "\udce9")]}, "rule 1: '\\udce9' holds half of a character"),
        ({"rules": [("a", "no"), ("b", "so")]}, "rule 1: 'no' is no verdict: use allow, ask or "),
        ({"function": 3}, "3 is no function of name, arguments and tool"),
        ({"function": careful, "rules": [("a", "ask")]}, "it has both rules and a function"),
    ],
)
def test_what_cannot_be_followed_is_refused(wrong: dict[str, Any], message: str) -> None:
    """A policy with a mistake in it is no policy: it says what is wrong, and where."""
    with pytest.raises(BadPolicy) as refused:
        Policy(**wrong)
    assert str(refused.value).startswith(message)
    assert isinstance(refused.value, Refused)


def test_every_mistake_is_named() -> None:
    """Nobody has to mend a list of rules one error at a time."""
    with pytest.raises(BadPolicy) as refused:
        Policy(mode="yolo", rules=[("a", "no"), ("b", "ask"), (1, "ask")])  # type: ignore[arg-type, list-item]  # wrong on purpose
    assert [part.split(":")[0] for part in str(refused.value).split("; ")] == [
        "rule 1",
        "rule 3",
        "'yolo' is no mode",
    ]


# -- the hash ----------------------------------------------------------------------------------


def test_the_hash_tells_rules_apart() -> None:
    """It changes with mode, rules, their order and their reasons; not with how they are written."""
    written = [("a", "ask"), ("b", "deny", "no")]
    policies = [
        Policy(),
        Policy(mode="auto"),
        Policy(rules=written),
        Policy(rules=written[::-1]),
        Policy(rules=[("a", "ask"), ("b", "deny")]),
        Policy(function=careful),
        Policy(function=lambda _name, _arguments, _spec: "ask"),
        Policy(function=lambda _name, _arguments, _spec: "deny"),
    ]

    assert len({policy.hash for policy in policies}) == len(policies)
    assert Policy(rules=[Clause("a", "ask"), Clause("b", "deny", "no")]).hash == policies[2].hash


def test_the_hash_is_the_same_in_every_process() -> None:
    """It is stored with the verdict: another process must be able to compare it with its own."""
    code = (
        "from actors.tool.policy import Policy; from tests.actors.tool.test_policy import careful;"
        "print(Policy(rules=[('a', 'ask', 'why')]).hash, Policy(function=careful).hash)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert told == [
        Policy(rules=[("a", "ask", "why")]).hash,
        Policy(function=careful).hash,
    ]


class Strict:
    """A policy that is an object."""

    def __call__(self, name: str, arguments: Mapping[str, Any], spec: Facts) -> Word:
        """Deny."""
        del name, arguments, spec
        return "deny"


def test_what_has_no_source_has_a_name() -> None:
    """An object is known by its class, and a function made of text by its name alone."""
    scope: dict[str, Any] = {"__name__": "elsewhere"}
    exec("def no(name, arguments, spec): return 'deny'", scope)
    one, other = Policy(function=Strict()), Policy(function=scope["no"])

    assert said(one, LOOK) == said(other, LOOK) == "deny"
    assert one.hash == Policy(function=Strict()).hash != other.hash
    assert judge(other, LOOK, {}).reason == "elsewhere.no says so"
