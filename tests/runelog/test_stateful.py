"""The log on LMDB against the log in memory: whatever is done to both, both look the same.

Hypothesis makes up the story, crashes and all; after each step everything that can be seen of one
log is compared with the other.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from runefold.testing.contract import CODEC, merged, picture
from runefold.testing.contract.base import NoteAttached, NoteJudged, NoteTaken, facts, notes
from runelog.errors import Refused, WrongVersion
from runelog.memory import MemoryLog
from runelog.rune import SYSTEM, Change, State
from runelog.store import Runelog
from tests.crash.story import compacting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from runelog.log import Log
    from runelog.rune import Rune

SEGMENT: Final = 1 << 20
"""Small, so that a story rolls segments by itself."""
CRASHES: Final = 3
"""At most, in one story: opening what was not closed takes a process of its own each time."""
SHRINKING: Final = 20
"""How many seconds a story that fails is made shorter, at the most."""
CONVERSATIONS: Final = ("conv_a", "conv_b", "conv_c", "conv_d", SYSTEM)
ENTITIES: Final = ("book_1", "note_1", "note_2", "note_3")


class Plan(NamedTuple):
    """A change to be made, before it is known at which version."""

    entity: str
    skew: int | None
    """How far the version it expects is from the true one; None to expect none."""
    runes: list[Rune]
    observers: tuple[str, ...]
    open: bool | None
    deadline: int | None

    def change(self, log: Log, conversation: str) -> Change:
        """Return the change, now that the log can be asked for the version."""
        expected = None
        if self.skew is not None:
            try:
                expected = max(0, log.version(conversation, self.entity) + self.skew)
            except Refused:
                expected = 0
        deadline = self.deadline if self.open else None
        return Change(
            self.entity, expected, self.runes, self.observers, open=self.open, deadline=deadline
        )


class Append(NamedTuple):
    """An append to be made."""

    conversation: str
    plans: list[Plan]
    durable: bool


runes = st.lists(
    st.one_of(
        st.builds(NoteTaken, text=st.text(max_size=20)),
        st.builds(NoteJudged, verdict=st.sampled_from(["good", "bad"])),
    ),
    min_size=1,
    max_size=4,
)
plans = st.builds(
    Plan,
    st.sampled_from(ENTITIES),
    st.sampled_from([None, 0, 0, 0, 0, 1, -1]),
    runes,
    st.lists(st.sampled_from(ENTITIES), max_size=3).map(tuple),
    st.sampled_from([None, None, True, False]),
    st.none() | st.integers(0, (1 << 63) - 1),
)
conversations = st.sampled_from(CONVERSATIONS)
appends = st.builds(
    Append,
    conversations,
    st.lists(plans, min_size=1, max_size=3, unique_by=lambda plan: plan.entity),
    st.booleans(),
)
cursors = st.integers(-1, 60) | st.integers(0, 1_500)
kinds = st.none() | st.sets(st.sampled_from(["note.taken", "note.judged", "note.attached"]))


class TwoLogs(RuleBasedStateMachine):
    """One story, told to both logs."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="runelog-"))
        self.now = 0
        self.crashes = 0
        self.path = self.root / "log"
        self.model: Log
        self.real: Log

    @initialize(now=st.integers(0, 1 << 40))
    def begin(self, now: int) -> None:
        """Open both with the same clock, and give them something to tell of."""
        self.now = now
        self.model = MemoryLog(CODEC, lambda: self.now)
        self.open()
        for conversation in CONVERSATIONS[:3]:
            first = notes("note_1", "a", "b", observers=("book_1",))
            self.tell(conversation, [first])

    def open(self) -> None:
        """Open the log on disk, wherever it is now."""
        self.real = Runelog.open(self.path, CODEC, clock=lambda: self.now, segment_size=SEGMENT)

    def both(self, act: Callable[[Log], object], *, exactly: bool = True) -> None:
        """Do the same to both, and expect the same answer; or the same refusal, if `exactly`."""
        expected = outcome(act, self.model, exactly=exactly)

        assert outcome(act, self.real, exactly=exactly) == expected

    def tell(self, conversation: str, changes: list[Change], *, durable: bool = True) -> None:
        """Append the same to both."""
        self.both(lambda log: log.append(conversation, changes, durable=durable))

    # -- writing ------------------------------------------------------------------------------

    @rule(story=st.lists(appends, min_size=1, max_size=5), ticks=st.integers(-10, 1_000))
    def append(self, story: list[Append], ticks: int) -> None:
        """Append a few times, waiting or not, at the right version or not."""
        self.now = max(0, self.now + ticks)
        for conversation, planned, durable in story:
            changes = [plan.change(self.model, conversation) for plan in planned]
            self.tell(conversation, changes, durable=durable)

    @rule(conversation=conversations, count=st.integers(50, 300), durable=st.booleans())
    def append_many(self, conversation: str, count: int, *, durable: bool) -> None:
        """Append enough to fill segments."""
        text = "many words that fill a segment " * 60
        self.tell(conversation, [notes("note_1", *[text] * count)], durable=durable)

    @rule(conversation=conversations, size=st.integers(1 << 20, 1_200_000))
    def append_large(self, conversation: str, size: int) -> None:
        """Append a rune that keeps a field aside."""
        rune = NoteAttached(content=bytes(size), caption="large")
        self.tell(conversation, [Change("note_2", None, [rune])])

    # -- reading ------------------------------------------------------------------------------

    @rule(
        conversation=conversations,
        entity=st.sampled_from([*ENTITIES, "nobody"]),
        after=cursors,
        until=st.none() | cursors,
        kinds=kinds,
        max_behind=st.none() | st.integers(1, 40),
    )
    def look(
        self,
        conversation: str,
        entity: str,
        after: int,
        until: int | None,
        kinds: set[str] | None,
        max_behind: int | None,
    ) -> None:
        """Read and follow from somewhere on, and ask the index."""
        self.both(lambda log: list(map(facts, log.read(conversation, after, until, kinds))))
        self.both(lambda log: list(map(facts, log.stream(conversation, entity, after, until))))
        self.both(lambda log: log.version(conversation, entity))
        self.both(lambda log: merged(log.read_all(after)))
        for whom in (conversation, None):

            def follow(log: Log, whom: str | None = whom) -> object:
                found = log.follow(whom, after, kinds=kinds, max_behind=max_behind, wait=0)
                return merged(found)

            self.both(follow)
        self.both(lambda log: log.conversation(conversation))
        self.both(lambda log: sorted(log.open_work(conversation), key=lambda work: work.entity))

    # -- keeping ------------------------------------------------------------------------------

    def known(self, *states: State) -> list[str]:
        """Return the conversations in one of these states that may be moved."""
        return [
            one.id for one in self.model.conversations() if one.state in states and one.id != SYSTEM
        ]

    @rule()
    def roll(self) -> None:
        """Begin the next segment."""
        self.both(lambda log: log.roll())

    @precondition(lambda self: self.known(State.LIVE))
    @rule(data=st.data())
    def archive(self, data: st.DataObject) -> None:
        """Archive some, once their work is done."""
        names = data.draw(st.lists(st.sampled_from(self.known(State.LIVE)), min_size=1, max_size=3))
        for work in list(self.model.open_work()):
            if work.conversation in names:
                self.tell(work.conversation, [notes(work.entity, "done", open=False)])
        self.both(lambda log: log.archive(*names))

    @precondition(lambda self: self.known(State.ARCHIVED))
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """Restore some that are archived."""
        cold = st.sampled_from(self.known(State.ARCHIVED))
        names = data.draw(st.lists(cold, min_size=1, max_size=3))
        self.both(lambda log: log.restore(*names))

    @precondition(lambda self: len(self.known(State.LIVE, State.ARCHIVED)) > 1)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """Erase one, live or archived, as long as there is another left."""
        name = data.draw(st.sampled_from(self.known(State.LIVE, State.ARCHIVED)))
        self.both(lambda log: log.erase(name))

    @rule(
        verb=st.sampled_from(["archive", "restore"]),
        names=st.lists(conversations, max_size=3),
    )
    def move(self, verb: str, names: list[str]) -> None:
        """Move any, whether that may be or not."""
        self.both(lambda log: getattr(log, verb)(*names), exactly=False)

    @rule()
    def reopen(self) -> None:
        """Close the log and open it again."""
        self.real.close()
        self.open()

    @precondition(lambda self: self.crashes < CRASHES and self.known(State.LIVE))
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Go on with the files as they are, without any farewell.

        Of what did not wait, some is there or all or nothing, and nothing without what came before.
        """
        names = data.draw(st.lists(st.sampled_from(self.known(State.LIVE)), max_size=4))
        unsaid = [(name, [notes("note_1", f"unsaid {n}")]) for n, name in enumerate(names)]
        for name, changes in unsaid:
            self.real.append(name, changes, durable=False)
        if data.draw(st.booleans()):
            self.real.flush()
        self.crashes += 1
        left, self.path = self.path, self.root / f"log_{self.crashes}"
        with still(self.real):
            shutil.copytree(left, self.path)
        self.real.close()
        shutil.rmtree(left)
        self.open()
        for name, changes in unsaid:
            if picture(self.real) != picture(self.model):
                self.model.append(name, changes)

    # -- comparing ----------------------------------------------------------------------------

    @invariant()
    def both_look_the_same(self) -> None:
        """Everything that can be seen of one log can be seen of the other."""
        self.real.flush()

        assert picture(self.real) == picture(self.model)

    def teardown(self) -> None:
        """Leave nothing behind."""
        try:
            if hasattr(self, "real"):
                self.real.close()
        finally:
            shutil.rmtree(self.root)


@contextlib.contextmanager
def still(log: Log) -> Iterator[None]:
    """Let nothing be committed for a while: a copy of the files is what a crash would leave."""
    writer: Any = log._writer  # type: ignore[attr-defined]  # of the log on disk
    if writer is None:  # nothing was appended since it was opened
        yield
        return
    while True:
        with writer._lock:
            if not writer._leading:
                yield
                return


def outcome(act: Callable[[Log], object], log: Log, *, exactly: bool) -> object:
    """Return what came of it: the answer, or which refusal."""
    try:
        return act(log)
    except WrongVersion as error:
        return error.args
    except Refused as error:
        return type(error) if exactly else Refused


def run(examples: int, steps: int, *, derandomize: bool) -> None:
    """Have so many stories of so many steps told.

    One that fails is made shorter for a while and then printed, step by step, with what to put
    before the test to have it told again.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Five minutes otherwise: the test would be killed before it says anything.
        patch.setattr(engine, "MAX_SHRINKING_SECONDS", SHRINKING)
        run_state_machine_as_test(
            TwoLogs,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                derandomize=derandomize,
                phases=[Phase.reuse, Phase.generate, Phase.shrink],
                print_blob=True,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_both_logs_tell_the_same_story() -> None:
    """Whatever is appended, moved, erased, closed or crashed, both logs look the same."""
    run(examples=12, steps=20, derandomize=True)


def test_so_they_do_where_archived_runes_leave_their_segments_at_once() -> None:
    """Segments are then written anew with each archive."""
    with compacting():
        run(examples=8, steps=20, derandomize=True)


@pytest.mark.crash
@pytest.mark.timeout(3_600)
def test_both_logs_tell_the_same_long_stories() -> None:
    """The same, at length, and other stories each time."""
    run(examples=200, steps=60, derandomize=False)
    with compacting():
        run(examples=100, steps=60, derandomize=False)
