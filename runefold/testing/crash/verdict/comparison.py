"""Whether a run that was disturbed came to the same end as the undisturbed one.

After a crash everything is as without it, except what recovery is allowed: a turn that was stopped
may have said less, and a call that nobody can ask about may be unknown. Then that must be told, to
the model and to the app, and what the model makes of it may be something else: in that turn from
there on, and in what follows from it. Everything else is compared as ever.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from runefold.testing.crash.verdict.judge import Finding
from runefold.testing.crash.verdict.named import in_what, named
from runefold.testing.crash.verdict.outcome import LogOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from runefold.testing.crash.plan.points import Verdict
    from runefold.testing.crash.verdict.outcome import (
        AgentHistory,
        Call,
        ConversationOutcome,
        EntityOutcome,
        TurnEnd,
    )

_T = TypeVar("_T")
_Told: TypeAlias = tuple[str, str]
"""A message as a model is shown it: whose it is, and its text."""
MAY_HAPPEN: Final = "it was started and may still take effect"
"""What a model is told of a call that was cancelled, and of one whose outcome is unknown."""


class Difference(NamedTuple):
    """In what two runs differ."""

    where: str
    """What was compared: what differs in undisturbed runs already is not held against others."""
    what: str
    verdict: Verdict = "state"


def differences(want: LogOutcome, got: LogOutcome, *, strict: bool = True) -> Iterator[Finding]:
    """Yield in what a disturbed run came to something else than the undisturbed one.

    Without `strict`, only what must never be: after a fault, a turn may well end in an error.
    """
    for problem in (Counter(got.problems) - Counter(want.problems)).elements():
        yield Finding("invariant", problem)
    for name, talk in got.talks.items():
        if talk.unknown != talk.doubts:
            told = f"{talk.unknown} calls are unknown, and the app is told of {talk.doubts}"
            yield Finding("effect", f"{name}: {told}")
        if talk.unknown > talk.told_doubts:
            told = f"{talk.unknown} calls are unknown, and the models know of {talk.told_doubts}"
            yield Finding("effect", f"{name}: {told}")
    if strict:
        for each in compared(want, aligned(want, got) if want.drawn else got):
            if each.where not in want.varying:
                yield Finding(each.verdict, each.what)


def varied(want: LogOutcome, other: LogOutcome) -> tuple[LogOutcome, list[str]]:
    """Hold an undisturbed run against another one; return it with what cannot be compared.

    And in words in what they differ. That their ids are others is no difference: then those of
    later runs are taken to stand for those of this one, in the order in which they came up.
    """
    drawn = ids_of(want) != ids_of(other)
    found = [*compared(want, aligned(want, other) if drawn else other)]
    where = [each.where for each in found]
    return msgspec.structs.replace(want, drawn=drawn, varying=where), [each.what for each in found]


def ids_of(outcome: LogOutcome) -> dict[str, set[str]]:
    """Return the ids of conversations and of messages in them."""
    return {name: set(talk.messages) for name, talk in outcome.talks.items()}


# -- ids that are drawn anew in each run -----------------------------------------------------------


def aligned(want: LogOutcome, got: LogOutcome) -> LogOutcome:
    """Return a run with the ids of another one, by what they stand for."""
    ours = [name for name in got.talks if name not in want.talks]
    theirs = [name for name in want.talks if name not in got.talks]
    pairs = _paired(
        theirs, ours, lambda name: _likeness(name, want), lambda name: _likeness(name, got)
    )
    names = {new: old for old, new in pairs}
    for name, talk in got.talks.items():
        same = want.talks.get(names.get(name, name))
        if same is not None:
            lacking = [each for each in same.messages if each not in talk.messages]
            unknown = [each for each in talk.messages if each not in same.messages]
            names |= dict(zip(unknown, lacking, strict=False))
    if not names:
        return got
    found: Any = _renamed(msgspec.to_builtins(got), names)
    return msgspec.convert(found, LogOutcome)


def _likeness(name: str, outcome: LogOutcome) -> bytes:
    """Return what a conversation is, but for its ids."""
    talk = outcome.talks[name]
    names = {name: "\0", **{each: f"\0{number}" for number, each in enumerate(talk.messages)}}
    return msgspec.json.encode(_renamed(msgspec.to_builtins(talk), names))


def _renamed(value: Any, names: dict[str, str]) -> Any:  # noqa: ANN401 -- as JSON knows it
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest))})(?!\w)")

    def walk(each: Any) -> Any:  # noqa: ANN401 -- as above
        match each:
            case str():
                return pattern.sub(lambda found: names[found[0]], each)
            case dict():
                return {walk(key): walk(inner) for key, inner in each.items()}
            case list() | tuple():
                return [walk(inner) for inner in each]
            case _:
                return each

    return walk(value)


def _paired(
    want: Sequence[_T],
    got: Sequence[_T],
    wanted: Callable[[_T], object],
    found: Callable[[_T], object],
) -> list[tuple[_T, _T]]:
    """Pair what is alike; what is like nothing else, in order."""
    left, pairs = list(want), []
    rest = []
    for each in got:
        like = next((other for other in left if wanted(other) == found(each)), None)
        if like is None:
            rest.append(each)
        else:
            left.remove(like)
            pairs.append((like, each))
    return [*pairs, *zip(left, rest, strict=False)]


# -- what is compared ------------------------------------------------------------------------------


def compared(want: LogOutcome, got: LogOutcome) -> Iterator[Difference]:
    """Yield in what two runs differ that may not."""
    if got.talks.keys() != want.talks.keys():
        told = f"conversations: {sorted(got.talks)}, not {sorted(want.talks)}"
        yield Difference("conversations", told)
    for name in sorted(got.talks.keys() & want.talks.keys()):
        for where, what, _ in _ended_differently(want.talks[name], got.talks[name]):
            yield Difference(f"{name} {where}", f"{name}: {what}")
    for name in sorted(got.entities.keys() & want.entities.keys()):
        old, new = want.talks.get(name), got.talks.get(name)
        free = _free(old, new) | _cut_shorter(old, new) if old and new else set()
        yield from _came_differently(name, want.entities[name], got.entities[name], free)


def _came_differently(
    conversation: str,
    want: Mapping[str, Sequence[EntityOutcome]],
    got: Mapping[str, Sequence[EntityOutcome]],
    free: Collection[str],
) -> Iterator[Difference]:
    """Yield the kinds whose entities came to something else, as their own `outcome` tells.

    What follows from something unknown, or from a turn that was stopped, is left out; then others
    of its kind may be fewer, for what it stands for is not known.
    """
    for kind in sorted({*want, *got}):
        new = [each for each in got.get(kind, ()) if each.sure and each.message not in free]
        old = [each for each in want.get(kind, ()) if each.message not in free]
        ours, theirs = (Counter(each.outcome for each in several) for several in (new, old))
        more, less = ours - theirs, theirs - ours
        if len(new) < len(got.get(kind, ())):
            less.clear()
        if told := "; ".join(_told(sorted(more.elements()), sorted(less.elements()))):
            what = f"{conversation}: what each {kind} came to: {told}"
            yield Difference(f"{conversation} outcome of {kind}", what, "outcome")


def _told(more: Sequence[str], less: Sequence[str]) -> Iterator[str]:
    """Yield what became of entities of a kind, each beside one that is missing."""
    got, want = ([msgspec.json.decode(each) for each in several] for several in (more, less))
    for one, other in zip(got, want, strict=False):
        yield in_what(one, other)
    for one in got[len(want) :]:
        yield f"one too many: {named(one)}"
    for other in want[len(got) :]:
        yield f"one is missing: {named(other)}"


def _ended_differently(want: ConversationOutcome, got: ConversationOutcome) -> Iterator[Difference]:
    free = _free(want, got)
    if got.ends.keys() != want.ends.keys():
        told = f"messages that came to an end: {sorted(got.ends)}, not {sorted(want.ends)}"
        yield Difference("ends", told)
    for message in sorted(got.ends.keys() & want.ends.keys()):
        old, new = want.ends[message], got.ends[message]
        told = f"{message} ended as {new}, not as {old}"
        if (new.kind, new.reason) != (old.kind, old.reason):
            yield Difference(f"end of {message}", told)
        elif message not in free and not _says_the_same(old, new):
            yield Difference(f"text of {message}", told)
    # What follows from something unknown may take more calls, or fewer: then each is paid for.
    more = _count(got) - _count(want) if got.unknown else 0
    if got.spent != want.spent + more:
        yield Difference("spent", f"{got.spent} tool calls are spent, not {want.spent + more}")
    yield from _called_differently(want, got, free)
    yield from _shown_differently(want, got)


def _count(talk: ConversationOutcome) -> int:
    return sum(map(len, talk.calls.values()))


def _free(want: ConversationOutcome, got: ConversationOutcome) -> set[str]:
    """Return the messages whose turns may have said something else.

    They follow from something unknown; or from a turn that was stopped, and had said less by then.
    """
    free = set(got.shaken)
    for shown in got.histories:
        for number, message in enumerate(shown.turns):
            if _was_cut_shorter(want, got, message):
                free.update(shown.turns[number + 1 :])
    return free


def _cut_shorter(want: ConversationOutcome, got: ConversationOutcome) -> set[str]:
    """Return the messages whose turns were stopped, and had said something else by then."""
    return {each for each in got.ends if _was_cut_shorter(want, got, each)}


def _was_cut_shorter(want: ConversationOutcome, got: ConversationOutcome, message: str) -> bool:
    old, new = want.ends.get(message), got.ends.get(message)
    if old is None or new is None or old.kind != "interrupted" or new.kind != "interrupted":
        return False
    return old.text != new.text


def _says_the_same(want: TurnEnd, got: TurnEnd) -> bool:
    less = got.kind == "interrupted" and want.text.startswith(got.text)
    return got.text == want.text or less


def _called_differently(
    want: ConversationOutcome, got: ConversationOutcome, free: set[str]
) -> Iterator[Difference]:
    for message in sorted({*want.calls, *got.calls}):
        old, new = want.calls.get(message, []), got.calls.get(message, [])
        if message in free:
            new = [call for call in new if call.sure]
            old = old[: len(new)]
        extra, less = Counter(map(_known, new)), Counter(map(_known, old))
        for call in new:
            if call.status == "unknown" and extra[_known(call)] > less[_known(call)]:
                # It stands for one of the same, however that came out.
                for other in old:
                    if _asked(other) == _asked(call) and less[_known(other)] > extra[_known(other)]:
                        extra[_known(call)] -= 1
                        less[_known(other)] -= 1
                        break
        if told := _listed(extra, less):
            yield Difference(f"calls of {message}", f"the calls of {message}: {told}")


def _asked(call: Call) -> tuple[str, str]:
    return call.tool, call.arguments


def _known(call: Call) -> tuple[str, str, str]:
    return call.tool, call.arguments, call.status


def _listed(got: Counter[tuple[str, str, str]], want: Counter[tuple[str, str, str]]) -> str:
    more = ", ".join(map(_in_words, (got - want).elements()))
    missing = ", ".join(map(_in_words, (want - got).elements()))
    return "; ".join(
        filter(None, [more and f"too many: {more}", missing and f"missing: {missing}"])
    )


def _in_words(call: tuple[str, str, str]) -> str:
    tool, arguments, status = call
    return f"{tool} {arguments} ({status or 'without a result'})"


def _shown_differently(want: ConversationOutcome, got: ConversationOutcome) -> Iterator[Difference]:
    roles = sorted({shown.role for shown in (*want.histories, *got.histories)})
    for role in roles:
        ours = [shown for shown in got.histories if shown.role == role]
        theirs = [shown for shown in want.histories if shown.role == role]
        if len(ours) != len(theirs):
            told = f"{len(ours)} of the role {role}, not {len(theirs)}"
            yield Difference(f"agents {role}", told)
        for old, new in _paired(theirs, ours, _messages, _messages):
            most = _upto(want, got, new)
            if not _told_alike(old.messages[:most], new.messages[:most]):
                told = f"the model of {role} is shown something else: {_shown_to(new, old)}"
                yield Difference(f"history of {role}", told)
            elif new.asked != old.asked and not got.adrift:
                told = f"what the app said to {role}: {in_what(new.asked, old.asked)}"
                yield Difference(f"history of {role}", told)


def _shown_to(new: AgentHistory, old: AgentHistory) -> str:
    """Return in what the messages that a model is shown differ."""
    several = (
        [{"role": role, "text": text} for role, text in each.messages] for each in (new, old)
    )
    return in_what(*({"message": each} for each in several))


def _told_alike(want: list[_Told], got: list[_Told]) -> bool:
    """Return True if a model is told the same in two runs, in words that mean the same."""
    pairs = zip(want, got, strict=False)
    return len(want) == len(got) and all(
        one == other or _both_called_off(one, other) for one, other in pairs
    )


def _both_called_off(want: _Told, got: _Told) -> bool:
    """Return True if a call was cancelled for the same reason in both runs.

    One says that it has stopped, the other that its outcome is unknown: both are correct.
    """
    if want[0] != "tool" or got[0] != "tool":
        return False
    for one, other in ((want[1], got[1]), (got[1], want[1])):
        why, may, _ = one.partition(f"; {MAY_HAPPEN}")
        if may and why.startswith("cancelled: ") and other.startswith(f"{why}; "):
            return True
    return False


def _messages(shown: AgentHistory) -> object:
    return shown.messages


def _upto(want: ConversationOutcome, got: ConversationOutcome, shown: AgentHistory) -> int | None:
    """Return how many messages must be the same; None if all."""
    cuts = [shown.ends_at(each) for each in shown.turns if _was_cut_shorter(want, got, each)]
    found = [at for at in (shown.sure, *cuts) if at is not None]
    return min(found) if found else None
